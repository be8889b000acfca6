// RUN: knapper-opt %s --form-kernels --split-input-file | FileCheck %s
// One case a rule.

!t = tensor<?x128xf32, #ts.dims<"n", 128>>
!r = tensor<?xf32, #ts.dims<"n">>

// A chain of elementwise ops is one kernel; splat constants become immediates, other constants operands.
// CHECK-LABEL: func.func @pointwise
// CHECK: %[[C:.*]] = ts.constant dense<[{{.*}}]> : tensor<2xf32>
// CHECK: ts.kernel pointwise (%{{.*}} = %[[C]] : tensor<2xf32>, %{{.*}} = %arg0
// CHECK-NEXT: ts.constant dense<5.000000e-01>
// CHECK-NOT: ts.kernel
func.func @pointwise(%x: tensor<?x2xf32, #ts.dims<"n", 2>>) -> tensor<?x2xf32, #ts.dims<"n", 2>> {
  %c = ts.constant dense<0.5> : tensor<f32>
  %d = ts.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = ts.broadcast %c [] : tensor<f32> to tensor<?x2xf32, #ts.dims<"n", 2>>
  %1 = ts.broadcast %d [1] : tensor<2xf32> to tensor<?x2xf32, #ts.dims<"n", 2>>
  %2 = ts.mul %x, %0 : tensor<?x2xf32, #ts.dims<"n", 2>>
  %3 = ts.add %2, %1 : tensor<?x2xf32, #ts.dims<"n", 2>>
  return %3 : tensor<?x2xf32, #ts.dims<"n", 2>>
}

// Two results of one shape that read the same input.
// CHECK-LABEL: func.func @siblings
// CHECK: %[[K:.*]]:2 = ts.kernel pointwise
// CHECK-NOT: ts.kernel
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @siblings(%x: !t) -> (!t, !t) {
  %0 = ts.sin %x : !t
  %1 = ts.cos %x : !t
  return %0, %1 : !t, !t
}

// Softmax in its parts, and both statistics of one row, are one pass.
// CHECK-LABEL: func.func @rows
// CHECK: %[[K:.*]]:2 = ts.kernel reduce
// CHECK: ts.reduce max
// CHECK: ts.reduce add
// CHECK: ts.div
// CHECK-NOT: ts.kernel
func.func @rows(%x: !t) -> (!t, !r) {
  %m = ts.reduce max %x [1] : !t
  %mb = ts.broadcast %m [0] : !r to !t
  %d = ts.sub %x, %mb : !t
  %e = ts.exp %d : !t
  %s = ts.reduce add %e [1] : !t
  %sb = ts.broadcast %s [0] : !r to !t
  %q = ts.div %e, %sb : !t
  return %q, %s : !t, !r
}

// The sum that a normalisation reads is another result of its kernel; a dimension of size 1 between them does no harm.
// CHECK-LABEL: func.func @residual_norm
// CHECK: %{{.*}}:2 = ts.kernel reduce
// CHECK-NOT: ts.kernel
func.func @residual_norm(%x: !t, %y: !t) -> (!t, !t) {
  %0 = ts.add %x, %y : !t
  %s = ts.reduce add %0 [1] : !t
  %k = ts.reshape %s : !r to tensor<?x1xf32, #ts.dims<"n", 1>>
  %b = ts.broadcast %k [0, 1] : tensor<?x1xf32, #ts.dims<"n", 1>> to !t
  %n = ts.div %0, %b : !t
  return %n, %0 : !t, !t
}

// Lookups are read by the normalisation directly.
// CHECK-LABEL: func.func @embedding
// CHECK: ts.kernel reduce
// CHECK: ts.gather
// CHECK: ts.layer_norm
// CHECK-NOT: ts.kernel
func.func @embedding(%ids: tensor<?xi64, #ts.dims<"n">>) -> !t {
  %w = ts.weight <0, 0, 15628288, "w"> : tensor<30524x128xf32>
  %p = ts.weight <0, 0, 512, "p"> : tensor<128xf32>
  %0 = ts.gather %w, %ids dim 0 : tensor<30524x128xf32>, tensor<?xi64, #ts.dims<"n">>
  %1 = ts.broadcast %p [1] : tensor<128xf32> to !t
  %2 = ts.add %0, %1 : !t
  %3 = ts.layer_norm %2 scale %p : tensor<128xf32> bias %p : tensor<128xf32> dim 1 epsilon 1.0e-12 : !t
  return %3 : !t
}

