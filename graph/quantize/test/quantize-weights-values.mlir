// RUN: knapper-opt --quantize-weights="bits=4 group=4 least=1" --fold-constants %s | FileCheck %s

// The number of a column that is furthest from zero becomes -8, whatever its sign.
// CHECK-LABEL: @signs
// CHECK-DAG: dense<{{\[\[}}1.000000e+00, -1.000000e+00]]> : tensor<1x2xf32>
// CHECK-DAG: dense<{{\[\[}}-8, -8], [1, 1], [2, 2], [3, 3]]> : tensor<4x2xi4>
// CHECK: ts.scaled_dot
func.func @signs(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %w = ts.constant dense<[[-8.0, 8.0], [1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]> : tensor<4x2xf32>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<3x4xf32>, tensor<4x2xf32>
  return %0 : tensor<3x2xf32>
}
