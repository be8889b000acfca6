// RUN: knapper-opt --round-matmuls %s | FileCheck %s

// A matrix of weights is read by depth.
// CHECK-LABEL: @weights
// CHECK: %[[W:.*]] = ts.constant
// CHECK: %[[T:.*]] = ts.transpose %[[W]] [1, 0] : tensor<16x8xf32>
// CHECK: ts.dot %{{.*}}, %[[T]] batch [] x [] contract [1] x [1] {ts.tf32} : tensor<4x16xf32>, tensor<8x16xf32>
func.func @weights(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = ts.constant dense<0.5> : tensor<16x8xf32>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<4x16xf32>, tensor<16x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: @experts
// CHECK: %[[T:.*]] = ts.transpose %{{.*}} [0, 2, 1] : tensor<3x16x8xf32>
// CHECK: ts.dot %{{.*}}, %[[T]] batch [0] x [0] contract [2] x [2] {ts.tf32}
func.func @experts(%x: tensor<3x4x16xf32>) -> tensor<3x4x8xf32> {
  %w = ts.constant dense<0.5> : tensor<3x16x8xf32>
  %0 = ts.dot %x, %w batch [0] x [0] contract [2] x [1] : tensor<3x4x16xf32>, tensor<3x16x8xf32>
  return %0 : tensor<3x4x8xf32>
}

// The batch dim is not the first one.
// CHECK-LABEL: @batch_inside
// CHECK: %[[T:.*]] = ts.transpose %{{.*}} [1, 2, 0] : tensor<16x3x8xf32>
// CHECK: ts.dot %{{.*}}, %[[T]] batch [0] x [0] contract [2] x [2] {ts.tf32}
func.func @batch_inside(%x: tensor<3x4x16xf32>) -> tensor<3x4x8xf32> {
  %w = ts.constant dense<0.5> : tensor<16x3x8xf32>
  %0 = ts.dot %x, %w batch [0] x [1] contract [2] x [0] : tensor<3x4x16xf32>, tensor<16x3x8xf32>
  return %0 : tensor<3x4x8xf32>
}

// What is computed lies as it lies.
// CHECK-LABEL: @activations
// CHECK-NOT: ts.transpose
// CHECK: contract [1] x [0] {ts.tf32}
func.func @activations(%x: tensor<4x16xf32>, %y: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<4x16xf32>, tensor<16x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: @others
// CHECK-NOT: ts.tf32
func.func @others(%x: tensor<4x16xbf16>, %y: tensor<16x8xbf16>, %a: tensor<4x16xf64>, %b: tensor<16x8xf64>) -> (tensor<4x8xf32>, tensor<4x8xf64>) {
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] {result_type = f32} : tensor<4x16xbf16>, tensor<16x8xbf16>
  %1 = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<4x16xf64>, tensor<16x8xf64>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf64>
}
