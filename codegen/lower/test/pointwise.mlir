// RUN: knapper-translate --tile-to-llvmir %s | FileCheck %s
// RUN: knapper-translate --tile-to-asm %s | FileCheck %s --check-prefix=V4
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// Programs begin..end of the grid; buffers and symbols are read once; the output
// aliases nothing, the two inputs may be equal.
// CHECK-LABEL: define hidden void @axpy(ptr noalias {{.*}}%0, ptr noalias {{.*}}%1, ptr noalias {{.*}}%2, i64 %3, i64 %4)
// CHECK: load ptr, ptr %{{.*}}, align 8, !invariant.load
// CHECK: icmp slt i64 %3, %4
// CHECK: programs:
// CHECK: phi i64 [ %3, %entry ]
// CHECK: load <64 x float>, ptr %{{.*}}, align 64, !alias.scope ![[XS:[0-9]+]], !noalias ![[XN:[0-9]+]]
// CHECK: load <64 x float>, ptr %{{.*}}, align 4, !alias.scope ![[YS:[0-9]+]], !noalias ![[XN]]
// CHECK: store <64 x float> %{{.*}}, ptr %{{.*}}, align 4, !alias.scope ![[ZS:[0-9]+]], !noalias ![[ZN:[0-9]+]]

// V4-LABEL: axpy:
// V4-COUNT-4: vfmadd{{.*}}%zmm
// V4-NOT: call
// V3-LABEL: axpy:
// V3-COUNT-8: vfmadd{{.*}}%ymm
// V3-NOT: zmm
tile.func @axpy(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %z: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 64 : index
  %off = arith.muli %p, %n : index
  %a = arith.constant dense<2.0> : vector<64xf32>
  %v = tile.load %x[%off] {alignment = 64} : !tile.buffer<f32> -> vector<64xf32>
  %w = tile.load %y[%off] : !tile.buffer<f32> -> vector<64xf32>
  %r = math.fma %v, %a, %w : vector<64xf32>
  tile.store %r, %z[%off] : vector<64xf32>, !tile.buffer<f32>
  tile.return
}

// 48 lanes are three registers, not four.
// V4-LABEL: cut:
// V4-COUNT-3: vmulps{{.*}}%zmm
// V4-NOT: vmulps
// V4: retq
tile.func @cut(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<48xf32>
  %r = arith.mulf %v, %v : vector<48xf32>
  tile.store %r, %y[%c0] : vector<48xf32>, !tile.buffer<f32>
  tile.return
}

// A ragged 16-bit store is a mask on AVX-512 and a short loop on AVX2.
// V4-LABEL: ragged:
// V4: vmovdqu16 %ymm{{.*}} {%k
// V3-LABEL: ragged:
// V3: vmovups %ymm
// V3: movw
tile.func @ragged(%x: !tile.buffer<bf16>, %y: !tile.buffer<bf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<bf16> -> vector<16xbf16>
  tile.store %v, %y[%c0] valid %n : vector<16xbf16>, !tile.buffer<bf16>
  tile.return
}

// Non-temporal where the alignment is known, and then fenced.
// V4-LABEL: stream:
// V4: vmovntps %zmm
// V4: sfence
tile.func @stream(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%c0] {nontemporal, alignment = 64} : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// Else the address decides: whole registers, pieces of 16 bytes, or through the
// caches.
// V4-LABEL: stream_anywhere:
// V4-DAG: testb $63
// V4-DAG: testb $15
// V4-DAG: vmovntps %zmm
// V4-DAG: vmovntps %xmm
// V4-DAG: vmovups %zmm{{[0-9]+}}, (
tile.func @stream_anywhere(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %v = tile.load %x[%p] : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%p] {nontemporal} : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// No library rounds f64 to f16: the sign does not pass the conversions.
// V4-LABEL: sign:
// V4-NOT: call
// V4: vcvtps2ph
// V4-NOT: call
// V4: retq
// V3-LABEL: sign:
// V3-NOT: call
// V3: vcvtps2ph
// V3-NOT: call
// V3: retq
tile.func @sign(%x: !tile.buffer<f64>, %y: !tile.buffer<f16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %wide = tile.load %x[%c0] : !tile.buffer<f64> -> f64
  %other = tile.load %x[%c1] : !tile.buffer<f64> -> f64
  %sign = arith.truncf %wide : f64 to f32
  %size = arith.truncf %other : f64 to f32
  %number = math.copysign %size, %sign : f32
  %r = arith.truncf %number : f32 to f16
  tile.store %r, %y[%c0] : f16, !tile.buffer<f16>
  tile.return
}
