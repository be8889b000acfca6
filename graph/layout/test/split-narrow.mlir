// RUN: knapper-opt --split-reductions %s | FileCheck %s

// Nine rows of three columns beside each other as one row, three rows behind
// the last of these.
// CHECK-LABEL: @pooled
// CHECK-DAG: %[[X:.*]] = ts.convert %arg0
// CHECK-DAG: %[[R:.*]] = ts.slice %[[X]] [#ts.dim<0>, #ts.dim<297>, #ts.dim<0>]
// CHECK-DAG: %[[W:.*]] = ts.reshape {{.*}} to tensor<2x33x27xf32>
// CHECK: %[[S:.*]] = ts.reduce add %[[W]] [1]
// CHECK: %[[T:.*]] = ts.reshape %[[S]] : tensor<2x27xf32> to tensor<2x9x3xf32>
// CHECK: %[[C:.*]] = ts.concat %[[T]], %[[R]] dim 1
// CHECK: ts.reduce add %[[C]] [1]
func.func @pooled(%x: tensor<2x300x3xbf16>) -> tensor<2x3xbf16> {
  %0 = ts.reduce add %x [1] : tensor<2x300x3xbf16>
  return %0 : tensor<2x3xbf16>
}

// Wide columns, few rows and many results stay.
// CHECK-LABEL: @stay
// CHECK-COUNT-3: ts.reduce
// CHECK-NOT: ts.reduce
func.func @stay(%x: tensor<2x300x256xf32>, %y: tensor<2x100x3xf32>, %z: tensor<?x300x3xf32, #ts.dims<"n", 300, 3>>)
    -> (tensor<2x256xf32>, tensor<2x3xf32>, tensor<?x3xf32, #ts.dims<"n", 3>>) {
  %0 = ts.reduce add %x [1] : tensor<2x300x256xf32>
  %1 = ts.reduce add %y [1] : tensor<2x100x3xf32>
  %2 = ts.reduce add %z [1] : tensor<?x300x3xf32, #ts.dims<"n", 300, 3>>
  return %0, %1, %2 : tensor<2x256xf32>, tensor<2x3xf32>, tensor<?x3xf32, #ts.dims<"n", 3>>
}
