// (Not beside the pass: graph/layout/SameMeaning_test evaluates what lies there, and these sizes take minutes.)
// RUN: knapper-opt %s --split-reductions | FileCheck %s
// RUN: knapper-opt %s --split-reductions=flat-runs | FileCheck %s --check-prefix=FLAT

// CHECK-LABEL: @columns
// CHECK: ts.reshape %{{.*}} : tensor<16384x16384xf32> to tensor<16x1024x16384xf32>
// CHECK: ts.reduce add %{{.*}} [1] : tensor<16x1024x16384xf32>
// CHECK: ts.reduce add %{{.*}} [0] : tensor<16x16384xf32>
func.func @columns(%x: tensor<16384x16384xf32>) -> tensor<16384xf32> {
  %0 = ts.reduce add %x [0] : tensor<16384x16384xf32>
  return %0 : tensor<16384xf32>
}

// Of fewer columns, more parts.
// CHECK-LABEL: @narrow
// CHECK: ts.reshape %{{.*}} : tensor<16384x2048xf32> to tensor<64x256x2048xf32>
func.func @narrow(%x: tensor<16384x2048xf32>) -> tensor<2048xf32> {
  %0 = ts.reduce add %x [0] : tensor<16384x2048xf32>
  return %0 : tensor<2048xf32>
}

// Parts of all, and 16-bit numbers are added in f32 between the steps.
// CHECK-LABEL: @all
// CHECK: ts.convert
// CHECK: ts.reshape %{{.*}} : tensor<4096x4096xf32> to tensor<1x1024x16384xf32>
// CHECK: ts.reduce max %{{.*}} [2]
// (In the dims of the result: what comes after it is the same kernel's.)
// CHECK: ts.reshape %{{.*}} to tensor<1024xf32>
// CHECK: ts.reduce max %{{.*}} [0]
// CHECK: ts.convert
// CHECK-NOT: ts.reshape
func.func @all(%x: tensor<4096x4096xbf16>) -> tensor<bf16> {
  %0 = ts.reduce max %x [0, 1] : tensor<4096x4096xbf16>
  return %0 : tensor<bf16>
}

// Few long rows.
// CHECK-LABEL: @rows
// CHECK: ts.reshape %{{.*}} : tensor<4x1048576xf32> to tensor<4x64x16384xf32>
func.func @rows(%x: tensor<4x1048576xf32>) -> tensor<4xf32> {
  %0 = ts.reduce add %x [1] : tensor<4x1048576xf32>
  return %0 : tensor<4xf32>
}

