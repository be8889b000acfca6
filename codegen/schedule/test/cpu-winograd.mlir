// RUN: knapper compile %s --start-from=schedule --stop-after=schedule --isa x86-64-v4 | FileCheck %s

// Programs that transform the filter, which is no constant.
func.func @main(%x: tensor<1x14x14x256xf32>, %w: tensor<4x3x3x256x64xf32>, %y: tensor<1x28x28x256xf32>, %v: tensor<4x3x3x256x64xf32>, %u: tensor<1x3x3x256x64xf32>)
    -> (tensor<1x14x14x256xf32>, tensor<1x14x14x64xf32>, tensor<1x28x28x256xf32>) {
  // All 49 tiles are one block, which fits four fifths of L2: four programs,
  // two for each core of the machine described.
  // CHECK: grid = #ts.dim<4>
  // CHECK-SAME: kind = "cpu_winograd"
  // CHECK-SAME: parameters = {columns = 7 : i64, groups = 4 : i64, panel = 64 : i64, rows = 7 : i64}
  %0 = ts.kernel conv (%a = %x : tensor<1x14x14x256xf32>, %b = %w : tensor<4x3x3x256x64xf32>) -> tensor<1x14x14x256xf32> {
    %t = ts.transpose %b [1, 2, 3, 0, 4] : tensor<4x3x3x256x64xf32>
    %f = ts.reshape %t : tensor<3x3x256x4x64xf32> to tensor<3x3x256x256xf32>
    %c = ts.conv %a, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true} : tensor<1x14x14x256xf32>, tensor<3x3x256x256xf32>
    ts.yield %c : tensor<1x14x14x256xf32>
  }
  // Of 64 features it would be one program: blocks of two fifths are three.
  // CHECK: grid = #ts.dim<3>
  // CHECK-SAME: kind = "cpu_winograd"
  // CHECK-SAME: parameters = {columns = 7 : i64, groups = 1 : i64, panel = 64 : i64, rows = 3 : i64}
  %2 = ts.kernel conv (%a = %x : tensor<1x14x14x256xf32>, %b = %u : tensor<1x3x3x256x64xf32>) -> tensor<1x14x14x64xf32> {
    %t = ts.transpose %b [1, 2, 3, 0, 4] : tensor<1x3x3x256x64xf32>
    %f = ts.reshape %t : tensor<3x3x256x1x64xf32> to tensor<3x3x256x64xf32>
    %c = ts.conv %a, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true} : tensor<1x14x14x256xf32>, tensor<3x3x256x64xf32>
    ts.yield %c : tensor<1x14x14x64xf32>
  }
  // Blocks of four fifths, three rows of 14 tiles, leave ten programs here.
  // CHECK: grid = #ts.dim<10>
  // CHECK-SAME: kind = "cpu_winograd"
  // CHECK-SAME: parameters = {columns = 14 : i64, groups = 2 : i64, panel = 64 : i64, rows = 3 : i64}
  %1 = ts.kernel conv (%a = %y : tensor<1x28x28x256xf32>, %b = %v : tensor<4x3x3x256x64xf32>) -> tensor<1x28x28x256xf32> {
    %t = ts.transpose %b [1, 2, 3, 0, 4] : tensor<4x3x3x256x64xf32>
    %f = ts.reshape %t : tensor<3x3x256x4x64xf32> to tensor<3x3x256x256xf32>
    %c = ts.conv %a, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true} : tensor<1x28x28x256xf32>, tensor<3x3x256x256xf32>
    ts.yield %c : tensor<1x28x28x256xf32>
  }
  return %0, %2, %1 : tensor<1x14x14x256xf32>, tensor<1x14x14x64xf32>, tensor<1x28x28x256xf32>
}
