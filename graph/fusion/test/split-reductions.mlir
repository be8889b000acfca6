// (Not beside the pass: graph/layout/SameMeaning_test evaluates what lies there, and these sizes take minutes.)
// RUN: knapper-opt %s --split-reductions | FileCheck %s

// CHECK-LABEL: @columns
// CHECK: ts.reshape %{{.*}} : tensor<16384x16384xf32> to tensor<16x1024x16384xf32>
// CHECK: ts.reduce add %{{.*}} [1] : tensor<16x1024x16384xf32>
// CHECK: ts.reduce add %{{.*}} [0] : tensor<16x16384xf32>
func.func @columns(%x: tensor<16384x16384xf32>) -> tensor<16384xf32> {
  %0 = ts.reduce add %x [0] : tensor<16384x16384xf32>
  return %0 : tensor<16384xf32>
}

// Of fewer columns, more parts.
// CHECK-LABEL: @narrow
// CHECK: ts.reshape %{{.*}} : tensor<16384x2048xf32> to tensor<64x256x2048xf32>
func.func @narrow(%x: tensor<16384x2048xf32>) -> tensor<2048xf32> {
  %0 = ts.reduce add %x [0] : tensor<16384x2048xf32>
  return %0 : tensor<2048xf32>
}

// Parts of all, and 16-bit numbers are added in f32 between the steps.
// CHECK-LABEL: @all
// CHECK: ts.convert
// CHECK: ts.reshape %{{.*}} : tensor<4096x4096xf32> to tensor<1x1024x16384xf32>
// CHECK: ts.reduce max %{{.*}} [2]
// CHECK: ts.reduce max %{{.*}} [1]
// CHECK: ts.convert
// CHECK: ts.reshape %{{.*}} to tensor<bf16>
func.func @all(%x: tensor<4096x4096xbf16>) -> tensor<bf16> {
  %0 = ts.reduce max %x [0, 1] : tensor<4096x4096xbf16>
  return %0 : tensor<bf16>
}

// Few long rows.
// CHECK-LABEL: @rows
// CHECK: ts.reshape %{{.*}} : tensor<4x1048576xf32> to tensor<4x64x16384xf32>
func.func @rows(%x: tensor<4x1048576xf32>) -> tensor<4xf32> {
  %0 = ts.reduce add %x [1] : tensor<4x1048576xf32>
  return %0 : tensor<4xf32>
}

// Enough results, short rows, symbols: as they are.
// CHECK-LABEL: @stay
// CHECK-NOT: ts.reshape
func.func @stay(%x: tensor<16384x16384xf32>, %y: tensor<4x4097xf32>,
                %z: tensor<?x1048576xf32, #ts.dims<"n", 1048576>>)
    -> (tensor<16384xf32>, tensor<4xf32>, tensor<?xf32, #ts.dims<"n">>) {
  %0 = ts.reduce add %x [1] : tensor<16384x16384xf32>
  %1 = ts.reduce add %y [1] : tensor<4x4097xf32>
  %2 = ts.reduce add %z [1] : tensor<?x1048576xf32, #ts.dims<"n", 1048576>>
  return %0, %1, %2 : tensor<16384xf32>, tensor<4xf32>, tensor<?xf32, #ts.dims<"n">>
}

// Sizes of which some are symbols: rows of those that are numbers first.
// CHECK-LABEL: @symbolic
// CHECK: ts.reduce max %{{.*}} [2] : tensor<?x?x384xf32
// CHECK: ts.reduce max %{{.*}} [0, 1] : tensor<?x?xf32
func.func @symbolic(%x: tensor<?x?x384xf32, #ts.dims<"b", "s", 384>>) -> tensor<f32> {
  %0 = ts.reduce max %x [0, 1, 2] : tensor<?x?x384xf32, #ts.dims<"b", "s", 384>>
  return %0 : tensor<f32>
}

// The row is long enough with two dims; what is kept is a number.
// CHECK-LABEL: @heads
// CHECK: ts.reduce add %{{.*}} [2, 3]
// CHECK: ts.reduce add %{{.*}} [1]
func.func @heads(%x: tensor<2x?x12x32xf32, #ts.dims<2, "s", 12, 32>>) -> tensor<2xf32> {
  %0 = ts.reduce add %x [1, 2, 3] : tensor<2x?x12x32xf32, #ts.dims<2, "s", 12, 32>>
  return %0 : tensor<2xf32>
}

// Results enough, or no row.
// CHECK-LABEL: @whole
// CHECK: ts.reduce add %{{.*}} [1, 2]
// CHECK: ts.reduce add %{{.*}} [0, 1]
func.func @whole(%x: tensor<?x100x384xf32, #ts.dims<"b", 100, 384>>, %y: tensor<64x?xf32, #ts.dims<64, "s">>)
    -> (tensor<?xf32, #ts.dims<"b">>, tensor<f32>) {
  %0 = ts.reduce add %x [1, 2] : tensor<?x100x384xf32, #ts.dims<"b", 100, 384>>
  %1 = ts.reduce add %y [0, 1] : tensor<64x?xf32, #ts.dims<64, "s">>
  return %0, %1 : tensor<?xf32, #ts.dims<"b">>, tensor<f32>
}
