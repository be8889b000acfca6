// RUN: knapper-opt %s --split-scatters | FileCheck %s

// 100000 updates of 1000 elements: parts of 4000 and more, a divisor.
// CHECK-LABEL: @vector
// CHECK: %[[ONE:.*]] = ts.constant dense<-0.000000e+00> : tensor<f32>
// CHECK: %[[ZERO:.*]] = ts.broadcast %[[ONE]] [] : tensor<f32> to tensor<16x1000xf32>
// CHECK: %[[PARTS:.*]] = ts.scatter_elements %[[ZERO]], {{.*}} dim 1 {reduction = #ts<reduce_kind add>} : tensor<16x1000xf32>, tensor<16x6250xi64>, tensor<16x6250xf32>
// CHECK: %[[SUM:.*]] = ts.reduce add %[[PARTS]] [0]
// CHECK: ts.add %arg0, %[[SUM]]
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

// Few updates of each element, few at all, no divisor, what replaces, rows.
// CHECK-LABEL: @stay
// CHECK-COUNT-5: ts.scatter
// CHECK-NOT: ts.reduce
func.func @stay(%x: tensor<20000xf32>, %i: tensor<100000x1xi64>, %u: tensor<100000xf32>, %y: tensor<10xf32>, %j: tensor<100xi64>, %v: tensor<100xf32>,
                %k: tensor<100003xi64>, %w: tensor<100003xf32>, %z: tensor<10x2xf32>, %t: tensor<100000x2xf32>)
    -> (tensor<20000xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10x2xf32>) {
  %a = ts.scatter_nd %x, %i, %u {reduction = #ts<reduce_kind add>} : tensor<20000xf32>, tensor<100000x1xi64>, tensor<100000xf32>
  %b = ts.scatter_elements %y, %j, %v dim 0 {reduction = #ts<reduce_kind add>} : tensor<10xf32>, tensor<100xi64>, tensor<100xf32>
  %c = ts.scatter_elements %y, %k, %w dim 0 {reduction = #ts<reduce_kind add>} : tensor<10xf32>, tensor<100003xi64>, tensor<100003xf32>
  %d = ts.scatter_nd %y, %i, %u : tensor<10xf32>, tensor<100000x1xi64>, tensor<100000xf32>
  %e = ts.scatter_nd %z, %i, %t {reduction = #ts<reduce_kind add>} : tensor<10x2xf32>, tensor<100000x1xi64>, tensor<100000x2xf32>
  return %a, %b, %c, %d, %e : tensor<20000xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10xf32>, tensor<10x2xf32>
}
