// RUN: knapper compile %s --stop-after=simplify | FileCheck %s

// On CPUs transposed convolutions whose windows do not overlap.
module attributes {ts.symbols = []} {
// CHECK-LABEL: @main
func.func @main(%x: tensor<1x9x5x4xf32>, %y: tensor<1x3x6x7xf32>, %w: tensor<20x9x2x2xf32>, %v: tensor<20x9x3x2xf32>, %u: tensor<3x3x2x2xf32>)
    -> (tensor<1x20x14x11xf32>, tensor<1x20x15x7xf32>, tensor<1x3x12x14xf32>) {
  // Windows of 2 x 2, 3 x 3 apart: zeros between the patches of a matmul.
  // CHECK: ts.dot {{.*}} contract [3] x [1] : tensor<1x5x4x9xf32>, tensor<80x9xf32>
  // CHECK: ts.pad {{.*}} high {{.*}}#ts.dim<1>
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [3, 3] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
      : tensor<1x9x5x4xf32>, tensor<20x9x2x2xf32>
  // Windows side by side, of which the border cuts some.
  // CHECK: ts.dot {{.*}} contract [3] x [1] : tensor<1x5x4x9xf32>, tensor<120x9xf32>
  // CHECK: ts.slice
  %1 = ts.conv %x, %v strides [1, 1] dilations [1, 1] input_dilations [3, 2] low [#ts.dim<2>, #ts.dim<0>] high [#ts.dim<2>, #ts.dim<1>]
      : tensor<1x9x5x4xf32>, tensor<20x9x3x2xf32>
  // Three channels fill no register: phases, whose lanes are pixels.
  // CHECK: ts.conv {{.*}} : tensor<1x3x6x7xf32>, tensor<12x3x1x1xf32>
  %2 = ts.conv %y, %u strides [1, 1] dilations [1, 1] input_dilations [2, 2] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
      : tensor<1x3x6x7xf32>, tensor<3x3x2x2xf32>
  return %0, %1, %2 : tensor<1x20x14x11xf32>, tensor<1x20x15x7xf32>, tensor<1x3x12x14xf32>
}
}
