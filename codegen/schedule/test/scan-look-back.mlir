// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Of one long line each program takes a tile, in the order in which they begin,
// and waits for what the tiles before make. From the end, what lies behind it
// comes first and changes nothing.
// CHECK-LABEL: tile.func
// CHECK-SAME: %[[X:.*]]: !tile.buffer<f32>, %[[Y:.*]]: !tile.buffer<f32>, %[[STATE:.*]]: !tile.buffer<i64>
// CHECK-SAME: tile.threads = 256
// CHECK: %[[N:.*]] = tile.ticket %[[STATE]][%c0]
// CHECK: tile.load %[[X]]{{.*}} valid {{.*}} -> vector<4096xf32>
// CHECK: arith.select {{.*}} vector<4096xf32>
// CHECK: %[[S:.*]], %[[ALL:.*]] = tile.scan <add>, {{.*}} {reverse}
// CHECK: tile.look_back <add>, %[[ALL]] state %[[STATE]]
// CHECK: tile.store {{.*}}, %[[Y]]
func.func @main(%x: tensor<1000003xf32>) -> tensor<1000003xf32> {
  %0 = ts.kernel scan (%a = %x : tensor<1000003xf32>) -> tensor<1000003xf32> {
    %r = ts.scan add %a dim 0 {reverse = true} : tensor<1000003xf32>
    ts.yield %r : tensor<1000003xf32>
  }
  return %0 : tensor<1000003xf32>
}
