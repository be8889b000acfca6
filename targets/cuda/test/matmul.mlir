// Matmuls on Hopper: copies of boxes on barriers, a warpgroup that copies and two that multiply, results through
// shared memory; nothing in local memory.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir

!x = tensor<4096x4096xbf16>

// TILE-LABEL: @kernel0_0(
// TILE: tile.matmul {{.*}}algorithm = 1 {{.*}}b_transposed = 0 {{.*}}tile_n = 256
// CHECK-NOT: .local
// CHECK-LABEL: .entry kernel0_0(
// CHECK-COUNT-3: .param .align 64 .b8 {{.*}}[128]
// CHECK: .reqntid 384
// CHECK: .minnctapersm 1
// CHECK-COUNT-8: mbarrier.init
// CHECK: fence.mbarrier_init
// CHECK: setmaxnreg.inc.sync.aligned.u32 232
// The matrices of a chunk, 16 columns or 32 bytes each, lie at exclusive ors of one place.
// CHECK: xor.b32 {{%r[0-9]+}}, [[PLACE:%r[0-9]+]], 32;
// CHECK: xor.b32 {{%r[0-9]+}}, [[PLACE]], 64;
// CHECK: xor.b32 {{%r[0-9]+}}, [[PLACE]], 96;
// The first step from zero, the others onto it, one group in flight.
// CHECK: setp.ne.b32 add, 0, 0;
// CHECK-NEXT: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {[[FIRST:%r[0-9]+]], [[SECOND:%r[0-9]+]], {{.*}}, add, 1, 1, 0, 0;
// CHECK-COUNT-7: wgmma.mma_async.sync.aligned.m64n256k16
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: wgmma.wait_group.sync.aligned 0;
// Of two columns the first is the lower half of a word (the last operand).
// CHECK: cvt.rn.bf16x2.f32 {{%r[0-9]+}}, [[SECOND]], [[FIRST]];
// CHECK: stmatrix.sync.aligned.m8n8.x4
// CHECK: fence.proxy.async.shared::cta
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK: setmaxnreg.dec.sync.aligned.u32 40
// CHECK: elect.sync
// CHECK: mbarrier.try_wait.parity
// CHECK: mbarrier.arrive.expect_tx
// B lies behind the 128 lines of A.
// CHECK: add.s32 {{%r[0-9]+}}, [[STAGE:%r[0-9]+]], 1024;
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK: add.s32 {{%r[0-9]+}}, [[STAGE]], 17408;
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK-NOT: .local
func.func @weights_by_columns(%x: !x, %w: !x) -> !x {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : !x, !x
  return %0 : !x
}

// TILE-LABEL: @kernel1_0(
// TILE: tile.matmul {{.*}}b_transposed = 1
// CHECK-LABEL: .entry kernel1_0(
// CHECK: m64n256k16.f32.bf16.bf16 {{.*}}, add, 1, 1, 0, 1;
// CHECK-NOT: .local
func.func @weights_by_depth(%x: !x, %w: !x) -> !x {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !x, !x
  return %0 : !x
}

!l = tensor<8192x16384xbf16>

// Much to do with each element: blocks of their own, in turns.
// TILE-LABEL: @kernel2_0(
// TILE: tile.matmul {{.*}}pingpong = 1 {{.*}}tile_n = 192
// CHECK-LABEL: .entry kernel2_0(
// CHECK: setmaxnreg.inc.sync.aligned.u32 240
// CHECK: wgmma.mma_async.sync.aligned.m64n192k16
// CHECK: bar.arrive
// CHECK: ld.global.nc
// CHECK: stmatrix
// CHECK-NOT: .local
func.func @linear_gelu(%x: tensor<8192x4096xbf16>, %w: tensor<16384x4096xbf16>, %b: tensor<16384xbf16>) -> !l {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<8192x4096xbf16>, tensor<16384x4096xbf16>
  %1 = ts.broadcast %b [1] : tensor<16384xbf16> to !l
  %2 = ts.add %0, %1 : !l
  %3 = ts.gelu %2 : !l
  return %3 : !l
}

!s = tensor<?x4096xbf16, #ts.dims<"m", 4096>>
!t = tensor<?x1000xbf16, #ts.dims<"m", 1000>>

