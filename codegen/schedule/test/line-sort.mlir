// RUN: knapper-translate --kernels-to-tile --isa=sm_90a --split-input-file %s | FileCheck %s

// A thread a line of three. Of the first place alone two comparisons are left,
// of words of 32 bits; lanes behind the last line read that one.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 64
// CHECK: %[[NEAR:.*]] = arith.minsi {{.*}} : vector<64xi32>
// CHECK-COUNT-3: tile.gather
// CHECK-COUNT-2: arith.maxui {{.*}} : vector<64xi32>
// CHECK-NOT: arith.maxui
func.func @main(%x: tensor<1819x3xbf16>) -> (tensor<1819x1xbf16>, tensor<1819x1xi64>) {
  %0, %1 = ts.kernel sort (%a = %x : tensor<1819x3xbf16>) -> (tensor<1819x1xbf16>, tensor<1819x1xi64>) {
    %r, %i = ts.topk %a k <1> dim 1 : tensor<1819x3xbf16>
    ts.yield %r, %i : tensor<1819x1xbf16>, tensor<1819x1xi64>
  }
  return %0, %1 : tensor<1819x1xbf16>, tensor<1819x1xi64>
}

// -----

// Five elements of 64 bits with their places: shared memory between the lines
// and threads that read and store neighbouring elements. A line lies at an odd
// distance from the next.
// CHECK-LABEL: tile.func
// CHECK: %[[LIST:.*]] = tile.shared 640 : !tile.buffer<f32>
// CHECK: %[[ORDER:.*]] = tile.shared 384 : !tile.buffer<i8>
// CHECK: tile.load {{.*}} -> vector<640xf32>
// CHECK: tile.scatter {{.*}}, %[[LIST]]
// CHECK: tile.barrier
// CHECK: arith.cmpi ult, {{.*}} : vector<128xi64>
// CHECK: tile.scatter {{.*}}, %[[ORDER]]
// CHECK: tile.barrier
// CHECK: tile.store {{.*}} : vector<384xf32>
func.func @main(%x: tensor<128000x5xf32>) -> (tensor<128000x3xf32>, tensor<128000x3xi64>) {
  %0, %1 = ts.kernel sort (%a = %x : tensor<128000x5xf32>) -> (tensor<128000x3xf32>, tensor<128000x3xi64>) {
    %r, %i = ts.topk %a k <3> dim 1 : tensor<128000x5xf32>
    ts.yield %r, %i : tensor<128000x3xf32>, tensor<128000x3xi64>
  }
  return %0, %1 : tensor<128000x3xf32>, tensor<128000x3xi64>
}
