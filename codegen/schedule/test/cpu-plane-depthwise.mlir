// RUN: knapper compile %s --start-from=simplify --stop-after=schedule | FileCheck %s
// RUN: knapper compile %s --start-from=simplify --stop-after=tile --isa x86-64-v4 | FileCheck %s --check-prefix=TILE

// Planes of an argument stay as they are; four rows of results share what is
// loaded, and five are a tile of three and one of two. Many taps of many
// channels have channels last.
// CHECK: kind = "cpu_plane_depthwise", {{.*}}parameters = {rows = 5 : i64}
// CHECK: kind = "cpu_grouped_conv"
// TILE: tile.func @cpu_plane_depthwise
// TILE: scf.for
// TILE-COUNT-27: vector.fma {{.*}} vector<32xf32>
// TILE: scf.for
// TILE-COUNT-18: vector.fma {{.*}} vector<32xf32>
func.func @main(%x: tensor<1x64x5x24xf32>, %w: tensor<64x1x3x3xf32>, %v: tensor<64x1x7x7xf32>) -> (tensor<1x64x5x24xf32>, tensor<1x64x5x24xf32>) {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {groups = 64 : i64} : tensor<1x64x5x24xf32>, tensor<64x1x3x3xf32>
  %1 = ts.conv %x, %v strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<3>, #ts.dim<3>] high [#ts.dim<3>, #ts.dim<3>] {groups = 64 : i64} : tensor<1x64x5x24xf32>, tensor<64x1x7x7xf32>
  return %0, %1 : tensor<1x64x5x24xf32>, tensor<1x64x5x24xf32>
}
