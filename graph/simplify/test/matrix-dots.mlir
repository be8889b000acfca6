// RUN: knapper-opt --matrix-dots %s | FileCheck %s

!x = tensor<?x8xf32, #ts.dims<"s", 8>>

// CHECK-LABEL: @heads
// CHECK: %[[W:.*]] = ts.reshape %arg1 : tensor<8x2x3xf32> to tensor<8x6xf32>
// CHECK: %[[D:.*]] = ts.dot %arg0, %[[W]] batch [] x [] contract [1] x [0]
// CHECK: ts.reshape %[[D]] : {{.*}} to tensor<?x2x3xf32
func.func @heads(%x: !x, %w: tensor<8x2x3xf32>) -> tensor<?x2x3xf32, #ts.dims<"s", 2, 3>> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !x, tensor<8x2x3xf32>
  return %0 : tensor<?x2x3xf32, #ts.dims<"s", 2, 3>>
}

// Columns on both sides of the depth are put together.
// CHECK-LABEL: @around
// CHECK: %[[T:.*]] = ts.transpose %arg1 [0, 2, 1]
// CHECK: %[[W:.*]] = ts.reshape %[[T]] : tensor<2x3x8xf32> to tensor<6x8xf32>
// CHECK: ts.dot %arg0, %[[W]] batch [] x [] contract [1] x [1]
func.func @around(%x: !x, %w: tensor<2x8x3xf32>) -> tensor<?x2x3xf32, #ts.dims<"s", 2, 3>> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : !x, tensor<2x8x3xf32>
  return %0 : tensor<?x2x3xf32, #ts.dims<"s", 2, 3>>
}

!a = tensor<5x7x6xf32>
!b = tensor<5x4x6xf32>

// A sum over dims apart.
// CHECK-LABEL: @depths
// CHECK-DAG: %[[X:.*]] = ts.transpose %arg0 [1, 0, 2]
// CHECK-DAG: %[[Y:.*]] = ts.transpose %arg1 [1, 0, 2]
// CHECK: ts.dot {{.*}} contract [1] x [1] : tensor<7x30xf32>, tensor<4x30xf32>
func.func @depths(%x: !a, %y: !b) -> tensor<7x4xf32> {
  %0 = ts.dot %x, %y batch [] x [] contract [0, 2] x [0, 2] : !a, !b
  return %0 : tensor<7x4xf32>
}

// The order of one side, for the other.
// CHECK-LABEL: @reversed_dims
// CHECK: ts.transpose %arg1 [3, 2, 1, 0]
// CHECK: ts.dot {{.*}} batch [0] x [0] contract [2] x [2] : tensor<2x3x20xf32>, tensor<2x6x20xf32>
func.func @reversed_dims(%x: tensor<2x3x4x5xf32>, %y: tensor<5x4x6x2xf32>) -> tensor<2x3x6xf32> {
  %0 = ts.dot %x, %y batch [0] x [3] contract [3, 2] x [0, 1] : tensor<2x3x4x5xf32>, tensor<5x4x6x2xf32>
  return %0 : tensor<2x3x6xf32>
}

// Depths that follow each other on both sides stay: a view already.
// CHECK-LABEL: @stay
// CHECK-NEXT: ts.dot %arg0, %arg1 batch [] x [] contract [2, 1] x [1, 0]
func.func @stay(%x: tensor<3x4x5xf32>, %y: tensor<4x5x6xf32>) -> tensor<3x6xf32> {
  %0 = ts.dot %x, %y batch [] x [] contract [2, 1] x [1, 0] : tensor<3x4x5xf32>, tensor<4x5x6xf32>
  return %0 : tensor<3x6xf32>
}
