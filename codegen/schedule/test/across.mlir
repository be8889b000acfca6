// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// On a GPU the threads of a block lie across rows that are too short for them:
// an element, a row or an output of a window a thread. Indices of few elements
// are divided in 32 bits.
module attributes {ts.files = ["across"], ts.symbols = []} {
  // CHECK: kind = "pointwise"{{.*}}access = 1 : i64, across = 1 : i64, block = 256
  // CHECK: kind = "reduce"{{.*}}access = 1 : i64, across = 1 : i64, lanes = 128{{.*}}row = 0
  // CHECK: kind = "reduce"{{.*}}access = 1 : i64, across = 1 : i64, lanes = 128{{.*}}row = 0
  // CHECK: kind = "gpu_window"{{.*}}threads = 1
  // Of many elements a thread has several at once: also of rows that an index
  // names, where they are short.
  // CHECK: kind = "pointwise"{{.*}}access = 2 : i64, across = 1 : i64, block = 1024
  // CHECK: arith.divui %{{.*}} : vector<256xi32>
  func.func @main(%x: tensor<5000x6xf32>, %y: tensor<8192x14x24xf32>, %z: tensor<1x2x96x96xf32>, %w: tensor<2x1x3x3xf32>, %v: tensor<50x31xf16>, %i: tensor<20000xi64>) -> (tensor<5000x12xf32>, tensor<5000x6xf32>, tensor<8192x24xf32>, tensor<1x2x94x94xf32>, tensor<20000x31xf16>) {
    %t = ts.concat %x, %x dim 1 : tensor<5000x6xf32>, tensor<5000x6xf32>
    %s = ts.softmax %x dim 1 : tensor<5000x6xf32>
    %r = ts.reduce max %y [1] : tensor<8192x14x24xf32>
    %c = ts.conv %z, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {groups = 2 : i64} : tensor<1x2x96x96xf32>, tensor<2x1x3x3xf32>
    %g = ts.gather %v, %i dim 0 : tensor<50x31xf16>, tensor<20000xi64>
    return %t, %s, %r, %c, %g : tensor<5000x12xf32>, tensor<5000x6xf32>, tensor<8192x24xf32>, tensor<1x2x94x94xf32>, tensor<20000x31xf16>
  }
}
