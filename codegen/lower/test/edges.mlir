// RUN: knapper-translate --tile-to-asm %s | FileCheck %s --check-prefix=V4
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// A known number of elements at an edge: the narrowest register that holds
// them, without a mask where it is full.
// V4-LABEL: four:
// V4-NOT: {%k
// V4: vmovups 128({{.*}}), %xmm
// V4-NOT: {%k
// V4: vmovups %xmm{{[0-9]+}}, 128(
// V4-NOT: {%k
// V4: retq
// V3-LABEL: four:
// V3-NOT: vmaskmov
// V3: vmovups 128({{.*}}), %xmm
// V3-NOT: vmaskmov
// V3: vmovups %xmm{{[0-9]+}}, 128(
// V3-NOT: vmaskmov
// V3: retq
tile.func @four(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 36 : index
  %v = tile.load %x[%p] valid %n : !tile.buffer<f32> -> vector<48xf32>
  %w = arith.addf %v, %v : vector<48xf32>
  tile.store %w, %y[%p] valid %n : vector<48xf32>, !tile.buffer<f32>
  tile.return
}

// Not full: a mask over the narrow register.
// V4-LABEL: seven:
// V4-NOT: zmm
// V4: vmovups {{.*}}, %ymm{{[0-9]+}} {%k{{[0-9]}}} {z}
// V4: vmovups %ymm{{[0-9]+}}, {{.*}} {%k
// V4: retq
// V3-LABEL: seven:
// V3: vmaskmovps
// V3: retq
tile.func @seven(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 7 : index
  %v = tile.load %x[%p] valid %n : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%p] valid %n : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// What lies past the edge is the padding.
// V4-LABEL: padded:
// V4-NOT: {%k
// V4: vmovup{{[sd]}} {{.*}}, %ymm
// V4: vmovup{{[sd]}} %zmm
// V4: retq
tile.func @padded(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 8 : index
  %pad = arith.constant 1.0 : f32
  %v = tile.load %x[%p] valid %n pad %pad : !tile.buffer<f32> -> vector<16xf32>
  tile.store %v, %y[%p] : vector<16xf32>, !tile.buffer<f32>
  tile.return
}

// Small elements: no mask is needed where the narrow register is full.
// V3-LABEL: halves:
// V3: vmovups {{.*}}, %xmm
// V3: vmovups %xmm
// V3: retq
tile.func @halves(%x: !tile.buffer<bf16>, %y: !tile.buffer<bf16>) {
  %p = tile.program_id
  %n = arith.constant 8 : index
  %v = tile.load %x[%p] valid %n : !tile.buffer<bf16> -> vector<16xbf16>
  tile.store %v, %y[%p] valid %n : vector<16xbf16>, !tile.buffer<bf16>
  tile.return
}