// CHECK-LABEL: func.func @gather
// CHECK: ts.kernel gather
// CHECK-LABEL: func.func @transpose
// CHECK: ts.kernel transpose
// CHECK-LABEL: func.func @swap_outer
// CHECK: ts.kernel pointwise
func.func @gather(%w: !t, %ids: tensor<?xi64, #ts.dims<"m">>) -> tensor<?x128xf32, #ts.dims<"m", 128>> {
  %0 = ts.gather %w, %ids dim 0 : !t, tensor<?xi64, #ts.dims<"m">>
  return %0 : tensor<?x128xf32, #ts.dims<"m", 128>>
}
func.func @transpose(%x: !t) -> tensor<128x?xf32, #ts.dims<128, "n">> {
  %0 = ts.transpose %x [1, 0] : !t
  return %0 : tensor<128x?xf32, #ts.dims<128, "n">>
}
func.func @swap_outer(%x: tensor<4x8x16xf32>) -> tensor<8x4x16xf32> {
  %0 = ts.transpose %x [1, 0, 2] : tensor<4x8x16xf32>
  return %0 : tensor<8x4x16xf32>
}

// Views cost nothing and stay outside; so do matmuls of weights. A slice of the result is computed, not taken.
// CHECK-LABEL: func.func @views
// CHECK: %[[W:.*]] = ts.mul
// CHECK-NOT: ts.kernel
// CHECK: %[[V:.*]] = ts.slice
// CHECK: %[[R:.*]] = ts.reshape %[[V]]
// CHECK: %[[K:.*]] = ts.kernel pointwise (%{{.*}} = %[[R]] : {{.*}}, %{{.*}} = %[[W]]
// CHECK: ts.slice
// CHECK: %[[S:.*]] = ts.reshape %[[K]]
// CHECK: return %[[S]]
func.func @views(%x: tensor<4x128xf32>) -> tensor<64xf32> {
  %w = ts.weight <0, 0, 512, "w"> : tensor<2x64xf32>
  %ww = ts.mul %w, %w : tensor<2x64xf32>
  %v = ts.slice %x [#ts.dim<1>, #ts.dim<0>] [1, 1] : tensor<4x128xf32> to tensor<1x128xf32>
  %r = ts.reshape %v : tensor<1x128xf32> to tensor<2x64xf32>
  %k = ts.mul %r, %ww : tensor<2x64xf32>
  %h = ts.slice %k [#ts.dim<1>, #ts.dim<0>] [1, 1] : tensor<2x64xf32> to tensor<1x64xf32>
  %s = ts.reshape %h : tensor<1x64xf32> to tensor<64xf32>
  return %s : tensor<64xf32>
}

// Kernels take their operands to begin at 16 bytes: the slice from the fourth
// number on is a view, the one from the second on is read by the kernel.
// CHECK-LABEL: func.func @aligned_views
// CHECK: %[[V:.*]] = ts.slice %{{.*}} [#ts.dim<4>] [1]
// CHECK-NOT: ts.slice
// CHECK: ts.kernel pointwise
// CHECK: ts.slice %{{.*}} [#ts.dim<1>] [1]
// CHECK: ts.yield
func.func @aligned_views(%x: tensor<128xf32>, %y: tensor<128xf32>) -> tensor<64xf32> {
  %v = ts.slice %x [#ts.dim<4>] [1] : tensor<128xf32> to tensor<64xf32>
  %w = ts.slice %y [#ts.dim<1>] [1] : tensor<128xf32> to tensor<64xf32>
  %0 = ts.mul %v, %w : tensor<64xf32>
  return %0 : tensor<64xf32>
}

// A matmul takes transposed operands, conversions, and everything of its shape behind it; what it computes on the
// way can be a result too.
// CHECK-LABEL: func.func @matmul
// CHECK: %{{.*}}:2 = ts.kernel matmul
// CHECK: ts.transpose
// CHECK: ts.dot
// CHECK: ts.tanh
// CHECK-NOT: ts.kernel
func.func @matmul(%x: tensor<128x?xf32, #ts.dims<128, "n">>, %w: tensor<128x128xf32>) -> (!t, !t) {
  %0 = ts.transpose %x [1, 0] : tensor<128x?xf32, #ts.dims<128, "n">>
  %1 = ts.dot %0, %w batch [] x [] contract [1] x [0] : !t, tensor<128x128xf32>
  %2 = ts.tanh %1 : !t
  return %1, %2 : !t, !t
}

// The same view for two readers: each takes its own.
// CHECK-LABEL: func.func @shared_transpose
// CHECK: ts.kernel matmul
// CHECK: ts.transpose
// CHECK: ts.kernel matmul
// CHECK: ts.transpose
// CHECK-NOT: ts.kernel
func.func @shared_transpose(%x: tensor<128x?xf32, #ts.dims<128, "n">>, %w: tensor<128x128xf32>, %v: tensor<128x128xf32>) -> (!t, !t) {
  %0 = ts.transpose %x [1, 0] : tensor<128x?xf32, #ts.dims<128, "n">>
  %1 = ts.dot %0, %w batch [] x [] contract [1] x [0] : !t, tensor<128x128xf32>
  %2 = ts.dot %0, %v batch [] x [] contract [1] x [0] : !t, tensor<128x128xf32>
  return %1, %2 : !t, !t
}

// The size of data: what uses the symbol comes after the op that binds it, and is no part of an earlier kernel.
// CHECK-LABEL: func.func @bound
// CHECK: ts.kernel reduce
// CHECK: ts.bind_size
// CHECK: ts.kernel pointwise
func.func @bound(%n: tensor<4xi64>, %x: tensor<4xi64>) -> tensor<?xi64, #ts.dims<"k">> {
  %0 = ts.reduce add %n [0] : tensor<4xi64>
  ts.bind_size %0, "k" : tensor<i64>
  %1 = ts.iota 0 : tensor<?xi64, #ts.dims<"k">>
  %2 = ts.add %1, %1 : tensor<?xi64, #ts.dims<"k">>
  return %2 : tensor<?xi64, #ts.dims<"k">>
}

// What a constant becomes is stored, unless that is much larger than the constant: then the kernel that reads it evaluates it. Matmuls read their
// constants packed, so those are stored whatever they take.
// CHECK-LABEL: func.func @inflated
//       CHECK: %[[C:.*]] = ts.convert {{.*}} : tensor<512x256xi8> to tensor<512x256xf32>
//       CHECK: ts.kernel matmul ({{.*}} = %[[C]] : tensor<512x256xf32>)
//       CHECK: ts.kernel pointwise ({{.*}} : tensor<512x256xi8>, {{.*}})
//       CHECK: ts.convert
func.func @inflated(%x: tensor<8x512xf32>, %y: tensor<512x256xf32>) -> (tensor<8x256xf32>, tensor<512x256xf32>) {
  %w = ts.weight <0, 0, 131072, "w"> : tensor<512x256xi8>
  %0 = ts.convert %w : tensor<512x256xi8> to tensor<512x256xf32>
  %1 = ts.dot %x, %0 batch [] x [] contract [1] x [0] : tensor<8x512xf32>, tensor<512x256xf32>
  %v = ts.weight <0, 131072, 131072, "v"> : tensor<512x256xi8>
  %2 = ts.convert %v : tensor<512x256xi8> to tensor<512x256xf32>
  %3 = ts.add %2, %y : tensor<512x256xf32>
  return %1, %3 : tensor<8x256xf32>, tensor<512x256xf32>
}

// What narrows a value belongs to the kernel that makes it: matmuls read their operands as they lie in memory.
// CHECK-LABEL: func.func @narrowed
//       CHECK: %[[H:.*]] = ts.kernel matmul {{.*}} -> tensor<8x64xbf16>
//       CHECK: ts.gelu
//       CHECK: ts.convert
//       CHECK: ts.kernel matmul ({{.*}} = %[[H]] : tensor<8x64xbf16>
//   CHECK-NOT: ts.convert
//       CHECK: ts.dot
func.func @narrowed(%x: tensor<8x32xbf16>, %v: tensor<32x64xbf16>, %w: tensor<64x16xbf16>) -> tensor<8x16xf32> {
  %0 = ts.dot %x, %v batch [] x [] contract [1] x [0] {result_type = f32} : tensor<8x32xbf16>, tensor<32x64xbf16>
  %1 = ts.gelu %0 : tensor<8x64xf32>
  %2 = ts.convert %1 : tensor<8x64xf32> to tensor<8x64xbf16>
  %3 = ts.dot %2, %w batch [] x [] contract [1] x [0] {result_type = f32} : tensor<8x64xbf16>, tensor<64x16xbf16>
  return %3 : tensor<8x16xf32>
}

// Positions and updates are computed where they are written; what is updated is an operand as it lies.
// CHECK-LABEL: func.func @written_rows
//       CHECK: ts.kernel scatter ({{.*}} = %arg0
//       CHECK: ts.add
//       CHECK: ts.neg
//       CHECK: ts.scatter_elements
//   CHECK-NOT: ts.kernel
func.func @written_rows(%past: tensor<2x9x8xf32>, %at: tensor<2xi64>, %u: tensor<2x3x8xf32>) -> tensor<2x9x8xf32> {
  %0 = ts.iota 1 : tensor<2x3xi64>
  %1 = ts.broadcast %at [0] : tensor<2xi64> to tensor<2x3xi64>
  %2 = ts.add %0, %1 : tensor<2x3xi64>
  %3 = ts.broadcast %2 [0, 1] : tensor<2x3xi64> to tensor<2x3x8xi64>
  %4 = ts.neg %u : tensor<2x3x8xf32>
  %5 = ts.scatter_elements %past, %3, %4 dim 1 : tensor<2x9x8xf32>, tensor<2x3x8xi64>, tensor<2x3x8xf32>
  return %5 : tensor<2x9x8xf32>
}

// -----

// A transposed copy beside a convolution's result is a kernel of its own; alone, the convolution stores it.
// CHECK-LABEL: func.func @copy_of_a_convolution
// CHECK: ts.kernel conv
// CHECK-NOT: ts.transpose
// CHECK: ts.kernel transpose
// CHECK: return
func.func @copy_of_a_convolution(%x: tensor<8x32x32x3xf32>, %w: tensor<3x3x3x32xf32>) -> (tensor<8x30x30x32xf32>, tensor<32x30x30x8xf32>) {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<8x32x32x3xf32>, tensor<3x3x3x32xf32>
  %1 = ts.transpose %0 [3, 1, 2, 0] : tensor<8x30x30x32xf32>
  return %0, %1 : tensor<8x30x30x32xf32>, tensor<32x30x30x8xf32>
}

// -----

// CHECK-LABEL: func.func @transposed_convolution
// CHECK: ts.kernel conv
// CHECK-NOT: ts.kernel
// CHECK: return
func.func @transposed_convolution(%x: tensor<8x32x32x3xf32>, %w: tensor<3x3x3x32xf32>) -> tensor<32x30x30x8xf32> {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<8x32x32x3xf32>, tensor<3x3x3x32xf32>
  %1 = ts.transpose %0 [3, 1, 2, 0] : tensor<8x30x30x32xf32>
  return %1 : tensor<32x30x30x8xf32>
}

// -----

// What a kernel of its own makes of constants is made when they are packed,
// however little it is made of.
// CHECK-LABEL: @constant_scatter
// CHECK: ts.scatter_nd
// CHECK-NOT: ts.scatter_nd
// CHECK: ts.kernel pointwise (%{{.*}} = %arg0 : tensor<20000xi64>, %{{.*}} = %{{.*}} : tensor<20000xi64>)
// CHECK-NOT: ts.kernel
func.func @constant_scatter(%x: tensor<20000xi64>) -> tensor<20000xi64> {
  %z = ts.constant dense<0> : tensor<i64>
  %zeros = ts.broadcast %z [] : tensor<i64> to tensor<20000xi64>
  %i = ts.iota 0 : tensor<10000xi64>
  %two = ts.constant dense<2> : tensor<i64>
  %twos = ts.broadcast %two [] : tensor<i64> to tensor<10000xi64>
  %at = ts.mul %i, %twos : tensor<10000xi64>
  %column = ts.reshape %at : tensor<10000xi64> to tensor<10000x1xi64>
  %made = ts.scatter_nd %zeros, %column, %i : tensor<20000xi64>, tensor<10000x1xi64>, tensor<10000xi64>
  %r = ts.add %x, %made : tensor<20000xi64>
  return %r : tensor<20000xi64>
}

// -----

// What was rounded is stored as it is; who reads it widens it.
// CHECK-LABEL: @store_narrow
// CHECK: %[[D:.*]] = ts.kernel matmul {{.*}} -> tensor<?x512xbf16, {{.*}}> {
// CHECK: ts.yield {{.*}}bf16
// CHECK: ts.kernel reduce (%[[A:.*]] = %[[D]] : tensor<?x512xbf16
// CHECK-NEXT: ts.convert %[[A]] {{.*}} to tensor<?x512xf32
func.func @store_narrow(%x: tensor<?x512xbf16, #ts.dims<"n", 512>>, %w: tensor<512x512xbf16>) -> tensor<?x512xf32, #ts.dims<"n", 512>> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] {result_type = f32} : tensor<?x512xbf16, #ts.dims<"n", 512>>, tensor<512x512xbf16>
  %1 = ts.convert %0 : tensor<?x512xf32, #ts.dims<"n", 512>> to tensor<?x512xbf16, #ts.dims<"n", 512>>
  %2 = ts.convert %1 : tensor<?x512xbf16, #ts.dims<"n", 512>> to tensor<?x512xf32, #ts.dims<"n", 512>>
  %3 = ts.reduce add %2 [0] : tensor<?x512xf32, #ts.dims<"n", 512>>
  %4 = ts.broadcast %3 [1] : tensor<512xf32> to tensor<?x512xf32, #ts.dims<"n", 512>>
  %5 = ts.sub %2, %4 : tensor<?x512xf32, #ts.dims<"n", 512>>
  return %5 : tensor<?x512xf32, #ts.dims<"n", 512>>
}

// Programs fill in the border of unsigned bytes as they copy rows; that of signed ones is a kernel of its own.
// CHECK-LABEL: @border_of_bytes
// CHECK: ts.kernel conv
// CHECK: ts.pad
// CHECK-NOT: ts.kernel
// CHECK: return
func.func @border_of_bytes(%x: tensor<1x8x8x16xui8>, %w: tensor<3x3x16x16xi8>) -> tensor<1x8x8x16xi32> {
  %zero = ts.constant dense<0> : tensor<ui8>
  %p = ts.pad %x value %zero : tensor<ui8> low [#ts.dim<0>, #ts.dim<1>, #ts.dim<1>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<1>, #ts.dim<1>, #ts.dim<0>] : tensor<1x8x8x16xui8>
  %c = ts.conv %p, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<1x10x10x16xui8>, tensor<3x3x16x16xi8>
  return %c : tensor<1x8x8x16xi32>
}

// CHECK-LABEL: @border_of_signed_bytes
// CHECK: ts.kernel pointwise
// CHECK: ts.pad
// CHECK: ts.kernel conv
func.func @border_of_signed_bytes(%x: tensor<1x8x8x16xi8>, %w: tensor<3x3x16x16xi8>) -> tensor<1x8x8x16xi32> {
  %zero = ts.constant dense<0> : tensor<i8>
  %p = ts.pad %x value %zero : tensor<i8> low [#ts.dim<0>, #ts.dim<1>, #ts.dim<1>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<1>, #ts.dim<1>, #ts.dim<0>] : tensor<1x8x8x16xi8>
  %c = ts.conv %p, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {channels_last = true} : tensor<1x10x10x16xi8>, tensor<3x3x16x16xi8>
  return %c : tensor<1x8x8x16xi32>
}
