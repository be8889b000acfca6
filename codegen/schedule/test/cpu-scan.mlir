// RUN: knapper-translate --kernels-to-tile --isa=x86-64-v3 %s | FileCheck %s

// Running sums and products of float32 are carried in float64; the largest is
// not.
// CHECK-LABEL: tile.func
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f64)
// CHECK: arith.mulf {{.*}} : f64
func.func @main(%x: tensor<5x300xf32>, %y: tensor<50x9x300xf32>) -> (tensor<5x300xf32>, tensor<50x9x300xf32>) {
  %0 = ts.kernel scan (%a = %x : tensor<5x300xf32>) -> tensor<5x300xf32> {
    %r = ts.scan mul %a dim 1 : tensor<5x300xf32>
    ts.yield %r : tensor<5x300xf32>
  }
  %1 = ts.kernel scan (%a = %0 : tensor<5x300xf32>) -> tensor<5x300xf32> {
    %r = ts.scan max %a dim 1 : tensor<5x300xf32>
    ts.yield %r : tensor<5x300xf32>
  }
  %2 = ts.kernel scan (%a = %y : tensor<50x9x300xf32>) -> tensor<50x9x300xf32> {
    %r = ts.scan add %a dim 0 : tensor<50x9x300xf32>
    ts.yield %r : tensor<50x9x300xf32>
  }
  return %1, %2 : tensor<5x300xf32>, tensor<50x9x300xf32>
}
// CHECK-LABEL: tile.func
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f32)
// CHECK: arith.maximumf {{.*}} : f32

// Tiles of even size beside each other; whole ones have no masks.
// CHECK-LABEL: tile.func
// CHECK: scf.if
// CHECK: tile.load {{.*}} -> vector<32xf32>
// CHECK: tile.store
// CHECK-NOT: valid
// CHECK: } else {
// CHECK: tile.load {{.*}} valid
