// RUN: knapper compile %s --target cuda:sm_90a --stop-after=schedule | sed 's/pingpong = 0/pingpong = 2/' > %t.mlir
// RUN: not knapper compile %t.mlir --target cuda:sm_90a --start-from=tile -o %t.knap 2>&1 | FileCheck %s

// A dump whose configuration was edited to a number that the field cannot have.
// CHECK: the schedule 'gpu_matmul' has pingpong = 2, which there is not
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<64x64xf32>, tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
