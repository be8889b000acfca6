// RUN: knapper compile %s --stop-after=simplify | FileCheck %s

// On CPUs a grouped convolution with window 1 is a matmul for each image and
// group whose columns are the pixels, where they lie.
module attributes {ts.symbols = []} {
// CHECK-LABEL: @main
// CHECK-NOT: ts.transpose
// CHECK: %[[X:.*]] = ts.reshape {{.*}} to tensor<2x3x5x63xf32>
// CHECK: ts.dot {{.*}} batch [0, 1] x [0, 1] contract [3] x [2]
// A copy of such a filter for each image is more than what is moved: channels last.
// CHECK: ts.conv {{.*}}channels_last = true
func.func @main(%x: tensor<2x15x7x9xf32>, %w: tensor<21x5x1x1xf32>, %y: tensor<2x128x5x7xf32>, %v: tensor<160x64x1x1xf32>)
    -> (tensor<2x21x7x9xf32>, tensor<2x160x5x7xf32>) {
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
      {groups = 3 : i64} : tensor<2x15x7x9xf32>, tensor<21x5x1x1xf32>
  %1 = ts.conv %y, %v strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>]
      {groups = 2 : i64} : tensor<2x128x5x7xf32>, tensor<160x64x1x1xf32>
  return %0, %1 : tensor<2x21x7x9xf32>, tensor<2x160x5x7xf32>
}
}
