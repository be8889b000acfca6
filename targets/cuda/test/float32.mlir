// Matmuls of float32 by FMAs: large tiles, or small ones whose depth several teams of threads share, or the CTAs of a
// cluster.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir | FileCheck %s

// TILE-LABEL: @kernel0_0(
// TILE: tile.matmul {{.*}}algorithm = 0 {{.*}}raster_group = {{[0-9]+}} : i64, stages {{.*}}tile_m = 128 {{.*}}tile_n = 128
func.func @large(%x: tensor<2048x2048xf32>, %w: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<2048x2048xf32>, tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}

// TILE-LABEL: @kernel1_0(
// TILE: tile.matmul {{.*}}algorithm = 0 {{.*}}slice_k = 4 {{.*}}tile_m = 32 {{.*}}tile_n = 64
// CHECK-LABEL: .entry kernel1_0(
// CHECK: .reqntid 256
func.func @small(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<512x512xf32>, tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}

// TILE-LABEL: @kernel2_0(
// TILE: tile.matmul {{.*}}split_k = 4 {{.*}}tile_m = {{64|128}}
// CHECK-LABEL: .entry kernel2_0(
// CHECK: .reqntid 128
// CHECK: .reqnctapercluster 4
// CHECK: mapa.shared::cluster
// CHECK: ld.shared::cluster
func.func @odd(%x: tensor<1000x777xf32>, %w: tensor<777x1111xf32>) -> tensor<1000x1111xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<1000x777xf32>, tensor<777x1111xf32>
  return %0 : tensor<1000x1111xf32>
}
