// RUN: knapper compile %s --target cuda:sm_90a --stop-after=schedule | sed 's/stages = [0-9]*/stages = 16/' > %t.mlir
// RUN: not knapper compile %t.mlir --target cuda:sm_90a --start-from=tile -o %t.knap 2>&1 | FileCheck %s

// A dump whose configuration was edited to more stages than shared memory has.
// CHECK: the schedule 'gpu_matmul' takes more threads, registers, shared memory or CTAs of a cluster than sm_90a has
func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
  return %0 : tensor<4096x4096xbf16>
}
