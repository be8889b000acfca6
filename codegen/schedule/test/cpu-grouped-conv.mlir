// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s

// What a program of a convolution with few channels a group takes.
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: tensor<1x112x112x64xf32>, %y: tensor<1x14x14x144xf32>, %z: tensor<1x7x7x960xf32>,
                %t: tensor<1x28x28x40xf32>, %s: tensor<1x28x28x64xf32>, %bytes: tensor<1x28x28x64xui8>)
    -> (tensor<1x112x112x64xf32>, tensor<1x14x14x144xf32>, tensor<1x7x7x960xf32>, tensor<1x28x28x40xf32>,
        tensor<1x28x28x64xf32>, tensor<1x28x28x64xi32>) {
  // What a block of rows reads stays in a quarter of the second-level cache. An
  // even number of blocks, so that two threads halve the image.
  // CHECK: grid = #ts.dim<64>,
  // CHECK-SAME: kind = "cpu_grouped_conv",
  // CHECK-SAME: parameters = {lanes = 16 : i64, pixels = 14 : i64, rows = 7 : i64}
  %u = ts.constant dense<5.0> : tensor<3x3x1x64xf32>
  %0 = ts.kernel conv (%a = %x : tensor<1x112x112x64xf32>, %b = %u : tensor<3x3x1x64xf32>) -> tensor<1x112x112x64xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 64 : i64} : tensor<1x112x112x64xf32>, tensor<3x3x1x64xf32>
    ts.yield %c : tensor<1x112x112x64xf32>
  }
  // The image is halved though it would fit.
  // CHECK: grid = #ts.dim<18>,
  // CHECK-SAME: parameters = {lanes = 16 : i64, pixels = 14 : i64, rows = 7 : i64}
  %v = ts.constant dense<5.0> : tensor<3x3x1x144xf32>
  %1 = ts.kernel conv (%a = %y : tensor<1x14x14x144xf32>, %b = %v : tensor<3x3x1x144xf32>) -> tensor<1x14x14x144xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 144 : i64} : tensor<1x14x14x144xf32>, tensor<3x3x1x144xf32>
    ts.yield %c : tensor<1x14x14x144xf32>
  }
  // Few pixels: threads share the channels.
  // CHECK: grid = #ts.dim<60>,
  // CHECK-SAME: parameters = {lanes = 16 : i64, pixels = 14 : i64, rows = 7 : i64}
  %w = ts.constant dense<5.0> : tensor<3x3x1x960xf32>
  %2 = ts.kernel conv (%a = %z : tensor<1x7x7x960xf32>, %b = %w : tensor<3x3x1x960xf32>) -> tensor<1x7x7x960xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 960 : i64} : tensor<1x7x7x960xf32>, tensor<3x3x1x960xf32>
    ts.yield %c : tensor<1x7x7x960xf32>
  }
  // Three groups of five features lie in a register of 16.
  // CHECK: kind = "cpu_grouped_conv",
  // CHECK-SAME: panel = 15 : i64, pieces = 1 : i64, rows = 45 : i64
  %k = ts.constant dense<5.0> : tensor<3x3x5x40xf32>
  %3 = ts.kernel conv (%a = %t : tensor<1x28x28x40xf32>, %b = %k : tensor<3x3x5x40xf32>) -> tensor<1x28x28x40xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 8 : i64} : tensor<1x28x28x40xf32>, tensor<3x3x5x40xf32>
    ts.yield %c : tensor<1x28x28x40xf32>
  }
  // Bytes of one channel a group: four window rows in a step.
  // CHECK: group = 4 : i64,
  // CHECK-SAME: kind = "cpu_grouped_conv",
  %q = ts.constant dense<5> : tensor<3x3x1x64xi8>
  %5 = ts.kernel conv (%a = %bytes : tensor<1x28x28x64xui8>, %b = %q : tensor<3x3x1x64xi8>) -> tensor<1x28x28x64xi32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 64 : i64} : tensor<1x28x28x64xui8>, tensor<3x3x1x64xi8>
    ts.yield %c : tensor<1x28x28x64xi32>
  }
  // A group that fills a register is a matmul.
  // CHECK: kind = "cpu_conv",
  %l = ts.constant dense<5.0> : tensor<3x3x16x64xf32>
  %4 = ts.kernel conv (%a = %s : tensor<1x28x28x64xf32>, %b = %l : tensor<3x3x16x64xf32>) -> tensor<1x28x28x64xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true, groups = 4 : i64} : tensor<1x28x28x64xf32>, tensor<3x3x16x64xf32>
    ts.yield %c : tensor<1x28x28x64xf32>
  }
  return %0, %1, %2, %3, %4, %5 : tensor<1x112x112x64xf32>, tensor<1x14x14x144xf32>, tensor<1x7x7x960xf32>, tensor<1x28x28x40xf32>,
      tensor<1x28x28x64xf32>, tensor<1x28x28x64xi32>
}
}