// Any number of rows: one cut for few of them, one for many.
// TILE-LABEL: @kernel3_0(
// TILE: swap_ab = 1 {{.*}}tile_m = 64
// TILE-LABEL: @kernel3_3(
// TILE: tile_m = 128
// CHECK-LABEL: .entry kernel3_0(
// CHECK: wgmma.mma_async
// CHECK-LABEL: .entry kernel3_3(
// CHECK: wgmma.mma_async
// CHECK-NOT: .local
func.func @any_rows(%x: !s, %w: tensor<4096x1000xbf16>) -> !t {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !s, tensor<4096x1000xbf16>
  return %0 : !t
}

// Rows that no copy of boxes reaches: two warpgroups read around them, shift, and write what the copies would.
// TILE-LABEL: @kernel4_0(
// TILE: tile.matmul {{.*}}algorithm = 1 {{.*}}staging_warpgroups = 2 {{.*}}swap_ab = 1 {{.*}}tile_n = 32
// CHECK-LABEL: .entry kernel4_0(
// CHECK-NOT: .param .align 64
// CHECK: .reqntid 384
// CHECK-COUNT-12: ld.global.nc.v4.b32
// CHECK: mbarrier.try_wait.parity
// CHECK: shf.r.wrap.b32
// CHECK: st.shared.v4.b32
// CHECK: fence.proxy.async.shared::cta
// CHECK: mbarrier.arrive.shared.b64
// CHECK: wgmma.mma_async.sync.aligned.m64n32k16
// CHECK-NOT: .local
func.func @odd_depth(%x: tensor<512x333xbf16>, %w: tensor<512x333xbf16>) -> tensor<512x512xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<512x333xbf16>, tensor<512x333xbf16>
  return %0 : tensor<512x512xbf16>
}
// float32: multiply-adds.
// TILE-LABEL: @kernel5_0(
// TILE: algorithm = 0
// CHECK-LABEL: .entry kernel5_0(
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.shared.v4.b32
// CHECK: fma.rn.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: .local
func.func @float32(%x: tensor<3x256x128xf32>, %w: tensor<3x128x512xf32>) -> tensor<3x256x512xf32> {
  %0 = ts.dot %x, %w batch [0] x [0] contract [2] x [1] : tensor<3x256x128xf32>, tensor<3x128x512xf32>
  return %0 : tensor<3x256x512xf32>
}

// One row: a block a column, all of it in flight at once.
// TILE-LABEL: @kernel6_0(
// TILE: tile.matmul {{.*}}algorithm = 2 {{.*}}tile_n = 1
// CHECK-LABEL: .entry kernel6_0(
// CHECK: .reqntid 256
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: fma.rn.f32
// CHECK: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: st.global.b16
// CHECK-NOT: .local
func.func @one_row(%x: tensor<1x4096xbf16>, %w: tensor<16384x4096xbf16>) -> tensor<1x16384xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<1x4096xbf16>, tensor<16384x4096xbf16>
  return %0 : tensor<1x16384xbf16>
}

// Few rows of a symbolic number: what one read of B serves, then what else there is.
// TILE-LABEL: @kernel7_0(
// TILE: algorithm = 2 {{.*}}tile_m = 1
// TILE-LABEL: @kernel7_1(
// TILE: algorithm = 2 {{.*}}tile_m = 4
// TILE-LABEL: @kernel7_2(
// TILE: algorithm = 1
// CHECK-LABEL: .entry kernel7_1(
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK-NOT: .local
func.func @decode(%x: !s, %w: tensor<1000x4096xbf16>) -> !t {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : !s, tensor<1000x4096xbf16>
  return %0 : !t
}

// Both sides by columns, of odd lengths.
// TILE-LABEL: @kernel8_0(
// TILE: a_transposed = 1 {{.*}}b_transposed = 1 {{.*}}staging_warpgroups = 2
// CHECK-LABEL: .entry kernel8_0(
// CHECK: .reqntid 384
// CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 208
// CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 144
// CHECK-NOT: .local
func.func @odd_columns(%x: tensor<777x1001xf16>, %w: tensor<777x4095xf16>) -> tensor<1001x4095xf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [0] x [0] : tensor<777x1001xf16>, tensor<777x4095xf16>
  return %0 : tensor<1001x4095xf16>
}

