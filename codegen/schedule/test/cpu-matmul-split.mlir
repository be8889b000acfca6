// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s
// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v4 | FileCheck %s --check-prefix=TILE

// What programs of matmuls with constant matrices are.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<196x384xf32>, %y: tensor<49x960xf32>, %z: tensor<1024x384xf32>, %s: tensor<?x384xf32, #ts.dims<"n", 384>>)
    -> (tensor<196x64xf32>, tensor<49x160xf32>, tensor<1024x1536xf32>, tensor<?x64xf32, #ts.dims<"n", 64>>) {
  // What is read and written is more than the matrix: blocks of rows, at least
  // sixteen programs, blocks of at least twenty rows.
  // CHECK: grid = #ts.dim<10>,
  // CHECK-SAME: parameters = {blocks = 16 : i64, panel = 64 : i64,
  // TILE-LABEL: tile.func @cpu_matmul_
  // Their rows are whole register tiles: 33 of six, in ten.
  // TILE: %[[ID:.*]] = tile.program_id
  // TILE: %[[TILES:.*]] = arith.muli %[[ID]], %c33
  // TILE: %[[FIRST:.*]] = arith.divui %[[TILES]], %c10
  // TILE: arith.muli %[[FIRST]], %c6
  %w = ts.constant dense<5.0> : tensor<384x64xf32>
  %0 = ts.kernel matmul (%a = %x : tensor<196x384xf32>, %b = %w : tensor<384x64xf32>) -> tensor<196x64xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<196x384xf32>, tensor<384x64xf32>
    ts.yield %d : tensor<196x64xf32>
  }
  // The matrix is more: five panels, each in four parts, which follow one another.
  // CHECK: grid = #ts.dim<20>,
  // CHECK-SAME: parameters = {blocks = 4 : i64, panel = 32 : i64, parts = 4 : i64,
  %v = ts.constant dense<5.0> : tensor<960x160xf32>
  %1 = ts.kernel matmul (%a = %y : tensor<49x960xf32>, %b = %v : tensor<960x160xf32>) -> tensor<49x160xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<49x960xf32>, tensor<960x160xf32>
    ts.yield %d : tensor<49x160xf32>
  }
  // Many panels: a number of blocks that four threads share, eight.
  // CHECK: grid = #ts.dim<256>,
  // CHECK-SAME: parameters = {blocks = 4 : i64, panel = 48 : i64, parts = 1 : i64, rows = 216 : i64}
  %u = ts.constant dense<5.0> : tensor<384x1536xf32>
  %2 = ts.kernel matmul (%a = %z : tensor<1024x384xf32>, %b = %u : tensor<384x1536xf32>) -> tensor<1024x1536xf32> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<1024x384xf32>, tensor<384x1536xf32>
    ts.yield %d : tensor<1024x1536xf32>
  }
  // It is decided at run time: 384 * 64 / (384 + 64) = 54 rows.
  // CHECK: grid = #ts.dim<"{{.*}}min(1, floordiv(k0, 55))
  %3 = ts.kernel matmul (%a = %s : tensor<?x384xf32, #ts.dims<"n", 384>>, %b = %w : tensor<384x64xf32>) -> tensor<?x64xf32, #ts.dims<"n", 64>> {
    %d = ts.dot %a, %b batch [] x [] contract [1] x [0] : tensor<?x384xf32, #ts.dims<"n", 384>>, tensor<384x64xf32>
    ts.yield %d : tensor<?x64xf32, #ts.dims<"n", 64>>
  }
  return %0, %1, %2, %3 : tensor<196x64xf32>, tensor<49x160xf32>, tensor<1024x1536xf32>, tensor<?x64xf32, #ts.dims<"n", 64>>
}
}
