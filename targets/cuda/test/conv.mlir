// Convolutions as matmuls whose left side is read through the window: on Hopper gathered into the ring by asynchronous
// copies of 16 bytes, the filter copied in boxes; else through shared memory. No patches in memory.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: FileCheck %s --check-prefix=TILE < %t.mlir

!x = tensor<32x28x28x128xbf16>
!w = tensor<3x3x128x128xbf16>

// TILE-LABEL: @kernel0_0(
// TILE: tile.matmul {{.*}} window {{.*}} steps [1, 1, 1, 1, 1, 1] to {{.*}}algorithm = 1 {{.*}}b_transposed = 1
// CHECK-NOT: .local
// CHECK-LABEL: .entry kernel0_0(
// The maps of the filter and the result.
// CHECK-COUNT-2: .param .align 64 .b8 {{.*}}[128]
// Of a warpgroup, and of the copies.
// CHECK: mov.b32 [[ALL:%r[0-9]+]], 129;
// CHECK: mbarrier.init.shared.b64 [{{.*}}], [[ALL]];
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK: cp.async.cg.shared.global.L2::128B [{{.*}}], [{{.*}}], 16,
// CHECK: cp.async.commit_group;
// CHECK: cp.async.wait_group 2;
// CHECK: fence.proxy.async.shared::cta;
// CHECK: cp.async.wait_group 0;
// CHECK-NOT: .local
func.func @gathered(%x: !x, %w: !w) -> !x {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true} : !x, !w
  return %0 : !x
}

!g = tensor<32x28x28x128xf16>
!v = tensor<3x3x32x128xf16>
!h = tensor<32x14x14x128xf16>

// A group is a batch index; its features lie among the others', so that the region stores them.
// TILE-LABEL: @kernel1_0(
// TILE: tile.matmul {{.*}} outer {{.*}} window {{.*}} steps [2, 1, 1, 2, 1, 1] shape {{.*}}algorithm = 1 {{.*}}b_batch_dims = 1
// CHECK-LABEL: .entry kernel1_0(
// CHECK: cp.async.bulk.tensor.3d.shared::cluster.global
// CHECK-NOT: .local
func.func @groups(%x: !g, %w: !v) -> !h {
  %0 = ts.conv %x, %w strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true, groups = 4 : i64} : !g, !v
  return %0 : !h
}

!i = tensor<8x3x64x64xf32>
!f = tensor<40x3x5x5xf32>
!o = tensor<8x40x60x60xf32>

// Channels first, f32: the depth is (channel, tap).
// TILE-LABEL: @kernel2_0(
// TILE: tile.matmul {{.*}} window {{.*}}algorithm = 0 {{.*}}channels_first
// CHECK-LABEL: .entry kernel2_0(
// CHECK: .minnctapersm 1
// CHECK: fma.rn.f32
// CHECK-NOT: .local
func.func @channels_first(%x: !i, %w: !f) -> !o {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : !i, !f
  return %0 : !o
}

!d = tensor<8x14x14x96xbf16>
!k = tensor<3x3x1x96xbf16>

// A feature a group: plain loops along the channels.
// TILE-LABEL: @kernel3_0(
// TILE-NOT: tile.matmul
func.func @depthwise(%x: !d, %w: !k) -> !d {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {channels_last = true, groups = 96 : i64} : !d, !k
  return %0 : !d
}
