// RUN: knapper-translate --tile-to-asm %s | FileCheck %s --check-prefix=V4
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// The sums stay in registers: the loop is multiply-adds, one broadcast a row and
// step, and no vector goes to the stack.
// V4-LABEL: m8x48:
// V4-NOT: %zmm{{.*}}(%rsp)
// Two steps a round, of so many sums more only take longer to compile.
// V4-COUNT-48: vfmadd231ps
// V4-NOT: vfmadd231ps
// V4: jle
// V4-COUNT-24: vfmadd231ps
// V4-NOT: %zmm{{.*}}(%rsp)
// V4: retq
tile.func @m8x48(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %k: index) {
  %p = tile.program_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %cbm = arith.constant 8 : index
  %cbn = arith.constant 48 : index
  %off = arith.muli %p, %cbm : index
  %aoff = arith.muli %off, %k : index
  %acc = tile.mainloop A(%a[%aoff], row %k, k %c1) B(%b[%c0], k %cbn) over %k {b_alignment = 64} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<8x48xf32>
  %r0 = vector.extract %acc[0] : vector<48xf32> from vector<8x48xf32>
  %ci0 = arith.constant 0 : index
  %row0 = arith.addi %off, %ci0 : index
  %o0 = arith.muli %row0, %n : index
  tile.store %r0, %y[%o0] : vector<48xf32>, !tile.buffer<f32>
  %r1 = vector.extract %acc[1] : vector<48xf32> from vector<8x48xf32>
  %ci1 = arith.constant 1 : index
  %row1 = arith.addi %off, %ci1 : index
  %o1 = arith.muli %row1, %n : index
  tile.store %r1, %y[%o1] : vector<48xf32>, !tile.buffer<f32>
  %r2 = vector.extract %acc[2] : vector<48xf32> from vector<8x48xf32>
  %ci2 = arith.constant 2 : index
  %row2 = arith.addi %off, %ci2 : index
  %o2 = arith.muli %row2, %n : index
  tile.store %r2, %y[%o2] : vector<48xf32>, !tile.buffer<f32>
  %r3 = vector.extract %acc[3] : vector<48xf32> from vector<8x48xf32>
  %ci3 = arith.constant 3 : index
  %row3 = arith.addi %off, %ci3 : index
  %o3 = arith.muli %row3, %n : index
  tile.store %r3, %y[%o3] : vector<48xf32>, !tile.buffer<f32>
  %r4 = vector.extract %acc[4] : vector<48xf32> from vector<8x48xf32>
  %ci4 = arith.constant 4 : index
  %row4 = arith.addi %off, %ci4 : index
  %o4 = arith.muli %row4, %n : index
  tile.store %r4, %y[%o4] : vector<48xf32>, !tile.buffer<f32>
  %r5 = vector.extract %acc[5] : vector<48xf32> from vector<8x48xf32>
  %ci5 = arith.constant 5 : index
  %row5 = arith.addi %off, %ci5 : index
  %o5 = arith.muli %row5, %n : index
  tile.store %r5, %y[%o5] : vector<48xf32>, !tile.buffer<f32>
  %r6 = vector.extract %acc[6] : vector<48xf32> from vector<8x48xf32>
  %ci6 = arith.constant 6 : index
  %row6 = arith.addi %off, %ci6 : index
  %o6 = arith.muli %row6, %n : index
  tile.store %r6, %y[%o6] : vector<48xf32>, !tile.buffer<f32>
  %r7 = vector.extract %acc[7] : vector<48xf32> from vector<8x48xf32>
  %ci7 = arith.constant 7 : index
  %row7 = arith.addi %off, %ci7 : index
  %o7 = arith.muli %row7, %n : index
  tile.store %r7, %y[%o7] : vector<48xf32>, !tile.buffer<f32>
  tile.return
}

