// RUN: knapper compile %s --start-from simplify --stop-after schedule --target cuda:sm_90a --no-cache | FileCheck %s

// Of few channels and features a convolution is computed as it lies, without a transposition before or behind it;
// of many it is a matmul with channels last.
!x = tensor<2x1x5171x57xf16>
!y = tensor<2x12x5169x57xf16>
!m = tensor<8x128x56x56xf16>
module attributes {ts.files = ["images"], ts.symbols = []} {
  // CHECK-DAG: ts.kernel conv (%{{.*}} = %arg0 : tensor<2x1x5171x57xf16>{{.*}}kind = "gpu_direct_conv"{{.*}}features = 12 : i64, rows = 4 : i64
  // CHECK-DAG: ts.kernel conv {{.*}}tensor<8x56x56x128xf16>{{.*}}kind = "gpu_implicit_gemm"{{.*}}algorithm = 1
  func.func @main(%x: !x, %w: tensor<12x1x5x1xf16>, %m: !m, %v: tensor<128x128x3x3xf16>) -> (!y, !m) {
    %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<1>, #ts.dim<0>] : !x, tensor<12x1x5x1xf16>
    %1 = ts.conv %m, %v strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<1>] high [#ts.dim<1>, #ts.dim<1>] : !m, tensor<128x128x3x3xf16>
    return %0, %1 : !y, !m
  }
}
