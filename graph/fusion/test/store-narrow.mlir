// RUN: knapper-opt %s --form-kernels=rounds-stored | FileCheck %s
// RUN: knapper-opt %s --form-kernels | FileCheck %s --check-prefix=WIDE
// A matmul of 16 bits whose sums other kernels read is stored in the function's
// storage type, and read through views.

!x = tensor<64x128xbf16>
!w = tensor<128x128xbf16>
!y = tensor<64x128xf32>
!h = tensor<64x64xf32>
// CHECK-LABEL: @gated
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xbf16>
// CHECK: ts.convert {{.*}} : tensor<64x128xf32> to tensor<64x128xbf16>
// CHECK: ts.kernel {{.*}}tensor<64x128xbf16>
// CHECK-NEXT: ts.convert {{.*}} to tensor<64x128xf32>
// WIDE-LABEL: @gated
// WIDE: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @gated(%x: !x, %w: !w) -> !h attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %3 = ts.gelu %2 : !h
  %4 = ts.mul %1, %3 : !h
  return %4 : !h
}

// What a function gives is not rounded, nor a matmul of a function that has no
// storage type, nor one of f32.
// CHECK-LABEL: @returned
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @returned(%x: !x, %w: !w) -> (!y, !h) attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %3 = ts.mul %1, %2 : !h
  return %0, %3 : !y, !h
}

// CHECK-LABEL: @without_storage
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @without_storage(%x: !x, %w: !w) -> !h {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %3 = ts.mul %1, %2 : !h
  return %3 : !h
}

// CHECK-LABEL: @of_f32
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @of_f32(%x: !y, %w: tensor<128x128xf32>) -> !h attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !y, tensor<128x128xf32>
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %3 = ts.mul %1, %2 : !h
  return %3 : !h
}

// A view between the kernels takes the narrow type.
// CHECK-LABEL: @through_a_view
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xbf16>
// CHECK: ts.reshape {{.*}} : tensor<64x128xbf16> to tensor<64x2x64xbf16>
func.func @through_a_view(%x: !x, %w: !w) -> (tensor<64x2xf32>, tensor<64x64xf32>) attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.reshape %0 : !y to tensor<64x2x64xf32>
  %2 = ts.reduce add %1 [2] : tensor<64x2x64xf32>
  %3 = ts.reduce max %1 [1] : tensor<64x2x64xf32>
  return %2, %3 : tensor<64x2xf32>, tensor<64x64xf32>
}

// Of f16 the sums of a bf16 matmul would overflow: it is not what is stored so.
// CHECK-LABEL: @other_storage
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @other_storage(%x: !x, %w: !w) -> !h attributes {ts.storage = f16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %3 = ts.mul %1, %2 : !h
  return %3 : !h
}

// f16 is stored as f16, with a bias and a residual of 16 bits.
// CHECK-LABEL: @half
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf16>
func.func @half(%x: tensor<64x128xf16>, %w: tensor<128x128xf16>, %b: tensor<128xf32>, %r: tensor<64x128xf16>) -> !h attributes {ts.storage = f16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : tensor<64x128xf16>, tensor<128x128xf16>
  %b1 = ts.broadcast %b [1] : tensor<128xf32> to !y
  %1 = ts.add %0, %b1 : !y
  %w1 = ts.convert %r : tensor<64x128xf16> to !y
  %2 = ts.add %1, %w1 : !y
  %3 = ts.slice %2 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %4 = ts.slice %2 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %5 = ts.mul %3, %4 : !h
  return %5 : !h
}

// A mask's number would become an infinity, of which a row that is all masked
// makes NaN.
// CHECK-LABEL: @masked
// CHECK: ts.kernel {{.*}} -> tensor<64x128xf32>
func.func @masked(%x: !x, %w: !w, %m: tensor<64x128xi1>) -> (tensor<64xf32>, tensor<128xf32>) attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %c = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %cb = ts.broadcast %c [] : tensor<f32> to !y
  %s = ts.select %m, %0, %cb : tensor<64x128xi1>, !y
  %1 = ts.reduce max %s [1] : !y
  %2 = ts.reduce max %s [0] : !y
  return %1, %2 : tensor<64xf32>, tensor<128xf32>
}

// A large number is added to exclude elements: bf16 would round what is left.
// CHECK-LABEL: @offset
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xbf16>
// CHECK: ts.kernel matmul {{.*}} -> tensor<64x128xf32>
func.func @offset(%x: !x, %w: !w, %z: !x) -> (!h, !h) attributes {ts.storage = bf16} {
  %near = ts.constant dense<1000.0> : tensor<f32>
  %far = ts.constant dense<-10000.0> : tensor<f32>
  %nearb = ts.broadcast %near [] : tensor<f32> to !y
  %farb = ts.broadcast %far [] : tensor<f32> to !y
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %1 = ts.add %0, %nearb : !y
  %2 = ts.slice %1 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %3 = ts.slice %1 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %4 = ts.mul %2, %3 : !h
  %5 = ts.dot %z, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %6 = ts.add %5, %farb : !y
  %7 = ts.slice %6 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !y to !h
  %8 = ts.slice %6 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !y to !h
  %9 = ts.mul %7, %8 : !h
  return %4, %9 : !h, !h
}

// Positions are exact, though a matmul decides which.
// CHECK-LABEL: @positions
// CHECK-NOT: to tensor<64x128xbf16>
// CHECK: return
func.func @positions(%x: !x, %w: !w) -> (tensor<64xf32>, tensor<128xf32>) attributes {ts.storage = bf16} {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : !x, !w
  %c = ts.constant dense<0.0> : tensor<f32>
  %cb = ts.broadcast %c [] : tensor<f32> to !y
  %p = ts.compare gt %0, %cb : !y
  %i = ts.iota 1 : !y
  %s = ts.select %p, %i, %cb : tensor<64x128xi1>, !y
  %1 = ts.reduce max %s [1] : !y
  %2 = ts.reduce add %s [0] : !y
  return %1, %2 : tensor<64xf32>, tensor<128xf32>
}

// A convolution gives 16 bits; with a bias they are rounded again.
// CHECK-LABEL: @conv_and_bias
// CHECK: ts.kernel conv {{.*}} -> tensor<1x8x8x16xbf16>
func.func @conv_and_bias(%x: tensor<1x8x8x16xbf16>, %f: tensor<3x3x16x16xbf16>, %b: tensor<16xf32>) -> (tensor<1x8x16xf32>, tensor<1x8x16xf32>) attributes {ts.storage = bf16} {
  %0 = ts.conv %x, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true} : tensor<1x8x8x16xbf16>, tensor<3x3x16x16xbf16>
  %1 = ts.convert %0 : tensor<1x8x8x16xbf16> to tensor<1x8x8x16xf32>
  %2 = ts.broadcast %b [3] : tensor<16xf32> to tensor<1x8x8x16xf32>
  %3 = ts.add %1, %2 : tensor<1x8x8x16xf32>
  %4 = ts.reduce max %3 [1] : tensor<1x8x8x16xf32>
  %5 = ts.reduce max %3 [2] : tensor<1x8x8x16xf32>
  return %4, %5 : tensor<1x8x16xf32>, tensor<1x8x16xf32>
}
