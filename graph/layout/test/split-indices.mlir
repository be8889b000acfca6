// RUN: knapper-opt --split-reductions %s | FileCheck %s

// Short lines stay whole here; graph/layout/SameMeaning_test splits them.
// CHECK-LABEL: @first
// CHECK-NOT: ts.reshape
func.func @first(%x: tensor<3x12x2xf32>) -> tensor<3x2xi64> {
  %0 = ts.arg_reduce max %x dim 1 : tensor<3x12x2xf32>
  return %0 : tensor<3x2xi64>
}

// CHECK-LABEL: @last
func.func @last(%x: tensor<2x16xi32>) -> tensor<2xi64> {
  %0 = ts.arg_reduce min %x dim 1 {last = true} : tensor<2x16xi32>
  return %0 : tensor<2xi64>
}
