// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | FileCheck %s

// Rows of 45 elements that a slice leaves whole are a run of memory with the
// dim that it cuts: 36 of 37 rows from element 45 on.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK-NOT: 45
// CHECK-DAG: arith.constant 1620
// CHECK-DAG: arith.constant 1665
// CHECK: tile.store
func.func @rows(%x: tensor<8x37x45xbf16>) -> tensor<8x36x45xbf16> {
  %0 = ts.slice %x [#ts.dim<0>, #ts.dim<1>, #ts.dim<0>] [1, 1, 1] : tensor<8x37x45xbf16> to tensor<8x36x45xbf16>
  return %0 : tensor<8x36x45xbf16>
}
