// RUN: knapper-opt --layout %s | FileCheck %s

!x = tensor<?x4x5x?xf32, #ts.dims<"n", 4, 5, "w">>
!w = tensor<4x4x1x1xf32>
!y = tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "3*w">>

// Pixels repeated twice and three times: the transposes around it are gone.
// CHECK-LABEL: @repeated
// CHECK: ts.transpose %arg0 [0, 2, 3, 1]
// CHECK: %[[D:.*]] = ts.dot
// CHECK-NEXT: %[[H:.*]] = ts.broadcast %[[D]] [0, 1, 3, 4] : {{.*}} to tensor<?x5x2x?x4xf32
// CHECK-NEXT: %[[R:.*]] = ts.reshape %[[H]] : {{.*}} to tensor<?x10x?x4xf32
// CHECK-NEXT: %[[W:.*]] = ts.broadcast %[[R]] [0, 1, 2, 4] : {{.*}} to tensor<?x10x?x3x4xf32
// CHECK-NEXT: %[[S:.*]] = ts.reshape %[[W]] : {{.*}} to tensor<?x10x?x4xf32
// CHECK-NEXT: %[[T:.*]] = ts.transpose %[[S]] [0, 3, 1, 2]
// CHECK-NEXT: return %[[T]]
func.func @repeated(%x: !x, %f: !w) -> !y {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x, !w
  %1 = ts.broadcast %0 [0, 1, 2, 4] : !x to tensor<?x4x5x2x?xf32, #ts.dims<"n", 4, 5, 2, "w">>
  %2 = ts.reshape %1 : tensor<?x4x5x2x?xf32, #ts.dims<"n", 4, 5, 2, "w">> to tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "w">>
  %3 = ts.broadcast %2 [0, 1, 2, 3] : tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "w">> to tensor<?x4x10x?x3xf32, #ts.dims<"n", 4, 10, "w", 3>>
  %4 = ts.reshape %3 : tensor<?x4x10x?x3xf32, #ts.dims<"n", 4, 10, "w", 3>> to !y
  return %4 : !y
}

!g = tensor<?x4x3x?xf32, #ts.dims<"n", 4, 3, "w">>

// Some rows of an image.
// CHECK-LABEL: @picked
// CHECK: %[[D:.*]] = ts.dot
// CHECK-NEXT: %[[G:.*]] = ts.gather %[[D]], %arg2 dim 1
// CHECK-NEXT: ts.transpose %[[G]] [0, 3, 1, 2]
func.func @picked(%x: !x, %f: !w, %rows: tensor<3xi64>) -> !g {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x, !w
  %1 = ts.gather %0, %rows dim 2 : !x, tensor<3xi64>
  return %1 : !g
}

// The first of a dim repeated as a whole is no repetition of its elements.
// CHECK-LABEL: @tiled
// CHECK: ts.transpose %{{.*}} [0, 3, 1, 2]
// CHECK: ts.broadcast %{{.*}} [0, 1, 3, 4]
// CHECK: ts.reshape
func.func @tiled(%x: !x, %f: !w) -> tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "w">> {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x, !w
  %1 = ts.broadcast %0 [0, 1, 3, 4] : !x to tensor<?x4x2x5x?xf32, #ts.dims<"n", 4, 2, 5, "w">>
  %2 = ts.reshape %1 : tensor<?x4x2x5x?xf32, #ts.dims<"n", 4, 2, 5, "w">> to tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "w">>
  return %2 : tensor<?x4x10x?xf32, #ts.dims<"n", 4, 10, "w">>
}
