// Attention on Hopper: copies of boxes on barriers, a warpgroup that copies, others that have queries, scores and
// results in registers; no scores in memory, nothing in local memory.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir

!q = tensor<4x32x4096x128xbf16>

// TILE-LABEL: @kernel0_0(
// TILE: tile.attention {{.*}}algorithm = 1 {{.*}}consumers = 2 {{.*}}head_dim = 128
// CHECK-NOT: .local
// CHECK-LABEL: .entry kernel0_0(
// CHECK-COUNT-4: .param .align 64 .b8 {{.*}}[128]
// CHECK: .reqntid 384
// CHECK-COUNT-12: mbarrier.init
// CHECK: setmaxnreg.inc.sync.aligned.u32 240
// Queries in registers; the first block of keys, then keys and values in turns.
// CHECK-COUNT-8: ldmatrix.sync.aligned.m8n8.x4
// CHECK-COUNT-8: m64n128k16.f32.bf16.bf16 {{.*}}, add, 1, 1, 0;
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: ex2.approx.ftz.f32
// CHECK-COUNT-8: m64n128k16.f32.bf16.bf16 {{.*}}, add, 1, 1, 0;
// CHECK-COUNT-8: m64n128k16.f32.bf16.bf16 {{.*}}, add, 1, 1, 1;
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-COUNT-8: m64n128k16.f32.bf16.bf16 {{.*}}, add, 1, 1, 1;
// CHECK: stmatrix.sync.aligned.m8n8.x4
// CHECK: cp.async.bulk.tensor.4d.global.shared::cta
// CHECK: setmaxnreg.dec.sync.aligned.u32 24
// CHECK-COUNT-2: cp.async.bulk.tensor.4d.shared::cluster.global
// CHECK-NOT: .local
func.func @full(%q: !q, %k: !q, %v: !q) -> !q {
  %0 = ts.attention %q, %k, %v scale 0.088388347648318447 : !q, !q, !q
  return %0 : !q
}

!k = tensor<4x8x4096x128xbf16>

// TILE-LABEL: @kernel1_0(
// TILE: causal {{.*}} head_group_mib = 32
// CHECK-LABEL: .entry kernel1_0(
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK-NOT: .local
func.func @causal_groups(%q: !q, %k: !k, %v: !k) -> !q {
  %0 = ts.attention %q, %k, %v scale 0.088388347648318447 {causal = true} : !q, !k, !k
  return %0 : !q
}

!n = tensor<4x32x4096x64xf16>

// TILE-LABEL: @kernel2_0(
// TILE: tile.attention {{.*}}consumers = 3 {{.*}}head_dim = 64
// CHECK-LABEL: .entry kernel2_0(
// CHECK: .reqntid 512
// CHECK: setmaxnreg.inc.sync.aligned.u32 160
// CHECK: m64n128k16.f32.f16.f16
// CHECK: m64n64k16.f32.f16.f16
// CHECK-NOT: .local
func.func @narrow(%q: !n, %k: !n, %v: !n) -> !n {
  %0 = ts.attention %q, %k, %v scale 0.125 {causal = true} : !n, !n, !n
  return %0 : !n
}

!s = tensor<?x12x?x64xbf16, #ts.dims<"b", 12, "s", 64>>
!f = tensor<?x?x2304xbf16, #ts.dims<"b", "s", 2304>>
!o = tensor<?x?x768xbf16, #ts.dims<"b", "s", 768>>
!h = tensor<?x?x12x64xbf16, #ts.dims<"b", "s", 12, 64>>
!p = tensor<?x?x768xbf16, #ts.dims<"b", "s", 768>>
!m = tensor<?x1x1x?xi1, #ts.dims<"b", 1, 1, "s">>

