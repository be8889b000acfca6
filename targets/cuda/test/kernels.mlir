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
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly
// CHECK: st.global.b32
func.func @row_sum(%x: !m) -> !r {
  %0 = ts.reduce add %x [1] : !m
  return %0 : !r
}

// CHECK-LABEL: .entry kernel2_0(
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.bfly
// CHECK-COUNT-2: st.global.v4.b32
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