// Enough results, short rows, symbols: as they are.
// CHECK-LABEL: @stay
// CHECK-NOT: ts.reshape
func.func @stay(%x: tensor<16384x16384xf32>, %y: tensor<4x4097xf32>,
                %z: tensor<?x1048576xf32, #ts.dims<"n", 1048576>>)
    -> (tensor<16384xf32>, tensor<4xf32>, tensor<?xf32, #ts.dims<"n">>) {
  %0 = ts.reduce add %x [1] : tensor<16384x16384xf32>
  %1 = ts.reduce add %y [1] : tensor<4x4097xf32>
  %2 = ts.reduce add %z [1] : tensor<?x1048576xf32, #ts.dims<"n", 1048576>>
  return %0, %1, %2 : tensor<16384xf32>, tensor<4xf32>, tensor<?xf32, #ts.dims<"n">>
}

// Sizes of which some are symbols: rows of those that are numbers first.
// CHECK-LABEL: @symbolic
// CHECK: ts.reduce max %{{.*}} [2] : tensor<?x?x384xf32
// CHECK: ts.reduce max %{{.*}} [0, 1] : tensor<?x?xf32
func.func @symbolic(%x: tensor<?x?x384xf32, #ts.dims<"b", "s", 384>>) -> tensor<f32> {
  %0 = ts.reduce max %x [0, 1, 2] : tensor<?x?x384xf32, #ts.dims<"b", "s", 384>>
  return %0 : tensor<f32>
}

// Of 16 bits what is between the two steps is f32.
// CHECK-LABEL: @symbolic_half
// CHECK: ts.convert
// CHECK: ts.reduce add %{{.*}} [2] : tensor<?x?x384xf32
// CHECK: ts.reduce add %{{.*}} [0, 1] : tensor<?x?xf32
// CHECK: ts.convert
func.func @symbolic_half(%x: tensor<?x?x384xf16, #ts.dims<"b", "s", 384>>) -> tensor<f16> {
  %0 = ts.reduce add %x [0, 1, 2] : tensor<?x?x384xf16, #ts.dims<"b", "s", 384>>
  return %0 : tensor<f16>
}

// The row is long enough with two dims; what is kept is a number.
// CHECK-LABEL: @heads
// CHECK: ts.reduce add %{{.*}} [2, 3]
// CHECK: ts.reduce add %{{.*}} [1]
func.func @heads(%x: tensor<2x?x12x32xf32, #ts.dims<2, "s", 12, 32>>) -> tensor<2xf32> {
  %0 = ts.reduce add %x [1, 2, 3] : tensor<2x?x12x32xf32, #ts.dims<2, "s", 12, 32>>
  return %0 : tensor<2xf32>
}

// Results enough, or no row.
// CHECK-LABEL: @whole
// CHECK: ts.reduce add %{{.*}} [1, 2]
// CHECK: ts.reduce add %{{.*}} [0, 1]
func.func @whole(%x: tensor<?x100x384xf32, #ts.dims<"b", 100, 384>>, %y: tensor<64x?xf32, #ts.dims<64, "s">>)
    -> (tensor<?xf32, #ts.dims<"b">>, tensor<f32>) {
  %0 = ts.reduce add %x [1, 2] : tensor<?x100x384xf32, #ts.dims<"b", 100, 384>>
  %1 = ts.reduce add %y [0, 1] : tensor<64x?xf32, #ts.dims<64, "s">>
  return %0, %1 : tensor<?xf32, #ts.dims<"b">>, tensor<f32>
}

// The best of each part, of these the best, and where it is in its part.
// CHECK-LABEL: @index
// CHECK: %[[X:.*]] = ts.reshape %arg0 : tensor<4x131072xbf16> to tensor<4x32x4096x1xbf16>
// CHECK: %[[WITHIN:.*]] = ts.arg_reduce max %[[X]] dim 2
// CHECK: %[[BEST:.*]] = ts.reduce max %[[X]] [2]
// CHECK: ts.arg_reduce max %[[BEST]] dim 1
// CHECK: ts.gather_elements %[[WITHIN]]
func.func @index(%x: tensor<4x131072xbf16>) -> tensor<4xi64> {
  %0 = ts.arg_reduce max %x dim 1 : tensor<4x131072xbf16>
  return %0 : tensor<4xi64>
}

// Of columns, and the last of equal elements. Of narrow ones, which are a warp's,
// more parts; no divisor is near, so that there is a rest.
// CHECK-LABEL: @index_of_columns
// CHECK: ts.reshape %{{.*}} : tensor<70x5888x27xf32> to tensor<70x46x128x27xf32>
// CHECK: ts.arg_reduce min %{{.*}} dim 2 {last = true}
// CHECK: ts.arg_reduce min %{{.*}} dim 1 {last = true}
func.func @index_of_columns(%x: tensor<70x5912x27xf32>) -> tensor<70x27xi64> {
  %0 = ts.arg_reduce min %x dim 1 {last = true} : tensor<70x5912x27xf32>
  return %0 : tensor<70x27xi64>
}

// CHECK-LABEL: @index_stays
// CHECK-NOT: ts.reshape
func.func @index_stays(%x: tensor<512x8192xf32>, %y: tensor<4x4096xf32>) -> (tensor<512xi64>, tensor<4xi64>) {
  %0 = ts.arg_reduce max %x dim 1 : tensor<512x8192xf32>
  %1 = ts.arg_reduce max %y dim 1 : tensor<4x4096xf32>
  return %0, %1 : tensor<512xi64>, tensor<4xi64>
}

// No divisor of a prime is near what is wanted: parts that begin at accesses,
// and a rest whose elements stand for themselves behind the parts' best ones.
// CHECK-LABEL: @index_of_prime
// CHECK: ts.slice {{.*}} to tensor<1x579x1xf32>
// CHECK: ts.slice {{.*}} to tensor<1x999424x1xf32>
// CHECK: ts.reshape {{.*}} to tensor<1x244x4096x1xf32>
// CHECK: ts.arg_reduce max {{.*}} dim 2
// CHECK: ts.reduce max
// CHECK: ts.concat {{.*}} dim 1 : tensor<1x244x1xf32>, tensor<1x579x1xf32>
// CHECK: ts.gather_elements
func.func @index_of_prime(%x: tensor<1000003xf32>) -> tensor<i64> {
  %0 = ts.arg_reduce max %x dim 0 : tensor<1000003xf32>
  return %0 : tensor<i64>
}

// CHECK-LABEL: @prime
// CHECK: ts.slice {{.*}} to tensor<1x579xf32>
// CHECK: ts.reshape {{.*}} to tensor<1x61x16384xf32>
// CHECK: ts.reduce add {{.*}} [2]
// CHECK: ts.concat {{.*}} dim 1 : tensor<1x61xf32>, tensor<1x579xf32>
// CHECK: ts.reduce add {{.*}} [1]
func.func @prime(%x: tensor<1000003xf32>) -> tensor<f32> {
  %0 = ts.reduce add %x [0] : tensor<1000003xf32>
  return %0 : tensor<f32>
}

// Where the model has runs: of a length without divisors what is computed before is made of both pieces:
// it would be stored if both read it.
// FLAT-LABEL: @computed
// FLAT: ts.reshape %arg0 : tensor<8x291315xbf16> to tensor<1x2330520xbf16>
// FLAT: ts.slice {{.*}} to tensor<1x{{[0-9]+}}xbf16>
// FLAT: ts.mul
// FLAT: ts.convert
// FLAT: ts.slice {{.*}} to tensor<1x{{[0-9]+}}xbf16>
// FLAT: ts.mul
// FLAT: ts.convert
// FLAT: ts.reduce add %{{.*}} [2]
func.func @computed(%x: tensor<8x291315xbf16>) -> tensor<bf16> {
  %0 = ts.mul %x, %x : tensor<8x291315xbf16>
  %1 = ts.reduce add %0 [0, 1] : tensor<8x291315xbf16>
  return %1 : tensor<bf16>
}

// The bias and what follows it stay in the matmul's dims, with a rest and
// without: they can be its epilogue.
// FLAT-LABEL: @loss
// FLAT: ts.dot
// FLAT: ts.add {{.*}} : tensor<4096x100xf32>
// FLAT: ts.sub {{.*}} : tensor<4096x100xf32>
// FLAT: ts.mul {{.*}} : tensor<4096x100xf32>
// FLAT: ts.reshape {{.*}} : tensor<4096x100xf32>
// FLAT-NOT: ts.mul
// FLAT: return
func.func @loss(%x: tensor<4096x64xf32>, %w: tensor<64x100xf32>, %bias: tensor<100xf32>, %t: tensor<4096x100xf32>) -> tensor<f32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<4096x64xf32>, tensor<64x100xf32>
  %1 = ts.broadcast %bias [1] : tensor<100xf32> to tensor<4096x100xf32>
  %2 = ts.add %0, %1 : tensor<4096x100xf32>
  %3 = ts.sub %2, %t : tensor<4096x100xf32>
  %4 = ts.mul %3, %3 : tensor<4096x100xf32>
  %5 = ts.reduce add %4 [0, 1] : tensor<4096x100xf32>
  return %5 : tensor<f32>
}

// FLAT-LABEL: @loss_with_rest
// FLAT: ts.dot
// FLAT: ts.mul {{.*}} : tensor<10007x101xf32>
// FLAT: ts.reshape {{.*}} : tensor<10007x101xf32>
// FLAT: ts.slice
// FLAT-NOT: ts.mul
// FLAT: return
func.func @loss_with_rest(%x: tensor<10007x64xf32>, %w: tensor<64x101xf32>, %bias: tensor<101xf32>, %t: tensor<10007x101xf32>) -> tensor<f32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<10007x64xf32>, tensor<64x101xf32>
  %1 = ts.broadcast %bias [1] : tensor<101xf32> to tensor<10007x101xf32>
  %2 = ts.add %0, %1 : tensor<10007x101xf32>
  %3 = ts.sub %2, %t : tensor<10007x101xf32>
  %4 = ts.mul %3, %3 : tensor<10007x101xf32>
  %5 = ts.reduce add %4 [0, 1] : tensor<10007x101xf32>
  return %5 : tensor<f32>
}