// Rows of the result that start at any element: blocks leave through shared memory, a word of a row by each lane.
// TILE-LABEL: @kernel9_0(
// TILE: unaligned = 1
// CHECK-LABEL: .entry kernel9_0(
// CHECK: wgmma.mma_async
// CHECK: stmatrix
// CHECK: bar.warp.sync
// CHECK: shfl.sync.up.b32
// CHECK: shf.l.wrap.b32
// CHECK: st.global.b32
// CHECK-NOT: cp.async.bulk.tensor.2d.global
// CHECK-NOT: .local
func.func @odd_result(%x: tensor<512x768xbf16>, %w: tensor<50257x768xbf16>) -> tensor<512x50257xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<512x768xbf16>, tensor<50257x768xbf16>
  return %0 : tensor<512x50257xbf16>
}

// GELU's tanh form and the sigmoid, rounded to 16 bits: two instructions of the special unit.
// CHECK-LABEL: .entry kernel10_0(
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: div.rn.f32
// CHECK: stmatrix
!q = tensor<256x512xbf16>
func.func @gelu_tanh(%x: tensor<256x768xbf16>, %w: tensor<512x768xbf16>) -> !q {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<256x768xbf16>, tensor<512x768xbf16>
  %1 = ts.gelu %0 {tanh = true} : !q
  %2 = ts.sigmoid %1 : !q
  return %2 : !q
}

// Few blocks and a long depth: a cluster shares it out, and the sums meet in shared memory.
// TILE-LABEL: @kernel11_0(
// TILE: split_k = 2 {{.*}}swap_ab = 1
// CHECK-LABEL: .entry kernel11_0(
// CHECK: .reqnctapercluster 2
// CHECK: wgmma.mma_async
// CHECK: st.shared.v4.b32
// CHECK: barrier.cluster.arrive.release;
// CHECK: barrier.cluster.wait.acquire;
// CHECK: mapa.shared::cluster.u32
// CHECK: ld.shared::cluster.v4.f32
// CHECK: stmatrix
// CHECK: barrier.cluster.arrive.release;
// CHECK-NOT: .local
func.func @deep(%x: tensor<20x6152xbf16>, %w: tensor<6152x4120xbf16>) -> tensor<20x4120xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<20x6152xbf16>, tensor<6152x4120xbf16>
  return %0 : tensor<20x4120xbf16>
}

// Lines that start at no multiple of 128 bytes take twice the time to copy: blocks side by side copy for each other.
// A program has one block, whose result takes the place of the operands once all consumers have read them.
// TILE-LABEL: @kernel12_0(
// TILE: cluster_m = 4 {{.*}}cluster_n = 2 {{.*}}epilogue_chunks = 0
// CHECK-LABEL: .entry kernel12_0(
// CHECK: .reqnctapercluster 8
// CHECK: mbarrier.init
// CHECK: barrier.cluster.arrive.release;
// CHECK: mapa.shared::cluster.u32
// CHECK: mbarrier.arrive.shared::cluster.b64
// CHECK: bar.sync %r{{[0-9]+}}, 256;
// CHECK: stmatrix
// CHECK-NOT: cp.async.bulk.wait_group.read
// CHECK: .multicast::cluster
// CHECK-NOT: .local
func.func @lines(%x: tensor<7064x9096xbf16>, %w: tensor<312x9096xbf16>) -> tensor<7064x312xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<7064x9096xbf16>, tensor<312x9096xbf16>
  return %0 : tensor<7064x312xbf16>
}

// Operands of odd strides, and a depth shared out.
// TILE-LABEL: @kernel13_0(
// TILE: split_k = {{[2-8]}} {{.*}}staging_warpgroups = 2
// CHECK-LABEL: .entry kernel13_0(
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.shared::cluster.v4.f32
// CHECK-NOT: .local
func.func @deep_odd(%x: tensor<49x3649xbf16>, %w: tensor<2876x3649xbf16>) -> tensor<49x2876xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<49x3649xbf16>, tensor<2876x3649xbf16>
  return %0 : tensor<49x2876xbf16>
}

