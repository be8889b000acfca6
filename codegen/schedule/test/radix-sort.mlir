// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// A program takes a ticket, then counts or places a tile's words.
// CHECK-LABEL: tile.func
// CHECK-SAME: %[[X:.*]]: !tile.buffer<i64>, %[[Y:.*]]: !tile.buffer<i64>, %[[STATE:.*]]: !tile.buffer<i64>
// CHECK-SAME: tile.threads = 256
// CHECK: %[[N:.*]] = tile.ticket %[[STATE]][%c0]
// CHECK: tile.radix_pass %[[X]] to %[[Y]] state %[[STATE]][%c16] number %[[N]] lines %c3 of %{{.*}} bit 40 items 12
func.func @main(%x: tensor<3x300000xui64>) -> tensor<3x300000xui64> {
  %0 = ts.kernel sort (%a = %x : tensor<3x300000xui64>) -> tensor<3x300000xui64> {
    %r, %i = ts.topk %a k <300000> dim 1 {largest = false, ts.digit = 40 : i64} : tensor<3x300000xui64>
    ts.yield %r : tensor<3x300000xui64>
  }
  return %0 : tensor<3x300000xui64>
}
