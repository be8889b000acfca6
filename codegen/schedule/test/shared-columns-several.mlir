// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | FileCheck %s

!b = tensor<16384x256xbf16>
!c = tensor<256xbf16>

// One number a column: an access of 16 bytes of each row a thread.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK-SAME: tile.cluster = 128
// CHECK: %[[ID:.*]] = tile.program_id
// CHECK-NEXT: arith.remui %[[ID]], %c128
// CHECK-NEXT: arith.divui %[[ID]], %c128
// CHECK: tile.combine <add>, %{{.*}} : vector<256xf32>
func.func @one(%x: !b) -> !c {
  %0 = ts.reduce add %x [0] : !b
  return %0 : !c
}

// Four: of fewer columns, so that what all programs of a block leave fits in shared memory.
// CHECK-LABEL: tile.func @kernel1_0
// CHECK-SAME: tile.cluster = 128
// CHECK-COUNT-4: tile.combine {{.*}} : vector<128xf32>
func.func @four(%x: !b) -> (!c, !c, !c, !c) {
  %0 = ts.reduce add %x [0] : !b
  %1 = ts.reduce max %x [0] : !b
  %2 = ts.reduce min %x [0] : !b
  %3 = ts.reduce mul %x [0] : !b
  return %0, %1, %2, %3 : !c, !c, !c, !c
}

// What is summed is wider than what is read.
// CHECK-LABEL: tile.func @kernel2_0
// CHECK-SAME: tile.cluster = 128
// CHECK: tile.combine <add>, %{{.*}} : vector<256xi64>
func.func @wide(%x: tensor<4096x200xi8>) -> tensor<200xi8> {
  %0 = ts.convert %x : tensor<4096x200xi8> to tensor<4096x200xi64>
  %1 = ts.reduce add %0 [0] : tensor<4096x200xi64>
  %2 = ts.convert %1 : tensor<200xi64> to tensor<200xi8>
  return %2 : tensor<200xi8>
}

// Rows that each program takes end with its own, also in the pass that stores; every pass's tiles meet.
// CHECK-LABEL: tile.func @kernel3_0
// CHECK-SAME: tile.cluster = 128
// CHECK: scf.for
// CHECK: tile.combine <maximumf>
// CHECK: scf.for
// CHECK: tile.combine <add>
// CHECK-NOT: scf.if
// CHECK: arith.divui %{{.*}}, %c128
// CHECK: %[[TO:.*]] = arith.divui %{{.*}}, %c128
// CHECK: %[[ALL:.*]] = arith.subi %[[TO]],
// CHECK-NEXT: %[[REST:.*]] = arith.remui %[[ALL]],
// CHECK-NEXT: %[[END:.*]] = arith.subi %[[TO]], %[[REST]]
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[END]]
// CHECK: tile.store
// CHECK: scf.for %{{.*}} = %[[END]] to %[[TO]]
// CHECK: tile.store
func.func @softmax(%x: tensor<4099x32xf32>) -> tensor<4099x32xf32> {
  %0 = ts.softmax %x dim 0 : tensor<4099x32xf32>
  return %0 : tensor<4099x32xf32>
}

// Truths do not lie in shared memory.
// CHECK-LABEL: tile.func @kernel4_0
// CHECK-NOT: tile.cluster
func.func @truths(%x: tensor<4096x40xi1>) -> tensor<40xi1> {
  %0 = ts.reduce and %x [0] : tensor<4096x40xi1>
  return %0 : tensor<40xi1>
}

// CHECK-LABEL: tile.func @kernel5_0
// CHECK: tile.combine <maxui>, %{{.*}} : vector<128xi32>
// CHECK: tile.combine <minui>, %{{.*}} : vector<128xi32>
func.func @without_sign(%x: tensor<4096x200xui32>) -> (tensor<200xui32>, tensor<200xui32>) {
  %0 = ts.reduce max %x [0] : tensor<4096x200xui32>
  %1 = ts.reduce min %x [0] : tensor<4096x200xui32>
  return %0, %1 : tensor<200xui32>, tensor<200xui32>
}

// Nothing is reduced, so nothing is shared.
// CHECK-LABEL: tile.func @kernel6_0
// CHECK-NOT: tile.cluster
func.func @nothing(%x: !b) -> !b {
  %0 = ts.reduce add %x [] : !b
  return %0 : !b
}

// Two dims are summed, and what is read of them does not let them be one: the rows of the first, few as they are, are many elements each.
// CHECK-LABEL: tile.func @kernel7_0
// CHECK-SAME: tile.cluster = 32
// CHECK: tile.combine <add>
func.func @apart(%x: tensor<48x124x40xbf16>, %at: tensor<96xi64>) -> tensor<40xbf16> {
  %0 = ts.gather %x, %at dim 0 : tensor<48x124x40xbf16>, tensor<96xi64>
  %1 = ts.reduce add %0 [0, 1] : tensor<96x124x40xbf16>
  return %1 : tensor<40xbf16>
}
