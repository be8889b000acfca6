// RUN: knapper-opt --narrow-dots %s | FileCheck %s

!x = tensor<3x4xbf16>
!y = tensor<4x5xbf16>

// CHECK-LABEL: @widened
// CHECK: ts.dot %arg0, %arg1 {{.*}} {result_type = f32} : tensor<3x4xbf16>, tensor<4x5xbf16>
func.func @widened(%x: !x, %y: !y) -> tensor<3x5xf32> {
  %0 = ts.convert %x : !x to tensor<3x4xf32>
  %1 = ts.convert %y : !y to tensor<4x5xf32>
  %2 = ts.dot %0, %1 batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  return %2 : tensor<3x5xf32>
}

// One side, two types, integers.
// CHECK-LABEL: @stay
// CHECK-COUNT-3: ts.dot %{{[0-9]+}}
func.func @stay(%x: !x, %y: tensor<4x5xf16>, %i: tensor<3x4xi8>, %w: tensor<4x5xf32>)
    -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>) {
  %0 = ts.convert %x : !x to tensor<3x4xf32>
  %1 = ts.convert %y : tensor<4x5xf16> to tensor<4x5xf32>
  %2 = ts.convert %i : tensor<3x4xi8> to tensor<3x4xf32>
  %3 = ts.dot %0, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  %4 = ts.dot %0, %1 batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  %5 = ts.dot %2, %1 batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x5xf32>
  return %3, %4, %5 : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>
}
