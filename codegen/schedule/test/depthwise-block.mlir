// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s

// What a program of a depthwise convolution takes.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<1x112x112x64xf32>, %y: tensor<1x14x14x144xf32>, %z: tensor<1x7x7x960xf32>)
    -> (tensor<1x112x112x64xf32>, tensor<1x14x14x144xf32>, tensor<1x7x7x960xf32>) {
  // The copy of 16 x 16 pixels of a panel of 32 channels fills L1. An even number
  // of blocks of rows, so that two threads halve the image.
  // CHECK: grid = #ts.dim<128>,
  // CHECK-SAME: parameters = {columns = 14 : i64, groups = 2 : i64, panel = 32 : i64, rows = 14 : i64, split = 0 : i64}
  %u = ts.constant dense<5.0> : tensor<3x3x1x64xf32>
  %0 = ts.kernel conv (%a = %x : tensor<1x112x112x64xf32>, %b = %u : tensor<3x3x1x64xf32>) -> tensor<1x112x112x64xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 64 : i64} : tensor<1x112x112x64xf32>, tensor<3x3x1x64xf32>
    ts.yield %c : tensor<1x112x112x64xf32>
  }
  // No panel has lanes to mask: nine of 16. The image is halved though it would
  // fit.
  // CHECK: grid = #ts.dim<18>,
  // CHECK-SAME: parameters = {columns = 0 : i64, groups = 9 : i64, panel = 16 : i64, rows = 7 : i64, split = 0 : i64}
  %v = ts.constant dense<5.0> : tensor<3x3x1x144xf32>
  %1 = ts.kernel conv (%a = %y : tensor<1x14x14x144xf32>, %b = %v : tensor<3x3x1x144xf32>) -> tensor<1x14x14x144xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 144 : i64} : tensor<1x14x14x144xf32>, tensor<3x3x1x144xf32>
    ts.yield %c : tensor<1x14x14x144xf32>
  }
  // Few pixels: threads share the channels.
  // CHECK: grid = #ts.dim<30>,
  // CHECK-SAME: parameters = {columns = 0 : i64, groups = 30 : i64, panel = 32 : i64, rows = 7 : i64, split = 0 : i64}
  %w = ts.constant dense<5.0> : tensor<3x3x1x960xf32>
  %2 = ts.kernel conv (%a = %z : tensor<1x7x7x960xf32>, %b = %w : tensor<3x3x1x960xf32>) -> tensor<1x7x7x960xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 960 : i64} : tensor<1x7x7x960xf32>, tensor<3x3x1x960xf32>
    ts.yield %c : tensor<1x7x7x960xf32>
  }
  return %0, %1, %2 : tensor<1x112x112x64xf32>, tensor<1x14x14x144xf32>, tensor<1x7x7x960xf32>
}
}
