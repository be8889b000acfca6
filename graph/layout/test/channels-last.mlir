// RUN: knapper-opt --layout %s | FileCheck %s

!x = tensor<?x3x8x8xf32, #ts.dims<"n", 3, 8, 8>>
!y = tensor<?x4x8x8xf32, #ts.dims<"n", 4, 8, 8>>
!p = tensor<?x4x4x4xf32, #ts.dims<"n", 4, 4, 4>>
!c = tensor<?x4xf32, #ts.dims<"n", 4>>

// A residual block: one transpose at the entry, none at the exit.
// CHECK-LABEL: @block
// CHECK-DAG: %[[X:.*]] = ts.transpose %arg0 [0, 2, 3, 1]
// CHECK-DAG: %[[W:.*]] = ts.transpose %{{.*}} [2, 3, 1, 0] : tensor<4x3x3x3xf32>
// CHECK: %[[C:.*]] = ts.conv %[[X]], %[[W]] {{.*}}channels_last = true
// CHECK-NOT: ts.transpose
// CHECK: %[[B:.*]] = ts.broadcast %{{.*}} [3] : tensor<4xf32>
// CHECK: %[[A:.*]] = ts.add %[[C]], %[[B]]
// CHECK: %[[R:.*]] = ts.max %[[A]]
// CHECK: %[[W1:.*]] = ts.reshape {{.*}} to tensor<4x4xf32>
// CHECK: %[[D:.*]] = ts.dot %[[R]], %[[W1]] batch [] x [] contract [3] x [1]
// CHECK: %[[S:.*]] = ts.add %[[D]], %[[R]]
// CHECK: %[[P:.*]] = ts.pool max %[[S]] {{.*}}channels_last = true
// CHECK: %[[M:.*]] = ts.reduce add %[[P]] [1, 2]
// CHECK: return %[[M]]
func.func @block(%x: !x) -> !c {
  %w = ts.weight <0, 0, 432, "w"> : tensor<4x3x3x3xf32>
  %w1 = ts.weight <0, 496, 64, "w1"> : tensor<4x4x1x1xf32>
  %b = ts.weight <0, 432, 16, "b"> : tensor<4xf32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %z = ts.broadcast %zero [] : tensor<f32> to !y
  %bb = ts.broadcast %b [1] : tensor<4xf32> to !y
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<4x3x3x3xf32>
  %1 = ts.add %0, %bb : !y
  %2 = ts.max %1, %z : !y
  %3 = ts.conv %2, %w1 strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !y, tensor<4x4x1x1xf32>
  %4 = ts.add %3, %2 : !y
  %5 = ts.pool max %4 window [2, 2] strides [2, 2] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !y
  %6 = ts.reduce add %5 [2, 3] : !p
  return %6 : !c
}

// A window of one element with groups is no matmul.
// CHECK-LABEL: @grouped_point
// CHECK-NOT: ts.dot
// CHECK: ts.conv {{.*}}groups = 2 : i64
func.func @grouped_point(%x: !y) -> !y {
  %w = ts.weight <0, 4096, 32, "g"> : tensor<4x2x1x1xf32>
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {groups = 2 : i64} : !y, tensor<4x2x1x1xf32>
  return %0 : !y
}

// Depthwise: filters [C, 1, window..] become [window.., 1, C].
// CHECK-LABEL: @depthwise
// CHECK: ts.conv {{.*}}{channels_last = true, groups = 4 : i64}{{.*}}tensor<3x3x1x4xf32>
func.func @depthwise(%x: !y, %w: tensor<4x1x3x3xf32>) -> !y {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {groups = 4 : i64} : !y, tensor<4x1x3x3xf32>
  return %0 : !y
}

!f = tensor<?x6x4xf32, #ts.dims<"n", 6, 4>>
!t = tensor<?x4x6xf32, #ts.dims<"n", 4, 6>>
!g = tensor<?x6x2x2xf32, #ts.dims<"n", 6, 2, 2>>

// Patches of an image: rows of patches times the filter, in the order that the
// model asks for.
// CHECK-LABEL: @patches
// CHECK: %[[P:.*]] = ts.transpose {{.*}} [0, 2, 4, 1, 3, 5]
// CHECK: %[[R:.*]] = ts.reshape %[[P]] : {{.*}} to tensor<?x2x2x48xf32
// CHECK: %[[D:.*]] = ts.dot %[[R]], {{.*}} contract [3] x [1]
// CHECK-NOT: ts.transpose
// CHECK: return
func.func @patches(%x: !x, %w: tensor<6x3x4x4xf32>) -> !t {
  %0 = ts.conv %x, %w strides [4, 4] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x, tensor<6x3x4x4xf32>
  %1 = ts.reshape %0 : !g to !f
  %2 = ts.transpose %1 [0, 2, 1] : !f
  return %2 : !t
}

// A dim of size 1 between the transpose and the reduction does not keep them apart.
// CHECK-LABEL: @reduce_units
// CHECK: %[[C:.*]] = ts.conv
// CHECK-NOT: ts.transpose
// CHECK: ts.reduce max %[[C]] [1]
// CHECK-NOT: ts.transpose
// CHECK: return
func.func @reduce_units(%x: tensor<2x6x1x3xf32>, %w: tensor<3x1x3x4xf32>) -> tensor<2x4xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<2x6x1x3xf32>, tensor<3x1x3x4xf32>
  %1 = ts.transpose %0 [0, 3, 1, 2] : tensor<2x4x1x4xf32>
  %2 = ts.reshape %1 : tensor<2x4x4x1xf32> to tensor<2x4x4xf32>
  %3 = ts.reduce max %2 [2] : tensor<2x4x4xf32>
  return %3 : tensor<2x4xf32>
}
