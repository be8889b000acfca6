// RUN: knapper-opt --merge-reduced-dims %s | FileCheck %s

!x = tensor<?x4x5x3xf32, #ts.dims<"n", 4, 5, 3>>

// What is computed before has the merged dims too.
// CHECK-LABEL: @squares
// CHECK-DAG: %[[X:.*]] = ts.reshape %arg0 : {{.*}} to tensor<?x4x15xf32
// CHECK-DAG: %[[B:.*]] = ts.broadcast %arg1 [] : tensor<f32> to tensor<?x4x15xf32
// CHECK: %[[S:.*]] = ts.sub %[[X]], %[[B]]
// CHECK: %[[M:.*]] = ts.mul %[[S]], %[[S]]
// CHECK: ts.reduce add %[[M]] [0, 2]
func.func @squares(%x: !x, %c: tensor<f32>) -> tensor<4xf32> {
  %0 = ts.broadcast %c [] : tensor<f32> to !x
  %1 = ts.sub %x, %0 : !x
  %3 = ts.mul %1, %1 : !x
  %4 = ts.reduce add %3 [0, 2, 3] : !x
  return %4 : tensor<4xf32>
}

// Columns behind them, with what is spread along kept dims.
// CHECK-LABEL: @columns
// CHECK: %[[B:.*]] = ts.broadcast %arg1 [2] : tensor<6xf32> to tensor<2x35x6xf32>
// CHECK: ts.reduce max {{.*}} [1]
func.func @columns(%x: tensor<2x5x7x6xf32>, %c: tensor<6xf32>) -> tensor<2x6xf32> {
  %0 = ts.broadcast %c [3] : tensor<6xf32> to tensor<2x5x7x6xf32>
  %1 = ts.mul %x, %0 : tensor<2x5x7x6xf32>
  %2 = ts.reduce max %1 [1, 2] : tensor<2x5x7x6xf32>
  return %2 : tensor<2x6xf32>
}

// A variance: what meets the input again is reduced too.
// CHECK-LABEL: @variance
// CHECK-DAG: %[[X:.*]] = ts.reshape %arg0 : tensor<7x3xf32> to tensor<21xf32>
// CHECK: %[[M:.*]] = ts.reduce add %[[X]] [0]
// CHECK: ts.broadcast {{.*}} to tensor<21xf32>
// CHECK: ts.reduce add {{.*}} [0] : tensor<21xf32>
func.func @variance(%x: tensor<7x3xf32>) -> tensor<f32> {
  %0 = ts.reduce add %x [0, 1] : tensor<7x3xf32>
  %1 = ts.reshape %0 : tensor<f32> to tensor<1x1xf32>
  %2 = ts.broadcast %1 [0, 1] : tensor<1x1xf32> to tensor<7x3xf32>
  %3 = ts.sub %x, %2 : tensor<7x3xf32>
  %4 = ts.mul %3, %3 : tensor<7x3xf32>
  %5 = ts.reduce add %4 [0, 1] : tensor<7x3xf32>
  return %5 : tensor<f32>
}

// Broadcasts of rows, wide rows, sizes that are symbols, dims apart and sums
// that meet the input again stay.
// CHECK-LABEL: @stay
// CHECK: ts.reduce max {{.*}} [0, 1]
// CHECK: ts.reduce add {{.*}} [0, 1]
// CHECK: ts.reduce add {{.*}} [0, 1]
// CHECK: ts.reduce add {{.*}} [0, 2]
// CHECK: ts.reduce add {{.*}} [0, 1]
func.func @stay(%x: tensor<7x3xf32>, %r: tensor<3xf32>, %w: tensor<3x4096xf32>, %s: tensor<?x3xf32, #ts.dims<"n", 3>>, %a: tensor<3x2x5xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<7x3xf32>) {
  %0 = ts.broadcast %r [1] : tensor<3xf32> to tensor<7x3xf32>
  %1 = ts.mul %x, %0 : tensor<7x3xf32>
  %2 = ts.reduce max %1 [0, 1] : tensor<7x3xf32>
  %3 = ts.reduce add %w [0, 1] : tensor<3x4096xf32>
  %4 = ts.reduce add %s [0, 1] : tensor<?x3xf32, #ts.dims<"n", 3>>
  %5 = ts.reduce add %a [0, 2] : tensor<3x2x5xf32>
  %6 = ts.reduce add %x [0, 1] : tensor<7x3xf32>
  %7 = ts.broadcast %6 [] : tensor<f32> to tensor<7x3xf32>
  %8 = ts.sub %x, %7 : tensor<7x3xf32>
  return %2, %3, %4, %5, %8 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<7x3xf32>
}
