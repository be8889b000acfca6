// RUN: knapper-opt --vector-dots %s | FileCheck %s

!x = tensor<4x5x6xbf16>
!y = tensor<4x6xbf16>

// CHECK-LABEL: @batch
// CHECK-DAG: %[[X:.*]] = ts.convert %arg0
// CHECK-DAG: %[[Y:.*]] = ts.convert %arg1
// CHECK: %[[B:.*]] = ts.broadcast %[[Y]] [0, 2] : tensor<4x6xf32> to tensor<4x5x6xf32>
// CHECK: %[[P:.*]] = ts.mul %[[X]], %[[B]]
// CHECK: ts.reduce add %[[P]] [2]
// CHECK-NOT: ts.dot
func.func @batch(%x: !x, %y: !y) -> tensor<4x5xbf16> {
  %0 = ts.dot %x, %y batch [0] x [0] contract [2] x [1] : !x, !y
  return %0 : tensor<4x5xbf16>
}

!s = tensor<3x?x?x2xf32, #ts.dims<3, "a", "b", 2>>
!t = tensor<2x1x?xf32, #ts.dims<2, 1, "b">>

// Two dims of the sum in another order, a batch dim behind, a free dim of 1.
// CHECK-LABEL: @mixed
// CHECK: ts.reduce add
// CHECK-NOT: ts.dot
func.func @mixed(%x: !s, %y: !t, %z: tensor<2x3xf32>) -> tensor<2x3x?x1xf32, #ts.dims<2, 3, "a", 1>> {
  %0 = ts.dot %x, %y batch [3] x [0] contract [2] x [2] : !s, !t
  return %0 : tensor<2x3x?x1xf32, #ts.dims<2, 3, "a", 1>>
}

// CHECK-LABEL: @numbers
// CHECK: ts.reduce add {{.*}} [0, 1]
func.func @numbers(%x: tensor<7x3xf32>, %y: tensor<3x7xf32>) -> tensor<f32> {
  %0 = ts.dot %x, %y batch [] x [] contract [0, 1] x [1, 0] : tensor<7x3xf32>, tensor<3x7xf32>
  return %0 : tensor<f32>
}

// Matrices, integers and products without a sum stay.
// CHECK-LABEL: @stay
// CHECK-COUNT-3: ts.dot
func.func @stay(%x: tensor<4x5xf32>, %y: tensor<5x2xf32>, %i: tensor<4x5xi32>, %j: tensor<5xi32>, %z: tensor<4xf32>)
    -> (tensor<4x2xf32>, tensor<4xi32>, tensor<4x5xf32>) {
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<4x5xf32>, tensor<5x2xf32>
  %1 = ts.dot %i, %j batch [] x [] contract [1] x [0] : tensor<4x5xi32>, tensor<5xi32>
  %2 = ts.dot %x, %z batch [0] x [0] contract [] x [] : tensor<4x5xf32>, tensor<4xf32>
  return %0, %1, %2 : tensor<4x2xf32>, tensor<4xi32>, tensor<4x5xf32>
}
