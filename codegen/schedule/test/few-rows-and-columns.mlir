// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// Reductions of which few programs would have work, on a GPU.
module attributes {ts.files = ["few"], ts.symbols = []} {
  // Few columns, each as a row.
  // CHECK: kind = "reduce"{{.*}}lanes = 128{{.*}}row = 1
  // Neighbouring kept dims are one, whose columns the threads of CTAs share.
  // CHECK: kind = "reduce"{{.*}}column_threads = {{.*}}columns = 32 : i64{{.*}}row = 0
  // A few long rows, a tile each for the programs of a cluster.
  // CHECK: kind = "reduce"{{.*}}cluster_size = 7{{.*}}lanes = 14336{{.*}}row = 1
  func.func @main(%x: tensor<94x2xf16>, %y: tensor<1129x4144x7xbf16>, %z: tensor<17x100352xf16>)
      -> (tensor<94x2xf16>, tensor<4144x7xbf16>, tensor<17x100352xf16>) {
    %0 = ts.softmax %x dim 0 : tensor<94x2xf16>
    %a = ts.abs %y : tensor<1129x4144x7xbf16>
    %1 = ts.reduce add %a [0] : tensor<1129x4144x7xbf16>
    %2 = ts.softmax %z dim 1 : tensor<17x100352xf16>
    return %0, %1, %2 : tensor<94x2xf16>, tensor<4144x7xbf16>, tensor<17x100352xf16>
  }
}
