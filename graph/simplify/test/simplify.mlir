// RUN: knapper-opt --simplify %s | FileCheck %s

// CHECK-LABEL: @neutral
// CHECK-NEXT: return %arg0
func.func @neutral(%x: tensor<?x8xf32, #ts.dims<"b", 8>>) -> tensor<?x8xf32, #ts.dims<"b", 8>> {
  %one = ts.constant dense<1.0> : tensor<f32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %a = ts.broadcast %one [] : tensor<f32> to tensor<?x8xf32, #ts.dims<"b", 8>>
  %b = ts.broadcast %zero [] : tensor<f32> to tensor<?x8xf32, #ts.dims<"b", 8>>
  %0 = ts.mul %x, %a : tensor<?x8xf32, #ts.dims<"b", 8>>
  %1 = ts.add %b, %0 : tensor<?x8xf32, #ts.dims<"b", 8>>
  %2 = ts.div %1, %a : tensor<?x8xf32, #ts.dims<"b", 8>>
  %3 = ts.neg %2 : tensor<?x8xf32, #ts.dims<"b", 8>>
  %4 = ts.neg %3 : tensor<?x8xf32, #ts.dims<"b", 8>>
  %5 = ts.pow %4, %a : tensor<?x8xf32, #ts.dims<"b", 8>>
  return %5 : tensor<?x8xf32, #ts.dims<"b", 8>>
}

