// RUN: knapper compile %s --stop-after=simplify | FileCheck %s
// RUN: knapper compile %s --stop-after=simplify --dtype bf16 | FileCheck %s --check-prefix=HALF
// RUN: knapper compile %s --stop-after=simplify --disable split-pools | FileCheck %s --check-prefix=WHOLE
// Large windows, a dim at a time; small ones, those that share nothing, and
// 16-bit averages stay. So do averages and sums that will be stored in 16 bits.
// Those split follow a transposition: pools of an argument's planes are one
// kernel's (codegen/schedule/conv/CpuPlanePool.cpp).

!x = tensor<1x64x56x56xf32>
!y = tensor<1x64x55x55xf32>
!h = tensor<1x64x56x56xbf16>

// CHECK: ts.pool max {{.*}} window [1, 5] strides [1, 1] {{.*}} low [#ts.dim<0>, #ts.dim<2>]
// CHECK: ts.pool max {{.*}} window [5, 1] strides [1, 1] {{.*}} low [#ts.dim<2>, #ts.dim<0>]
// CHECK: ts.pool average {{.*}} window [1, 7]
// CHECK: ts.pool average {{.*}} window [7, 1]
// CHECK: ts.pool max {{.*}} window [3, 3]
// CHECK: ts.pool max {{.*}} window [7, 7]
// CHECK: ts.pool average {{.*}} window [5, 5]
// CHECK: ts.pool sum {{.*}} window [1, 7] {{.*}} low [#ts.dim<0>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<4>]
// CHECK: ts.pool sum {{.*}} window [7, 1] {{.*}} low [#ts.dim<3>, #ts.dim<0>] high [#ts.dim<2>, #ts.dim<0>]
// CHECK: ts.pool average {{.*}} window [1, 5] {{.*}} low [#ts.dim<0>, #ts.dim<3>] high [#ts.dim<0>, #ts.dim<1>] {{.*}}count_padding = true
// CHECK: ts.pool average {{.*}} window [5, 1] {{.*}} low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<3>, #ts.dim<0>] {{.*}}count_padding = true
// CHECK: ts.pool max {{.*}} window [5, 5]
// CHECK-NOT: ts.pool
// HALF: ts.pool max {{.*}} window [1, 5]
// HALF: ts.pool max {{.*}} window [5, 1]
// HALF: ts.pool average {{.*}} window [7, 7]
// HALF: ts.pool max {{.*}} window [3, 3]
// HALF: ts.pool max {{.*}} window [7, 7]
// HALF: ts.pool average {{.*}} window [5, 5]
// HALF: ts.pool sum {{.*}} window [7, 7]
// HALF: ts.pool average {{.*}} window [5, 5]
// HALF: ts.pool max {{.*}} window [5, 5]
// HALF-NOT: ts.pool
// WHOLE: ts.pool max {{.*}} window [5, 5]
// WHOLE: ts.pool average {{.*}} window [7, 7]
func.func @main(%x: !x, %h: !h) -> (!x, !x, tensor<1x64x50x50xf32>, !x, tensor<1x64x8x8xf32>, !h, !y, !x) {
  %c = ts.transpose %x [0, 1, 3, 2] : !x
  %0 = ts.pool max %c window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] : !x
  %1 = ts.pool average %c window [7, 7] strides [1, 1] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x
  %2 = ts.pool max %x window [3, 3] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !x
  %3 = ts.pool max %x window [7, 7] strides [7, 7] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !x
  %4 = ts.pool average %h window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] : !h
  %5 = ts.pool sum %c window [7, 7] strides [1, 1] dilations [1, 1] low [#ts.dim<3>, #ts.dim<1>] high [#ts.dim<2>, #ts.dim<4>] : !x
  %6 = ts.pool average %c window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<1>, #ts.dim<3>] high [#ts.dim<3>, #ts.dim<1>] {count_padding = true} : !x
  %7 = ts.pool max %x window [5, 5] strides [1, 1] dilations [1, 1] low [#ts.dim<2>, #ts.dim<2>] high [#ts.dim<2>, #ts.dim<2>] : !x
  return %0, %7, %1, %2, %3, %4, %5, %6 : !x, !x, tensor<1x64x50x50xf32>, !x, tensor<1x64x8x8xf32>, !h, !y, !x
}
