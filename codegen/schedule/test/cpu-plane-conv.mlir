// RUN: knapper compile %s --start-from=schedule --stop-after=schedule | FileCheck %s
// RUN: knapper compile %s --start-from=schedule --stop-after=tile --isa x86-64-v4 | FileCheck %s --check-prefix=TILE

// Few features have pixels in their lanes: four blocks of rows.
// CHECK: grid = #ts.dim<4>,
// CHECK-SAME: kind = "cpu_plane_conv", {{.*}}parameters = {rows = 14 : i64}
// A window row at a time: three taps of two features.
// TILE: tile.func @cpu_plane_conv
// TILE-COUNT-6: tile.load {{.*}} -> f32
func.func @main(%x: tensor<1x64x56x56xf32>, %y: tensor<1x64x56x56xf32>, %z: tensor<1x2x8x400xf32>)
    -> (tensor<1x2x56x56xf32>, tensor<1x9x56x56xf32>, tensor<1x2x8x368xf32>) {
  %w = ts.constant dense<5.0> : tensor<2x64x3x3xf32>
  %0 = ts.kernel conv (%a = %x : tensor<1x64x56x56xf32>, %b = %w : tensor<2x64x3x3xf32>) -> tensor<1x2x56x56xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<1x64x56x56xf32>, tensor<2x64x3x3xf32>
    ts.yield %c : tensor<1x2x56x56xf32>
  }
  // More features than fit beside each other, and wide windows, go elsewhere.
  // CHECK-NOT: cpu_plane_conv
  %v = ts.constant dense<5.0> : tensor<9x64x3x3xf32>
  %1 = ts.kernel conv (%a = %y : tensor<1x64x56x56xf32>, %b = %v : tensor<9x64x3x3xf32>) -> tensor<1x9x56x56xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<1x64x56x56xf32>, tensor<9x64x3x3xf32>
    ts.yield %c : tensor<1x9x56x56xf32>
  }
  %u = ts.constant dense<5.0> : tensor<2x2x1x33xf32>
  %2 = ts.kernel conv (%a = %z : tensor<1x2x8x400xf32>, %b = %u : tensor<2x2x1x33xf32>) -> tensor<1x2x8x368xf32> {
    %c = ts.conv %a, %b strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x2x8x400xf32>, tensor<2x2x1x33xf32>
    ts.yield %c : tensor<1x2x8x368xf32>
  }
  return %0, %1, %2 : tensor<1x2x56x56xf32>, tensor<1x9x56x56xf32>, tensor<1x2x8x368xf32>
}
