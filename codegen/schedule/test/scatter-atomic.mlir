// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Updates that reduce meet in memory: a thread takes two neighbours of a row,
// whose 74 elements no larger access divides, and reads their index once.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.grid = 111000 : i64, tile.threads = 1 : i64
// CHECK: %[[AT:.*]] = tile.load %arg1{{.*}} -> i64
// CHECK: tile.set_status 1
// CHECK: scf.if
// CHECK: %[[U:.*]] = tile.load %arg2{{.*}} -> vector<2xf32>
// CHECK: tile.atomic <add>, %[[U]], %arg3
// CHECK-NOT: scf.for
// CHECK: tile.return
func.func @main(%x: tensor<1000x74xf32>, %i: tensor<3000xi64>, %u: tensor<3000x74xf32>) -> tensor<1000x74xf32> {
  %0 = ts.kernel scatter (%a = %x : tensor<1000x74xf32>, %at = %i : tensor<3000xi64>, %v = %u : tensor<3000x74xf32>) -> tensor<1000x74xf32> {
    %j = ts.broadcast %at [0] : tensor<3000xi64> to tensor<3000x74xi64>
    %r = ts.scatter_elements %a, %j, %v dim 0 {reduction = #ts<reduce_kind add>} : tensor<1000x74xf32>, tensor<3000x74xi64>, tensor<3000x74xf32>
    ts.yield %r : tensor<1000x74xf32>
  }
  return %0 : tensor<1000x74xf32>
}
