// RUN: knapper-opt %s --layout --form-kernels --pack-filters | FileCheck %s
// RUN: knapper-opt %s --layout --form-kernels --pack-filters=programs=9 | FileCheck %s --check-prefix=NINE
// RUN: knapper-opt %s --layout --form-kernels --pack-filters=l2-bytes=8192 | FileCheck %s --check-prefix=LARGE
// RUN: knapper-opt %s --layout --form-kernels --pack-filters=l2-bytes=8191 | FileCheck %s --check-prefix=SMALL

// A filter that comes in torch's order is transposed and packed by one kernel.
// CHECK-LABEL: @of_torch
// CHECK: %[[CUT:.*]] = ts.reshape %arg1 : tensor<128x3x3x3xf32> to tensor<2x64x3x3x3xf32>
// CHECK: ts.kernel transpose (%[[W:.*]] = %[[CUT]] : tensor<2x64x3x3x3xf32>) -> tensor<2x3x3x3x64xf32>
// CHECK-NEXT: ts.transpose %[[W]] [0, 3, 4, 2, 1]
// CHECK: ts.kernel conv
// CHECK: ts.transpose %{{.*}} [1, 2, 3, 0, 4] : tensor<2x3x3x3x64xf32>
// CHECK-NEXT: ts.reshape %{{.*}} : tensor<3x3x3x2x64xf32> to tensor<3x3x3x128xf32>
// CHECK-NEXT: ts.conv
func.func @of_torch(%x: tensor<1x3x8x8xf32>, %w: tensor<128x3x3x3xf32>) -> tensor<1x128x6x6xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x3x8x8xf32>, tensor<128x3x3x3xf32>
  return %0 : tensor<1x128x6x6xf32>
}

// A filter that few pixels read stays in torch's order, if its eight panels are
// programs enough and the image (4 KiB) takes half of L2 at most.
// NINE-LABEL: @few_pixels
// NINE: ts.kernel transpose ({{.*}}) -> tensor<8x3x3x16x64xf32>
// LARGE-LABEL: @few_pixels
// LARGE-NOT: tensor<8x3x3x16x64xf32>
// LARGE: ts.kernel conv {{.*}}tensor<8x64x16x3x3xf32>
// SMALL-LABEL: @few_pixels
// SMALL: ts.kernel transpose ({{.*}}) -> tensor<8x3x3x16x64xf32>
// CHECK-LABEL: @few_pixels
// CHECK: %[[CUT:.*]] = ts.reshape %arg1 : tensor<512x16x3x3xf32> to tensor<8x64x16x3x3xf32>
// CHECK-NOT: tensor<8x3x3x16x64xf32>
// CHECK: ts.kernel conv (%{{.*}} = %{{.*}}, %[[W:.*]] = %[[CUT]] :
// CHECK: ts.transpose %[[W]] [0, 3, 4, 2, 1] : tensor<8x64x16x3x3xf32>
// CHECK-NEXT: ts.transpose %{{.*}} [1, 2, 3, 0, 4]
// CHECK-NEXT: ts.reshape
// CHECK-NEXT: ts.conv
func.func @few_pixels(%x: tensor<1x16x8x8xf32>, %w: tensor<512x16x3x3xf32>) -> tensor<1x512x6x6xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x16x8x8xf32>, tensor<512x16x3x3xf32>
  return %0 : tensor<1x512x6x6xf32>
}

// Of more than 7 x 7 pixels Winograd's algorithm may read panels.
// CHECK-LABEL: @seven_by_seven
// CHECK: ts.kernel conv {{.*}}tensor<8x64x16x3x3xf32>
func.func @seven_by_seven(%x: tensor<1x16x9x9xf32>, %w: tensor<512x16x3x3xf32>) -> tensor<1x512x7x7xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x16x9x9xf32>, tensor<512x16x3x3xf32>
  return %0 : tensor<1x512x7x7xf32>
}

// CHECK-LABEL: @seven_by_eight
// CHECK: ts.kernel transpose ({{.*}}) -> tensor<8x3x3x16x64xf32>
func.func @seven_by_eight(%x: tensor<1x16x9x10xf32>, %w: tensor<512x16x3x3xf32>) -> tensor<1x512x7x8xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x16x9x10xf32>, tensor<512x16x3x3xf32>
  return %0 : tensor<1x512x7x8xf32>
}

