// RUN: knapper-opt %s --form-kernels=rounds-stored | FileCheck %s
// RUN: knapper-opt %s --form-kernels | FileCheck %s --check-prefix=WIDE
// A matmul of 16 bits whose sums other kernels read is stored in the function's
// storage type, and read through views; what two matmuls read stays one result.

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
