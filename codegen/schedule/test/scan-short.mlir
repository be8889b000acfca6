// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Three elements of a line in four lanes. From the end of the line the fourth
// comes first: it must not change what is behind it.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 128
// CHECK: %[[X:.*]] = tile.gather
// CHECK: %[[NONE:.*]] = arith.constant dense<0x7F800000> : vector<512xf32>
// CHECK: %[[LINE:.*]] = arith.select %{{.*}}, %[[X]], %[[NONE]] : vector<512xi1>, vector<512xf32>
// CHECK: tile.scan_rows <minimumf>, %[[LINE]] columns 4 {reverse}
func.func @main(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %0 = ts.kernel scan (%a = %x : tensor<5x3xf32>) -> tensor<5x3xf32> {
    %r = ts.scan min %a dim 1 {reverse = true} : tensor<5x3xf32>
    ts.yield %r : tensor<5x3xf32>
  }
  return %0 : tensor<5x3xf32>
}
