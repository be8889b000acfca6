// Matmuls on GPUs before Hopper: copies to shared memory that nobody waits for, matrices from there, MMAs of warps.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_80 -o %t.mlir
// RUN: knapper-translate --tile-to-ptx --isa=sm_80 %t.mlir -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir

!x = tensor<4096x4096xbf16>

// TILE-LABEL: @kernel0_0(
// TILE: tile.matmul {{.*}}a_copied = 1 {{.*}}algorithm = 3 {{.*}}b_copied = 1 {{.*}}b_transposed = 0
// CHECK: .target sm_80
// CHECK-LABEL: .entry kernel0_0(
// CHECK: cp.async.cg.shared.global
// CHECK: cp.async.commit_group
// A stage is read when all threads' copies are there. Of an access as many
// bytes are copied as there are elements left, none where the depth has ended.
// CHECK: cp.async.wait_group
// CHECK-NEXT: bar.sync
// CHECK: max.s32 [[LEFT:%r[0-9]+]], {{%r[0-9]+}}, 0;
// CHECK-NEXT: min.s32 [[SOME:%r[0-9]+]], [[LEFT]], 8;
// CHECK-NEXT: shl.b32 [[BYTES:%r[0-9]+]], [[SOME]], 1;
// CHECK: cp.async.cg.shared.global {{.*}}, 16, [[BYTES]];
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// The results lie where the ring was, once all threads have read it: 16 rows of
// 72 floats a warp.
// CHECK: cp.async.wait_all
// CHECK-NEXT: bar.sync
// CHECK-NEXT: mul.lo.s32 {{%r[0-9]+}}, {{%r[0-9]+}}, 4608;
// CHECK: st.shared.v2.b32
// CHECK: bar.warp.sync
// CHECK: st.global.v4
// CHECK-NOT: .local
func.func @weights_by_columns(%x: !x, %w: !x) -> !x {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : !x, !x
  return %0 : !x
}

!h = tensor<4096x4096xf16>

// TILE-LABEL: @kernel1_0(
// TILE: tile.matmul {{.*}}algorithm = 3 {{.*}}b_transposed = 1
// CHECK-LABEL: .entry kernel1_0(
// A line of B is a depth: nothing is copied of one past the end.
// CHECK: setp.gt.s32 [[INSIDE:%p[0-9]+]], [[DEPTHS:%r[0-9]+]], 0;
// CHECK: selp.b32 [[BYTES:%r[0-9]+]], {{%r[0-9]+}}, 0, [[INSIDE]];
// CHECK-NEXT: cp.async.cg.shared.global {{.*}}, 16, [[BYTES]];
// CHECK: setp.gt.s32 {{%p[0-9]+}}, [[DEPTHS]], 32;
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
func.func @weights_by_depth(%x: !h, %w: !h) -> !h {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !h, !h
  return %0 : !h
}

// Both by depth, in a batch, with an end of several operands.
!a = tensor<8x96x200xbf16>
!b = tensor<8x96x136xbf16>
!y = tensor<8x200x136xbf16>
!z = tensor<8x200x136xf32>

// TILE-LABEL: @kernel2_0(
// TILE: tile.matmul {{.*}}a_copied = 1 {{.*}}a_transposed = 1 {{.*}}algorithm = 3 {{.*}}b_copied = 1 {{.*}}b_transposed = 1
// CHECK-LABEL: .entry kernel2_0(
// CHECK: mma.sync
// The results' rows are 136 long, of which there are 200.
// CHECK: setp.lt.s32 {{%p[0-9]+}}, {{%r[0-9]+}}, 136;
// CHECK: setp.lt.s32 {{%p[0-9]+}}, [[ROW:%r[0-9]+]], 200;
// CHECK: mul.wide.u32 {{%rd[0-9]+}}, [[ROW]], 136;
// CHECK: st.global.v4.b32
func.func @batch(%x: !a, %w: !b, %r: !z) -> (!y, !z) {
  %0 = ts.dot %x, %w batch [0] x [0] contract [1] x [1] : !a, !b
  %1 = ts.convert %0 : !y to !z
  %2 = ts.add %1, %r : !z
  return %0, %2 : !y, !z
}

// Lines that start anywhere: accesses around them, one side or both.
!o = tensor<100x777xbf16>
!v = tensor<777x256xbf16>
!s = tensor<100x256xbf16>

// TILE-LABEL: @kernel3_0(
// TILE: tile.matmul {{.*}}a_copied = 0 {{.*}}algorithm = 3 {{.*}}b_copied = 1
// CHECK-LABEL: .entry kernel3_0(
// CHECK: ld.global.nc
// CHECK: st.shared.v4
// CHECK: mma.sync
func.func @odd(%x: !o, %w: !v) -> !s {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !o, !v
  return %0 : !s
}

// Symbolic sizes: copied where they may be, else not.
// TILE-LABEL: @kernel4_2(
// TILE: tile.matmul {{.*}}a_copied = 1 {{.*}}algorithm = 3 {{.*}}b_copied = 1
// TILE-LABEL: @kernel4_3(
// TILE: tile.matmul {{.*}}a_copied = 0 {{.*}}algorithm = 3 {{.*}}b_copied = 0
func.func @symbols(%x: tensor<?x?xbf16, #ts.dims<"m", "k">>, %w: tensor<?x?xbf16, #ts.dims<"n", "k">>) -> tensor<?x?xbf16, #ts.dims<"m", "n">> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<?x?xbf16, #ts.dims<"m", "k">>, tensor<?x?xbf16, #ts.dims<"n", "k">>
  return %0 : tensor<?x?xbf16, #ts.dims<"m", "n">>
}
