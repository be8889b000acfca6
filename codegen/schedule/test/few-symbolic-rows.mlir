// RUN: knapper compile %s --start-from simplify --stop-after schedule --target cuda:sm_90a --no-cache | FileCheck %s

// Sizes that are known at run time only: few rows take smaller tiles, whose depth several CTAs share.
!x = tensor<?x?x512xf32, #ts.dims<"B", "L", 512>>
!y = tensor<?x?x1024xf32, #ts.dims<"B", "L", 1024>>
!i = tensor<?x32x32x16xf32, #ts.dims<"B", 32, 32, 16>>
!o = tensor<?x32x32x32xf32, #ts.dims<"B", 32, 32, 32>>
module attributes {ts.files = ["rows"], ts.symbols = [#ts.symbol<"B", 1, -1, 1>, #ts.symbol<"L", 1, -1, 1>]} {
  // Ranges of rows, each with its tiles.
  // CHECK: guard = {{\[\[}}#ts.dim<"k0*k1">, "le", #ts.dim<16>]], kind = "gpu_matmul"{{[^}]*}}split_k = {{[48]}}{{[^}]*}}tile_m = 16
  // CHECK-SAME: guard = {{\[\[}}#ts.dim<"k0*k1">, "le", #ts.dim<64>]], kind = "gpu_matmul"{{[^}]*}}tile_m = 32
  // CHECK-SAME: guard = [], kind = "gpu_matmul"{{[^}]*}}tile_m = 128
  // Images of 1024 positions: a convolution of a few is cut alike, and no variant is for fewer than one.
  // CHECK: guard = {{\[\[}}#ts.dim<"1024*k0">, "le", #ts.dim<1024>]], kind = "gpu_implicit_gemm"{{[^}]*}}split_k
  // CHECK-SAME: guard = [], kind = "gpu_implicit_gemm"{{[^}]*}}tile_m = 64
  func.func @main(%x: !x, %w: tensor<512x1024xf32>, %i: !i, %f: tensor<3x3x16x32xf32>) -> (!y, !o) {
    %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : !x, tensor<512x1024xf32>
    %1 = ts.conv %i, %f strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>]
        {channels_last = true} : !i, tensor<3x3x16x32xf32>
    return %0, %1 : !y, !o
  }
}
