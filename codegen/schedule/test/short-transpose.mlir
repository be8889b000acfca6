// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Of three elements a block to transpose would be mostly empty.
// CHECK-LABEL: tile.func
// CHECK-NOT: tile.transpose
// CHECK: tile.return
func.func @short(%x: tensor<2816x480x3xf32>) -> tensor<2816x3x480xf32> {
  %0 = ts.kernel transpose (%a = %x : tensor<2816x480x3xf32>) -> tensor<2816x3x480xf32> {
    %r = ts.transpose %a [0, 2, 1] : tensor<2816x480x3xf32>
    ts.yield %r : tensor<2816x3x480xf32>
  }
  return %0 : tensor<2816x3x480xf32>
}

// Twenty fill a block of 32, but not one of 64.
// CHECK-LABEL: tile.func
// CHECK: tile.transpose {{.*}} columns 32
// CHECK: tile.return
func.func @middle(%x: tensor<4096x480x20xf32>) -> tensor<4096x20x480xf32> {
  %0 = ts.kernel transpose (%a = %x : tensor<4096x480x20xf32>) -> tensor<4096x20x480xf32> {
    %r = ts.transpose %a [0, 2, 1] : tensor<4096x480x20xf32>
    ts.yield %r : tensor<4096x20x480xf32>
  }
  return %0 : tensor<4096x20x480xf32>
}
