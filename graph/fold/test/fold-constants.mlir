// RUN: knapper-opt %s -fold-constants | FileCheck %s

// Chains fold; what was folded is gone.
// CHECK-LABEL: func.func @chain
//  CHECK-NEXT:   %[[R:.*]] = ts.constant dense<[-4.000000e+00, -6.000000e+00]>
//  CHECK-NEXT:   return %[[R]]
func.func @chain() -> tensor<2xf32> {
  %a = ts.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = ts.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %c = ts.add %a, %b : tensor<2xf32>
  %d = ts.neg %c : tensor<2xf32>
  return %d : tensor<2xf32>
}

// A number stays a broadcast of a 0-d constant, before and after.
// CHECK-LABEL: func.func @numbers
//  CHECK-NEXT:   %[[N:.*]] = ts.constant dense<5.000000e+00> : tensor<f32>
//  CHECK-NEXT:   %[[B:.*]] = ts.broadcast %[[N]] []
//  CHECK-NEXT:   return %[[B]]
func.func @numbers() -> tensor<8xf32> {
  %a = ts.constant dense<2.0> : tensor<f32>
  %b = ts.broadcast %a [] : tensor<f32> to tensor<8xf32>
  %c = ts.constant dense<3.0> : tensor<8xf32>
  %d = ts.add %b, %c : tensor<8xf32>
  return %d : tensor<8xf32>
}

// Results above 64 KiB, weights, inputs and symbolic sizes stay.
// CHECK-LABEL: func.func @stays
//       CHECK:   ts.broadcast
//       CHECK:   ts.weight
//       CHECK:   ts.neg
//       CHECK:   ts.slice
func.func @stays(%x: tensor<?xf32, #ts.dims<"n">>) -> (tensor<3x16384xf32>, tensor<4xf32>, tensor<1xf32>) {
  %a = ts.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = ts.broadcast %a [0] : tensor<3xf32> to tensor<3x16384xf32>
  %w = ts.weight <0, 0, 16, "w"> : tensor<4xf32>
  %c = ts.neg %w : tensor<4xf32>
  %d = ts.slice %a [#ts.dim<"n">] [1] : tensor<3xf32> to tensor<1xf32>
  return %b, %c, %d : tensor<3x16384xf32>, tensor<4xf32>, tensor<1xf32>
}

// Nor is anything above 64 KiB made on the way to a small result.
// CHECK-LABEL: func.func @small_part_of_a_large_constant
//       CHECK:   ts.slice
func.func @small_part_of_a_large_constant() -> tensor<1x1xf32> {
  %a = ts.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = ts.broadcast %a [0] : tensor<3xf32> to tensor<3x262144xf32>
  %c = ts.slice %b [#ts.dim<1>, #ts.dim<5>] [1, 1] : tensor<3x262144xf32> to tensor<1x1xf32>
  return %c : tensor<1x1xf32>
}

// An error is left to the run.
// CHECK-LABEL: func.func @errors
//       CHECK:   ts.gather
func.func @errors() -> tensor<1xf32> {
  %a = ts.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %i = ts.constant dense<7> : tensor<1xi64>
  %r = ts.gather %a, %i dim 0 : tensor<2xf32>, tensor<1xi64>
  return %r : tensor<1xf32>
}

// Several results fold together.
// CHECK-LABEL: func.func @several
//  CHECK-NEXT:   %[[V:.*]] = ts.constant dense<[3.000000e+00, 2.000000e+00]>
//  CHECK-NEXT:   %[[I:.*]] = ts.constant dense<[1, 2]>
//  CHECK-NEXT:   return %[[V]], %[[I]]
func.func @several() -> (tensor<2xf32>, tensor<2xi64>) {
  %a = ts.constant dense<[1.0, 3.0, 2.0]> : tensor<3xf32>
  %v, %i = ts.topk %a k <2> dim 0 : tensor<3xf32>
  return %v, %i : tensor<2xf32>, tensor<2xi64>
}

// Which document each token belongs to, by positions that go up by one: all to the first.
// CHECK-LABEL: @one_number_of_positions
// CHECK: %[[Z:.*]] = ts.constant dense<0> : tensor<i64>
// CHECK: %[[B:.*]] = ts.broadcast %[[Z]] [] : tensor<i64> to tensor<8x1024xi64>
// CHECK: return %[[B]]
func.func @one_number_of_positions() -> tensor<8x1024xi64> {
  %one = ts.constant dense<1> : tensor<i64>
  %i = ts.iota 0 : tensor<1025xi64>
  %p = ts.broadcast %i [1] : tensor<1025xi64> to tensor<8x1025xi64>
  %a = ts.slice %p [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<8x1025xi64> to tensor<8x1024xi64>
  %b = ts.slice %p [#ts.dim<0>, #ts.dim<1>] [1, 1] : tensor<8x1025xi64> to tensor<8x1024xi64>
  %d = ts.sub %b, %a : tensor<8x1024xi64>
  %o = ts.broadcast %one [] : tensor<i64> to tensor<8x1024xi64>
  %c = ts.compare ne %d, %o : tensor<8x1024xi64>
  %n = ts.convert %c : tensor<8x1024xi1> to tensor<8x1024xi64>
  %s = ts.scan add %n dim 1 : tensor<8x1024xi64>
  return %s : tensor<8x1024xi64>
}

// Positions themselves say more than their values.
// CHECK-LABEL: @positions_stay
// CHECK: ts.iota
// CHECK: ts.compare
func.func @positions_stay() -> tensor<4x4xi1> {
  %i = ts.iota 0 : tensor<4xi64>
  %a = ts.broadcast %i [0] : tensor<4xi64> to tensor<4x4xi64>
  %b = ts.broadcast %i [1] : tensor<4xi64> to tensor<4x4xi64>
  %c = ts.compare le %b, %a : tensor<4x4xi64>
  return %c : tensor<4x4xi1>
}
