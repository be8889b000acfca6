// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s

// How many programs are worth a thread depends on sizes that a run binds: of
// the programs of one output column none is, of those of 1,000 each.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<1x1x?x1xf32, #ts.dims<1, 1, "160*n + 512", 1>>)
    -> tensor<1x1x?x256xf32, #ts.dims<1, 1, "n + 1", 256>> {
  // CHECK: grain = #ts.dim<"max(1, floordiv(400000, max(1, 32768*k0 + 32768)))">, grid = #ts.dim<8>
  %u = ts.constant dense<5.0> : tensor<1x512x1x256xf32>
  %0 = ts.kernel conv (%a = %x : tensor<1x1x?x1xf32, #ts.dims<1, 1, "160*n + 512", 1>>, %b = %u : tensor<1x512x1x256xf32>)
      -> tensor<1x1x?x256xf32, #ts.dims<1, 1, "n + 1", 256>> {
    %c = ts.conv %a, %b strides [1, 160] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
        {channels_last = true, groups = 1 : i64} : tensor<1x1x?x1xf32, #ts.dims<1, 1, "160*n + 512", 1>>, tensor<1x512x1x256xf32>
    ts.yield %c : tensor<1x1x?x256xf32, #ts.dims<1, 1, "n + 1", 256>>
  }
  return %0 : tensor<1x1x?x256xf32, #ts.dims<1, 1, "n + 1", 256>>
}
}
