// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s

// A panel of 512 channels in nine places leaves no room for the next one in the
// second-level cache, one of 64 does.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<1x7x7x512xf32>, %y: tensor<1x14x14x64xf32>) -> (tensor<1x7x7x64xf32>, tensor<1x7x7x64xf32>) {
  // CHECK: kind = "cpu_conv"
  // CHECK-SAME: split = 1 : i64}
  %u = ts.constant dense<5.0> : tensor<3x3x512x64xf32>
  %0 = ts.kernel conv (%a = %x : tensor<1x7x7x512xf32>, %b = %u : tensor<3x3x512x64xf32>) -> tensor<1x7x7x64xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true} : tensor<1x7x7x512xf32>, tensor<3x3x512x64xf32>
    ts.yield %c : tensor<1x7x7x64xf32>
  }
  // CHECK: kind = "cpu_conv"
  // CHECK-SAME: split = 0 : i64}
  %v = ts.constant dense<5.0> : tensor<3x3x64x64xf32>
  %1 = ts.kernel conv (%a = %y : tensor<1x14x14x64xf32>, %b = %v : tensor<3x3x64x64xf32>) -> tensor<1x7x7x64xf32> {
    %c = ts.conv %a, %b strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<0>, #ts.dim<0>]
        {channels_last = true} : tensor<1x14x14x64xf32>, tensor<3x3x64x64xf32>
    ts.yield %c : tensor<1x7x7x64xf32>
  }
  return %0, %1 : tensor<1x7x7x64xf32>, tensor<1x7x7x64xf32>
}
}
