// Targets without schedules of selections: a running sum and a scatter, and a loop over boxes.
// RUN: knapper compile %s --target cuda:sm_90a --stop-after=fuse --no-cache | FileCheck %s

module attributes {ts.symbols = []} {

// CHECK-NOT: ts.true_places
// CHECK-NOT: ts.non_max_suppression
// CHECK: func.func private @suppression
// CHECK: return {{.*}} : tensor<i1>, tensor<2x3x41xf32>, tensor<2x3xi64>, tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xi1>
// CHECK-LABEL: func.func @main
// CHECK: ts.loop @suppression counter "step" trips <9> while
// CHECK-SAME: count "steps"
func.func @main(%boxes: tensor<2x40x4xf32>, %scores: tensor<2x3x40xf32>) -> (tensor<2x3x9xi64>, tensor<3x40xi64>) {
  %l = ts.constant dense<0.2> : tensor<f32>
  %r = ts.non_max_suppression %boxes, %scores limit %l most <9> : tensor<2x40x4xf32>, tensor<2x3x40xf32>, tensor<f32>
  %p = ts.iota 2 : tensor<2x3x40xi64>
  %c = ts.constant dense<6> : tensor<i64>
  %d = ts.broadcast %c [] : tensor<i64> to tensor<2x3x40xi64>
  %e = ts.mod %p, %d : tensor<2x3x40xi64>
  %f = ts.constant dense<2> : tensor<i64>
  %g = ts.broadcast %f [] : tensor<i64> to tensor<2x3x40xi64>
  %m = ts.compare eq %e, %g : tensor<2x3x40xi64>
  %n = ts.convert %m : tensor<2x3x40xi1> to tensor<2x3x40xi64>
  %s = ts.reduce add %n [2] : tensor<2x3x40xi64>
  %t = ts.reshape %s : tensor<2x3xi64> to tensor<6xi64>
  %u = ts.scan add %t dim 0 {exclusive = true} : tensor<6xi64>
  %v = ts.reshape %u : tensor<6xi64> to tensor<2x3xi64>
  %w = ts.true_places %m before %v count <40> : tensor<2x3x40xi1>, tensor<2x3xi64>
  return %r, %w : tensor<2x3x9xi64>, tensor<3x40xi64>
}

}
