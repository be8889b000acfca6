// RUN: knapper-opt --simplify %s 2>&1 | FileCheck %s --implicit-check-not="stopped before a fixed point"

// Rules at their edges. (graph/layout/SameMeaning_test runs these functions too.)

// CHECK-LABEL: @slice_of_slice
// CHECK-NEXT: %[[S:.*]] = ts.slice %arg0 [#ts.dim<5>] [6]
// CHECK-NEXT: return %[[S]]
func.func @slice_of_slice(%x: tensor<20xf32>) -> tensor<3xf32> {
  %0 = ts.slice %x [#ts.dim<2>] [3] : tensor<20xf32> to tensor<6xf32>
  %1 = ts.slice %0 [#ts.dim<1>] [2] : tensor<6xf32> to tensor<3xf32>
  return %1 : tensor<3xf32>
}

// What lies in one operand is read there; what ends one element behind it stays.
// CHECK-LABEL: @slice_of_concat
// CHECK-DAG: %[[C:.*]] = ts.concat %arg0, %arg1
// CHECK-DAG: %[[A:.*]] = ts.slice %arg1 [#ts.dim<1>] [2]
// CHECK-DAG: %[[D:.*]] = ts.slice %[[C]] [#ts.dim<1>] [1]
// CHECK-DAG: %[[E:.*]] = ts.slice %[[C]] [#ts.dim<0>] [4]
// CHECK: return %[[A]], %[[D]], %[[E]]
func.func @slice_of_concat(%a: tensor<4xf32>, %b: tensor<5xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<2xf32>) {
  %0 = ts.concat %a, %b dim 0 : tensor<4xf32>, tensor<5xf32>
  %1 = ts.slice %0 [#ts.dim<5>] [2] : tensor<9xf32> to tensor<2xf32>
  %2 = ts.slice %0 [#ts.dim<1>] [1] : tensor<9xf32> to tensor<4xf32>
  %3 = ts.slice %0 [#ts.dim<0>] [4] : tensor<9xf32> to tensor<2xf32>
  return %1, %2, %3 : tensor<2xf32>, tensor<4xf32>, tensor<2xf32>
}

// Neighbours along one dim, of other rows.
// CHECK-LABEL: @slices_of_other_rows
// CHECK: ts.concat
func.func @slices_of_other_rows(%x: tensor<4x8xf32>) -> tensor<2x8xf32> {
  %a = ts.slice %x [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<4x8xf32> to tensor<2x3xf32>
  %b = ts.slice %x [#ts.dim<1>, #ts.dim<3>] [1, 1] : tensor<4x8xf32> to tensor<2x5xf32>
  %0 = ts.concat %a, %b dim 1 : tensor<2x3xf32>, tensor<2x5xf32>
  return %0 : tensor<2x8xf32>
}

// Dims that the last reshape joins and the transpose has exchanged.
// CHECK-LABEL: @joined_in_another_order
// CHECK: %[[T:.*]] = ts.transpose {{.*}} [0, 2, 1]
// CHECK-NEXT: ts.reshape %[[T]]
func.func @joined_in_another_order(%x: tensor<24xf32>) -> tensor<2x12xf32> {
  %0 = ts.reshape %x : tensor<24xf32> to tensor<2x3x4xf32>
  %1 = ts.transpose %0 [0, 2, 1] : tensor<2x3x4xf32>
  %2 = ts.reshape %1 : tensor<2x4x3xf32> to tensor<2x12xf32>
  return %2 : tensor<2x12xf32>
}

// 65536 is no number of f16.
// CHECK-LABEL: @divisor_without_reciprocal
// CHECK: ts.div %arg0
func.func @divisor_without_reciprocal(%x: tensor<8xf16>) -> tensor<8xf16> {
  %c = ts.constant dense<1.52587890625e-05> : tensor<8xf16>
  %0 = ts.div %x, %c : tensor<8xf16>
  return %0 : tensor<8xf16>
}

// -1 becomes 255 on the way.
// CHECK-LABEL: @unsigned_between
// CHECK: %[[U:.*]] = ts.convert %arg0 : tensor<4xi8> to tensor<4xui8>
// CHECK-NEXT: ts.convert %[[U]] : tensor<4xui8> to tensor<4xi32>
func.func @unsigned_between(%x: tensor<4xi8>) -> tensor<4xi32> {
  %0 = ts.convert %x : tensor<4xi8> to tensor<4xui8>
  %1 = ts.convert %0 : tensor<4xui8> to tensor<4xi32>
  return %1 : tensor<4xi32>
}

// Of positions from 0 on these have one outcome each.
// CHECK-LABEL: @known_comparisons
// CHECK-NOT: ts.compare
// CHECK: return
func.func @known_comparisons() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %i = ts.iota 0 : tensor<4xi64>
  %c = ts.constant dense<0> : tensor<i64>
  %zero = ts.broadcast %c [] : tensor<i64> to tensor<4xi64>
  %0 = ts.compare gt %zero, %i : tensor<4xi64>
  %1 = ts.compare lt %i, %zero : tensor<4xi64>
  %2 = ts.compare le %zero, %i : tensor<4xi64>
  %3 = ts.compare ge %i, %zero : tensor<4xi64>
  return %0, %1, %2, %3 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// The first position has another outcome.
// CHECK-LABEL: @open_comparisons
// CHECK-COUNT-6: ts.compare
func.func @open_comparisons() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %i = ts.iota 0 : tensor<4xi64>
  %c = ts.constant dense<0> : tensor<i64>
  %d = ts.constant dense<1> : tensor<i64>
  %zero = ts.broadcast %c [] : tensor<i64> to tensor<4xi64>
  %one = ts.broadcast %d [] : tensor<i64> to tensor<4xi64>
  %0 = ts.compare gt %one, %i : tensor<4xi64>
  %1 = ts.compare lt %i, %one : tensor<4xi64>
  %2 = ts.compare le %one, %i : tensor<4xi64>
  %3 = ts.compare ge %i, %one : tensor<4xi64>
  %4 = ts.compare eq %i, %zero : tensor<4xi64>
  %5 = ts.compare ne %i, %zero : tensor<4xi64>
  return %0, %1, %2, %3, %4, %5 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// Rows from -3 on: the last of nine meet those that count from the end.
// CHECK-LABEL: @scatter_from_below_zero
// CHECK: ts.scatter_nd
// CHECK-NOT: ts.unique_indices
// CHECK: return
func.func @scatter_from_below_zero(%x: tensor<7x2xf32>, %u: tensor<9x2xf32>) -> tensor<7x2xf32> {
  %n = ts.iota 0 : tensor<9xi64>
  %c = ts.constant dense<3> : tensor<i64>
  %three = ts.broadcast %c [] : tensor<i64> to tensor<9xi64>
  %from = ts.sub %n, %three : tensor<9xi64>
  %m = ts.iota 0 : tensor<2xi64>
  %row = ts.broadcast %from [0] : tensor<9xi64> to tensor<9x2x1xi64>
  %column = ts.broadcast %m [1] : tensor<2xi64> to tensor<9x2x1xi64>
  %grid = ts.concat %row, %column dim 2 : tensor<9x2x1xi64>, tensor<9x2x1xi64>
  %0 = ts.scatter_nd %x, %grid, %u : tensor<7x2xf32>, tensor<9x2x2xi64>, tensor<9x2xf32>
  return %0 : tensor<7x2xf32>
}

// Positions 4 * i + j from the second row on.
// CHECK-LABEL: @gather_by_a_slice_of_a_grid
// CHECK: %[[X:.*]] = ts.slice %{{.*}} [#ts.dim<4>] [1] : tensor<16xf32> to tensor<12xf32>
// CHECK: ts.reshape %[[X]] : tensor<12xf32> to tensor<3x4xf32>
// CHECK-NOT: ts.gather
func.func @gather_by_a_slice_of_a_grid(%x: tensor<16xf32>) -> tensor<3x4xf32> {
  %n = ts.iota 0 : tensor<4xi64>
  %c = ts.constant dense<4> : tensor<i64>
  %four = ts.broadcast %c [] : tensor<i64> to tensor<4xi64>
  %row = ts.mul %n, %four : tensor<4xi64>
  %i = ts.broadcast %row [0] : tensor<4xi64> to tensor<4x4xi64>
  %j = ts.broadcast %n [1] : tensor<4xi64> to tensor<4x4xi64>
  %grid = ts.add %i, %j : tensor<4x4xi64>
  %rows = ts.slice %grid [#ts.dim<1>, #ts.dim<0>] [1, 1] : tensor<4x4xi64> to tensor<3x4xi64>
  %0 = ts.gather %x, %rows dim 0 : tensor<16xf32>, tensor<3x4xi64>
  return %0 : tensor<3x4xf32>
}

// Of an element that no double holds, too: it stays a broadcast.
// CHECK-LABEL: @units_of_a_wide_integer
// CHECK-NEXT: %[[C:.*]] = ts.constant dense<4611686018427387905> : tensor<i64>
// CHECK-NEXT: %[[B:.*]] = ts.broadcast %[[C]]
// CHECK-NEXT: return %[[B]]
func.func @units_of_a_wide_integer() -> tensor<1x1xi64> {
  %c = ts.constant dense<4611686018427387905> : tensor<i64>
  %0 = ts.broadcast %c [] : tensor<i64> to tensor<1x1xi64>
  return %0 : tensor<1x1xi64>
}
