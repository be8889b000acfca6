// RUN: knapper-opt --byte-matmuls %s | FileCheck %s

// 255 * 128 * 514 is below 2^24, 255 * 128 * 515 is not.
// CHECK-LABEL: @slices
// CHECK: %[[X:.*]] = ts.slice %arg0
// CHECK: %[[XB:.*]] = ts.convert %[[X]] {{.*}}to tensor<?x514xbf16
// CHECK: %[[W:.*]] = ts.slice %arg1
// CHECK: %[[WB:.*]] = ts.convert %[[W]] {{.*}}tensor<514x8xbf16>
// CHECK: %[[D:.*]] = ts.dot %[[XB]], %[[WB]] {{.*}}result_type = f32
// CHECK: %[[I:.*]] = ts.convert %[[D]] {{.*}}i32
// CHECK: ts.convert {{.*}}tensor<86x8xi8> to tensor<86x8xbf16>
// CHECK: ts.add %[[I]], {{.*}}i32
func.func @slices(%x: tensor<?x600xui8, #ts.dims<"m", 600>>, %w: tensor<600x8xi8>)
    -> tensor<?x8xi32, #ts.dims<"m", 8>> {
  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = i32}
    : tensor<?x600xui8, #ts.dims<"m", 600>>, tensor<600x8xi8>
  return %d : tensor<?x8xi32, #ts.dims<"m", 8>>
}

// One slice is no slice; a symbolic K stays.
// CHECK-LABEL: @one
// CHECK-NOT: ts.slice
// CHECK: ts.dot {{.*}} : tensor<3x5xbf16>, tensor<5x8xbf16>
// CHECK-NOT: ts.add
func.func @one(%x: tensor<3x5xi8>, %w: tensor<5x8xi8>) -> tensor<3x8xi32> {
  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = i32}
    : tensor<3x5xi8>, tensor<5x8xi8>
  return %d : tensor<3x8xi32>
}
// CHECK-LABEL: @symbolic
// CHECK-NEXT: ts.dot %arg0, %arg1
func.func @symbolic(%x: tensor<3x?xi8, #ts.dims<3, "k">>, %w: tensor<?x8xi8, #ts.dims<"k", 8>>)
    -> tensor<3x8xi32> {
  %d = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = i32}
    : tensor<3x?xi8, #ts.dims<3, "k">>, tensor<?x8xi8, #ts.dims<"k", 8>>
  return %d : tensor<3x8xi32>
}

// Convolutions: 57 channels of a 3x3 window, which 514 products hold; all
// channels of groups at once, or not at all.
// CHECK-LABEL: @conv
// CHECK: ts.slice %arg0 {{.*}}tensor<1x57x8x8xui8>
// CHECK: %[[A:.*]] = ts.conv {{.*}} : tensor<1x57x8x8xf32>, tensor<6x57x3x3xf32>
// CHECK: %[[AI:.*]] = ts.convert %[[A]] {{.*}}i32
// CHECK: %[[B:.*]] = ts.conv {{.*}} : tensor<1x3x8x8xf32>, tensor<6x3x3x3xf32>
// CHECK: %[[BI:.*]] = ts.convert %[[B]] {{.*}}i32
// CHECK: ts.add %[[AI]], %[[BI]]
func.func @conv(%x: tensor<1x60x8x8xui8>, %w: tensor<6x60x3x3xi8>) -> tensor<1x6x6x6xi32> {
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
    : tensor<1x60x8x8xui8>, tensor<6x60x3x3xi8>
  return %c : tensor<1x6x6x6xi32>
}
// CHECK-LABEL: @groups
// CHECK-NOT: ts.slice
// CHECK: ts.conv {{.*}} : tensor<1x8x8x120xf32>, tensor<3x3x1x120xf32>
func.func @groups(%x: tensor<1x8x8x120xui8>, %w: tensor<3x3x1x120xi8>) -> tensor<1x6x6x120xi32> {
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
    {channels_last = true, groups = 120 : i64} : tensor<1x8x8x120xui8>, tensor<3x3x1x120xi8>
  return %c : tensor<1x6x6x120xi32>
}
// CHECK-LABEL: @large_groups
// CHECK-NEXT: ts.conv {{.*}} : tensor<1x120x8x8xui8>, tensor<6x60x3x3xi8>
func.func @large_groups(%x: tensor<1x120x8x8xui8>, %w: tensor<6x60x3x3xi8>) -> tensor<1x6x6x6xi32> {
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
    {groups = 2 : i64} : tensor<1x120x8x8xui8>, tensor<6x60x3x3xi8>
  return %c : tensor<1x6x6x6xi32>
}
