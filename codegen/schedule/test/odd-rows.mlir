// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// A row that only one warp's accesses divide lies in a tile that many warps' do.
module attributes {ts.files = ["rows"], ts.symbols = []} {
  // CHECK: kind = "reduce"{{.*}}lanes = 6144
  // CHECK: kind = "reduce"{{.*}}lanes = 5120
  func.func @main(%x: tensor<512x5504xbf16>, %y: tensor<512x5120xbf16>) -> (tensor<512x5504xbf16>, tensor<512x5120xbf16>) {
    %0 = ts.softmax %x dim 1 : tensor<512x5504xbf16>
    %1 = ts.softmax %y dim 1 : tensor<512x5120xbf16>
    return %0, %1 : tensor<512x5504xbf16>, tensor<512x5120xbf16>
  }
}
