// RUN: knapper-opt --convert-float=type=bf16 %s | FileCheck %s
// RUN: knapper-opt --convert-float=type=f16 %s | FileCheck %s --check-prefix=HALF
// RUN: not knapper-opt --convert-float=type=f8 %s 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: type is bf16 or f16, not f8

!x = tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>
!y = tensor<?x?x16xf32, #ts.dims<"b", "s", 16>>
!ids = tensor<?x?xi64, #ts.dims<"b", "s">>

// Matmuls read 16 bits and give f32 to their epilogue; the sum is rounded once
// and the residual reads what was rounded; the result is f32.
// CHECK-LABEL: @block
// CHECK-SAME: -> tensor<?x?x8xf32
// CHECK-DAG: %[[W:.*]] = ts.convert {{.*}} : tensor<8x16xf32> to tensor<8x16xbf16>
// CHECK-DAG: %[[V:.*]] = ts.convert {{.*}} : tensor<16x8xf32> to tensor<16x8xbf16>
// CHECK-DAG: %[[T:.*]] = ts.convert {{.*}} : tensor<32x8xf32> to tensor<32x8xbf16>
// CHECK: %[[E:.*]] = ts.gather %[[T]], %arg0
// CHECK: %[[N:.*]] = ts.layer_norm %[[E]] {{.*}}bf16
// CHECK: %[[D:.*]] = ts.dot %[[N]], %[[W]] {{.*}}result_type = f32
// CHECK: %[[A:.*]] = ts.add %[[D]], {{.*}} : tensor<?x?x16xf32
// CHECK: %[[G:.*]] = ts.gelu %[[A]] : tensor<?x?x16xf32
// CHECK: %[[S:.*]] = ts.convert %[[G]] {{.*}}bf16
// CHECK: %[[O:.*]] = ts.dot %[[S]], %[[V]] {{.*}}result_type = f32
// CHECK: %[[R:.*]] = ts.add %[[O]]
// CHECK: %[[RS:.*]] = ts.convert %[[R]] {{.*}}bf16
// CHECK-DAG: %[[M:.*]] = ts.layer_norm %[[RS]]
// CHECK-DAG: %[[RW:.*]] = ts.convert %[[RS]] {{.*}} to tensor<?x?x8xf32
// CHECK: %[[MW:.*]] = ts.convert %[[M]] {{.*}} to tensor<?x?x8xf32
// CHECK: %[[Z:.*]] = ts.add %[[MW]], %[[RW]]
// CHECK: return %[[Z]]
// HALF-LABEL: @block
// HALF: ts.dot {{.*}}xf16
func.func @block(%ids: !ids) -> !x {
  %t = ts.weight <0, 0, 1024, "t"> : tensor<32x8xf32>
  %w = ts.weight <0, 1024, 512, "w"> : tensor<8x16xf32>
  %v = ts.weight <0, 1536, 512, "v"> : tensor<16x8xf32>
  %b = ts.weight <0, 2048, 64, "b"> : tensor<16xf32>
  %0 = ts.gather %t, %ids dim 0 : tensor<32x8xf32>, !ids
  %1 = ts.layer_norm %0 dim 2 epsilon 1.0e-5 : !x
  %2 = ts.dot %1, %w batch [] x [] contract [2] x [0] : !x, tensor<8x16xf32>
  %3 = ts.broadcast %b [2] : tensor<16xf32> to !y
  %4 = ts.add %2, %3 : !y
  %5 = ts.gelu %4 : !y
  %6 = ts.dot %5, %v batch [] x [] contract [2] x [0] : !y, tensor<16x8xf32>
  %7 = ts.add %6, %0 : !x
  %8 = ts.layer_norm %7 dim 2 epsilon 1.0e-5 : !x
  %9 = ts.add %8, %7 : !x
  return %9 : !x
}

!q = tensor<?x2x?x4xf32, #ts.dims<"b", 2, "s", 4>>
!v = tensor<?x?x2x4xf32, #ts.dims<"b", "s", 2, 4>>

