// RUN: knapper-opt --split-sorts %s | FileCheck %s

// Two runs of 2,504 (padded by words that go last) and one merge.
// Zeros are equal: the bits of -0 become those of 0.
// CHECK-LABEL: @floats
// CHECK: %[[NEGATIVE_ZERO:.*]] = ts.compare eq %[[BITS:.*]], %{{.*}} : tensor<2x5000xui32>
// CHECK: ts.select %[[NEGATIVE_ZERO]], %{{.*}}, %[[BITS]]
// CHECK: ts.is_nan
// CHECK: %[[WORDS:.*]] = ts.or {{.*}} : tensor<2x5000xui64>
// CHECK: ts.pad %[[WORDS]] value {{.*}} high [#ts.dim<0>, #ts.dim<8>]
// CHECK: %[[RUNS:.*]], %{{.*}} = ts.topk %{{.*}} k <2504> dim 1 {largest = false} : tensor<4x2504xui64>
// CHECK: %[[PAIR:.*]] = ts.reshape %[[RUNS]] : tensor<4x2504xui64> to tensor<2x5008xui64>
// CHECK: ts.topk %[[PAIR]] k <5008> dim 1 {largest = false, ts.runs = 2504 : i64}
// CHECK: %[[PLACES:.*]] = ts.convert %{{.*}} to tensor<2x5000xi64>
// CHECK: %[[VALUES:.*]] = ts.gather_elements %arg0, %[[PLACES]] dim 1
// CHECK: return %[[VALUES]], %[[PLACES]]
func.func @floats(%x: tensor<2x5000xf32>) -> (tensor<2x5000xf32>, tensor<2x5000xi64>) {
  %v, %i = ts.topk %x k <5000> dim 1 : tensor<2x5000xf32>
  return %v, %i : tensor<2x5000xf32>, tensor<2x5000xi64>
}

// Another dim than the last, and fewer results than elements.
// CHECK-LABEL: @columns
// CHECK: ts.transpose %arg0 [1, 0] : tensor<4200x2xbf16>
// CHECK: ts.gather_elements %{{.*}} : tensor<2x4200xbf16>, tensor<2x1100xi64>
// CHECK: ts.transpose %{{.*}} [1, 0] : tensor<2x1100xbf16>
func.func @columns(%x: tensor<4200x2xbf16>) -> tensor<1100x2xbf16> {
  %v, %i = ts.topk %x k <1100> dim 0 {largest = false} : tensor<4200x2xbf16>
  return %v : tensor<1100x2xbf16>
}

// 64 bits: by the low halves, then by the high ones.
// CHECK-LABEL: @wide
// CHECK: ts.topk %{{.*}} k <2504> dim 1
// CHECK: ts.topk %{{.*}} k <5008> dim 1
// CHECK: ts.gather_elements
// CHECK: ts.topk %{{.*}} k <2504> dim 1
// CHECK: ts.topk %{{.*}} k <5008> dim 1
func.func @wide(%x: tensor<5001xi64>) -> (tensor<5001xi64>, tensor<5001xi64>) {
  %v, %i = ts.topk %x k <5001> dim 0 : tensor<5001xi64>
  return %v, %i : tensor<5001xi64>, tensor<5001xi64>
}

// Longer lines go by digits: 16 bits in two steps, above the places.
// CHECK-LABEL: @digits
// CHECK: ts.bitcast %{{.*}} : tensor<3x16500xbf16> to tensor<3x16500xui16>
// CHECK: %[[WORDS:.*]] = ts.or {{.*}} : tensor<3x16500xui64>
// CHECK-NOT: ts.pad
// CHECK: %[[LOW:.*]], %{{.*}} = ts.topk %[[WORDS]] k <16500> dim 1 {largest = false, ts.digit = 32 : i64}
// CHECK: ts.topk %[[LOW]] k <16500> dim 1 {largest = false, ts.digit = 40 : i64}
// CHECK-NOT: ts.topk
func.func @digits(%x: tensor<3x16500xbf16>) -> (tensor<3x16500xbf16>, tensor<3x16500xi64>) {
  %v, %i = ts.topk %x k <16500> dim 1 : tensor<3x16500xbf16>
  return %v, %i : tensor<3x16500xbf16>, tensor<3x16500xi64>
}

