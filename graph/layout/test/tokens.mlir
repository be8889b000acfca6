// RUN: knapper-opt --layout %s | FileCheck %s

!x = tensor<?x4x5x6xf32, #ts.dims<"n", 4, 5, 6>>
!t = tensor<?x30x4xf32, #ts.dims<"n", 30, 4>>
!c = tensor<?x4x30xf32, #ts.dims<"n", 4, 30>>
!w = tensor<4x4x3x3xf32>
!y = tensor<?x4x6x5xf32, #ts.dims<"n", 4, 6, 5>>

// Tokens [N, H*W, C] that are added to an image: both have channels last, and
// one transpose is left, for the result.
// CHECK-LABEL: @added_to_an_image
// CHECK: %[[C:.*]] = ts.conv {{.*}}channels_last
// CHECK: %[[T:.*]] = ts.reshape %arg2 : {{.*}} to tensor<?x5x6x4xf32
// CHECK: %[[S:.*]] = ts.add {{.*}}%[[T]]
// CHECK: %[[R:.*]] = ts.transpose %[[S]] [0, 3, 1, 2]
// CHECK-NEXT: return %[[R]]
func.func @added_to_an_image(%x: !x, %f: !w, %tokens: !t) -> !x {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, !w
  %1 = ts.transpose %tokens [0, 2, 1] : !t
  %2 = ts.reshape %1 : !c to !x
  %3 = ts.add %0, %2 : !x
  return %3 : !x
}

// Beside no other transpose it stays where it is.
// CHECK-LABEL: @alone
// CHECK: %[[T:.*]] = ts.transpose %{{.*}} [0, 2, 1]
// CHECK-NEXT: %[[R:.*]] = ts.reshape %[[T]]
// CHECK-NEXT: return %{{.*}}, %[[R]]
func.func @alone(%x: !x, %f: !w, %tokens: !t) -> (!x, !x) {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, !w
  %1 = ts.transpose %tokens [0, 2, 1] : !t
  %2 = ts.reshape %1 : !c to !x
  %3 = ts.exp %2 : !x
  return %0, %3 : !x, !x
}

// Nor beside one that permutes otherwise: they would not move on together.
// CHECK-LABEL: @beside_another_permutation
// CHECK: %[[T:.*]] = ts.transpose %{{.*}} [0, 2, 1]
// CHECK: %[[R:.*]] = ts.reshape %[[T]]
// CHECK: %[[S:.*]] = ts.add {{.*}}%[[R]]
// CHECK-NEXT: return %{{.*}}, %[[S]]
func.func @beside_another_permutation(%x: !x, %f: !w, %tokens: !t, %y: !y) -> (!x, !x) {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, !w
  %1 = ts.transpose %tokens [0, 2, 1] : !t
  %2 = ts.reshape %1 : !c to !x
  %3 = ts.transpose %y [0, 1, 3, 2] : !y
  %4 = ts.add %3, %2 : !x
  return %0, %4 : !x, !x
}
