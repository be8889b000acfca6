// RUN: knapper-opt --pad-channels %s | FileCheck %s

!x = tensor<?x5x6x3xbf16, #ts.dims<"n", 5, 6, 3>>
!w = tensor<3x3x3x12xbf16>

// CHECK-LABEL: @stem
// CHECK-DAG: %[[X:.*]] = ts.pad %arg0 {{.*}} high [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<5>]
// CHECK-DAG: %[[W:.*]] = ts.pad %arg1 {{.*}} high [#ts.dim<0>, #ts.dim<0>, #ts.dim<5>, #ts.dim<4>]
// CHECK: %[[C:.*]] = ts.conv %[[X]], %[[W]] strides [2, 2]
// CHECK: ts.slice %[[C]] {{.*}} to tensor<?x3x3x12xbf16
func.func @stem(%x: !x, %w: !w) -> tensor<?x3x3x12xbf16, #ts.dims<"n", 3, 3, 12>> {
  %0 = ts.conv %x, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<0>] {channels_last = true} : !x, !w
  return %0 : tensor<?x3x3x12xbf16, #ts.dims<"n", 3, 3, 12>>
}

// Channels of groups lie beside each other: zeros behind all of them are in the last group.
// CHECK-LABEL: @groups
// CHECK-NOT: ts.pad
// CHECK: return
func.func @groups(%x: tensor<1x5x36xbf16>, %w: tensor<3x18x36xbf16>) -> tensor<1x3x36xbf16> {
  %0 = ts.conv %x, %w strides [1] dilations [1] input_dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] {channels_last = true, groups = 2} : tensor<1x5x36xbf16>, tensor<3x18x36xbf16>
  return %0 : tensor<1x3x36xbf16>
}

// Whole accesses, few features and f32 stay.
// CHECK-LABEL: @stay
// CHECK-NOT: ts.pad
func.func @stay(%x: tensor<1x5x8xbf16>, %w: tensor<3x8x16xbf16>, %y: tensor<1x5x3xbf16>, %v: tensor<3x3x4xbf16>, %z: tensor<1x5x3xf32>, %u: tensor<3x3x12xf32>)
    -> (tensor<1x3x16xbf16>, tensor<1x3x4xbf16>, tensor<1x3x12xf32>) {
  %0 = ts.conv %x, %w strides [1] dilations [1] input_dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] {channels_last = true} : tensor<1x5x8xbf16>, tensor<3x8x16xbf16>
  %1 = ts.conv %y, %v strides [1] dilations [1] input_dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] {channels_last = true} : tensor<1x5x3xbf16>, tensor<3x3x4xbf16>
  %2 = ts.conv %z, %u strides [1] dilations [1] input_dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] {channels_last = true} : tensor<1x5x3xf32>, tensor<3x3x12xf32>
  return %0, %1, %2 : tensor<1x3x16xbf16>, tensor<1x3x4xbf16>, tensor<1x3x12xf32>
}