// V3-LABEL: m6x16:
// V3-NOT: %ymm{{.*}}(%rsp)
// V3-COUNT-48: vfmadd231ps
// V3-NOT: %ymm{{.*}}(%rsp)
// V3: retq
tile.func @m6x16(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %k: index) {
  %p = tile.program_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %cbm = arith.constant 6 : index
  %cbn = arith.constant 16 : index
  %off = arith.muli %p, %cbm : index
  %aoff = arith.muli %off, %k : index
  %acc = tile.mainloop A(%a[%aoff], row %k, k %c1) B(%b[%c0], k %cbn) over %k {b_alignment = 64} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<6x16xf32>
  %r0 = vector.extract %acc[0] : vector<16xf32> from vector<6x16xf32>
  %ci0 = arith.constant 0 : index
  %row0 = arith.addi %off, %ci0 : index
  %o0 = arith.muli %row0, %n : index
  tile.store %r0, %y[%o0] : vector<16xf32>, !tile.buffer<f32>
  %r1 = vector.extract %acc[1] : vector<16xf32> from vector<6x16xf32>
  %ci1 = arith.constant 1 : index
  %row1 = arith.addi %off, %ci1 : index
  %o1 = arith.muli %row1, %n : index
  tile.store %r1, %y[%o1] : vector<16xf32>, !tile.buffer<f32>
  %r2 = vector.extract %acc[2] : vector<16xf32> from vector<6x16xf32>
  %ci2 = arith.constant 2 : index
  %row2 = arith.addi %off, %ci2 : index
  %o2 = arith.muli %row2, %n : index
  tile.store %r2, %y[%o2] : vector<16xf32>, !tile.buffer<f32>
  %r3 = vector.extract %acc[3] : vector<16xf32> from vector<6x16xf32>
  %ci3 = arith.constant 3 : index
  %row3 = arith.addi %off, %ci3 : index
  %o3 = arith.muli %row3, %n : index
  tile.store %r3, %y[%o3] : vector<16xf32>, !tile.buffer<f32>
  %r4 = vector.extract %acc[4] : vector<16xf32> from vector<6x16xf32>
  %ci4 = arith.constant 4 : index
  %row4 = arith.addi %off, %ci4 : index
  %o4 = arith.muli %row4, %n : index
  tile.store %r4, %y[%o4] : vector<16xf32>, !tile.buffer<f32>
  %r5 = vector.extract %acc[5] : vector<16xf32> from vector<6x16xf32>
  %ci5 = arith.constant 5 : index
  %row5 = arith.addi %off, %ci5 : index
  %o5 = arith.muli %row5, %n : index
  tile.store %r5, %y[%o5] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// One row reads B once: every line of four steps of k is asked for, 2 KB ahead.
// V4-LABEL: m1x48:
// V4-COUNT-12: prefetcht0 {{.*}}2{{[0-9][0-9][0-9]}}(
// V4-NOT: prefetch
// V4: retq
tile.func @m1x48(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>, %y: !tile.buffer<f32>, %k: index) {
  %p = tile.program_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %cbn = arith.constant 48 : index
  %acc = tile.mainloop A(%a[%c0], row %k, k %c1) B(%b[%c0], k %cbn) over %k prefetch %b[%c0] step %c16 {b_alignment = 64} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<1x48xf32>
  %r0 = vector.extract %acc[0] : vector<48xf32> from vector<1x48xf32>
  tile.store %r0, %y[%p] : vector<48xf32>, !tile.buffer<f32>
  tile.return
}

// One row of a copy of B, behind which the next panel does not lie: that is
// asked for where it lies, 12 lines in four steps of k, and not the copy.
// V4-LABEL: m1x48_copied:
// V4-NOT: prefetch{{.*}}2{{[0-9][0-9][0-9]}}(
// V4: prefetcht1
// V4-NOT: prefetch{{.*}}2{{[0-9][0-9][0-9]}}(
// V4: retq
tile.func @m1x48_copied(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %k: index) {
  %p = tile.program_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c192 = arith.constant 192 : index
  %cbn = arith.constant 48 : index
  %acc = tile.mainloop A(%a[%c0], row %k, k %c1) B(%b[%c0], k %cbn) over %k prefetch %w[%c0] step %c192 {b_alignment = 64} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<1x48xf32>
  %r0 = vector.extract %acc[0] : vector<48xf32> from vector<1x48xf32>
  tile.store %r0, %y[%p] : vector<48xf32>, !tile.buffer<f32>
  tile.return
}
