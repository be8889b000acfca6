// Matmuls of float32 that may round their operands to tf32 (--allow-tf32): by warpgroups where both sides lie by depth, else by warps.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir | FileCheck %s
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_80 | knapper-translate --tile-to-ptx --isa=sm_80 | FileCheck %s --check-prefix=OLD
// RUN: sed -e 's/{ts.tf32}//' %s | knapper-opt --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx | FileCheck %s --check-prefix=EXACT

!x = tensor<2048x2048xf32>

// EXACT-NOT: tf32
// TILE-LABEL: @kernel0_0(
// TILE: tile.matmul {{.*}}algorithm = 1 {{.*}}tf32 = 1 {{.*}}tile_k = 32
// CHECK-LABEL: .entry kernel0_0(
// CHECK: wgmma.mma_async.sync.aligned.m64n{{[0-9]+}}k8.f32.tf32.tf32 {{.*}}, add, 1, 1;
// CHECK-NOT: .local
// OLD-LABEL: .entry kernel0_0(
// OLD: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// OLD: cvt.rna.tf32.f32
// OLD: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
func.func @weights_by_columns(%x: !x, %w: !x) -> !x {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] {ts.tf32} : !x, !x
  return %0 : !x
}

// TILE-LABEL: @kernel1_0(
// TILE: tile.matmul {{.*}}algorithm = 3 {{.*}}b_copied = 1 {{.*}}b_transposed = 1 {{.*}}tf32 = 1
// CHECK-LABEL: .entry kernel1_0(
// CHECK: cvt.rna.tf32.f32
// CHECK: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// OLD-LABEL: .entry kernel1_0(
// OLD: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
func.func @weights_by_depth(%x: !x, %w: !x) -> !x {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {ts.tf32} : !x, !x
  return %0 : !x
}

// TILE-LABEL: @kernel2_0(
// TILE: tile.matmul {{.*}}a_copied = 0 {{.*}}algorithm = 3 {{.*}}b_copied = 0 {{.*}}tf32 = 1
func.func @odd(%x: tensor<333x777xf32>, %w: tensor<777x333xf32>) -> tensor<333x333xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {ts.tf32} : tensor<333x777xf32>, tensor<777x333xf32>
  return %0 : tensor<333x333xf32>
}