// Views around an attention are views of 16-bit data.
// CHECK-LABEL: @heads
// CHECK: %[[X:.*]] = ts.convert %arg0 {{.*}}bf16
// CHECK: ts.transpose {{.*}}bf16
// CHECK: ts.attention {{.*}}bf16
// CHECK-NOT: xf32
// CHECK: ts.dot {{.*}}result_type = f32
func.func @heads(%x: !x, %w: tensor<8x8xf32>) -> !x {
  %0 = ts.reshape %x : !x to !v
  %1 = ts.transpose %0 [0, 2, 1, 3] : !v
  %2 = ts.attention %1, %1, %1 scale 0.5 : !q, !q, !q
  %3 = ts.transpose %2 [0, 2, 1, 3] : !q
  %4 = ts.reshape %3 : !v to !x
  %5 = ts.dot %4, %w batch [] x [] contract [2] x [0] : !x, tensor<8x8xf32>
  return %5 : !x
}

// Sums stay in f32: they read the matmul as it was accumulated.
// CHECK-LABEL: @sums
// CHECK: %[[D:.*]] = ts.dot
// CHECK-NEXT: ts.reduce add %[[D]] [1] : tensor<6x8xf32>
func.func @sums(%x: tensor<6x8xf32>, %w: tensor<8x8xf32>) -> tensor<6xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<6x8xf32>, tensor<8x8xf32>
  %1 = ts.reduce add %0 [1] : tensor<6x8xf32>
  return %1 : tensor<6xf32>
}

// A reader that stands before what narrows its operand: both read what was rounded.
// CHECK-LABEL: @before
// CHECK: %[[N:.*]] = ts.neg %arg0
// CHECK: %[[S:.*]] = ts.convert %[[N]] {{.*}}bf16
// CHECK: %[[R:.*]] = ts.convert %[[S]] {{.*}} to tensor<8x4xf32>
// CHECK: ts.exp %[[R]]
// CHECK: ts.slice %[[S]]
func.func @before(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>) -> (tensor<8x4xf32>, tensor<4x16xf32>) {
  %0 = ts.neg %x : tensor<8x4xf32>
  %1 = ts.exp %0 : tensor<8x4xf32>
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<8x4xf32> to tensor<4x4xf32>
  %3 = ts.dot %2, %w batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x16xf32>
  return %1, %3 : tensor<8x4xf32>, tensor<4x16xf32>
}

!image = tensor<?x8x16xf32, #ts.dims<"b", 8, 16>>
!row = tensor<?xf32, #ts.dims<"b">>

// A norm over groups, written out: what both its statistics and its result are
// of is rounded once. The sum over an input is of what the caller gave.
// CHECK-LABEL: @written_norm
// CHECK: %[[P:.*]] = ts.dot {{.*}}result_type = f32
// CHECK: %[[R:.*]] = ts.convert %[[P]] {{.*}}bf16
// CHECK: %[[X:.*]] = ts.convert %[[R]] {{.*}} to tensor<?x8x16xf32
// CHECK: ts.reduce  add %[[X]]
// CHECK: ts.sub %[[X]]
// CHECK: ts.reduce  add %arg0
func.func @written_norm(%x: !image) -> (!image, !row) {
  %w = ts.weight <0, 0, 1024, "w"> : tensor<16x16xf32>
  %n = ts.constant dense<7.8125e-3> : tensor<f32>
  %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : !image, tensor<16x16xf32>
  %1 = ts.reduce add %0 [1, 2] : !image
  %2 = ts.broadcast %n [] : tensor<f32> to !row
  %3 = ts.mul %1, %2 : !row
  %4 = ts.broadcast %3 [0] : !row to !image
  %5 = ts.sub %0, %4 : !image
  %6 = ts.mul %5, %5 : !image
  %7 = ts.reduce add %6 [1, 2] : !image
  %8 = ts.mul %7, %2 : !row
  %9 = ts.rsqrt %8 : !row
  %10 = ts.broadcast %9 [0] : !row to !image
  %11 = ts.mul %5, %10 : !image
  %12 = ts.reduce add %x [1, 2] : !image
  return %11, %12 : !image, !row
}

