// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s
// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v4 | FileCheck %s --check-prefix=TILE

// The rows of a window are read once for all of its columns; with a stride of
// two a load serves two of these.
// CHECK: kind = "cpu_plane_pool", {{.*}}parameters = {rows = 56 : i64}
// TILE: tile.func @cpu_plane_pool
// TILE-COUNT-3: tile.load {{.*}} -> vector<64xf32>
// TILE: tile.store {{.*}} vector<64xf32>
// TILE: tile.load {{.*}} -> vector<64xf32>
// TILE-COUNT-2: vector.shuffle
// TILE: tile.load {{.*}} -> vector<64xf32>
// TILE: vector.shuffle
func.func @main(%x: tensor<1x64x112x112xf32>, %y: tensor<1x64x56x56xi8>, %z: tensor<1x64x56x56xf64>) -> (tensor<1x64x56x56xf32>, tensor<1x64x56x56xi8>, tensor<1x64x28x7xf64>, tensor<1x64x2x56xf32>) {
  %0 = ts.kernel pool (%a = %x : tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32> {
    %p = ts.pool max %a window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<1x64x112x112xf32>
    ts.yield %p : tensor<1x64x56x56xf32>
  }
  // Bytes fill registers of their own size.
  // CHECK: kind = "cpu_plane_pool"
  // TILE: tile.func @cpu_plane_pool
  // TILE-COUNT-3: tile.load {{.*}} -> vector<64xi8>
  %1 = ts.kernel pool (%a = %y : tensor<1x64x56x56xi8>) -> tensor<1x64x56x56xi8> {
    %p = ts.pool max %a window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<1x64x56x56xi8>
    ts.yield %p : tensor<1x64x56x56xi8>
  }
  // Columns far apart are read one by one. All windows count four elements.
  // CHECK: kind = "cpu_plane_pool"
  // TILE: tile.func @cpu_plane_pool
  // TILE: %[[FOUR:.*]] = arith.constant dense<4.000000e+00> : vector<8xf64>
  // TILE: tile.load_strided {{.*}} -> vector<8xf64>
  // TILE: arith.divf {{.*}}, %[[FOUR]] : vector<8xf64>
  %2 = ts.kernel pool (%a = %z : tensor<1x64x56x56xf64>) -> tensor<1x64x28x7xf64> {
    %p = ts.pool average %a window [2, 2] strides [2, 8] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x64x56x56xf64>
    ts.yield %p : tensor<1x64x28x7xf64>
  }
  // What each output column counts is written once.
  // CHECK: kind = "cpu_plane_pool"
  // TILE: tile.func @cpu_plane_pool
  // TILE: tile.store {{.*}} vector<16xf32>
  // TILE: %[[COUNTS:.*]] = tile.load
  // TILE: arith.divf
  // CHECK-NOT: cpu_plane_pool
  %3 = ts.kernel pool (%a = %0 : tensor<1x64x56x56xf32>) -> tensor<1x64x2x56xf32> {
    %p = ts.pool average %a window [40, 3] strides [30, 1] dilations [1, 1] low [#ts.dim<8>, #ts.dim<1>] high [#ts.dim<6>, #ts.dim<1>] : tensor<1x64x56x56xf32>
    ts.yield %p : tensor<1x64x2x56xf32>
  }
  return %0, %1, %2, %3 : tensor<1x64x56x56xf32>, tensor<1x64x56x56xi8>, tensor<1x64x28x7xf64>, tensor<1x64x2x56xf32>
}
