// RUN: knapper compile %s --isa x86-64-v3 --stop-after=schedule | sed 's/flat = 1/flat = 2/' > %t.mlir
// RUN: not knapper compile %t.mlir --isa x86-64-v3 --start-from=tile -o %t.knap 2>&1 | FileCheck %s

// Schedules of CPUs read their configurations the same way.
// CHECK: the schedule 'pointwise' has flat = 2, which there is not
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = ts.neg %x : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
