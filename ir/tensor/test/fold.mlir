// RUN: knapper-opt %s -canonicalize | FileCheck %s

!m = tensor<?x4xf32, #ts.dims<"n", 4>>

// What changes nothing disappears.
// CHECK-LABEL: func.func @identities
//  CHECK-SAME:   %[[X:[a-z0-9]+]]: tensor
//  CHECK-NEXT:   return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: !m) -> (!m, !m, !m, !m, !m, !m, !m) {
  %0 = ts.reshape %x : !m to !m
  %1 = ts.transpose %x [0, 1] : !m
  %2 = ts.slice %x [#ts.dim<0>, #ts.dim<0>] [1, 1] : !m to !m
  %3 = ts.concat %x dim 0 : !m
  %4 = ts.convert %x : !m to !m
  %5 = ts.broadcast %x [0, 1] : !m to !m
  %6 = ts.dim_cast %x : !m to !m
  return %0, %1, %2, %3, %4, %5, %6 : !m, !m, !m, !m, !m, !m, !m
}

// A slice of the same type that is reversed is no identity.
// CHECK-LABEL: func.func @reversed
//       CHECK:   ts.slice
func.func @reversed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = ts.slice %x [#ts.dim<3>] [-1] : tensor<4xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Two of a kind become one.
// CHECK-LABEL: func.func @pairs
//  CHECK-SAME:   %[[X:[a-z0-9]+]]: tensor<2x3x4xf32>
//   CHECK-DAG:   ts.transpose %[[X]] [1, 2, 0]
//   CHECK-DAG:   ts.reshape %[[X]] : tensor<2x3x4xf32> to tensor<24xf32>
//   CHECK-DAG:   ts.broadcast %[[X]] [1, 3, 4] : tensor<2x3x4xf32> to tensor<7x2x8x3x4xf32>
func.func @pairs(%x: tensor<2x3x4xf32>) -> (tensor<3x4x2xf32>, tensor<24xf32>, tensor<7x2x8x3x4xf32>) {
  %0 = ts.transpose %x [2, 0, 1] : tensor<2x3x4xf32>
  %1 = ts.transpose %0 [2, 0, 1] : tensor<4x2x3xf32>
  %2 = ts.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  %3 = ts.reshape %2 : tensor<6x4xf32> to tensor<24xf32>
  %4 = ts.broadcast %x [0, 2, 3] : tensor<2x3x4xf32> to tensor<2x8x3x4xf32>
  %5 = ts.broadcast %4 [1, 2, 3, 4] : tensor<2x8x3x4xf32> to tensor<7x2x8x3x4xf32>
  return %1, %3, %5 : tensor<3x4x2xf32>, tensor<24xf32>, tensor<7x2x8x3x4xf32>
}

// A transpose and its inverse cancel.
// CHECK-LABEL: func.func @inverse
//  CHECK-SAME:   %[[X:[a-z0-9]+]]: tensor
//  CHECK-NEXT:   return %[[X]]
func.func @inverse(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = ts.transpose %x [2, 0, 1] : tensor<2x3x4xf32>
  %1 = ts.transpose %0 [1, 2, 0] : tensor<4x2x3xf32>
  return %1 : tensor<2x3x4xf32>
}

// A size that is a number is a constant; a symbol is not.
// CHECK-LABEL: func.func @sizes
//   CHECK-DAG:   %[[N:.*]] = ts.constant dense<12> : tensor<i64>
//   CHECK-DAG:   %[[S:.*]] = ts.size <"n">
//       CHECK:   return %[[N]], %[[S]]
func.func @sizes() -> (tensor<i64>, tensor<i64>) {
  %0 = ts.size <12> : tensor<i64>
  %1 = ts.size <"n"> : tensor<i64>
  return %0, %1 : tensor<i64>, tensor<i64>
}

// A constant has numbers for sizes, also where one of them is 0.
// CHECK-LABEL: func @empty_constant
//       CHECK:   ts.reshape
func.func @empty_constant(%x: tensor<?xf32, #ts.dims<"m">>) -> tensor<0x?xf32, #ts.dims<0, "m">> {
  %0 = ts.constant dense<> : tensor<0x3xf32>
  %1 = ts.reshape %0 : tensor<0x3xf32> to tensor<0x?xf32, #ts.dims<0, "m">>
  return %1 : tensor<0x?xf32, #ts.dims<0, "m">>
}
