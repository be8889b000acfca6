// RUN: knapper-opt --form-kernels %s | FileCheck %s

!t = tensor<4x8xf32>

// The kernel writes both results; a third value has a kernel's own result.
// CHECK-LABEL: @twice
// CHECK: %[[K:.*]]:3 = ts.kernel pointwise
// CHECK: ts.yield %[[A:.*]], %[[B:.*]], %[[A]] :
// CHECK: return %[[K]]#0, %[[K]]#1, %[[K]]#2
func.func @twice(%x: !t) -> (!t, !t, !t) {
  %0 = ts.exp %x : !t
  %1 = ts.neg %0 : !t
  return %0, %1, %0 : !t, !t, !t
}

// Arguments and views are no kernel's.
// CHECK-LABEL: @argument
// CHECK-NOT: ts.kernel
// CHECK: return %arg0, %arg0
func.func @argument(%x: !t) -> (!t, !t) {
  return %x, %x : !t, !t
}

// Tiles of a matmul are stored for one result.
// CHECK-LABEL: @matmul
// CHECK: %[[M:.*]] = ts.kernel matmul
// CHECK: return %[[M]], %[[M]]
func.func @matmul(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<64x64xf32>, tensor<64x64xf32>
  return %0, %0 : tensor<64x64xf32>, tensor<64x64xf32>
}