// A power of one half is a root where no element is negative; elsewhere that of
// -infinity is infinite, that of -0 is 0.
// CHECK-LABEL: @half_powers
// CHECK: %[[SQUARE:.*]] = ts.mul %arg0, %arg0
// CHECK: %[[ROOT:.*]] = ts.sqrt %[[SQUARE]]
// CHECK: %[[OTHER:.*]] = ts.rsqrt %arg0
// CHECK: %[[LEAST:.*]] = ts.compare eq %arg0
// CHECK: %[[SIZE:.*]] = ts.abs %[[OTHER]]
// CHECK: %[[POWER:.*]] = ts.select %[[LEAST]], {{.*}}, %[[SIZE]]
// CHECK: return %[[ROOT]], %[[POWER]]
func.func @half_powers(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %half = ts.constant dense<0.5> : tensor<8xf32>
  %minus = ts.constant dense<-0.5> : tensor<8xf32>
  %0 = ts.mul %x, %x : tensor<8xf32>
  %1 = ts.pow %0, %half : tensor<8xf32>
  %2 = ts.pow %x, %minus : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// A division by 3 is no product with 1/3; one by 4 is.
// CHECK-LABEL: @division
// CHECK-DAG: %[[T:.*]] = ts.constant dense<3.0
// CHECK-DAG: %[[Q:.*]] = ts.constant dense<2.5
// CHECK-DAG: %[[TB:.*]] = ts.broadcast %[[T]]
// CHECK-DAG: %[[QB:.*]] = ts.broadcast %[[Q]]
// CHECK-DAG: %[[A:.*]] = ts.div %arg0, %[[TB]]
// CHECK: ts.mul %[[A]], %[[QB]]
func.func @division(%x: tensor<8xf32>) -> tensor<8xf32> {
  %three = ts.constant dense<3.0> : tensor<8xf32>
  %four = ts.constant dense<4.0> : tensor<8xf32>
  %0 = ts.div %x, %three : tensor<8xf32>
  %1 = ts.div %0, %four : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A float saturates on its way to i8, an i32 wraps: both steps stay.
// CHECK-LABEL: @converts
// CHECK: ts.convert %arg0 : tensor<4xi32> to tensor<4xf64>
// CHECK: ts.convert %arg1 : tensor<4xi1> to tensor<4xf32>
func.func @converts(%x: tensor<4xi32>, %c: tensor<4xi1>) -> (tensor<4xi8>, tensor<4xf32>) {
  %0 = ts.convert %x : tensor<4xi32> to tensor<4xf64>
  %1 = ts.convert %0 : tensor<4xf64> to tensor<4xi8>
  %2 = ts.convert %c : tensor<4xi1> to tensor<4xi64>
  %3 = ts.convert %2 : tensor<4xi64> to tensor<4xf32>
  return %1, %3 : tensor<4xi8>, tensor<4xf32>
}

// Matmuls over flattened rows (GPT-2): the rows stay apart, no reshape is left.
// CHECK-LABEL: @rows
// CHECK-NOT: ts.reshape
// CHECK: %[[D:.*]] = ts.dot %arg0, %arg1 batch [] x [] contract [2] x [0]
// CHECK-NOT: ts.reshape
// CHECK: ts.add %[[D]], {{.*}} : tensor<?x?x16xf32
// CHECK-NOT: ts.reshape
// CHECK: ts.dot
// CHECK-NOT: ts.reshape
// CHECK: return
func.func @rows(%x: tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>, %v: tensor<16x8xf32>)
    -> tensor<?x?x8xf32, #ts.dims<"b", "s", 8>> {
  %0 = ts.reshape %x : tensor<?x?x8xf32, #ts.dims<"b", "s", 8>> to tensor<?x8xf32, #ts.dims<"b*s", 8>>
  %1 = ts.dot %0, %w batch [] x [] contract [1] x [0] : tensor<?x8xf32, #ts.dims<"b*s", 8>>, tensor<8x16xf32>
  %2 = ts.broadcast %bias [1] : tensor<16xf32> to tensor<?x16xf32, #ts.dims<"b*s", 16>>
  %3 = ts.add %1, %2 : tensor<?x16xf32, #ts.dims<"b*s", 16>>
  %4 = ts.reshape %3 : tensor<?x16xf32, #ts.dims<"b*s", 16>> to tensor<?x?x16xf32, #ts.dims<"b", "s", 16>>
  %5 = ts.tanh %4 : tensor<?x?x16xf32, #ts.dims<"b", "s", 16>>
  %6 = ts.reshape %5 : tensor<?x?x16xf32, #ts.dims<"b", "s", 16>> to tensor<?x16xf32, #ts.dims<"b*s", 16>>
  %7 = ts.dot %6, %v batch [] x [] contract [1] x [0] : tensor<?x16xf32, #ts.dims<"b*s", 16>>, tensor<16x8xf32>
  %8 = ts.reshape %7 : tensor<?x8xf32, #ts.dims<"b*s", 8>> to tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>
  %9 = ts.add %8, %x : tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>
  return %9 : tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>
}

// torch transposes keys through a 3-D view.
// CHECK-LABEL: @key
// CHECK-NEXT: %[[T:.*]] = ts.transpose %arg0 [0, 1, 3, 2]
// CHECK-NEXT: return %[[T]]
func.func @key(%k: tensor<?x4x?x8xf32, #ts.dims<"b", 4, "s", 8>>) -> tensor<?x4x8x?xf32, #ts.dims<"b", 4, 8, "s">> {
  %0 = ts.reshape %k : tensor<?x4x?x8xf32, #ts.dims<"b", 4, "s", 8>> to tensor<?x?x8xf32, #ts.dims<"4*b", "s", 8>>
  %1 = ts.transpose %0 [0, 2, 1] : tensor<?x?x8xf32, #ts.dims<"4*b", "s", 8>>
  %2 = ts.reshape %1 : tensor<?x8x?xf32, #ts.dims<"4*b", 8, "s">> to tensor<?x4x8x?xf32, #ts.dims<"b", 4, 8, "s">>
  return %2 : tensor<?x4x8x?xf32, #ts.dims<"b", 4, 8, "s">>
}

// The mask as torch indexes it: mask[batch position, key position].
// CHECK-LABEL: @grid
// CHECK-NEXT: %[[M:.*]] = ts.broadcast %arg0 [0, 3]
// CHECK-NEXT: return %[[M]]
func.func @grid(%mask: tensor<?x?xi1, #ts.dims<"b", "s">>) -> tensor<?x1x?x?xi1, #ts.dims<"b", 1, "s", "s">> {
  %ib = ts.iota 0 : tensor<?xi64, #ts.dims<"b">>
  %is = ts.iota 0 : tensor<?xi64, #ts.dims<"s">>
  %rb = ts.reshape %ib : tensor<?xi64, #ts.dims<"b">> to tensor<?x1x1x1x1xi64, #ts.dims<"b", 1, 1, 1, 1>>
  %rs = ts.reshape %is : tensor<?xi64, #ts.dims<"s">> to tensor<1x1x1x?x1xi64, #ts.dims<1, 1, 1, "s", 1>>
  %bb = ts.broadcast %rb [0, 1, 2, 3, 4] : tensor<?x1x1x1x1xi64, #ts.dims<"b", 1, 1, 1, 1>> to tensor<?x1x1x?x1xi64, #ts.dims<"b", 1, 1, "s", 1>>
  %bs = ts.broadcast %rs [0, 1, 2, 3, 4] : tensor<1x1x1x?x1xi64, #ts.dims<1, 1, 1, "s", 1>> to tensor<?x1x1x?x1xi64, #ts.dims<"b", 1, 1, "s", 1>>
  %pairs = ts.concat %bb, %bs dim 4 : tensor<?x1x1x?x1xi64, #ts.dims<"b", 1, 1, "s", 1>>, tensor<?x1x1x?x1xi64, #ts.dims<"b", 1, 1, "s", 1>>
  %g = ts.gather_nd %mask, %pairs batch_dims 0 : tensor<?x?xi1, #ts.dims<"b", "s">>, tensor<?x1x1x?x2xi64, #ts.dims<"b", 1, 1, "s", 2>>
  %r = ts.broadcast %g [0, 1, 2, 3] : tensor<?x1x1x?xi1, #ts.dims<"b", 1, 1, "s">> to tensor<?x1x?x?xi1, #ts.dims<"b", 1, "s", "s">>
  return %r : tensor<?x1x?x?xi1, #ts.dims<"b", 1, "s", "s">>
}

// The older exporter: a gather on the flattened mask at b * s + key.
// CHECK-LABEL: @flat
// CHECK-NEXT: %[[M:.*]] = ts.reshape %arg0
// CHECK-NEXT: return %[[M]]
func.func @flat(%mask: tensor<?x?xi1, #ts.dims<"b", "s">>) -> tensor<?x1x1x?xi1, #ts.dims<"b", 1, 1, "s">> {
  %size = ts.size <"s"> : tensor<i64>
  %flat = ts.reshape %mask : tensor<?x?xi1, #ts.dims<"b", "s">> to tensor<?xi1, #ts.dims<"b*s">>
  %ib = ts.iota 0 : tensor<?x1x1x1xi64, #ts.dims<"b", 1, 1, 1>>
  %is = ts.iota 3 : tensor<1x1x1x?xi64, #ts.dims<1, 1, 1, "s">>
  %sb = ts.broadcast %size [] : tensor<i64> to tensor<?x1x1x1xi64, #ts.dims<"b", 1, 1, 1>>
  %row = ts.mul %ib, %sb : tensor<?x1x1x1xi64, #ts.dims<"b", 1, 1, 1>>
  %rows = ts.broadcast %row [0, 1, 2, 3] : tensor<?x1x1x1xi64, #ts.dims<"b", 1, 1, 1>> to tensor<?x1x1x?xi64, #ts.dims<"b", 1, 1, "s">>
  %keys = ts.broadcast %is [0, 1, 2, 3] : tensor<1x1x1x?xi64, #ts.dims<1, 1, 1, "s">> to tensor<?x1x1x?xi64, #ts.dims<"b", 1, 1, "s">>
  %at = ts.add %rows, %keys : tensor<?x1x1x?xi64, #ts.dims<"b", 1, 1, "s">>
  %g = ts.gather %flat, %at dim 0 : tensor<?xi1, #ts.dims<"b*s">>, tensor<?x1x1x?xi64, #ts.dims<"b", 1, 1, "s">>
  return %g : tensor<?x1x1x?xi1, #ts.dims<"b", 1, 1, "s">>
}

// A gather that may leave its table stays one.
// CHECK-LABEL: @table
// CHECK: ts.gather
// CHECK: ts.slice %arg0 {{.*}} : tensor<16x8xf32> to tensor<4x8xf32>
func.func @table(%t: tensor<16x8xf32>) -> (tensor<?x8xf32, #ts.dims<"s", 8>>, tensor<4x8xf32>) {
  %i = ts.iota 0 : tensor<?xi64, #ts.dims<"s">>
  %0 = ts.gather %t, %i dim 0 : tensor<16x8xf32>, tensor<?xi64, #ts.dims<"s">>
  %j = ts.constant dense<[3, 4, 5, 6]> : tensor<4xi64>
  %1 = ts.gather %t, %j dim 0 : tensor<16x8xf32>, tensor<4xi64>
  return %0, %1 : tensor<?x8xf32, #ts.dims<"s", 8>>, tensor<4x8xf32>
}

// CHECK-LABEL: @slices
// CHECK-NEXT: return %arg0, %arg1
func.func @slices(%x: tensor<?x8xf32, #ts.dims<"b", 8>>, %y: tensor<?x4xf32, #ts.dims<"b", 4>>)
    -> (tensor<?x8xf32, #ts.dims<"b", 8>>, tensor<?x4xf32, #ts.dims<"b", 4>>) {
  %a = ts.slice %x [#ts.dim<"0">, #ts.dim<"0">] [1, 1] : tensor<?x8xf32, #ts.dims<"b", 8>> to tensor<?x3xf32, #ts.dims<"b", 3>>
  %b = ts.slice %x [#ts.dim<"0">, #ts.dim<"3">] [1, 1] : tensor<?x8xf32, #ts.dims<"b", 8>> to tensor<?x5xf32, #ts.dims<"b", 5>>
  %0 = ts.concat %a, %b dim 1 : tensor<?x3xf32, #ts.dims<"b", 3>>, tensor<?x5xf32, #ts.dims<"b", 5>>
  %1 = ts.concat %x, %y dim 1 : tensor<?x8xf32, #ts.dims<"b", 8>>, tensor<?x4xf32, #ts.dims<"b", 4>>
  %2 = ts.slice %1 [#ts.dim<"0">, #ts.dim<"8">] [1, 1] : tensor<?x12xf32, #ts.dims<"b", 12>> to tensor<?x4xf32, #ts.dims<"b", 4>>
  return %0, %2 : tensor<?x8xf32, #ts.dims<"b", 8>>, tensor<?x4xf32, #ts.dims<"b", 4>>
}

// CHECK-LABEL: @positions
// CHECK-NEXT: %[[T:.*]] = ts.constant dense<true> : tensor<i1>
// CHECK-NEXT: ts.broadcast %[[T]]
// CHECK-NEXT: return
func.func @positions() -> tensor<?xi1, #ts.dims<"s">> {
  %i = ts.iota 0 : tensor<?xi64, #ts.dims<"s">>
  %z = ts.constant dense<0> : tensor<i64>
  %b = ts.broadcast %z [] : tensor<i64> to tensor<?xi64, #ts.dims<"s">>
  %0 = ts.compare ge %i, %b : tensor<?xi64, #ts.dims<"s">>
  return %0 : tensor<?xi1, #ts.dims<"s">>
}

// A one-hot row times a matrix is a row of the matrix; zeros for an index outside.
// CHECK-LABEL: @one_hot
// CHECK-NOT: ts.dot
// CHECK: %[[I:.*]] = ts.convert %arg0 : tensor<?xi32, {{.*}} to tensor<?xi64
// CHECK: %[[A:.*]] = ts.max %[[I]]
// CHECK: %[[C:.*]] = ts.min %[[A]]
// CHECK: %[[R:.*]] = ts.gather %arg1, %[[C]] dim 0
// CHECK: %[[E:.*]] = ts.compare eq %[[I]], %[[C]]
// CHECK: %[[M:.*]] = ts.broadcast %[[E]] [0]
// CHECK: ts.select %[[M]], %[[R]]
func.func @one_hot(%i: tensor<?xi32, #ts.dims<"n">>, %m: tensor<3x4xf32>) -> tensor<?x4xf32, #ts.dims<"n", 4>> {
  %p = ts.constant dense<[0, 1, 2]> : tensor<3xi32>
  %0 = ts.broadcast %i [0] : tensor<?xi32, #ts.dims<"n">> to tensor<?x3xi32, #ts.dims<"n", 3>>
  %1 = ts.broadcast %p [1] : tensor<3xi32> to tensor<?x3xi32, #ts.dims<"n", 3>>
  %2 = ts.compare eq %0, %1 : tensor<?x3xi32, #ts.dims<"n", 3>>
  %3 = ts.convert %2 : tensor<?x3xi1, #ts.dims<"n", 3>> to tensor<?x3xf32, #ts.dims<"n", 3>>
  %4 = ts.dot %3, %m batch [] x [] contract [1] x [0] : tensor<?x3xf32, #ts.dims<"n", 3>>, tensor<3x4xf32>
  return %4 : tensor<?x4xf32, #ts.dims<"n", 4>>
}

// The same by iota and select, positions on the left.
// CHECK-LABEL: @one_hot_selected
// CHECK-NOT: ts.dot
// CHECK: ts.gather %arg1
func.func @one_hot_selected(%i: tensor<2x5xi64>, %m: tensor<3x4xf32>) -> tensor<2x5x4xf32> {
  %p = ts.iota 2 : tensor<2x5x3xi64>
  %0 = ts.broadcast %i [0, 1] : tensor<2x5xi64> to tensor<2x5x3xi64>
  %1 = ts.compare eq %p, %0 : tensor<2x5x3xi64>
  %one = ts.constant dense<1.0> : tensor<f32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %on = ts.broadcast %one [] : tensor<f32> to tensor<2x5x3xf32>
  %off = ts.broadcast %zero [] : tensor<f32> to tensor<2x5x3xf32>
  %2 = ts.select %1, %on, %off : tensor<2x5x3xi1>, tensor<2x5x3xf32>
  %3 = ts.dot %2, %m batch [] x [] contract [2] x [0] : tensor<2x5x3xf32>, tensor<3x4xf32>
  return %3 : tensor<2x5x4xf32>
}

// Rows up to an index, and positions that are not 0, 1, 2: sums and other rows.
// CHECK-LABEL: @not_one_hot
// CHECK: ts.dot
// CHECK: ts.dot
func.func @not_one_hot(%i: tensor<5xi64>, %m: tensor<3x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
  %p = ts.iota 1 : tensor<5x3xi64>
  %q = ts.constant dense<[1, 0, 2]> : tensor<3xi64>
  %qb = ts.broadcast %q [1] : tensor<3xi64> to tensor<5x3xi64>
  %0 = ts.broadcast %i [0] : tensor<5xi64> to tensor<5x3xi64>
  %1 = ts.compare ge %0, %p : tensor<5x3xi64>
  %2 = ts.convert %1 : tensor<5x3xi1> to tensor<5x3xf32>
  %3 = ts.dot %2, %m batch [] x [] contract [1] x [0] : tensor<5x3xf32>, tensor<3x4xf32>
  %4 = ts.compare eq %0, %qb : tensor<5x3xi64>
  %5 = ts.convert %4 : tensor<5x3xi1> to tensor<5x3xf32>
  %6 = ts.dot %5, %m batch [] x [] contract [1] x [0] : tensor<5x3xf32>, tensor<3x4xf32>
  return %3, %6 : tensor<5x4xf32>, tensor<5x4xf32>
}

// Rows in another order: the matmul reads them as they lie, and the transposes
// meet. Rows between which the sum runs stay apart.
// CHECK-LABEL: @rows_in_another_order
// CHECK: %[[D:.*]] = ts.dot %arg0, %arg1 batch [] x [] contract [2] x [0]
// CHECK-NEXT: %[[R:.*]] = ts.tanh %[[D]]
// CHECK-NEXT: %[[E:.*]] = ts.dot %[[R]], %arg2
// CHECK-NOT: ts.transpose %[[E]]
// CHECK: ts.transpose %arg3 [1, 2, 0]
// CHECK: return %[[E]]
func.func @rows_in_another_order(%x: tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>, %w: tensor<8x16xf32>, %v: tensor<16x4xf32>,
                                 %y: tensor<5x6x7xf32>, %u: tensor<5x4xf32>)
    -> (tensor<?x?x4xf32, #ts.dims<"b", "s", 4>>, tensor<6x7x4xf32>) {
  %0 = ts.transpose %x [1, 0, 2] : tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>
  %1 = ts.dot %0, %w batch [] x [] contract [2] x [0] : tensor<?x?x8xf32, #ts.dims<"s", "b", 8>>, tensor<8x16xf32>
  %2 = ts.tanh %1 : tensor<?x?x16xf32, #ts.dims<"s", "b", 16>>
  %3 = ts.dot %2, %v batch [] x [] contract [2] x [0] : tensor<?x?x16xf32, #ts.dims<"s", "b", 16>>, tensor<16x4xf32>
  %4 = ts.transpose %3 [1, 0, 2] : tensor<?x?x4xf32, #ts.dims<"s", "b", 4>>
  %5 = ts.transpose %y [1, 2, 0] : tensor<5x6x7xf32>
  %6 = ts.dot %5, %u batch [] x [] contract [2] x [0] : tensor<6x7x5xf32>, tensor<5x4xf32>
  return %4, %6 : tensor<?x?x4xf32, #ts.dims<"b", "s", 4>>, tensor<6x7x4xf32>
}

// -----

// The gradient of a weight: sides exchanged, so that nothing is transposed.
// CHECK-LABEL: @transposed_matmul
// CHECK: %[[D:.*]] = ts.dot %arg0, %arg1 batch [] x [] contract [0] x [0] : tensor<5x3xf32>, tensor<5x4xf32>
// CHECK-NEXT: return %[[D]]
func.func @transposed_matmul(%x: tensor<5x3xf32>, %g: tensor<5x4xf32>) -> tensor<3x4xf32> {
  %0 = ts.dot %g, %x batch [] x [] contract [0] x [0] : tensor<5x4xf32>, tensor<5x3xf32>
  %1 = ts.transpose %0 [1, 0] : tensor<4x3xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: @lines_of_one
// CHECK-DAG: %[[Z:.*]] = ts.broadcast %{{.*}} [] : tensor<f32> to tensor<5x1x3xf32>
// CHECK-DAG: %[[S:.*]] = ts.scan max %arg0 dim 1 {exclusive = true}
// CHECK: return %arg0, %[[Z]], %[[S]]
func.func @lines_of_one(%x: tensor<5x1x3xf32>) -> (tensor<5x1x3xf32>, tensor<5x1x3xf32>, tensor<5x1x3xf32>) {
  %0 = ts.scan mul %x dim 1 : tensor<5x1x3xf32>
  %1 = ts.scan add %x dim 1 {exclusive = true} : tensor<5x1x3xf32>
  %2 = ts.scan max %x dim 1 {exclusive = true} : tensor<5x1x3xf32>
  return %0, %1, %2 : tensor<5x1x3xf32>, tensor<5x1x3xf32>, tensor<5x1x3xf32>
}

// Updates at a grid of places never meet; at places that count down into the
// negative, or that the data names, they may.
// CHECK-LABEL: @scatter_grid
// CHECK: ts.scatter_nd %arg0, {{.*}} {ts.unique_indices}
// CHECK: ts.scatter_nd %arg0
// CHECK-NOT: ts.unique_indices
// CHECK: return
func.func @scatter_grid(%x: tensor<?x7xf32, #ts.dims<"n", 7>>, %u: tensor<?x7xf32, #ts.dims<"n", 7>>,
    %i: tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>) -> (tensor<?x7xf32, #ts.dims<"n", 7>>, tensor<?x7xf32, #ts.dims<"n", 7>>) {
  %n = ts.iota 0 : tensor<?xi64, #ts.dims<"n">>
  %m = ts.iota 0 : tensor<7xi64>
  %row = ts.broadcast %n [0] : tensor<?xi64, #ts.dims<"n">> to tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>
  %column = ts.broadcast %m [1] : tensor<7xi64> to tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>
  %grid = ts.concat %row, %column dim 2 : tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>, tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>
  %0 = ts.scatter_nd %x, %grid, %u : tensor<?x7xf32, #ts.dims<"n", 7>>, tensor<?x7x2xi64, #ts.dims<"n", 7, 2>>, tensor<?x7xf32, #ts.dims<"n", 7>>
  %half = ts.concat %row, %i dim 2 : tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>, tensor<?x7x1xi64, #ts.dims<"n", 7, 1>>
  %1 = ts.scatter_nd %x, %half, %u : tensor<?x7xf32, #ts.dims<"n", 7>>, tensor<?x7x2xi64, #ts.dims<"n", 7, 2>>, tensor<?x7xf32, #ts.dims<"n", 7>>
  return %0, %1 : tensor<?x7xf32, #ts.dims<"n", 7>>, tensor<?x7xf32, #ts.dims<"n", 7>>
}

// Triangles as exporters write them: a choice between two numbers, compared with a third.
// CHECK-LABEL: @compared_choice
// CHECK: %[[N:.*]] = ts.not %arg0
// CHECK: %[[F:.*]] = ts.broadcast
// CHECK: return %[[N]], %arg0, %arg0, %[[F]]
func.func @compared_choice(%c: tensor<4x5xi1>) -> (tensor<4x5xi1>, tensor<4x5xi1>, tensor<4x5xi1>, tensor<4x5xi1>) {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %one = ts.constant dense<1.0> : tensor<f32>
  %z = ts.broadcast %zero [] : tensor<f32> to tensor<4x5xf32>
  %o = ts.broadcast %one [] : tensor<f32> to tensor<4x5xf32>
  %s = ts.select %c, %o, %z : tensor<4x5xi1>, tensor<4x5xf32>
  %0 = ts.compare eq %s, %z : tensor<4x5xf32>
  %1 = ts.compare ne %s, %z : tensor<4x5xf32>
  %2 = ts.compare lt %z, %s : tensor<4x5xf32>
  %3 = ts.compare gt %s, %o : tensor<4x5xf32>
  return %0, %1, %2, %3 : tensor<4x5xi1>, tensor<4x5xi1>, tensor<4x5xi1>, tensor<4x5xi1>
}

// A converted number is the one that the result's type holds.
// CHECK-LABEL: @compared_rounded
// CHECK: return %arg0, %arg0
func.func @compared_rounded(%c: tensor<4x5xi1>) -> (tensor<4x5xi1>, tensor<4x5xi1>) {
  %wide = ts.constant dense<0.1> : tensor<f64>
  %tenth = ts.constant dense<0.1> : tensor<f32>
  %half = ts.constant dense<0.1> : tensor<f16>
  %w = ts.convert %wide : tensor<f64> to tensor<f32>
  %h = ts.convert %tenth : tensor<f32> to tensor<f16>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %none = ts.constant dense<0.0> : tensor<f16>
  %a = ts.broadcast %w [] : tensor<f32> to tensor<4x5xf32>
  %b = ts.broadcast %tenth [] : tensor<f32> to tensor<4x5xf32>
  %z = ts.broadcast %zero [] : tensor<f32> to tensor<4x5xf32>
  %d = ts.broadcast %h [] : tensor<f16> to tensor<4x5xf16>
  %e = ts.broadcast %half [] : tensor<f16> to tensor<4x5xf16>
  %n = ts.broadcast %none [] : tensor<f16> to tensor<4x5xf16>
  %s = ts.select %c, %a, %z : tensor<4x5xi1>, tensor<4x5xf32>
  %t = ts.select %c, %d, %n : tensor<4x5xi1>, tensor<4x5xf16>
  %0 = ts.compare eq %s, %b : tensor<4x5xf32>
  %1 = ts.compare eq %t, %e : tensor<4x5xf16>
  return %0, %1 : tensor<4x5xi1>, tensor<4x5xi1>
}

// Of floats "not less" holds for NaN, where "greater or equal" does not.
// CHECK-LABEL: @not_of_comparisons
// CHECK: %[[L:.*]] = ts.compare lt %arg0, %arg1
// CHECK: %[[N:.*]] = ts.not %[[L]]
// CHECK: %[[G:.*]] = ts.compare ge %arg2, %arg3
// CHECK: return %[[N]], %[[G]]
func.func @not_of_comparisons(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<4xi32>, %j: tensor<4xi32>) -> (tensor<4xi1>, tensor<4xi1>) {
  %0 = ts.compare lt %x, %y : tensor<4xf32>
  %1 = ts.not %0 : tensor<4xi1>
  %2 = ts.compare lt %i, %j : tensor<4xi32>
  %3 = ts.not %2 : tensor<4xi1>
  return %1, %3 : tensor<4xi1>, tensor<4xi1>
}

// 200 is -56 in i8: not every step between integers keeps the number.
// CHECK-LABEL: @wrapped
// CHECK: %[[A:.*]] = ts.convert %arg0 : tensor<4xui8> to tensor<4xi8>
// CHECK: ts.convert %[[A]] : tensor<4xi8> to tensor<4xi32>
// CHECK: ts.convert %arg0 : tensor<4xui8> to tensor<4xi32>
func.func @wrapped(%x: tensor<4xui8>) -> (tensor<4xi32>, tensor<4xi32>) {
  %0 = ts.convert %x : tensor<4xui8> to tensor<4xi8>
  %1 = ts.convert %0 : tensor<4xi8> to tensor<4xi32>
  %2 = ts.convert %x : tensor<4xui8> to tensor<4xi16>
  %3 = ts.convert %2 : tensor<4xi16> to tensor<4xi32>
  return %1, %3 : tensor<4xi32>, tensor<4xi32>
}

// Of integers 1 is one bit, no neutral element.
// CHECK-LABEL: @bits
// CHECK: ts.and
// CHECK: ts.or
func.func @bits(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %one = ts.constant dense<1> : tensor<i32>
  %ones = ts.broadcast %one [] : tensor<i32> to tensor<4xi32>
  %0 = ts.and %x, %ones : tensor<4xi32>
  %1 = ts.or %x, %ones : tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