// Any sizes, heads out of one matrix and back into one, keys left out.
// TILE-LABEL: @kernel3_0(
// The mask is an operand: the region has nothing to do, and blocks are as large as without it.
// TILE: tile.attention {{.*}} mask %{{.*}} at {{.*}}algorithm = 1 {{.*}}consumers = 2 {{.*}}head_dim = 64 {{.*}}tile_n = 128
// TILE-NOT: arith.select
// TILE-LABEL: @kernel3_1(
// TILE: algorithm = 0
// CHECK-LABEL: .entry kernel3_0(
// CHECK-COUNT-4: vote.sync.ballot.b32
// CHECK: cp.async.bulk.tensor.4d.global.shared::cta
// CHECK-LABEL: .entry kernel3_1(
// CHECK-NOT: wgmma
// CHECK: fma.rn.f32
// CHECK-NOT: .local
func.func @heads(%x: !f, %m: !m) -> !o {
  %q0 = ts.slice %x [#ts.dim<"0">, #ts.dim<"0">, #ts.dim<"0">] [1, 1, 1] : !f to !p
  %k0 = ts.slice %x [#ts.dim<"0">, #ts.dim<"0">, #ts.dim<"768">] [1, 1, 1] : !f to !p
  %v0 = ts.slice %x [#ts.dim<"0">, #ts.dim<"0">, #ts.dim<"1536">] [1, 1, 1] : !f to !p
  %q1 = ts.reshape %q0 : !p to !h
  %k1 = ts.reshape %k0 : !p to !h
  %v1 = ts.reshape %v0 : !p to !h
  %q = ts.transpose %q1 [0, 2, 1, 3] : !h
  %k = ts.transpose %k1 [0, 2, 1, 3] : !h
  %v = ts.transpose %v1 [0, 2, 1, 3] : !h
  %0 = ts.attention %q, %k, %v mask %m : !m scale 0.125 : !s, !s, !s
  %1 = ts.transpose %0 [0, 2, 1, 3] : !s
  %2 = ts.reshape %1 : !h to !o
  return %2 : !o
}

!w = tensor<2x4x512x128xbf16>
!a = tensor<1x4x512x512xbf16>

// Scores changed on the way: queries stay in shared memory.
// TILE-LABEL: @kernel4_0(
// TILE: math.tanh
// CHECK-LABEL: .entry kernel4_0(
// CHECK-NOT: ldmatrix
// CHECK: wgmma
// CHECK-NOT: .local
func.func @softcap_and_bias(%q: !w, %k: !w, %v: !w, %m: !a) -> !w {
  %0 = ts.attention %q, %k, %v mask %m : !a scale 0.125 {softcap = 20.0} : !w, !w, !w
  return %0 : !w
}

!e = tensor<2x4x512x72xf32>

// TILE-LABEL: @kernel5_0(
// TILE: algorithm = 0
// CHECK-LABEL: .entry kernel5_0(
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.shared.v4.b32
// CHECK: ex2.approx
// CHECK-NOT: .local
func.func @float32(%q: !e, %k: !e, %v: !e) -> !e {
  %0 = ts.attention %q, %k, %v scale 0.125 {causal = true} : !e, !e, !e
  return %0 : !e
}

!b = tensor<2x17x960x64xbf16>
!bw = tensor<2x17x960x64xf32>

// f32 of what was widened: the 16 bits are read, weights are three terms of bf16 each, from the smallest ones on. The
// matmuls of a block begin at zero and the result leaves from registers.
// TILE-LABEL: @kernel6_0(
// TILE: tile.attention {{.*}}algorithm = 1 {{.*}}tile_n = 64
// CHECK-LABEL: .entry kernel6_0(
// CHECK-COUNT-3: .param .align 64 .b8 {{.*}}[128]
// CHECK-NOT: ldmatrix
// CHECK-COUNT-4: m64n64k16.f32.bf16.bf16 {{.*}}, 1, 1, 0, 0;
// CHECK-COUNT-12: m64n64k16.f32.bf16.bf16 {{.*}}, 1, 1, 1;
// CHECK-COUNT-4: m64n64k16.f32.bf16.bf16 {{.*}}, 1, 1, 0, 0;
// CHECK-COUNT-12: m64n64k16.f32.bf16.bf16 {{.*}}, 1, 1, 1;
// CHECK: st.global.v2.b32
// CHECK-NOT: cp.async.bulk.tensor.4d.global.shared::cta
// CHECK-NOT: .local
func.func @widened(%q: !b, %k: !b, %v: !b) -> !bw {
  %0 = ts.convert %q : !b to !bw
  %1 = ts.convert %k : !b to !bw
  %2 = ts.convert %v : !b to !bw
  %3 = ts.attention %0, %1, %2 scale 0.125 {causal = true, ts.reads_widened} : !bw, !bw, !bw
  return %3 : !bw
}

!c = tensor<3x14x77x256xf16>
!cw = tensor<3x14x77x256xf32>
!ck = tensor<3x7x79x256xf16>
!ckw = tensor<3x7x79x256xf32>
!cm = tensor<3x1x77x79xi1>

// Two terms of f16; wide heads: the consumers share 64 rows and have 128 columns each.
// TILE-LABEL: @kernel7_0(
// TILE: tile.attention {{.*}}algorithm = 1 {{.*}}head_dim = 256 {{.*}}tile_m = 64 {{.*}}tile_n = 64
// CHECK-LABEL: .entry kernel7_0(
// CHECK-COUNT-16: m64n64k16.f32.f16.f16
// CHECK-COUNT-8: m64n128k16.f32.f16.f16 {{.*}}, 1, 1, 1;
// CHECK-NOT: .local
func.func @widened_wide(%q: !c, %k: !ck, %v: !ck, %m: !cm) -> !cw {
  %0 = ts.convert %q : !c to !cw
  %1 = ts.convert %k : !ck to !ckw
  %2 = ts.convert %v : !ck to !ckw
  %3 = ts.attention %0, %1, %2 mask %m : !cm scale 0.0625 {ts.reads_widened, softcap = 5.0, ts.empty_row = "mean"} : !cw, !ckw, !ckw
  return %3 : !cw
}
