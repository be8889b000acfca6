// RUN: knapper-opt --align-matrices %s | FileCheck %s

!x = tensor<?x8xbf16, #ts.dims<"n", 8>>
!y = tensor<?x5xbf16, #ts.dims<"n", 5>>

// A weight of 5 columns, 10 bytes a row: its transpose has 16.
// CHECK-LABEL: @weight
// CHECK: %[[W:.*]] = ts.weight
// CHECK: %[[T:.*]] = ts.transpose %[[W]] [1, 0] : tensor<8x5xbf16>
// CHECK: ts.dot %arg0, %[[T]] batch [] x [] contract [1] x [1]
func.func @weight(%x: !x) -> !y {
  %w = ts.weight <0, 0, 80, "w"> : tensor<8x5xbf16>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !x, tensor<8x5xbf16>
  return %0 : !y
}

// What is no constant is read as it is; so is what has aligned rows, or none
// either way.
// CHECK-LABEL: @others
// CHECK-NOT: ts.transpose
func.func @others(%x: !x, %v: tensor<8x5xbf16>, %z: tensor<3x7xbf16>) -> (!y, !x, tensor<3x5xbf16>) {
  %0 = ts.dot %x, %v batch [] x [] contract [1] x [0] : !x, tensor<8x5xbf16>
  %w = ts.weight <0, 0, 128, "w"> : tensor<8x8xbf16>
  %1 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !x, tensor<8x8xbf16>
  %u = ts.weight <0, 0, 70, "u"> : tensor<7x5xbf16>
  %2 = ts.dot %z, %u batch [] x [] contract [1] x [0] : tensor<3x7xbf16>, tensor<7x5xbf16>
  return %0, %1, %2 : !y, !x, tensor<3x5xbf16>
}

// Batch dims that are not in front stay where they are.
// CHECK-LABEL: @batch
// CHECK: %[[F:.*]] = ts.weight <0, 0, 240, "f">
// CHECK: %[[T:.*]] = ts.transpose %[[F]] [0, 2, 1] : tensor<3x8x5xbf16>
// CHECK: ts.dot %arg0, %[[T]] batch [0] x [0] contract [2] x [2]
// CHECK: %[[L:.*]] = ts.weight <0, 0, 240, "l">
// CHECK: ts.dot %arg1, %[[L]] batch [0] x [2] contract [2] x [1]
func.func @batch(%x: tensor<3x2x8xbf16>, %y: tensor<3x2x8xbf16>) -> (tensor<3x2x5xbf16>, tensor<3x2x5xbf16>) {
  %f = ts.weight <0, 0, 240, "f"> : tensor<3x8x5xbf16>
  %0 = ts.dot %x, %f batch [0] x [0] contract [2] x [1] : tensor<3x2x8xbf16>, tensor<3x8x5xbf16>
  %l = ts.weight <0, 0, 240, "l"> : tensor<5x8x3xbf16>
  %1 = ts.dot %y, %l batch [0] x [2] contract [2] x [1] : tensor<3x2x8xbf16>, tensor<5x8x3xbf16>
  return %0, %1 : tensor<3x2x5xbf16>, tensor<3x2x5xbf16>
}
