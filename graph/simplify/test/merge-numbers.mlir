// RUN: knapper-opt --merge-numbers %s | FileCheck %s

!x = tensor<?x8xf32, #ts.dims<"b", 8>>

// A chain of factors, on either side, whole or broadcast, is one factor.
// CHECK-LABEL: @factors
// CHECK: %[[C:.*]] = ts.constant dense<9.000000e+00> : tensor<f32>
// CHECK: %[[B:.*]] = ts.broadcast %[[C]] [] : tensor<f32> to tensor<?x8xf32
// CHECK: %[[R:.*]] = ts.mul %arg0, %[[B]]
// CHECK-NOT: ts.mul
// CHECK: return %[[R]]
func.func @factors(%x: !x) -> !x {
  %more = ts.constant dense<1.5> : tensor<f32>
  %three = ts.constant dense<3.0> : tensor<8xf32>
  %two = ts.constant dense<2.0> : tensor<f32>
  %a = ts.broadcast %more [] : tensor<f32> to !x
  %b = ts.broadcast %three [1] : tensor<8xf32> to !x
  %c = ts.broadcast %two [] : tensor<f32> to !x
  %0 = ts.mul %x, %a : !x
  %1 = ts.mul %b, %0 : !x
  %2 = ts.mul %1, %c : !x
  return %2 : !x
}

// What the first factor loses, the second does not give back: 2e38 * 2 / 2 is
// infinite.
// CHECK-LABEL: @undone
// CHECK-COUNT-2: ts.mul
// CHECK-NOT: ts.mul
// CHECK: return
func.func @undone(%x: tensor<8xf32>) -> tensor<8xf32> {
  %two = ts.constant dense<2.0> : tensor<8xf32>
  %half = ts.constant dense<0.5> : tensor<8xf32>
  %0 = ts.mul %x, %two : tensor<8xf32>
  %1 = ts.mul %0, %half : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Sums of integers wrap, as they did: 100 + 100 is -56 in i8, 200 in ui8.
// CHECK-LABEL: @sums
// CHECK-DAG: %[[S:.*]] = ts.constant dense<-56> : tensor<i8>
// CHECK-DAG: %[[U:.*]] = ts.constant dense<200> : tensor<ui8>
// CHECK-DAG: %[[SB:.*]] = ts.broadcast %[[S]]
// CHECK-DAG: %[[UB:.*]] = ts.broadcast %[[U]]
// CHECK-DAG: %[[A:.*]] = ts.add %arg0, %[[SB]] : tensor<4xi8>
// CHECK-DAG: %[[B:.*]] = ts.add %arg1, %[[UB]] : tensor<4xui8>
// CHECK: return %[[A]], %[[B]]
func.func @sums(%x: tensor<4xi8>, %y: tensor<4xui8>) -> (tensor<4xi8>, tensor<4xui8>) {
  %a = ts.constant dense<100> : tensor<4xi8>
  %b = ts.constant dense<100> : tensor<4xui8>
  %0 = ts.add %x, %a : tensor<4xi8>
  %1 = ts.add %0, %a : tensor<4xi8>
  %2 = ts.add %y, %b : tensor<4xui8>
  %3 = ts.add %b, %2 : tensor<4xui8>
  return %1, %3 : tensor<4xi8>, tensor<4xui8>
}

// A product of two i64 whose number no double holds stays two.
// CHECK-LABEL: @wide
// CHECK: ts.mul
// CHECK: ts.mul
func.func @wide(%x: tensor<4xi64>) -> tensor<4xi64> {
  %a = ts.constant dense<1000000007> : tensor<4xi64>
  %0 = ts.mul %x, %a : tensor<4xi64>
  %1 = ts.mul %0, %a : tensor<4xi64>
  return %1 : tensor<4xi64>
}

// Rounding to integers by a large number and back.
// CHECK-LABEL: @rounding
// CHECK: ts.add
// CHECK: ts.add
func.func @rounding(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = ts.constant dense<12582912.0> : tensor<4xf32>
  %b = ts.constant dense<-12582912.0> : tensor<4xf32>
  %0 = ts.add %x, %a : tensor<4xf32>
  %1 = ts.add %0, %b : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// 1e-30 * 1e-30 is 0 in f32, 1e30 * 1e30 infinite, 200 * 400 infinite in f16.
// CHECK-LABEL: @range
// CHECK-COUNT-6: ts.mul
func.func @range(%x: tensor<4xf32>, %y: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) {
  %a = ts.constant dense<1.0e-30> : tensor<4xf32>
  %b = ts.constant dense<1.0e+30> : tensor<4xf32>
  %c = ts.constant dense<200.0> : tensor<4xf16>
  %d = ts.constant dense<400.0> : tensor<4xf16>
  %0 = ts.mul %x, %a : tensor<4xf32>
  %1 = ts.mul %0, %a : tensor<4xf32>
  %2 = ts.mul %x, %b : tensor<4xf32>
  %3 = ts.mul %2, %b : tensor<4xf32>
  %4 = ts.mul %y, %c : tensor<4xf16>
  %5 = ts.mul %4, %d : tensor<4xf16>
  return %1, %3, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf16>
}

// What something else reads is computed anyway; a vector is no number.
// CHECK-LABEL: @keeps
// CHECK: %[[A:.*]] = ts.mul %arg0
// CHECK: %[[B:.*]] = ts.mul %[[A]]
// CHECK: %[[C:.*]] = ts.mul %arg0
// CHECK: %[[D:.*]] = ts.mul %[[C]]
// CHECK: return %[[A]], %[[B]], %[[D]]
func.func @keeps(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %three = ts.constant dense<3.0> : tensor<2xf32>
  %vector = ts.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %0 = ts.mul %x, %three : tensor<2xf32>
  %1 = ts.mul %0, %three : tensor<2xf32>
  %2 = ts.mul %x, %vector : tensor<2xf32>
  %3 = ts.mul %2, %three : tensor<2xf32>
  return %0, %1, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
