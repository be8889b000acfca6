// RUN: knapper-opt --conv-phases %s | FileCheck %s

!x = tensor<2x5x6x8xf32>
!w = tensor<4x4x8x3xf32>

// Four taps a dim and two phases: two taps each, four times the features.
// CHECK-LABEL: @upsample
// CHECK: %[[F:.*]] = ts.reshape {{.*}} to tensor<2x2x8x12xf32>
// CHECK: %[[C:.*]] = ts.conv %arg0, %[[F]] {{.*}} input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
// CHECK-NOT: ts.conv
// CHECK: ts.slice
// CHECK: return
func.func @upsample(%x: !x, %w: !w) -> tensor<2x10x12x3xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [2, 2] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] {channels_last = true} : !x, !w
  return %0 : tensor<2x10x12x3xf32>
}

!n = tensor<?x4x?xf32, #ts.dims<"b", 4, "w">>
!m = tensor<?x3x?xf32, #ts.dims<"b", 3, "3*w + 2">>

// Channels first, a symbolic length, a window that does not divide.
// CHECK-LABEL: @signal
// CHECK: ts.conv {{.*}} input_dilations [1]
func.func @signal(%x: !n, %w: tensor<3x4x7xf32>) -> !m {
  %0 = ts.conv %x, %w strides [1] dilations [1] input_dilations [3] low [#ts.dim<4>] high [#ts.dim<6>] : !n, tensor<3x4x7xf32>
  return %0 : !m
}

!i = tensor<1x2x3x4x5xf32>
!k = tensor<2x2x3x5x4xf32>

// Three dims of which one is not spread, another by more than the window, with
// a border that cuts.
// CHECK-LABEL: @volume
// CHECK: ts.conv {{.*}} input_dilations [1, 1, 1]
func.func @volume(%x: !i, %w: !k) -> tensor<1x2x9x8x17xf32> {
  %0 = ts.conv %x, %w strides [1, 1, 1] dilations [1, 1, 1] input_dilations [2, 1, 3] low [#ts.dim<2>, #ts.dim<4>, #ts.dim<3>] high [#ts.dim<4>, #ts.dim<4>, #ts.dim<4>] : !i, !k
  return %0 : tensor<1x2x9x8x17xf32>
}

// A negative border.
// CHECK-LABEL: @cropped
// CHECK: ts.conv {{.*}} input_dilations [1, 1] low [#ts.dim<-1>, #ts.dim<0>]
func.func @cropped(%x: !x, %w: tensor<3x5x8x3xf32>) -> tensor<2x6x11x3xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [2, 2] low [#ts.dim<-1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<3>] {channels_last = true} : !x, tensor<3x5x8x3xf32>
  return %0 : tensor<2x6x11x3xf32>
}

// Groups, dilated windows and single taps stay.
// CHECK-LABEL: @stay
// CHECK: input_dilations [2]
// CHECK: input_dilations [2]
// CHECK: input_dilations [2]
func.func @stay(%x: tensor<1x4x5xf32>, %a: tensor<4x2x3xf32>, %b: tensor<4x4x3xf32>, %c: tensor<4x4x1xf32>)
    -> (tensor<1x4x9xf32>, tensor<1x4x9xf32>, tensor<1x4x9xf32>) {
  %0 = ts.conv %x, %a strides [1] dilations [1] input_dilations [2] low [#ts.dim<1>] high [#ts.dim<1>] {groups = 2 : i64} : tensor<1x4x5xf32>, tensor<4x2x3xf32>
  %1 = ts.conv %x, %b strides [1] dilations [2] input_dilations [2] low [#ts.dim<2>] high [#ts.dim<2>] : tensor<1x4x5xf32>, tensor<4x4x3xf32>
  %2 = ts.conv %x, %c strides [1] dilations [1] input_dilations [2] low [#ts.dim<0>] high [#ts.dim<0>] : tensor<1x4x5xf32>, tensor<4x4x1xf32>
  return %0, %1, %2 : tensor<1x4x9xf32>, tensor<1x4x9xf32>, tensor<1x4x9xf32>
}
