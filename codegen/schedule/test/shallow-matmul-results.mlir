// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Elements of a shallow matmul are computed one by one where all results have
// one place; a transposed copy beside the result is a matmul's.
// CHECK-LABEL: tile.func
// CHECK-NOT: tile.matmul
// CHECK: tile.store
// CHECK-LABEL: tile.func
// CHECK: tile.matmul
func.func @main(%x: tensor<16x74x2xf16>, %w: tensor<2x256xf16>) -> (tensor<16x74x256xf16>, tensor<16x74x256xf16>, tensor<16x256x74xf16>) {
  %0 = ts.kernel matmul (%a = %x : tensor<16x74x2xf16>, %b = %w : tensor<2x256xf16>) -> tensor<16x74x256xf16> {
    %r = ts.dot %a, %b batch [] x [] contract [2] x [0] : tensor<16x74x2xf16>, tensor<2x256xf16>
    ts.yield %r : tensor<16x74x256xf16>
  }
  %1:2 = ts.kernel matmul (%a = %x : tensor<16x74x2xf16>, %b = %w : tensor<2x256xf16>) -> (tensor<16x74x256xf16>, tensor<16x256x74xf16>) {
    %r = ts.dot %a, %b batch [] x [] contract [2] x [0] : tensor<16x74x2xf16>, tensor<2x256xf16>
    %t = ts.transpose %r [0, 2, 1] : tensor<16x74x256xf16>
    ts.yield %r, %t : tensor<16x74x256xf16>, tensor<16x256x74xf16>
  }
  return %0, %1#0, %1#1 : tensor<16x74x256xf16>, tensor<16x74x256xf16>, tensor<16x256x74xf16>
}
