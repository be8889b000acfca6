// RUN: knapper-opt --layout %s | FileCheck %s

!x = tensor<?x6x5x?xf32, #ts.dims<"n", 6, 5, "w">>
!y = tensor<?x3x10x?xf32, #ts.dims<"n", 3, 10, "3*w">>

// A transposed convolution whose windows do not overlap: each pixel becomes a
// patch of 2 x 3, columns [window.., features] of one matrix.
// CHECK-LABEL: @patches
// CHECK-DAG: %[[X:.*]] = ts.transpose %arg0 [0, 2, 3, 1]
// CHECK-DAG: %[[S:.*]] = ts.slice %arg1 [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<2>] [1, 1, -1, -1]
// CHECK-DAG: %[[T:.*]] = ts.transpose %[[S]] [2, 3, 0, 1]
// CHECK-DAG: %[[W:.*]] = ts.reshape %[[T]] : tensor<2x3x3x6xf32> to tensor<18x6xf32>
// CHECK: %[[D:.*]] = ts.dot %[[X]], %[[W]] batch [] x [] contract [3] x [1]
// CHECK: ts.reshape %[[D]] {{.*}} to tensor<?x5x?x2x3x3xf32
// CHECK-NOT: ts.conv
// CHECK: return
func.func @patches(%x: !x, %w: tensor<3x6x2x3xf32>) -> !y {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [2, 3] low [#ts.dim<1>, #ts.dim<2>] high [#ts.dim<1>, #ts.dim<2>] : !x, tensor<3x6x2x3xf32>
  return %0 : !y
}

!o = tensor<?x3x9x?xf32, #ts.dims<"n", 3, 9, "3*w">>

// Windows that are cut at a border stay.
// CHECK-LABEL: @cut
// CHECK: ts.conv
func.func @cut(%x: !x, %w: tensor<3x6x2x3xf32>) -> !o {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [2, 3] low [#ts.dim<1>, #ts.dim<2>] high [#ts.dim<0>, #ts.dim<2>] : !x, tensor<3x6x2x3xf32>
  return %0 : !o
}

!v = tensor<?x3x10x?xf32, #ts.dims<"n", 3, 10, "3*w + 1">>

// Overlapping windows too.
// CHECK-LABEL: @overlap
// CHECK: ts.conv
func.func @overlap(%x: !x, %w: tensor<3x6x2x4xf32>) -> !v {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [2, 3] low [#ts.dim<1>, #ts.dim<3>] high [#ts.dim<1>, #ts.dim<3>] : !x, tensor<3x6x2x4xf32>
  return %0 : !v
}
