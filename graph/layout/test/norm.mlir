// RUN: knapper-opt --layout %s | FileCheck %s

!x = tensor<?x4x5x?xf32, #ts.dims<"n", 4, 5, "w">>
!y = tensor<?x6x5x?xf32, #ts.dims<"n", 6, 5, "w">>
!r = tensor<?x?xf32, #ts.dims<"3*n", "10*w">>

// Three groups of two channels: statistics of the lines as they lie, then of
// the groups, and nothing is brought to channels first before the end.
// CHECK-LABEL: @groups
// CHECK: %[[C:.*]] = ts.conv
// CHECK-NOT: ts.layer_norm
// CHECK: %[[S:.*]] = ts.reduce {{ ?}}add %[[C]] [2] : tensor<?x5x?x6xf32
// CHECK: %[[M:.*]] = ts.div %[[S]]
// CHECK: %[[B:.*]] = ts.broadcast %[[M]] [0, 1, 3]
// CHECK: %[[D:.*]] = ts.sub %[[C]], %[[B]]
// CHECK: %[[Q:.*]] = ts.mul %[[D]], %[[D]]
// CHECK: ts.reduce {{ ?}}add %[[Q]] [2]
// What is left of the mean goes back to it.
// CHECK: %[[L:.*]] = ts.reduce {{ ?}}add %[[D]] [2]
// CHECK: %[[E:.*]] = ts.div %[[L]]
// CHECK: %[[R:.*]] = ts.add %[[M]], %[[E]]
// CHECK: ts.reshape %[[R]] : {{.*}} to tensor<?x5x3x2xf32
// CHECK-COUNT-4: ts.reduce {{ ?}}add {{.*}} [1, 3] : tensor<?x5x3x2xf32
// CHECK: ts.sqrt {{.*}} : tensor<?x3xf32
// CHECK: ts.sub %[[C]], %{{.*}} : tensor<?x5x?x6xf32
// CHECK: ts.transpose %{{.*}} [0, 3, 1, 2] : tensor<?x5x?x6xf32
// CHECK-NEXT: return
func.func @groups(%x: !x, %w: tensor<6x4x3x3xf32>) -> !y {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<6x4x3x3xf32>
  %1 = ts.reshape %0 : !y to !r
  %2 = ts.layer_norm %1 dim 1 epsilon 1.0e-5 : !r
  %3 = ts.reshape %2 : !r to !y
  return %3 : !y
}

!hx = tensor<?x4x24xbf16, #ts.dims<"n", 4, 24>>
!hy = tensor<?x6x24xbf16, #ts.dims<"n", 6, 24>>
!hr = tensor<?x24xbf16, #ts.dims<"6*n", 24>>

// One spatial dim in runs; 16-bit images in float32.
// CHECK-LABEL: @line
// CHECK: ts.convert {{.*}} : {{.*}} to tensor<?x24x6xf32
// CHECK: ts.reshape {{.*}} to tensor<?x1x24x6xf32
// CHECK: ts.reduce {{ ?}}add {{.*}} [2] : tensor<?x1x24x6xf32
// CHECK-NOT: ts.layer_norm
// CHECK: ts.convert {{.*}} : {{.*}} to tensor<?x24x6xbf16
// CHECK: return
func.func @line(%x: !hx, %w: tensor<6x4x3xbf16>) -> !hy {
  %0 = ts.conv %x, %w strides [1] dilations [1] input_dilations [1] low [#ts.dim<1>] high [#ts.dim<1>] : !hx, tensor<6x4x3xbf16>
  %1 = ts.reshape %0 : !hy to !hr
  %2 = ts.layer_norm %1 dim 1 epsilon 1.0e-5 : !hr
  %3 = ts.reshape %2 : !hr to !hy
  return %3 : !hy
}

!s = tensor<?x?xf32, #ts.dims<"30*n", "w">>

// Rows that are parts of a channel are no groups of channels.
// CHECK-LABEL: @parts
// CHECK: ts.layer_norm
func.func @parts(%x: !x, %w: tensor<6x4x3x3xf32>) -> !y {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<6x4x3x3xf32>
  %1 = ts.reshape %0 : !y to !s
  %2 = ts.layer_norm %1 dim 1 epsilon 1.0e-5 : !s
  %3 = ts.reshape %2 : !s to !y
  return %3 : !y
}
