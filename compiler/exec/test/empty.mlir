// RUN: knapper compile %s --start-from=schedule --stop-after=plan --target cuda | FileCheck %s

// A launch that writes nothing has no programs, whatever its schedule counts:
// known here, and at run time.
module attributes {ts.symbols = [#ts.symbol<"n", 0, -1, 1>]} {
func.func @main(%x: tensor<5x0xf32>, %y: tensor<5x?xf32, #ts.dims<5, "n">>) -> (tensor<5x0xf32>, tensor<5x?xf32, #ts.dims<5, "n">>) {
  %0 = ts.kernel scan (%a = %x : tensor<5x0xf32>) -> tensor<5x0xf32> {
    %r = ts.scan add %a dim 1 : tensor<5x0xf32>
    ts.yield %r : tensor<5x0xf32>
  }
  %1 = ts.kernel scan (%a = %y : tensor<5x?xf32, #ts.dims<5, "n">>) -> tensor<5x?xf32, #ts.dims<5, "n">> {
    %r = ts.scan add %a dim 1 : tensor<5x?xf32, #ts.dims<5, "n">>
    ts.yield %r : tensor<5x?xf32, #ts.dims<5, "n">>
  }
  return %0, %1 : tensor<5x0xf32>, tensor<5x?xf32, #ts.dims<5, "n">>
}
}
// CHECK-LABEL: "values":
// CHECK: "op": "min",
// CHECK-NEXT: "a": 5,
// CHECK-NEXT: "b": 6,
// CHECK: "op": "mul",
// CHECK-NEXT: "a": 0,
// CHECK-NEXT: "b": 7,
// CHECK-LABEL: "regions":
// CHECK: "grid": 1,
// CHECK: "grid": 8,
