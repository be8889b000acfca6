// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s --check-prefix=WGMMA
// RUN: knapper-translate --kernels-to-tile --isa=sm_80 %s | FileCheck %s --check-prefix=SIMT
// RUN: knapper-translate --kernels-to-tile --isa=x86-64-v4 %s | FileCheck %s --check-prefix=CPU

// The ends of the experts' rows go to the kernel: no gather of matrices, no loop
// over all rows for each expert.
// WGMMA-LABEL: tile.func
// WGMMA: tile.matmul{{.*}}ends %arg2 : !tile.buffer<i32>
// WGMMA-SAME: to %arg3
// WGMMA-SAME: algorithm = 1
// SIMT-LABEL: tile.func
// SIMT: tile.matmul{{.*}}ends %arg2 : !tile.buffer<i32>
// SIMT-SAME: algorithm = 0

// A CPU's program finds its block in one walk over the eight experts, and has
// nothing to do where there is none.
// CPU-LABEL: tile.func
// CPU: scf.for
// CPU: tile.load %arg2{{.*}} -> i32
// CPU: scf.if
// CPU: tile.mainloop
func.func @main(%x: tensor<300x64xbf16>, %w: tensor<8x64x128xbf16>, %e: tensor<8xi32>) -> tensor<300x128xbf16> {
  %0 = ts.kernel matmul (%a = %x : tensor<300x64xbf16>, %b = %w : tensor<8x64x128xbf16>, %n = %e : tensor<8xi32>) -> tensor<300x128xbf16> {
    %r = ts.grouped_matmul %a, %b ends %n : tensor<300x64xbf16>, tensor<8x64x128xbf16>, tensor<8xi32>
    ts.yield %r : tensor<300x128xbf16>
  }
  return %0 : tensor<300x128xbf16>
}
