// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4 %s | FileCheck %s

// Consecutive elements under a mask are one masked load.
// CHECK-LABEL: run:
// CHECK-NOT: vgather
// CHECK: vmovups {{.*}}, %zmm{{[0-9]+}} {%k{{[0-9]}}} {z}
// CHECK: retq
tile.func @run(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %base = vector.broadcast %id : index to vector<16xindex>
  %end = vector.broadcast %n : index to vector<16xindex>
  %lane = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xindex>
  %at = arith.addi %base, %lane : vector<16xindex>
  %inside = arith.cmpi ult, %at, %end : vector<16xindex>
  %v = tile.gather %x[%at] mask %inside : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%id] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// At any other distance it is not.
// CHECK-LABEL: twos:
// CHECK: vgather
// CHECK: retq
tile.func @twos(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %base = vector.broadcast %id : index to vector<16xindex>
  %end = vector.broadcast %n : index to vector<16xindex>
  %lane = arith.constant dense<[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]> : vector<16xindex>
  %at = arith.addi %base, %lane : vector<16xindex>
  %inside = arith.cmpi ult, %at, %end : vector<16xindex>
  %v = tile.gather %x[%at] mask %inside : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%id] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// Elements that are read backwards are a run of memory, reversed in a register.
// CHECK-LABEL: backwards:
// CHECK-NOT: vgather
// CHECK-NOT: vinsertps
// CHECK: vpermps
// CHECK-NOT: vinsertps
// CHECK: retq
tile.func @backwards(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %back = arith.constant -1 : index
  %v = tile.load_strided %x[%n, %back] : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%id] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// So are some of them.
// CHECK-LABEL: some_backwards:
// CHECK-NOT: vgather
// CHECK: {%k{{[0-9]}}} {z}
// CHECK: vperm
// CHECK: retq
tile.func @some_backwards(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %back = arith.constant -1 : index
  %v = tile.load_strided %x[%n, %back] valid %id : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%id] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// Every second element of a run: the run and a shuffle; a mask of what is valid.
// CHECK-LABEL: every_second:
// CHECK-NOT: vgather
// CHECK-NOT: vinsertps
// CHECK: vpermt2ps
// CHECK-NOT: vinsertps
// CHECK: retq
tile.func @every_second(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %id = tile.program_id
  %step = arith.constant 2 : index
  %v = tile.load_strided %x[%n, %step] : !tile.buffer<f32> -> vector<16xf32>
  %w = tile.load_strided %x[%n, %step] valid %id : !tile.buffer<f32> -> vector<16xf32>
  %s = arith.addf %v, %w : vector<16xf32>
  tile.store %s, %y[%id] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}