// A number of rows a little above a multiple of 64: rows of blocks are columns of the result, and the result's rows
// go in steps of 8. Matrices are transposed on their way to shared memory.
// TILE-LABEL: @kernel14_0(
// TILE: tile.matmul A(%arg1{{.*}} B(%arg0{{.*}} size %c8352, %c134, %c3192 {{.*}}swap_ab = 1 {{.*}}tile_n = 144
// CHECK-LABEL: .entry kernel14_0(
// CHECK: wgmma.mma_async.sync.aligned.m64n144k16
// CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK-NOT: .local
!e = tensor<134x8352xbf16>
func.func @swapped(%x: tensor<134x3192xbf16>, %w: tensor<8352x3192xbf16>, %b: tensor<8352xbf16>) -> !e {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<134x3192xbf16>, tensor<8352x3192xbf16>
  %1 = ts.broadcast %b [1] : tensor<8352xbf16> to !e
  %2 = ts.add %0, %1 : !e
  return %2 : !e
}

// The same, and the result's rows start at any element: a warp stores some of them for all four.
// TILE-LABEL: @kernel15_0(
// TILE: swap_ab = 1 {{.*}}unaligned = 1
// CHECK-LABEL: .entry kernel15_0(
// CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: bar.sync
// CHECK: shfl.sync.up.b32
// CHECK-NOT: cp.async.bulk.tensor.2d.global
// CHECK-NOT: .local
func.func @swapped_odd(%x: tensor<134x3192xbf16>, %w: tensor<8351x3192xbf16>) -> tensor<134x8351xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<134x3192xbf16>, tensor<8351x3192xbf16>
  return %0 : tensor<134x8351xbf16>
}

// Another matrix would be read element by element: A and B are not swapped. Rows that there are not are not copied.
// TILE-LABEL: @kernel16_0(
// TILE-NOT: swap_ab
// TILE: copied_m = 24 {{.*}}split_k = 2
// TILE-NOT: swap_ab
// CHECK-LABEL: .entry kernel16_0(
// CHECK-NOT: .local
func.func @residual(%x: tensor<20x6152xbf16>, %w: tensor<6152x4120xbf16>, %r: tensor<20x4120xbf16>) -> tensor<20x4120xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<20x6152xbf16>, tensor<6152x4120xbf16>
  %1 = ts.add %0, %r : tensor<20x4120xbf16>
  return %1 : tensor<20x4120xbf16>
}

// One chunk of the result for each consumer leaves room for another stage: it is written when the one before has been
// read.
// TILE-LABEL: @kernel17_0(
// TILE: epilogue_chunks = 1 {{.*}}stages = 4
// CHECK-LABEL: .entry kernel17_0(
// CHECK: cp.async.bulk.wait_group.read 0;
// CHECK: bar.sync
// CHECK: stmatrix
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK: cp.async.bulk.wait_group.read 0;
// CHECK: bar.sync
// CHECK: stmatrix
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK-NOT: .local
func.func @stages(%x: tensor<4600x4112xbf16>, %w: tensor<2128x4112xbf16>) -> tensor<4600x2128xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<4600x4112xbf16>, tensor<2128x4112xbf16>
  return %0 : tensor<4600x2128xbf16>
}

// In place of rows that are not copied wgmmas read what follows: of the last stage its columns, where results have no
// place of their own.
// TILE-LABEL: @kernel18_0(
// TILE: copied_m = 24 {{.*}}epilogue_chunks = 0
// CHECK-LABEL: .entry kernel18_0(
// CHECK: wgmma.mma_async
// CHECK-NOT: .local
func.func @few_rows(%x: tensor<17x2048xbf16>, %w: tensor<8808x2048xbf16>) -> tensor<17x8808xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<17x2048xbf16>, tensor<8808x2048xbf16>
  return %0 : tensor<17x8808xbf16>
}

// A program with one block and two consumers, which get the registers that the copying warpgroup gives up.
// TILE-LABEL: @kernel19_0(
// TILE: consumers = 2 {{.*}}epilogue_chunks = 0
// CHECK-LABEL: .entry kernel19_0(
// CHECK: .minnctapersm 1
// CHECK: setmaxnreg.inc
// CHECK-NOT: .local
func.func @one_block(%x: tensor<4238x6784xbf16>, %w: tensor<280x6784xbf16>) -> tensor<4238x280xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<4238x6784xbf16>, tensor<280x6784xbf16>
  return %0 : tensor<4238x280xbf16>
}
