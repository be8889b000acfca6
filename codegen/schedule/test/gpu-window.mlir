// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// A thread takes what one access has of neighbouring channels. A window that
// lies inside is read at once, without a test; of others the taps inside are
// computed, and loops go over these.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 1 : i64
// CHECK: %[[IN:.*]] = arith.andi
// CHECK: scf.if %{{.*}} -> (vector<4xf32>)
// CHECK-NOT: scf.for
// CHECK-COUNT-9: tile.load %arg0{{.*}} -> vector<4xf32>
// CHECK-NOT: tile.load
// CHECK: } else {
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK: tile.load %arg0{{.*}} -> vector<4xf32>
// CHECK: arith.maximumf
// CHECK: tile.store {{.*}} : vector<4xf32>
func.func @main(%x: tensor<2x56x56x24xf32>) -> tensor<2x28x28x24xf32> {
  %0 = ts.kernel pool (%a = %x : tensor<2x56x56x24xf32>) -> tensor<2x28x28x24xf32> {
    %r = ts.pool max %a window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true} : tensor<2x56x56x24xf32>
    ts.yield %r : tensor<2x28x28x24xf32>
  }
  return %0 : tensor<2x28x28x24xf32>
}