// A window of one pixel stays up to 256 pixels.
// CHECK-LABEL: @sixteen_rows
// CHECK: ts.kernel conv {{.*}}tensor<8x64x16x1x1xf32>
func.func @sixteen_rows(%x: tensor<1x16x32x31xf32>, %w: tensor<512x16x1x1xf32>) -> tensor<1x512x16x16xf32> {
  %0 = ts.conv %x, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x16x32x31xf32>, tensor<512x16x1x1xf32>
  return %0 : tensor<1x512x16x16xf32>
}

// CHECK-LABEL: @seventeen_rows
// CHECK: ts.kernel transpose ({{.*}}) -> tensor<8x1x1x16x64xf32>
func.func @seventeen_rows(%x: tensor<1x16x33x31xf32>, %w: tensor<512x16x1x1xf32>) -> tensor<1x512x17x16xf32> {
  %0 = ts.conv %x, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x16x33x31xf32>, tensor<512x16x1x1xf32>
  return %0 : tensor<1x512x17x16xf32>
}

// Each of several images would transpose it again.
// CHECK-LABEL: @two_images
// CHECK: ts.kernel transpose ({{.*}}) -> tensor<8x3x3x16x64xf32>
func.func @two_images(%x: tensor<2x16x8x8xf32>, %w: tensor<512x16x3x3xf32>) -> tensor<2x512x6x6xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<2x16x8x8xf32>, tensor<512x16x3x3xf32>
  return %0 : tensor<2x512x6x6xf32>
}

// Features that fill no panel get zeros beside them.
// CHECK-LABEL: @ten_features
// CHECK: ts.pad %{{.*}} low [{{.*}}] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<6>]
// CHECK: ts.kernel conv
// CHECK: ts.slice %{{.*}}: tensor<3x3x3x16xf32> to tensor<3x3x3x10xf32>
// CHECK-NEXT: ts.conv
func.func @ten_features(%x: tensor<1x3x8x8xf32>, %w: tensor<10x3x3x3xf32>) -> tensor<1x10x6x6xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x3x8x8xf32>, tensor<10x3x3x3xf32>
  return %0 : tensor<1x10x6x6xf32>
}

// Features that fill one panel lie as the panel does.
// CHECK-LABEL: @one_panel
// CHECK: %[[PANEL:.*]] = ts.reshape %arg1 : tensor<3x3x8x32xf32> to tensor<1x3x3x8x32xf32>
// CHECK-NOT: ts.kernel transpose
// CHECK: ts.kernel conv (%{{.*}} = %arg0 : {{.*}}, %{{.*}} = %[[PANEL]] :
func.func @one_panel(%x: tensor<1x8x8x8xf32>, %w: tensor<3x3x8x32xf32>) -> tensor<1x6x6x32xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<1x8x8x8xf32>, tensor<3x3x8x32xf32>
  return %0 : tensor<1x6x6x32xf32>
}

// Two panels do not.
// CHECK-LABEL: @two_panels
// CHECK: ts.kernel transpose ({{.*}}) -> tensor<2x3x3x8x64xf32>
func.func @two_panels(%x: tensor<1x8x8x8xf32>, %w: tensor<3x3x8x128xf32>) -> tensor<1x6x6x128xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<1x8x8x8xf32>, tensor<3x3x8x128xf32>
  return %0 : tensor<1x6x6x128xf32>
}

// Constants are packed at compile time, depthwise filters not at all.
// CHECK-LABEL: @depthwise
// CHECK: ts.kernel transpose (%[[W:.*]] = %arg1 : tensor<16x1x3x3xf32>) -> tensor<3x3x1x16xf32>
// CHECK: ts.kernel conv
// CHECK-NEXT: ts.conv
func.func @depthwise(%x: tensor<1x16x8x8xf32>, %w: tensor<16x1x3x3xf32>) -> tensor<1x16x6x6xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {groups = 16 : i64} : tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32>
  return %0 : tensor<1x16x6x6xf32>
}

// CHECK-LABEL: @constant
// CHECK: ts.kernel conv
// CHECK-NEXT: ts.conv
func.func @constant(%x: tensor<1x1x8x8xf32>) -> tensor<1x3x8x7xf32> {
  %w = ts.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]], [[[5.0, 6.0]]]]> : tensor<3x1x1x2xf32>
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x1x8x8xf32>, tensor<3x1x1x2xf32>
  return %0 : tensor<1x3x8x7xf32>
}
