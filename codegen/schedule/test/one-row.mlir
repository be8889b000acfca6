// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v3 | FileCheck %s

// Sixteen vector registers: six rows take the panel of 48 columns in three
// parts; one row takes all of it at once, since it is bound by reading it.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<?x64xf32, #ts.dims<"n", 64>>) -> tensor<?x96xf32, #ts.dims<"n", 96>> {
  // CHECK-LABEL: tile.func @cpu_matmul_
  // CHECK: tile.mainloop {{.*}}vector<1x48xf32>
  // CHECK-NOT: tile.mainloop {{.*}}vector<1x
  // CHECK-COUNT-3: tile.mainloop {{.*}}vector<3x16xf32>
  // CHECK-COUNT-3: tile.mainloop {{.*}}vector<6x16xf32>
  // CHECK-NOT: tile.mainloop
  %w = ts.constant dense<5.0> : tensor<64x96xf32>
  %0 = ts.kernel matmul (%a = %x : tensor<?x64xf32, #ts.dims<"n", 64>>, %b = %w : tensor<64x96xf32>) -> tensor<?x96xf32, #ts.dims<"n", 96>> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<?x64xf32, #ts.dims<"n", 64>>, tensor<64x96xf32>
    ts.yield %d : tensor<?x96xf32, #ts.dims<"n", 96>>
  }
  return %0 : tensor<?x96xf32, #ts.dims<"n", 96>>
}
}
