// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s
// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_80 --no-cache | FileCheck %s --check-prefix=APART

// Rows that the programs of a cluster share and cannot hold: each takes a part
// of the longest reduced dim, and waits for the others behind each pass.
module attributes {ts.files = ["rows"], ts.symbols = []} {
  // Two programs of a cluster fill the processors, four keep memory busy.
  // CHECK: grid = #ts.dim<256>
  // CHECK: tile.func
  // CHECK-SAME: tile.cluster = 4
  // CHECK: scf.for %{{.*}} = %c0 to %c10
  // CHECK: vector.reduction <add>
  // CHECK-SAME: tile.of_cluster
  // CHECK: vector.reduction <add>
  // CHECK-SAME: tile.of_cluster
  // CHECK: tile.func
  // CHECK-SAME: tile.cluster = 8
  // CHECK: %[[PART:.*]] = arith.remui %{{.*}}, %c8
  // CHECK: %[[OWN:.*]] = arith.muli %[[PART]], %c43008
  // CHECK-NEXT: %[[FROM:.*]] = arith.minsi %[[OWN]], %c300000
  // CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[FROM]], %c43008
  // CHECK-NEXT: %[[TO:.*]] = arith.minsi %[[NEXT]], %c300000
  // CHECK: scf.for %{{.*}} = %[[FROM]] to
  // CHECK: scf.if
  // CHECK: vector.reduction <maximumf>
  // CHECK-SAME: tile.of_cluster

  // A tile that one of ten iterations has beside partial results is no longer one
  // that a thread holds.
  // APART: grid = #ts.dim<64>
  // APART: lanes = 16384
  // APART-NOT: of_cluster
  func.func @main(%x: tensor<64x10x32000xbf16>, %g: tensor<64x10xbf16>, %y: tensor<100x300000xf16>) -> (tensor<64x10x32000xbf16>, tensor<100x300000xf16>) {
    %0 = ts.layer_norm %x dim 1 epsilon 1.0e-5 : tensor<64x10x32000xbf16>
    %1 = ts.broadcast %g [0, 1] : tensor<64x10xbf16> to tensor<64x10x32000xbf16>
    %2 = ts.mul %0, %1 : tensor<64x10x32000xbf16>
    %3 = ts.softmax %y dim 1 : tensor<100x300000xf16>
    return %2, %3 : tensor<64x10x32000xbf16>, tensor<100x300000xf16>
  }
}
