// A product of one row starts while the kernels before it end: it wishes its part of the matrix in L2, and waits before it
// reads anything, also where the assembler might move reads.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx | FileCheck %s
// Older GPUs start kernels one after the other.
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_80 | knapper-translate --tile-to-ptx --isa=sm_80 | FileCheck %s --check-prefix=OLDER

!x = tensor<1x4096xbf16>
!w = tensor<6144x4096xbf16>
!y = tensor<1x6144xbf16>

// CHECK-LABEL: .entry kernel0_0(
// CHECK: griddepcontrol.launch_dependents;
// CHECK-NOT: {{(ld|st).global}}
// CHECK: mov.b32 [[BYTES:%r[0-9]+]], 8192;
// CHECK-NOT: {{(ld|st).global}}
// CHECK: @there cp.async.bulk.prefetch.L2.global [%{{.*}}], [[BYTES]];
// CHECK-NOT: {{(ld|st).global}}
// CHECK: griddepcontrol.wait;
// CHECK-NOT: ld.global.nc
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT: griddepcontrol
// OLDER-LABEL: .entry kernel0_0(
// OLDER-NOT: griddepcontrol
// OLDER-NOT: prefetch
// OLDER: ld.global.nc.v4.b32
func.func @row(%x: !x, %w: !w) -> !y {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : !x, !w
  return %0 : !y
}
