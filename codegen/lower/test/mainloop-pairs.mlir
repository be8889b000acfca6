// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4-bf16 %s | FileCheck %s --check-prefix=BF16
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4 %s | FileCheck %s --check-prefix=V4
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// Two products of bf16 a lane and instruction; where there is none, two fused
// multiply-adds of what the halves of a lane widen to. K = 11: four pairs in one
// round, one more, and one element, of which A is read alone.
// BF16-LABEL: m4x16:
// BF16-NOT: (%rsp)
// BF16-COUNT-20: vdpbf16ps
// BF16-DAG: movzwl
// BF16-COUNT-4: vdpbf16ps
// BF16-NOT: vfmadd
// BF16: retq
// V4-LABEL: m4x16:
// V4-NOT: vdpbf16ps
// V4-COUNT-44: vfmadd{{.*}}%zmm
// V4: retq
// V3-LABEL: m4x16:
// V3-COUNT-88: vfmadd{{.*}}%ymm
// V3: retq
tile.func @m4x16(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, %y: !tile.buffer<f32>, %lda: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 11 : index
  %ldb = arith.constant 32 : index
  %acc = tile.mainloop A(%a[%c0], row %lda, k %c1) B(%b[%c0], k %ldb) over %k {pairs} : !tile.buffer<bf16>, !tile.buffer<bf16> -> vector<4x16xf32>
  %o1 = arith.constant 16 : index
  %o2 = arith.constant 32 : index
  %o3 = arith.constant 48 : index
  %r0 = vector.extract %acc[0] : vector<16xf32> from vector<4x16xf32>
  %r1 = vector.extract %acc[1] : vector<16xf32> from vector<4x16xf32>
  %r2 = vector.extract %acc[2] : vector<16xf32> from vector<4x16xf32>
  %r3 = vector.extract %acc[3] : vector<16xf32> from vector<4x16xf32>
  tile.store %r0, %y[%c0] : vector<16xf32>, !tile.buffer<f32>
  tile.store %r1, %y[%o1] : vector<16xf32>, !tile.buffer<f32>
  tile.store %r2, %y[%o2] : vector<16xf32>, !tile.buffer<f32>
  tile.store %r3, %y[%o3] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}
