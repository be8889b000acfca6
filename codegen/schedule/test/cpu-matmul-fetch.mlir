// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v4 | FileCheck %s

// A matrix [N, K] that is no constant: while a program multiplies its panel it
// reads the next one ahead, which lies behind it. One that stays in the
// second-level cache is not read ahead.
module attributes {ts.symbols = []} {
func.func @main(%x: tensor<49x512xf32>, %w: tensor<2048x512xf32>, %y: tensor<49x64xf32>, %v: tensor<256x64xf32>, %z: tensor<49x4096xf32>, %u: tensor<512x4096xf32>)
    -> (tensor<49x2048xf32>, tensor<49x256xf32>, tensor<49x512xf32>) {
  // CHECK-LABEL: tile.func @cpu_matmul_
  // CHECK-SAME: %{{[a-z0-9]+}}: !tile.buffer<f32>, %[[B:[a-z0-9]+]]: !tile.buffer<f32>
  // CHECK: tile.load_rows %[[B]]
  // CHECK: tile.mainloop
  // CHECK-SAME: prefetch %[[B]]
  %0 = ts.kernel matmul (%a = %x : tensor<49x512xf32>, %b = %w : tensor<2048x512xf32>) -> tensor<49x2048xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [1] : tensor<49x512xf32>, tensor<2048x512xf32>
    ts.yield %d : tensor<49x2048xf32>
  }
  // CHECK-LABEL: tile.func @cpu_matmul_
  // CHECK-NOT: prefetch
  %1 = ts.kernel matmul (%a = %y : tensor<49x64xf32>, %b = %v : tensor<256x64xf32>) -> tensor<49x256xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [1] : tensor<49x64xf32>, tensor<256x64xf32>
    ts.yield %d : tensor<49x256xf32>
  }
  // Two panels of this one do not stay there.
  // CHECK-LABEL: tile.func @cpu_matmul_
  // CHECK-NOT: prefetch
  %2 = ts.kernel matmul (%a = %z : tensor<49x4096xf32>, %b = %u : tensor<512x4096xf32>) -> tensor<49x512xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [1] : tensor<49x4096xf32>, tensor<512x4096xf32>
    ts.yield %d : tensor<49x512xf32>
  }
  return %0, %1, %2 : tensor<49x2048xf32>, tensor<49x256xf32>, tensor<49x512xf32>
}
}
