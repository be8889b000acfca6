// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// 150,000 lines of three elements, three beside each other: a thread a line.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 128
// CHECK: arith.divui {{.*}} : vector<128xindex>
// CHECK: scf.for
// CHECK: tile.gather
// CHECK: tile.scatter
func.func @main(%x: tensor<50000x3x3xf32>) -> tensor<50000x3x3xf32> {
  %0 = ts.kernel scan (%a = %x : tensor<50000x3x3xf32>) -> tensor<50000x3x3xf32> {
    %r = ts.scan add %a dim 1 : tensor<50000x3x3xf32>
    ts.yield %r : tensor<50000x3x3xf32>
  }
  return %0 : tensor<50000x3x3xf32>
}
