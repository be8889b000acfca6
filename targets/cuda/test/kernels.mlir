// The same builders as for CPUs, with a GPU's data: accesses of 16 bytes, a row read once, no spills.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a -o %t.mlir
// RUN: knapper-translate --tile-to-ptx %t.mlir -o %t.ptx
// RUN: FileCheck %s < %t.ptx

!m = tensor<4096x2048xf32>
!r = tensor<4096xf32>

// CHECK-LABEL: .entry kernel0_0(
// CHECK: ld.global.nc.v4.b32
// CHECK: mul.rn.f32
// CHECK: st.global.v4.b32
func.func @pointwise(%x: !m) -> !m {
  %0 = ts.mul %x, %x : !m
  return %0 : !m
}

// CHECK-LABEL: .entry kernel1_0(
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly
// CHECK: st.global.b32
func.func @row_sum(%x: !m) -> !r {
  %0 = ts.reduce add %x [1] : !m
  return %0 : !r
}

// CHECK-LABEL: .entry kernel2_0(
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly
// CHECK-COUNT-4: st.global.v4.b32
func.func @softmax(%x: !m) -> !m {
  %0 = ts.softmax %x dim 1 : !m
  return %0 : !m
}

// Columns of any number: a loop and an edge.
// CHECK-LABEL: .entry kernel3_0(
// CHECK: shfl.sync.bfly
func.func @softmax_any(%x: tensor<?x?xf32, #ts.dims<"rows", "cols">>) -> tensor<?x?xf32, #ts.dims<"rows", "cols">> {
  %0 = ts.softmax %x dim 1 : tensor<?x?xf32, #ts.dims<"rows", "cols">>
  return %0 : tensor<?x?xf32, #ts.dims<"rows", "cols">>
}

// A row of a kilobyte is a warp's: no barrier, four rows a block. bf16 is read
// and rounded in pairs, and the powers are the device's own.
// CHECK-LABEL: .entry kernel4_0(
// CHECK: .reqntid 128
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: bar.sync
// CHECK: shfl.sync.bfly
// CHECK: ex2.approx
// CHECK: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
func.func @softmax_short(%x: tensor<?x512xbf16, #ts.dims<"rows", 512>>) -> tensor<?x512xbf16, #ts.dims<"rows", 512>> {
  %0 = ts.softmax %x dim 1 : tensor<?x512xbf16, #ts.dims<"rows", 512>>
  return %0 : tensor<?x512xbf16, #ts.dims<"rows", 512>>
}

// A long row stays packed, two blocks an SM.
// CHECK-LABEL: .entry kernel5_0(
// CHECK: .reqntid 512
// CHECK: .minnctapersm 2
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
func.func @softmax_long(%x: tensor<512x32768xbf16>) -> tensor<512x32768xbf16> {
  %0 = ts.softmax %x dim 1 : tensor<512x32768xbf16>
  return %0 : tensor<512x32768xbf16>
}

// Columns: many rows are asked for at once.
// CHECK-LABEL: .entry kernel6_0(
// CHECK-COUNT-16: ld.global.nc.v4.b32
// CHECK: st.global.v4.b32
func.func @column_sum(%x: tensor<64x262144xf32>) -> tensor<262144xf32> {
  %0 = ts.reduce add %x [0] : tensor<64x262144xf32>
  return %0 : tensor<262144xf32>
}

// A block is transposed in shared memory; both ways whole accesses.
// CHECK-LABEL: .entry kernel7_0(
// CHECK: ld.global.nc.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared.b32
// CHECK: st.global.v4.b32
func.func @transpose(%x: tensor<4096x2048xf32>) -> tensor<2048x4096xf32> {
  %0 = ts.transpose %x [1, 0] : tensor<4096x2048xf32>
  return %0 : tensor<2048x4096xf32>
}

// 64-bit words travel between threads in two halves.
// CHECK-LABEL: .entry kernel8_0(
// CHECK-COUNT-2: shfl.sync.bfly
// CHECK: add.rn.f64
func.func @row_sum_f64(%x: tensor<64x1024xf64>) -> tensor<64xf64> {
  %0 = ts.reduce add %x [1] : tensor<64x1024xf64>
  return %0 : tensor<64xf64>
}

// Each lane counts what goes before it in its line.
// CHECK-LABEL: .entry kernel9_0(
// CHECK-NOT: call
// CHECK: ret
func.func @top(%x: tensor<8x1000xf32>) -> (tensor<8x5xf32>, tensor<8x5xi64>) {
  %0, %1 = ts.topk %x k <5> dim 1 : tensor<8x1000xf32>
  return %0, %1 : tensor<8x5xf32>, tensor<8x5xi64>
}

// Few long columns: two programs of a block add their sums, then the blocks of a
// cluster theirs; none ends while another one reads.
// CHECK-LABEL: .entry kernel10_0(
// CHECK: .reqntid 512
// CHECK: .reqnctapercluster 8
// CHECK-COUNT-16: ld.global.nc.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK-COUNT-2: ld.shared.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: barrier.cluster.arrive
// CHECK-NEXT: barrier.cluster.wait
// CHECK-COUNT-8: mapa
// CHECK: st.global.v4.b32
// CHECK: barrier.cluster.arrive
// CHECK-NEXT: barrier.cluster.wait
// CHECK-NEXT: ret
func.func @columns(%x: tensor<16384x16384xf32>) -> tensor<16384xf32> {
  %0 = ts.reduce add %x [0] : tensor<16384x16384xf32>
  return %0 : tensor<16384xf32>
}

// Few rows: each is read once, all of them before the first is used.
// CHECK-LABEL: .entry kernel11_0(
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: max.
// CHECK-COUNT-15: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: max.
// CHECK-COUNT-16: st.global.v4.b32
func.func @softmax_of_columns(%x: tensor<16x262144xf32>) -> tensor<16x262144xf32> {
  %0 = ts.softmax %x dim 0 : tensor<16x262144xf32>
  return %0 : tensor<16x262144xf32>
}