!angles = tensor<?x4xf32, #ts.dims<"s", 4>>

// Angles of a rotary embedding: bf16 holds no position beyond 256. What is made
// of them is rounded like all else.
// CHECK-LABEL: @positions
// CHECK: ts.dot {{.*}} tensor<?x1xf32
// CHECK: ts.dot {{.*}} tensor<?x4xbf16
// HALF-LABEL: @positions
// HALF: ts.dot {{.*}} tensor<?x1xf32
// HALF: ts.dot {{.*}} tensor<?x4xf16
func.func @positions(%p: tensor<?x1xi64, #ts.dims<"s", 1>>) -> !angles {
  %f = ts.weight <0, 0, 16, "f"> : tensor<1x4xf32>
  %0 = ts.convert %p : tensor<?x1xi64, #ts.dims<"s", 1>> to tensor<?x1xf32, #ts.dims<"s", 1>>
  %one = ts.constant dense<1.0> : tensor<f32>
  %ones = ts.broadcast %one [] : tensor<f32> to tensor<?x1xf32, #ts.dims<"s", 1>>
  %next = ts.add %0, %ones : tensor<?x1xf32, #ts.dims<"s", 1>>
  %1 = ts.dot %next, %f batch [] x [] contract [1] x [0] : tensor<?x1xf32, #ts.dims<"s", 1>>, tensor<1x4xf32>
  %2 = ts.cos %1 : !angles
  %g = ts.weight <0, 16, 64, "g"> : tensor<4x4xf32>
  %3 = ts.dot %2, %g batch [] x [] contract [1] x [0] : !angles, tensor<4x4xf32>
  return %3 : !angles
}

!scores = tensor<?x16xf32, #ts.dims<"b", 16>>

// What a maximum is taken from is no norm, and a mask of the lowest number would
// overflow in 16 bits: nothing but the matmul's operands is rounded.
// CHECK-LABEL: @log_sum
// CHECK: ts.dot {{.*}}result_type = f32{{.*}}tensor<16x16xbf16>
// CHECK-NOT: bf16
// CHECK: return
// HALF-LABEL: @log_sum
func.func @log_sum(%x: !scores, %m: !scores) -> !row {
  %w = ts.weight <0, 0, 1024, "w"> : tensor<16x16xf32>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !scores, tensor<16x16xf32>
  %1 = ts.add %0, %m : !scores
  %2 = ts.reduce max %1 [1] : !scores
  %3 = ts.broadcast %2 [0] : !row to !scores
  %4 = ts.sub %1, %3 : !scores
  %5 = ts.exp %4 : !scores
  %6 = ts.reduce add %5 [1] : !scores
  %7 = ts.log %6 : !row
  return %7 : !row
}

