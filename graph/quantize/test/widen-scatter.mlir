// RUN: knapper-opt --widen-scatter %s | FileCheck %s

// CHECK-LABEL: @elements
// CHECK-SAME: %[[X:.*]]: tensor<4x9xbf16>, %[[I:.*]]: tensor<7x9xi64>, %[[U:.*]]: tensor<7x9xbf16>
// CHECK-DAG: %[[WX:.*]] = ts.convert %[[X]] : tensor<4x9xbf16> to tensor<4x9xf32>
// CHECK-DAG: %[[WU:.*]] = ts.convert %[[U]] : tensor<7x9xbf16> to tensor<7x9xf32>
// CHECK: %[[R:.*]] = ts.scatter_elements %[[WX]], %[[I]], %[[WU]] dim 0 {reduction = #ts<reduce_kind add>} : tensor<4x9xf32>
// CHECK: %[[N:.*]] = ts.convert %[[R]] : tensor<4x9xf32> to tensor<4x9xbf16>
// CHECK: return %[[N]]
func.func @elements(%x: tensor<4x9xbf16>, %i: tensor<7x9xi64>, %u: tensor<7x9xbf16>) -> tensor<4x9xbf16> {
  %0 = ts.scatter_elements %x, %i, %u dim 0 {reduction = #ts<reduce_kind add>} : tensor<4x9xbf16>, tensor<7x9xi64>, tensor<7x9xbf16>
  return %0 : tensor<4x9xbf16>
}

// CHECK-LABEL: @slices
// CHECK: ts.scatter_nd {{.*}} {reduction = #ts<reduce_kind mul>} : tensor<4x9xf32>
func.func @slices(%x: tensor<4x9xf16>, %i: tensor<7x1xi64>, %u: tensor<7x9xf16>) -> tensor<4x9xf16> {
  %0 = ts.scatter_nd %x, %i, %u {reduction = #ts<reduce_kind mul>} : tensor<4x9xf16>, tensor<7x1xi64>, tensor<7x9xf16>
  return %0 : tensor<4x9xf16>
}

// Nothing meets, or nothing is rounded.
// CHECK-LABEL: @others
// CHECK-NOT: ts.convert
func.func @others(%x: tensor<4x9xf16>, %i: tensor<7x9xi64>, %u: tensor<7x9xf16>, %j: tensor<1x9xi64>, %v: tensor<1x9xf16>,
                  %k: tensor<1x1xi64>, %y: tensor<4x9xf32>, %w: tensor<7x9xf32>) -> (tensor<4x9xf16>, tensor<4x9xf32>) {
  %0 = ts.scatter_elements %x, %i, %u dim 0 : tensor<4x9xf16>, tensor<7x9xi64>, tensor<7x9xf16>
  %1 = ts.scatter_elements %0, %i, %u dim 0 {reduction = #ts<reduce_kind max>} : tensor<4x9xf16>, tensor<7x9xi64>, tensor<7x9xf16>
  %2 = ts.scatter_elements %1, %j, %v dim 0 {reduction = #ts<reduce_kind add>} : tensor<4x9xf16>, tensor<1x9xi64>, tensor<1x9xf16>
  %3 = ts.scatter_nd %2, %k, %v {reduction = #ts<reduce_kind add>} : tensor<4x9xf16>, tensor<1x1xi64>, tensor<1x9xf16>
  %4 = ts.scatter_elements %y, %i, %w dim 0 {reduction = #ts<reduce_kind add>} : tensor<4x9xf32>, tensor<7x9xi64>, tensor<7x9xf32>
  return %3, %4 : tensor<4x9xf16>, tensor<4x9xf32>
}

// Along the columns two updates of a row may meet, though there is one row; one
// column of updates has none that meet, though there are many rows.
// CHECK-LABEL: @columns
// CHECK: ts.scatter_elements {{.*}} dim 1 {reduction = #ts<reduce_kind add>} : tensor<1x9xf32>
// CHECK: ts.scatter_elements {{.*}} dim 1 {reduction = #ts<reduce_kind add>} : tensor<4x9xf16>
func.func @columns(%x: tensor<1x9xf16>, %i: tensor<1x5xi64>, %u: tensor<1x5xf16>,
                   %y: tensor<4x9xf16>, %j: tensor<4x1xi64>, %v: tensor<4x1xf16>) -> (tensor<1x9xf16>, tensor<4x9xf16>) {
  %0 = ts.scatter_elements %x, %i, %u dim 1 {reduction = #ts<reduce_kind add>} : tensor<1x9xf16>, tensor<1x5xi64>, tensor<1x5xf16>
  %1 = ts.scatter_elements %y, %j, %v dim 1 {reduction = #ts<reduce_kind add>} : tensor<4x9xf16>, tensor<4x1xi64>, tensor<4x1xf16>
  return %0, %1 : tensor<1x9xf16>, tensor<4x9xf16>
}
