// RUN: knapper-opt %s --form-kernels | FileCheck %s
// A bottleneck with a projection and the head: convolutions and, for the head, three more.

!i = tensor<?x14x14x256xf32, #ts.dims<"n", 14, 14, 256>>
!m = tensor<?x14x14x64xf32, #ts.dims<"n", 14, 14, 64>>
!p = tensor<?x7x7x256xf32, #ts.dims<"n", 7, 7, 256>>

// CHECK-LABEL: func.func @block
// CHECK: ts.kernel conv
// CHECK: ts.conv
// CHECK: ts.max
// CHECK: ts.kernel conv
// CHECK: ts.kernel conv
// CHECK: ts.kernel conv
// CHECK: ts.conv
// CHECK-COUNT-2: ts.add
// CHECK: ts.max
// CHECK: ts.kernel pool
// CHECK: ts.kernel reduce
// CHECK: ts.reduce add
// CHECK: ts.mul
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.kernel
// CHECK: return
func.func @block(%x: !i) -> tensor<?x10xf32, #ts.dims<"n", 10>> {
  %w1 = ts.weight <0, 0, 65536, "w1"> : tensor<1x1x256x64xf32>
  %w2 = ts.weight <0, 0, 147456, "w2"> : tensor<3x3x64x64xf32>
  %w3 = ts.weight <0, 0, 65536, "w3"> : tensor<1x1x64x256xf32>
  %w4 = ts.weight <0, 0, 262144, "w4"> : tensor<1x1x256x256xf32>
  %b = ts.weight <0, 0, 256, "b"> : tensor<64xf32>
  %c = ts.weight <0, 0, 1024, "c"> : tensor<256xf32>
  %wf = ts.weight <0, 0, 10240, "wf"> : tensor<256x10xf32>
  %bf = ts.weight <0, 0, 40, "bf"> : tensor<10xf32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %area = ts.constant dense<0.02> : tensor<f32>
  %1 = ts.conv %x, %w1 strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : !i, tensor<1x1x256x64xf32>
  %2 = ts.broadcast %b [3] : tensor<64xf32> to !m
  %3 = ts.add %1, %2 : !m
  %z = ts.broadcast %zero [] : tensor<f32> to !m
  %4 = ts.max %3, %z : !m
  %5 = ts.conv %4, %w2 strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true} : !m, tensor<3x3x64x64xf32>
  %6 = ts.broadcast %b [3] : tensor<64xf32> to !m
  %7 = ts.add %5, %6 : !m
  %8 = ts.max %7, %z : !m
  %9 = ts.conv %8, %w3 strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : !m, tensor<1x1x64x256xf32>
  %10 = ts.broadcast %c [3] : tensor<256xf32> to !i
  %11 = ts.add %9, %10 : !i
  %12 = ts.conv %x, %w4 strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : !i, tensor<1x1x256x256xf32>
  %13 = ts.broadcast %c [3] : tensor<256xf32> to !i
  %14 = ts.add %12, %13 : !i
  %15 = ts.add %11, %14 : !i
  %zi = ts.broadcast %zero [] : tensor<f32> to !i
  %16 = ts.max %15, %zi : !i
  %17 = ts.pool max %16 window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true} : !i
  %18 = ts.reduce add %17 [1, 2] : !p
  %19 = ts.broadcast %area [] : tensor<f32> to tensor<?x256xf32, #ts.dims<"n", 256>>
  %20 = ts.mul %18, %19 : tensor<?x256xf32, #ts.dims<"n", 256>>
  %21 = ts.dot %20, %wf batch [] x [] contract [1] x [0] : tensor<?x256xf32, #ts.dims<"n", 256>>, tensor<256x10xf32>
  %22 = ts.broadcast %bf [1] : tensor<10xf32> to tensor<?x10xf32, #ts.dims<"n", 10>>
  %23 = ts.add %21, %22 : tensor<?x10xf32, #ts.dims<"n", 10>>
  return %23 : tensor<?x10xf32, #ts.dims<"n", 10>>
}
