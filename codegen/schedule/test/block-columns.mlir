// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | FileCheck %s

// Softmax down a middle dim: nine threads a column, each of which has 13 rows
// or 12, read once; what they make of them meets in shared memory, in two steps.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK-SAME: tile.threads = 256
// CHECK-SAME: tile.width = 1
// CHECK-NOT: tile.cluster
// CHECK-COUNT-13: tile.gather %arg0{{.*}} vector<256xf16>
// CHECK-NOT: tile.gather %arg0
// CHECK: tile.shared 256
// CHECK: tile.barrier
// CHECK: tile.shared 256
// CHECK: tile.barrier
// CHECK: tile.exp2
// CHECK-COUNT-13: tile.scatter {{.*}} mask {{.*}} vector<256xf16>
func.func @middle(%x: tensor<81x113x28xf16>) -> tensor<81x113x28xf16> {
  %0 = ts.softmax %x dim 1 : tensor<81x113x28xf16>
  return %0 : tensor<81x113x28xf16>
}

// An index: rows in a loop, eight of them at once, and with the best number of
// a thread goes where it is.
// CHECK-LABEL: tile.func @kernel1_0
// CHECK-SAME: tile.width = 1
// CHECK: scf.for
// CHECK-COUNT-8: tile.gather %arg0
// CHECK: tile.shared {{.*}}f32>
// CHECK: tile.shared {{.*}}i64>
func.func @index(%x: tensor<384x41x129xf16>) -> tensor<41x129xi64> {
  %0 = ts.arg_reduce min %x dim 0 : tensor<384x41x129xf16>
  return %0 : tensor<41x129xi64>
}

// Columns enough for all threads: each has its own, and accesses are wide.
// CHECK-LABEL: tile.func @kernel2_0
// CHECK-NOT: tile.width
// CHECK-NOT: tile.shared
func.func @many(%x: tensor<16x300x65536xf32>) -> tensor<16x65536xf32> {
  %0 = ts.reduce add %x [1] : tensor<16x300x65536xf32>
  return %0 : tensor<16x65536xf32>
}
