// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4-amx %s | FileCheck %s
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v4-amx %s | FileCheck %s --check-prefix=LOADS

// Two by three tiles: six sums, a register each for A and B, and rows of A up
// and down, so that seven loads serve six tile matmuls. The tiles are configured
// before the first program and given back after the last; none is stored but to
// C.
// CHECK-LABEL: wide:
// CHECK: ldtilecfg
// CHECK-NOT: tilestored
// CHECK: tileloadd {{.*}}, %tmm7
// CHECK: tileloadd {{.*}}, %tmm6
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm0
// CHECK: tileloadd {{.*}}, %tmm6
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm3
// CHECK: tileloadd {{.*}}, %tmm7
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm4
// CHECK: tileloadd {{.*}}, %tmm6
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm1
// CHECK: tileloadd {{.*}}, %tmm7
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm2
// CHECK: tileloadd {{.*}}, %tmm6
// CHECK-NEXT: tdpbf16ps %tmm7, %tmm6, %tmm5
// CHECK-NOT: {{tileloadd|tdpbf16ps|ldtilecfg}}
// CHECK-COUNT-6: tilestored
// CHECK: tilerelease
// CHECK-NOT: tile
// CHECK: retq
tile.func @wide(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, %c: !tile.buffer<f32>, %lda: index) {
  %c0 = arith.constant 0 : index
  %k = arith.constant 768 : index
  %ldb = arith.constant 96 : index
  %ldc = arith.constant 48 : index
  tile.block A(%a[%c0], row %lda) B(%b[%c0], k %ldb) over %k C(%c[%c0], row %ldc) rows 32 columns 48 : !tile.buffer<bf16>, !tile.buffer<bf16> -> !tile.buffer<f32>
  tile.return
}

// Three parts of two by two tiles: six tile matmuls of parts, the smallest first;
// of each pair of neighbours one part stays in its registers.
// CHECK-LABEL: parts:
// CHECK-COUNT-24: tdpbf16ps
// CHECK-NOT: tdpbf16ps
// CHECK-COUNT-4: tilestored
// CHECK: retq
// LOADS-LABEL: parts:
// LOADS-COUNT-14: tileloadd
// LOADS-NOT: tileloadd
// LOADS: retq
tile.func @parts(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, %c: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %k = arith.constant 768 : index
  %lda = arith.constant 2304 : index
  %ldb = arith.constant 192 : index
  %ldc = arith.constant 32 : index
  %part = arith.constant 64 : index
  tile.block A(%a[%c0], row %lda) B(%b[%c0], k %ldb) over %k parts 3 (%k, %part) C(%c[%c0], row %ldc) rows 32 columns 32 : !tile.buffer<bf16>, !tile.buffer<bf16> -> !tile.buffer<f32>
  tile.return
}

// Bytes, fewer rows: a configuration of their own, and the function's again.
// CHECK-LABEL: ragged:
// CHECK: ldtilecfg
// CHECK: ldtilecfg
// CHECK: tdpbusd
// CHECK: tdpbusd
// CHECK: tilestored
// CHECK: tilestored
// CHECK: ldtilecfg
// CHECK: tilerelease
// CHECK: retq
tile.func @ragged(%a: !tile.buffer<i8>, %b: !tile.buffer<i8>, %c: !tile.buffer<i32>, %lda: index, %valid: index) {
  %c0 = arith.constant 0 : index
  %k = arith.constant 128 : index
  %ldb = arith.constant 128 : index
  %ldc = arith.constant 32 : index
  tile.block A(%a[%c0], row %lda) B(%b[%c0], k %ldb) over %k C(%c[%c0], row %ldc) rows 16 valid %valid columns 32 : !tile.buffer<i8>, !tile.buffer<i8> -> !tile.buffer<i32>
  tile.return
}
