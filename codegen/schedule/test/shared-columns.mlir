// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s
// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_80 --no-cache | FileCheck %s --check-prefix=APART

// Few long columns on a GPU with clusters: the programs of one take a part of
// the rows each, combine their tiles, and one of them stores.
module attributes {ts.files = ["columns"], ts.symbols = []} {
  // CHECK: grid = #ts.dim<256>
  // CHECK-COUNT-1: tile.func
  // CHECK-SAME: tile.cluster = 16
  // CHECK: %[[PART:.*]] = arith.remui %{{.*}}, %c16
  // CHECK: %[[BEFORE:.*]] = arith.muli %[[ROWS:.*]], %[[PART]]
  // CHECK-NEXT: %[[FROM:.*]] = arith.divui %[[BEFORE]], %c16
  // CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[PART]], %c1
  // CHECK-NEXT: %[[BEHIND:.*]] = arith.muli %[[ROWS]], %[[NEXT]]
  // CHECK-NEXT: %[[TO:.*]] = arith.divui %[[BEHIND]], %c16
  // CHECK-NEXT: %[[ALL:.*]] = arith.subi %[[TO]], %[[FROM]]
  // CHECK-NEXT: %[[REST:.*]] = arith.remui %[[ALL]], %c16
  // CHECK-NEXT: %[[END:.*]] = arith.subi %[[TO]], %[[REST]]
  // CHECK-NEXT: scf.for %{{.*}} = %[[FROM]] to %[[END]] step %c16
  // CHECK: tile.combine <add>
  // CHECK: %[[FIRST:.*]] = arith.cmpi slt, %[[PART]], %c1 : index
  // CHECK-NEXT: scf.if %[[FIRST]]
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
