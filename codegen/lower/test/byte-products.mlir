// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4-vnni %s | FileCheck %s
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4 %s | FileCheck %s --check-prefix=PAIRS
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=PAIRS

// CHECK-LABEL: products:
// CHECK: vpdpbusd
// CHECK-NOT: vpdpbusd
// PAIRS-LABEL: products:
// PAIRS-NOT: vpmaddubsw
// PAIRS: vpmaddwd
// PAIRS: vpmaddwd
// PAIRS-NOT: vpmaddubsw
tile.func @products(%x: !tile.buffer<i32>, %y: !tile.buffer<i32>) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %a = tile.load %x[%c0] : !tile.buffer<i32> -> vector<16xi32>
  %b = tile.load %x[%c16] : !tile.buffer<i32> -> vector<16xi32>
  %s = tile.load %y[%c0] : !tile.buffer<i32> -> vector<16xi32>
  %r = tile.add_byte_products %s, %a, %b : vector<16xi32>
  tile.store %r, %y[%c0] : vector<16xi32>, !tile.buffer<i32>
  tile.return
}

// Floats become i32 a register at a time.
// CHECK-LABEL: integers:
// CHECK-NOT: vcvttss2si
// CHECK: vcvttps2dq %zmm
// CHECK: retq
tile.func @integers(%x: !tile.buffer<f32>, %y: !tile.buffer<i32>) {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0] : !tile.buffer<f32> -> vector<16xf32>
  %i = arith.fptosi %a : vector<16xf32> to vector<16xi32>
  tile.store %i, %y[%c0] : vector<16xi32>, !tile.buffer<i32>
  tile.return
}
