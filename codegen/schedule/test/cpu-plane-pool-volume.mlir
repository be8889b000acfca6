// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s
// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v4 | FileCheck %s --check-prefix=TILE

// A program has one output plane. The rows of all planes of its windows are
// combined in one register before their columns.
// CHECK: kind = "cpu_plane_pool", {{.*}}parameters = {rows = 28 : i64}
// TILE: tile.func @cpu_plane_pool
// TILE-COUNT-4: tile.load {{.*}} -> vector<64xf32>
// TILE-NOT: tile.load
// TILE: tile.store {{.*}} vector<64xf32>
// TILE: tile.load {{.*}} -> vector<64xf32>
// TILE-COUNT-2: vector.shuffle
// TILE: %[[EIGHT:.*]] = arith.constant dense<8.000000e+00> : vector<32xf32>
// TILE: arith.divf {{.*}}, %[[EIGHT]] : vector<32xf32>
func.func @main(%x: tensor<1x16x16x56x56xf32>, %y: tensor<1x16x40x56x56xf32>) -> (tensor<1x16x8x28x28xf32>, tensor<1x16x8x56x56xf32>) {
  %0 = ts.kernel pool (%a = %x : tensor<1x16x16x56x56xf32>) -> tensor<1x16x8x28x28xf32> {
    %p = ts.pool average %a window [2, 2, 2] strides [2, 2, 2] dilations [1, 1, 1] low [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : tensor<1x16x16x56x56xf32>
    ts.yield %p : tensor<1x16x8x28x28xf32>
  }
  // So many planes are a loop.
  // CHECK: kind = "cpu_plane_pool"
  // TILE: tile.func @cpu_plane_pool
  // TILE: scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
  // TILE: tile.load {{.*}} -> vector<64xf32>
  %1 = ts.kernel pool (%a = %y : tensor<1x16x40x56x56xf32>) -> tensor<1x16x8x56x56xf32> {
    %p = ts.pool max %a window [33, 1, 3] strides [1, 1, 1] dilations [1, 1, 1] low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>] : tensor<1x16x40x56x56xf32>
    ts.yield %p : tensor<1x16x8x56x56xf32>
  }
  return %0, %1 : tensor<1x16x8x28x28xf32>, tensor<1x16x8x56x56xf32>
}
