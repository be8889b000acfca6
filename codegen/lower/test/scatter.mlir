// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4 %s | FileCheck %s

// Elements at one distance: stores at constants from one address, no
// instruction that scatters and no vector of offsets.
// CHECK-LABEL: threes:
// CHECK-NOT: vscatter
// CHECK: vextractps $1, %xmm{{[0-9]+}}, 12(
// CHECK: vextractps $3, %xmm{{[0-9]+}}, 180(
// CHECK: retq
tile.func @threes(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %v = tile.load %x[%id] : !tile.buffer<f32> -> vector<16xf32>
  %c3 = arith.constant 3 : index
  %start = arith.muli %id, %n : index
  %base = vector.broadcast %start : index to vector<16xindex>
  %lane = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xindex>
  %threes = vector.broadcast %c3 : index to vector<16xindex>
  %step = arith.muli %lane, %threes : vector<16xindex>
  %at = arith.addi %base, %step : vector<16xindex>
  tile.scatter %v, %y[%at] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// Neighbours become one store.
// CHECK-LABEL: fours:
// CHECK: vmovups %xmm{{[0-9]+}}, 36(
// CHECK: retq
tile.func @fours(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %v = tile.load %x[%id] : !tile.buffer<f32> -> vector<8xf32>
  %base = vector.broadcast %id : index to vector<8xindex>
  %lane = arith.constant dense<[0, 1, 2, 3, 9, 10, 11, 12]> : vector<8xindex>
  %at = arith.addi %base, %lane : vector<8xindex>
  tile.scatter %v, %y[%at] : vector<8xf32>, !tile.buffer<f32>
  tile.return
}
