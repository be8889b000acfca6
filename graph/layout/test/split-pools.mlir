// RUN: knapper compile %s --stop-after=simplify | FileCheck %s
// Large windows, a dim at a time; small ones, those that share nothing, and
// 16-bit averages stay.

!x = tensor<1x64x56x56xf32>
!h = tensor<1x64x56x56xbf16>

// CHECK: ts.pool max {{.*}} window [1, 5] strides [1, 1] {{.*}} low [#ts.dim<0>, #ts.dim<2>]
// CHECK: ts.pool max {{.*}} window [5, 1] strides [1, 1] {{.*}} low [#ts.dim<2>, #ts.dim<0>]
// CHECK: ts.pool average {{.*}} window [1, 7]
// CHECK: ts.pool average {{.*}} window [7, 1]
// CHECK: ts.pool max {{.*}} window [3, 3]
// CHECK: ts.pool max {{.*}} window [7, 7]
// CHECK: ts.pool average {{.*}} window [5, 5]
// CHECK-NOT: ts.pool
func.func @main(%x: !x, %h: !h) -> (!x, tensor<1x64x50x50xf32>, !x, tensor<1x64x8x8xf32>, !h) {
  %0 = ts.pool max %x window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] : !x
  %1 = ts.pool average %x window [7, 7] strides [1, 1] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x
  %2 = ts.pool max %x window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  %3 = ts.pool max %x window [7, 7] strides [7, 7] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x
  %4 = ts.pool average %h window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] : !h
  return %0, %1, %2, %3, %4 : !x, tensor<1x64x50x50xf32>, !x, tensor<1x64x8x8xf32>, !h
}
