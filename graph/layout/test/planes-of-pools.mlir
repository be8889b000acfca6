// RUN: knapper compile %s --stop-after=simplify | FileCheck %s
// A pool of maxima keeps planes where all that it is made of comes in planes,
// whatever the order of operands.

!x = tensor<1x16x16x16xf32>

// CHECK: ts.pool max {{.*}}channels_last = true
// CHECK: ts.pool max {{.*}}channels_last = true
// CHECK: ts.pool max {{.*}}channels_last = true
// CHECK: ts.pool max {{.*}}#ts.dim<1>] : tensor
func.func @main(%x: !x, %w: tensor<16x16x3x3xf32>, %m: tensor<1x16x16x16xi1>, %b: tensor<16xf32>) -> (!x, !x, !x, !x) {
  %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x, tensor<16x16x3x3xf32>
  %0 = ts.add %x, %c : !x
  %1 = ts.pool max %0 window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  %2 = ts.sub %c, %x : !x
  %3 = ts.pool max %2 window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  %4 = ts.select %m, %c, %x : tensor<1x16x16x16xi1>, !x
  %5 = ts.pool max %4 window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  %d = ts.broadcast %b [1] : tensor<16xf32> to !x
  %6 = ts.mul %d, %x : !x
  %7 = ts.pool max %6 window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  return %1, %3, %5, %7 : !x, !x, !x, !x
}
