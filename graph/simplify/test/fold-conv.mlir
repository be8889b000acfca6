// RUN: knapper-opt --fold-conv %s | FileCheck %s

!x = tensor<?x3x8x8xf32, #ts.dims<"n", 3, 8, 8>>
!y = tensor<?x4x8x8xf32, #ts.dims<"n", 4, 8, 8>>

// CHECK-LABEL: @scale
// CHECK: %[[S:.*]] = ts.broadcast %{{.*}} [0] : tensor<4xf32> to tensor<4x3x3x3xf32>
// CHECK: %[[W:.*]] = ts.mul %{{.*}}, %[[S]] : tensor<4x3x3x3xf32>
// CHECK: %[[C:.*]] = ts.conv %arg0, %[[W]]
// CHECK: %[[B:.*]] = ts.add %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK: %[[BB:.*]] = ts.broadcast %[[B]] [1]
// CHECK: ts.add %[[C]], %[[BB]]
func.func @scale(%x: !x) -> !y {
  %w = ts.weight <0, 0, 432, "w"> : tensor<4x3x3x3xf32>
  %b = ts.weight <0, 432, 16, "b"> : tensor<4xf32>
  %s = ts.weight <0, 448, 16, "s"> : tensor<4xf32>
  %t = ts.weight <0, 464, 16, "t"> : tensor<4xf32>
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<4x3x3x3xf32>
  %bb = ts.broadcast %b [1] : tensor<4xf32> to !y
  %0 = ts.add %c, %bb : !y
  %sb = ts.broadcast %s [1] : tensor<4xf32> to !y
  %1 = ts.mul %0, %sb : !y
  %tb = ts.broadcast %t [1] : tensor<4xf32> to !y
  %2 = ts.add %1, %tb : !y
  return %2 : !y
}

// A scale that is no constant stays.
// CHECK-LABEL: @keeps
// CHECK: ts.conv %arg0, %arg1
// CHECK: ts.mul
func.func @keeps(%x: !x, %w: tensor<4x3x3x3xf32>, %s: tensor<4xf32>) -> !y {
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<4x3x3x3xf32>
  %sb = ts.broadcast %s [1] : tensor<4xf32> to !y
  %1 = ts.mul %c, %sb : !y
  return %1 : !y
}

!w = tensor<4x3x3x3xf32>

// Zeros around the image are the border, beside the one that was there.
// CHECK-LABEL: @border
// CHECK: ts.conv %arg0, %arg1 strides [2, 2] {{.*}} low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<2>]
func.func @border(%x: !x, %w: !w) -> tensor<?x4x4x5xf32, #ts.dims<"n", 4, 4, 5>> {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %p = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<2>] : !x
  %c = ts.conv %p, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x9x11xf32, #ts.dims<"n", 3, 9, 11>>, !w
  return %c : tensor<?x4x4x5xf32, #ts.dims<"n", 4, 4, 5>>
}

// A window of one element is a matmul, and amounts of run time are no border.
// CHECK-LABEL: @matmul
// CHECK: %[[P:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[P]],
// CHECK: %[[Q:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[Q]],
func.func @matmul(%x: !x, %w: tensor<4x3x1x1xf32>, %v: !w) -> (tensor<?x4x9x9xf32, #ts.dims<"n", 4, 9, 9>>, tensor<?x4x6x?xf32, #ts.dims<"n", 4, 6, "n + 6">>) {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %p = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : !x
  %c = ts.conv %p, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x9x9xf32, #ts.dims<"n", 3, 9, 9>>, tensor<4x3x1x1xf32>
  %q = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<"n">] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : !x
  %d = ts.conv %q, %v strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x8x?xf32, #ts.dims<"n", 3, 8, "n + 8">>, !w
  return %c, %d : tensor<?x4x9x9xf32, #ts.dims<"n", 4, 9, 9>>, tensor<?x4x6x?xf32, #ts.dims<"n", 4, 6, "n + 6">>
}

