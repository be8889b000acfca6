// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s
// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_80 --no-cache | FileCheck %s --check-prefix=APART

// Few long columns on a GPU with clusters: the programs of one take a part of
// the rows each, combine their tiles, and one of them stores.
module attributes {ts.files = ["columns"], ts.symbols = []} {
  // CHECK-COUNT-1: tile.func
  // CHECK-SAME: tile.cluster = 16
  // CHECK: arith.remui %{{.*}}, %c16
  // CHECK: scf.for
  // CHECK: tile.combine <add>
  // CHECK: scf.if
  // CHECK-NEXT: tile.store
  // CHECK-NOT: tile.func

  // Without them two kernels.
  // APART-COUNT-2: tile.func
  // APART-NOT: tile.combine
  func.func @main(%x: tensor<16384x16384xf32>) -> tensor<16384xf32> {
    %0 = ts.reduce add %x [0] : tensor<16384x16384xf32>
    return %0 : tensor<16384xf32>
  }
}
