// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// A thread has eight rows of a column: 25 weights, 12 x 5 elements read once,
// without a branch; of the last run some rows are not stored.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 1 : i64
// CHECK-NOT: scf.for
// CHECK-COUNT-25: tile.load %arg1
// CHECK-NOT: scf.if
// CHECK-COUNT-60: tile.load %arg0
// CHECK-NOT: tile.load
// CHECK: tile.store
// CHECK-COUNT-7: scf.if
func.func @main(%x: tensor<8x64x1027x9xbf16>, %w: tensor<64x1x5x5xbf16>) -> tensor<8x64x1027x9xbf16> {
  %0 = ts.kernel conv (%a = %x : tensor<8x64x1027x9xbf16>, %b = %w : tensor<64x1x5x5xbf16>) -> tensor<8x64x1027x9xbf16> {
    %r = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] {groups = 64 : i64} : tensor<8x64x1027x9xbf16>, tensor<64x1x5x5xbf16>
    ts.yield %r : tensor<8x64x1027x9xbf16>
  }
  return %0 : tensor<8x64x1027x9xbf16>
}
