// RUN: knapper-opt %s --split-scatters | FileCheck %s

// 100000 updates of 1000 elements: parts of 4000 and more, a divisor.
// CHECK-LABEL: @vector
// CHECK: %[[ONE:.*]] = ts.constant dense<-0.000000e+00> : tensor<f32>
// CHECK: %[[ZERO:.*]] = ts.broadcast %[[ONE]] [] : tensor<f32> to tensor<16x1000xf32>
// CHECK: %[[PARTS:.*]] = ts.scatter_elements %[[ZERO]], {{.*}} dim 1 {reduction = #ts<reduce_kind add>} : tensor<16x1000xf32>, tensor<16x6250xi64>, tensor<16x6250xf32>
// A reduction begins at +0 and would lose the sign of negative zeros.
// CHECK-NOT: ts.reduce
// CHECK: %[[FIRST:.*]] = ts.slice %[[PARTS]]{{.*}} tensor<1x1000xf32>
// CHECK: %[[ROW:.*]] = ts.reshape %[[FIRST]]
// CHECK: ts.add %arg0, %[[ROW]]
// CHECK-COUNT-15: ts.add
func.func @vector(%x: tensor<1000xf32>, %i: tensor<100000x1xi64>, %u: tensor<100000xf32>) -> tensor<1000xf32> {
  %r = ts.scatter_nd %x, %i, %u {reduction = #ts<reduce_kind add>} : tensor<1000xf32>, tensor<100000x1xi64>, tensor<100000xf32>
  return %r : tensor<1000xf32>
}

// CHECK-LABEL: @divisor
// CHECK: tensor<7x10001xi64>
func.func @divisor(%x: tensor<1000xi32>, %i: tensor<70007xi64>, %u: tensor<70007xi32>) -> tensor<1000xi32> {
  %r = ts.scatter_elements %x, %i, %u dim 0 {reduction = #ts<reduce_kind add>} : tensor<1000xi32>, tensor<70007xi64>, tensor<70007xi32>
  return %r : tensor<1000xi32>
}

// Few updates of each element, few at all, no divisor, what replaces, wide rows.
// CHECK-LABEL: @stay
// CHECK-COUNT-5: ts.scatter
// CHECK-NOT: ts.reduce
func.func @stay(%x: tensor<20000xf32>, %i: tensor<100000x1xi64>, %u: tensor<100000xf32>, %y: tensor<10xf32>, %j: tensor<100xi64>, %v: tensor<100xf32>,
                %k: tensor<100003xi64>, %w: tensor<100003xf32>, %z: tensor<10x32xf32>, %t: tensor<100000x32xf32>)
    -> (tensor<20000xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10x32xf32>) {
  %a = ts.scatter_nd %x, %i, %u {reduction = #ts<reduce_kind add>} : tensor<20000xf32>, tensor<100000x1xi64>, tensor<100000xf32>
  %b = ts.scatter_elements %y, %j, %v dim 0 {reduction = #ts<reduce_kind add>} : tensor<10xf32>, tensor<100xi64>, tensor<100xf32>
  %c = ts.scatter_elements %y, %k, %w dim 0 {reduction = #ts<reduce_kind add>} : tensor<10xf32>, tensor<100003xi64>, tensor<100003xf32>
  %d = ts.scatter_nd %y, %i, %u : tensor<10xf32>, tensor<100000x1xi64>, tensor<100000xf32>
  %e = ts.scatter_nd %z, %i, %t {reduction = #ts<reduce_kind add>} : tensor<10x32xf32>, tensor<100000x1xi64>, tensor<100000x32xf32>
  return %a, %b, %c, %d, %e : tensor<20000xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10x32xf32>
}

// Rows that one program would hold side by side.
// CHECK-LABEL: @rows
// CHECK: %[[AT:.*]] = ts.broadcast {{.*}} [0, 1] : tensor<16x6250xi64> to tensor<16x6250x4xi64>
// CHECK: %[[PARTS:.*]] = ts.scatter_elements {{.*}}, %[[AT]], {{.*}} dim 1 {reduction = #ts<reduce_kind add>} : tensor<16x1000x4xf32>, tensor<16x6250x4xi64>, tensor<16x6250x4xf32>
// CHECK-COUNT-16: ts.add
func.func @rows(%x: tensor<1000x4xf32>, %i: tensor<100000x1xi64>, %u: tensor<100000x4xf32>) -> tensor<1000x4xf32> {
  %r = ts.scatter_nd %x, %i, %u {reduction = #ts<reduce_kind add>} : tensor<1000x4xf32>, tensor<100000x1xi64>, tensor<100000x4xf32>
  return %r : tensor<1000x4xf32>
}

// CHECK-LABEL: @others
// CHECK: ts.constant dense<0xFF800000> : tensor<f32>
// CHECK: ts.scatter_elements {{.*}} {reduction = #ts<reduce_kind max>} : tensor<16x1000xf32>
// CHECK: ts.reduce max
// CHECK: ts.max %arg0
// CHECK: ts.constant dense<9223372036854775807> : tensor<i64>
// CHECK: ts.reduce min
// CHECK: ts.min %arg1
// CHECK: ts.constant dense<1> : tensor<i64>
// CHECK: ts.reduce mul
// CHECK: ts.mul %arg1
func.func @others(%x: tensor<1000xf32>, %y: tensor<1000xi64>, %i: tensor<100000xi64>, %u: tensor<100000xf32>, %v: tensor<100000xi64>)
    -> (tensor<1000xf32>, tensor<1000xi64>, tensor<1000xi64>) {
  %a = ts.scatter_elements %x, %i, %u dim 0 {reduction = #ts<reduce_kind max>} : tensor<1000xf32>, tensor<100000xi64>, tensor<100000xf32>
  %b = ts.scatter_elements %y, %i, %v dim 0 {reduction = #ts<reduce_kind min>} : tensor<1000xi64>, tensor<100000xi64>, tensor<100000xi64>
  %c = ts.scatter_elements %y, %i, %v dim 0 {reduction = #ts<reduce_kind mul>} : tensor<1000xi64>, tensor<100000xi64>, tensor<100000xi64>
  return %a, %b, %c : tensor<1000xf32>, tensor<1000xi64>, tensor<1000xi64>
}