// A mask of keys is small: it stays what it is. One of queries and keys is as
// large as the scores, but what is computed for one attention is not stored.
// CHECK-LABEL: @masks
// CHECK: %[[M:.*]] = ts.convert %arg4 : tensor<2x4x9x9xf32> to tensor<2x4x9x9xbf16>
// CHECK: ts.attention {{.*}} mask %arg3 : tensor<2x4x1x9xf32> {{.*}}bf16
// CHECK: ts.attention {{.*}} mask %[[M]] : tensor<2x4x9x9xbf16> {{.*}}bf16
// CHECK: %[[G:.*]] = ts.gather_elements {{.*}} : tensor<2x4x9x32xbf16>
// CHECK: %[[W:.*]] = ts.convert %[[G]] {{.*}} to tensor<2x4x9x9xf32>
// CHECK: %[[S:.*]] = ts.add %arg4, %[[W]]
// CHECK: ts.attention {{.*}} mask %[[S]] : tensor<2x4x9x9xf32> {{.*}}bf16
!h = tensor<2x4x9x16xf32>
func.func @masks(%q: !h, %k: !h, %v: !h, %keys: tensor<2x4x1x9xf32>, %all: tensor<2x4x9x9xf32>,
                 %p: tensor<2x4x32x16xf32>, %i: tensor<2x4x9x9xi64>) -> (!h, !h, !h) {
  %a = ts.attention %q, %k, %v mask %keys : tensor<2x4x1x9xf32> scale 0.25 : !h, !h, !h
  %b = ts.attention %q, %k, %v mask %all : tensor<2x4x9x9xf32> scale 0.25 : !h, !h, !h
  %d = ts.dot %q, %p batch [0, 1] x [0, 1] contract [3] x [3] : !h, tensor<2x4x32x16xf32>
  %g = ts.gather_elements %d, %i dim 3 : tensor<2x4x9x32xf32>, tensor<2x4x9x9xi64>
  %s = ts.add %all, %g : tensor<2x4x9x9xf32>
  %c = ts.attention %q, %k, %v mask %s : tensor<2x4x9x9xf32> scale 0.25 : !h, !h, !h
  return %a, %b, %c : !h, !h, !h
}

// What a written-out norm reads of two matmuls is concatenated as it is stored.
// CHECK-LABEL: @norm_of_concat
// CHECK: %[[P:.*]] = ts.dot {{.*}} {result_type = f32}
// CHECK-NEXT: %[[A:.*]] = ts.convert %[[P]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: %[[Q:.*]] = ts.dot {{.*}} {result_type = f32}
// CHECK-NEXT: %[[B:.*]] = ts.convert %[[Q]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: %[[C:.*]] = ts.concat %[[A]], %[[B]] dim 1
// CHECK: ts.convert %[[C]] : tensor<4x16xbf16> to tensor<4x16xf32>
// CHECK-NOT: ts.concat
func.func @norm_of_concat(%x: tensor<4x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x16xf32> {
  %0 = ts.dot %x, %v batch [] x [] contract [1] x [0] : tensor<4x8xf32>, tensor<8x8xf32>
  %1 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<4x8xf32>, tensor<8x8xf32>
  %2 = ts.concat %0, %1 dim 1 : tensor<4x8xf32>, tensor<4x8xf32>
  %n = ts.constant dense<6.250000e-02> : tensor<f32>
  %ns = ts.broadcast %n [] : tensor<f32> to tensor<4xf32>
  %sum = ts.reduce add %2 [1] : tensor<4x16xf32>
  %mean = ts.mul %sum, %ns : tensor<4xf32>
  %all = ts.broadcast %mean [0] : tensor<4xf32> to tensor<4x16xf32>
  %3 = ts.sub %2, %all : tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A norm of a half rounds that half; the other one is returned as it is summed.
// CHECK-LABEL: @norm_of_a_slice
// CHECK: %[[P:.*]] = ts.dot {{.*}} {result_type = f32}
// CHECK: %[[R:.*]] = ts.slice %[[P]] [#ts.dim<0>, #ts.dim<8>]
// CHECK: return %{{.*}}, %[[R]]
func.func @norm_of_a_slice(%x: tensor<4x8xf32>, %v: tensor<8x16xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = ts.dot %x, %v batch [] x [] contract [1] x [0] : tensor<4x8xf32>, tensor<8x16xf32>
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<8>] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %n = ts.constant dense<1.250000e-01> : tensor<f32>
  %ns = ts.broadcast %n [] : tensor<f32> to tensor<4xf32>
  %sum = ts.reduce add %1 [1] : tensor<4x8xf32>
  %mean = ts.mul %sum, %ns : tensor<4xf32>
  %all = ts.broadcast %mean [0] : tensor<4xf32> to tensor<4x8xf32>
  %3 = ts.sub %1, %all : tensor<4x8xf32>
  return %3, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
