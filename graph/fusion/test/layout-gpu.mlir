// RUN: knapper compile %s --model-format mlir --start-from simplify --stop-after simplify --target cuda --no-cache | FileCheck %s
// RUN: knapper compile %s --model-format mlir --start-from simplify --stop-after simplify --target cpu --no-cache | FileCheck %s --check-prefix=CPU

// A GPU reads pools and depthwise windows as they lie: no transposes around them.
// CHECK-NOT: ts.transpose
// CHECK: ts.conv
// CHECK: ts.pool
// CHECK-NOT: ts.transpose
// CPU: ts.transpose
// CPU: channels_last
module attributes {ts.files = ["layout"], ts.symbols = []} {
  func.func @main(%x: tensor<8x96x56x56xf32>, %w: tensor<96x1x3x3xf32>) -> tensor<8x96x28x28xf32> {
    %c = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] {groups = 96 : i64} : tensor<8x96x56x56xf32>, tensor<96x1x3x3xf32>
    %r = ts.pool max %c window [3, 3] strides [2, 2] dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : tensor<8x96x56x56xf32>
    return %r : tensor<8x96x28x28xf32>
  }
}
