// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s
// RUN: knapper-translate --kernels-to-tile --isa=x86-64-v3 %s | FileCheck %s --check-prefix=ALL

// A program has a range of two rows: of a tile of indices it lists those in the
// range, and takes these updates in order.
// CHECK-LABEL: tile.func
// CHECK: %[[ID:.*]] = tile.program_id
// CHECK: %[[FIRST:.*]] = arith.muli %[[ID]], %c2
// CHECK: %[[LIST:.*]] = tile.shared 512
// CHECK: scf.for {{.*}} to %c3000 step %c512
// CHECK: tile.load %arg1{{.*}} vector<512xi64>
// CHECK: tile.set_status 1
// CHECK: %[[AT:.*]], %[[TOTAL:.*]] = tile.scan <add>, {{.*}} {exclusive}
// CHECK: tile.scatter {{.*}}, %[[LIST]]
// CHECK: tile.barrier
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[TOTAL]]
// CHECK: scf.for {{.*}} to %[[COUNT]]
// CHECK: tile.load %[[LIST]]
// CHECK: scf.if
// CHECK: tile.load %arg2{{.*}} vector<128xf32>
// CHECK: tile.barrier

// A CPU's program takes all updates of its columns.
// ALL-LABEL: tile.func
// ALL-NOT: tile.shared
// ALL: scf.for {{.*}} to %c3000 step %c1
// ALL-NOT: tile.scan
// ALL: tile.return
func.func @main(%x: tensor<1000x74xf32>, %i: tensor<3000xi64>, %u: tensor<3000x74xf32>) -> tensor<1000x74xf32> {
  %0 = ts.kernel scatter (%a = %x : tensor<1000x74xf32>, %at = %i : tensor<3000xi64>, %v = %u : tensor<3000x74xf32>) -> tensor<1000x74xf32> {
    %j = ts.broadcast %at [0] : tensor<3000xi64> to tensor<3000x74xi64>
    %r = ts.scatter_elements %a, %j, %v dim 0 : tensor<1000x74xf32>, tensor<3000x74xi64>, tensor<3000x74xf32>
    ts.yield %r : tensor<1000x74xf32>
  }
  return %0 : tensor<1000x74xf32>
}
