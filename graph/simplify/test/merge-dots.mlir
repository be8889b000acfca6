// RUN: knapper-opt --merge-dots %s | FileCheck %s
// RUN: knapper-opt --merge-dots=all %s | FileCheck %s --check-prefix=ALL

!x = tensor<?x8xf32, #ts.dims<"s", 8>>
!y = tensor<?x4xf32, #ts.dims<"s", 4>>

// CHECK-LABEL: @qkv
// CHECK: %[[W:.*]] = ts.concat {{.*}} dim 1 : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>
// CHECK: %[[D:.*]] = ts.dot %arg0, %[[W]]
// CHECK: %[[B:.*]] = ts.concat {{.*}} dim 0 : tensor<8xf32>, tensor<4xf32>, tensor<4xf32>
// CHECK: %[[A:.*]] = ts.add %[[D]], {{.*}} : tensor<?x16xf32
// CHECK: ts.slice %[[A]] [#ts.dim<0>, #ts.dim<0>] {{.*}} to tensor<?x8xf32
// CHECK: ts.slice %[[A]] [#ts.dim<0>, #ts.dim<8>] {{.*}} to tensor<?x4xf32
// CHECK: ts.slice %[[A]] [#ts.dim<0>, #ts.dim<12>] {{.*}} to tensor<?x4xf32
func.func @qkv(%x: !x) -> (!x, !y, !y) {
  %wq = ts.weight <0, 0, 256, "q"> : tensor<8x8xf32>
  %wk = ts.weight <0, 256, 128, "k"> : tensor<8x4xf32>
  %bq = ts.weight <0, 512, 32, "bq"> : tensor<8xf32>
  %q0 = ts.dot %x, %wq batch [] x [] contract [1] x [0] : !x, tensor<8x8xf32>
  %bqb = ts.broadcast %bq [1] : tensor<8xf32> to !x
  %q = ts.add %q0, %bqb : !x
  %k = ts.dot %x, %wk batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %wv = ts.weight <0, 384, 128, "v"> : tensor<8x4xf32>
  %v0 = ts.dot %x, %wv batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %bv = ts.weight <0, 544, 16, "bv"> : tensor<4xf32>
  %bvb = ts.broadcast %bv [1] : tensor<4xf32> to !y
  %v = ts.add %bvb, %v0 : !y
  return %q, %k, %v : !x, !y, !y
}

// gate and up have epilogues: apart by default.
// CHECK-LABEL: @gate
// CHECK-COUNT-2: ts.dot
// ALL-LABEL: @gate
// ALL: ts.dot
// ALL-NOT: ts.dot
func.func @gate(%x: !x) -> !y {
  %wg = ts.weight <0, 0, 128, "g"> : tensor<8x4xf32>
  %wu = ts.weight <0, 128, 128, "u"> : tensor<8x4xf32>
  %g = ts.dot %x, %wg batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %s = ts.sigmoid %g : !y
  %a = ts.mul %g, %s : !y
  %u = ts.dot %x, %wu batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %r = ts.mul %a, %u : !y
  return %r : !y
}

// A bias of one element is no column of the merged bias; of a dot that is read elsewhere too the sum is no bias.
// ALL-LABEL: @no_bias
// ALL: %[[D:.*]] = ts.dot
// ALL-NOT: ts.concat {{.*}} dim 0
// ALL: %[[A:.*]] = ts.slice %[[D]]
// ALL: %[[B:.*]] = ts.slice %[[D]]
// ALL: ts.add %[[A]]
// ALL: ts.neg %[[B]]
// ALL: ts.add %[[B]]
func.func @no_bias(%x: !x) -> (!y, !y, !y) {
  %wa = ts.weight <0, 0, 128, "a"> : tensor<8x4xf32>
  %wb = ts.weight <0, 128, 128, "b"> : tensor<8x4xf32>
  %one = ts.weight <0, 256, 4, "one"> : tensor<1xf32>
  %four = ts.weight <0, 260, 16, "four"> : tensor<4xf32>
  %a = ts.dot %x, %wa batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %oneb = ts.broadcast %one [1] : tensor<1xf32> to !y
  %sum = ts.add %a, %oneb : !y
  %b = ts.dot %x, %wb batch [] x [] contract [1] x [0] : !x, tensor<8x4xf32>
  %also = ts.neg %b : !y
  %fourb = ts.broadcast %four [1] : tensor<4xf32> to !y
  %more = ts.add %b, %fourb : !y
  return %sum, %also, %more : !y, !y, !y
}

// Sums of one are rounded to bf16, those of the other stay float32; bytes of one sign and of two.
// CHECK-LABEL: @other_types
// CHECK-NOT: ts.concat
// CHECK-COUNT-4: ts.dot
// ALL-LABEL: @other_types
// ALL-COUNT-4: ts.dot
// CHECK-NOT: ts.concat
// CHECK: return
func.func @other_types(%x: tensor<3x8xbf16>, %b: tensor<3x8xui8>) -> (tensor<3x4xbf16>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xi32>) {
  %w = ts.weight <0, 0, 64, "w"> : tensor<8x4xbf16>
  %v = ts.weight <0, 64, 64, "v"> : tensor<8x4xbf16>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<3x8xbf16>, tensor<8x4xbf16>
  %1 = ts.dot %x, %v batch [] x [] contract [1] x [0] {result_type = f32} : tensor<3x8xbf16>, tensor<8x4xbf16>
  %i = ts.weight <0, 128, 32, "i"> : tensor<8x4xi8>
  %u = ts.weight <0, 160, 32, "u"> : tensor<8x4xui8>
  %2 = ts.dot %b, %i batch [] x [] contract [1] x [0] {result_type = i32} : tensor<3x8xui8>, tensor<8x4xi8>
  %3 = ts.dot %b, %u batch [] x [] contract [1] x [0] {result_type = i32} : tensor<3x8xui8>, tensor<8x4xui8>
  return %0, %1, %2, %3 : tensor<3x4xbf16>, tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xi32>
}