// Patches are a matmul, and a padded image that others read stays.
// CHECK-LABEL: @patches
// CHECK: %[[P:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[P]],
// CHECK: %[[Q:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[Q]],
func.func @patches(%x: !x, %w: tensor<4x3x5x5xf32>, %v: !w) -> (tensor<?x4x2x2xf32, #ts.dims<"n", 4, 2, 2>>, tensor<?x4x8x8xf32, #ts.dims<"n", 4, 8, 8>>, tensor<?x3x10x10xf32, #ts.dims<"n", 3, 10, 10>>) {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %p = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] : !x
  %c = ts.conv %p, %w strides [5, 5] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x10x10xf32, #ts.dims<"n", 3, 10, 10>>, tensor<4x3x5x5xf32>
  %q = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] : !x
  %d = ts.conv %q, %v strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x10x10xf32, #ts.dims<"n", 3, 10, 10>>, !w
  return %c, %d, %q : tensor<?x4x2x2xf32, #ts.dims<"n", 4, 2, 2>>, tensor<?x4x8x8xf32, #ts.dims<"n", 4, 8, 8>>, tensor<?x3x10x10xf32, #ts.dims<"n", 3, 10, 10>>
}

// Ones, images that are added, and zeros before the image is spread stay.
// CHECK-LABEL: @noborder
// CHECK: %[[ONES:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[ONES]],
// CHECK: %[[IMAGES:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[IMAGES]],
// CHECK: %[[SPREAD:.*]] = ts.pad %arg0
// CHECK: ts.conv %[[SPREAD]],
func.func @noborder(%x: !x, %w: !w) -> (tensor<?x4x7x7xf32, #ts.dims<"n", 4, 7, 7>>, tensor<?x4x6x6xf32, #ts.dims<"n + 1", 4, 6, 6>>, tensor<?x4x15x15xf32, #ts.dims<"n", 4, 15, 15>>) {
  %one = ts.constant dense<1.0> : tensor<f32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %p = ts.pad %x value %one : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : !x
  %c = ts.conv %p, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x9x9xf32, #ts.dims<"n", 3, 9, 9>>, !w
  %q = ts.pad %x value %zero : tensor<f32> low [#ts.dim<1>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : !x
  %d = ts.conv %q, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x8x8xf32, #ts.dims<"n + 1", 3, 8, 8>>, !w
  %r = ts.pad %x value %zero : tensor<f32> low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] : !x
  %e = ts.conv %r, %w strides [1, 1] dilations [1, 1] input_dilations [2, 2] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<?x3x9x9xf32, #ts.dims<"n", 3, 9, 9>>, !w
  return %c, %d, %e : tensor<?x4x7x7xf32, #ts.dims<"n", 4, 7, 7>>, tensor<?x4x6x6xf32, #ts.dims<"n + 1", 4, 6, 6>>, tensor<?x4x15x15xf32, #ts.dims<"n", 4, 15, 15>>
}

// A vector along the channels and one along the rows are no one bias.
// CHECK-LABEL: @bias_along_rows
// CHECK: %[[A:.*]] = ts.add %{{.*}}, %{{.*}} : tensor<2x4x4x8xf32>
// CHECK: ts.add %[[A]], %{{.*}} : tensor<2x4x4x8xf32>
func.func @bias_along_rows(%x: tensor<2x3x4x8xf32>, %w: !w) -> tensor<2x4x4x8xf32> {
  %a = ts.weight <0, 0, 16, "a"> : tensor<4xf32>
  %b = ts.weight <0, 16, 16, "b"> : tensor<4xf32>
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<2x3x4x8xf32>, !w
  %channels = ts.broadcast %a [1] : tensor<4xf32> to tensor<2x4x4x8xf32>
  %rows = ts.broadcast %b [2] : tensor<4xf32> to tensor<2x4x4x8xf32>
  %0 = ts.add %c, %channels : tensor<2x4x4x8xf32>
  %1 = ts.add %0, %rows : tensor<2x4x4x8xf32>
  return %1 : tensor<2x4x4x8xf32>
}