// One run, and few results: as they are.
// CHECK-LABEL: @stay
// CHECK-COUNT-2: ts.topk
// CHECK-NOT: ts.topk
func.func @stay(%x: tensor<2x4096xf32>, %y: tensor<3000xf32>) -> (tensor<2x4096xf32>, tensor<100xf32>) {
  %0, %i = ts.topk %x k <4096> dim 1 : tensor<2x4096xf32>
  %1, %j = ts.topk %y k <100> dim 0 : tensor<3000xf32>
  return %0, %1 : tensor<2x4096xf32>, tensor<100xf32>
}

// Few results of a long line: 16 parts, then their first elements and the one
// that is left behind the last part.
// CHECK-LABEL: @select
// CHECK: %[[CUT:.*]] = ts.reshape %{{.*}} to tensor<16x2048xbf16>
// CHECK: %[[V:.*]], %[[I:.*]] = ts.topk %[[CUT]] k <65> dim 1 : tensor<16x2048xbf16>
// CHECK-DAG: %[[FIRST:.*]] = ts.reshape %[[V]] : tensor<16x65xbf16> to tensor<1x1040xbf16>
// CHECK-DAG: %[[LEFT:.*]] = ts.slice %{{.*}} [#ts.dim<0>, #ts.dim<32768>]
// CHECK: ts.concat %[[FIRST]], %[[LEFT]] dim 1
// CHECK: ts.topk %{{.*}} k <65> dim 1 : tensor<1x1041xbf16>
// CHECK: ts.gather_elements %{{.*}} : tensor<1x1041xi64>, tensor<1x65xi64>
func.func @select(%x: tensor<32769xbf16>) -> (tensor<65xbf16>, tensor<65xi64>) {
  %v, %i = ts.topk %x k <65> dim 0 : tensor<32769xbf16>
  return %v, %i : tensor<65xbf16>, tensor<65xi64>
}

// Lines enough, or short ones, are selected whole.
// CHECK-LABEL: @whole
// CHECK-COUNT-2: ts.topk
// CHECK-NOT: ts.topk
func.func @whole(%x: tensor<64x4096xf32>, %y: tensor<3000xf32>) -> (tensor<64x9xf32>, tensor<9xf32>) {
  %v, %i = ts.topk %x k <9> dim 1 : tensor<64x4096xf32>
  %w, %j = ts.topk %y k <9> dim 0 : tensor<3000xf32>
  return %v, %w : tensor<64x9xf32>, tensor<9xf32>
}

// The first of each of many lines is what a reduction finds, but for the
// smallest floats: NaN goes last there.
// CHECK-LABEL: @first
// CHECK: %[[I:.*]] = ts.arg_reduce max %arg0 dim 1
// CHECK: %[[P:.*]] = ts.reshape %[[I]] : {{.*}} to tensor<200x1x7xi64>
// CHECK: %[[V:.*]] = ts.gather_elements %arg0, %[[P]] dim 1
// CHECK: ts.topk %arg0 k <1> dim 1 {largest = false}
// CHECK: ts.arg_reduce min %arg1 dim 1
func.func @first(%x: tensor<200x90x7xf16>, %y: tensor<300x80xi32>) -> (tensor<200x1x7xf16>, tensor<200x1x7xi64>, tensor<200x1x7xi64>, tensor<300x1xi64>) {
  %v, %i = ts.topk %x k <1> dim 1 : tensor<200x90x7xf16>
  %w, %j = ts.topk %x k <1> dim 1 {largest = false} : tensor<200x90x7xf16>
  %u, %l = ts.topk %y k <1> dim 1 {largest = false} : tensor<300x80xi32>
  return %v, %i, %j, %l : tensor<200x1x7xf16>, tensor<200x1x7xi64>, tensor<200x1x7xi64>, tensor<300x1xi64>
}

// CHECK-LABEL: @one
// CHECK-NOT: ts.topk
// CHECK: return %arg0
func.func @one(%x: tensor<5x1xf32>) -> (tensor<5x1xf32>, tensor<5x1xi64>) {
  %v, %i = ts.topk %x k <1> dim 1 : tensor<5x1xf32>
  return %v, %i : tensor<5x1xf32>, tensor<5x1xi64>
}
