// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4-vnni %s | FileCheck %s --check-prefix=VNNI
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4 %s | FileCheck %s --check-prefix=V4
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// Four products of bytes a lane and instruction; where there is none, two of 16
// bits, which does not saturate. The sums stay in registers. K = 18: four steps
// of four in one round, and two bytes left.
// VNNI-LABEL: m4x16:
// VNNI-NOT: (%rsp)
// VNNI-COUNT-20: vpdpbusd
// VNNI: retq
// V4-LABEL: m4x16:
// V4-NOT: vpdpbusd
// V4-NOT: vpmaddubsw
// V4-COUNT-40: vpmaddwd {{.*}}%zmm
// V4: retq
// V3-LABEL: m4x16:
// V3-NOT: vpmaddubsw
// V3-COUNT-80: vpmaddwd {{.*}}%ymm
// V3: retq
tile.func @m4x16(%a: !tile.buffer<i8>, %b: !tile.buffer<i8>, %y: !tile.buffer<i32>, %lda: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 18 : index
  %ldb = arith.constant 64 : index
  %acc = tile.mainloop A(%a[%c0], row %lda, k %c1) B(%b[%c0], k %ldb) over %k : !tile.buffer<i8>, !tile.buffer<i8> -> vector<4x16xi32>
  %o1 = arith.constant 16 : index
  %o2 = arith.constant 32 : index
  %o3 = arith.constant 48 : index
  %r0 = vector.extract %acc[0] : vector<16xi32> from vector<4x16xi32>
  %r1 = vector.extract %acc[1] : vector<16xi32> from vector<4x16xi32>
  %r2 = vector.extract %acc[2] : vector<16xi32> from vector<4x16xi32>
  %r3 = vector.extract %acc[3] : vector<16xi32> from vector<4x16xi32>
  tile.store %r0, %y[%c0] : vector<16xi32>, !tile.buffer<i32>
  tile.store %r1, %y[%o1] : vector<16xi32>, !tile.buffer<i32>
  tile.store %r2, %y[%o2] : vector<16xi32>, !tile.buffer<i32>
  tile.store %r3, %y[%o3] : vector<16xi32>, !tile.buffer<i32>
  tile.return
}
