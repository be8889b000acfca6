// RUN: knapper compile %s --start-from simplify --stop-after schedule --target cuda:sm_90a --no-cache | FileCheck %s

module attributes {ts.files = ["around"], ts.symbols = []} {
  // Dims around a kept one: those before it first, so that memory is read as
  // it lies.
  // CHECK: ts.reduce add {{.*}} [1] : tensor<{{.*}}x54xf32>
  // CHECK: ts.reduce add {{.*}} [1] : tensor<9x6xf32>
  // Columns that one block reads are one kernel.
  // CHECK: ts.kernel reduce{{.*}}column_threads
  // CHECK-SAME: columns = 16
  // CHECK: ts.reduce add {{.*}} [1] : tensor<8x782x16xf32>
  // Few long rows of which the CTAs of a cluster hold each, likewise.
  // CHECK: ts.kernel reduce{{.*}}cluster_size = 7{{.*}}lanes = 12288
  // CHECK: ts.reduce max {{.*}} [1] : tensor<30x84485xbf16>
  // CHECK-NOT: ts.kernel
  func.func @main(%x: tensor<282347x9x6xbf16>, %y: tensor<8x782x16xf32>, %z: tensor<30x84485xbf16>) -> (tensor<9xbf16>, tensor<8x16xf32>, tensor<30xbf16>) {
    %0 = ts.reduce add %x [0, 2] : tensor<282347x9x6xbf16>
    %1 = ts.reduce add %y [1] : tensor<8x782x16xf32>
    %2 = ts.reduce max %z [1] : tensor<30x84485xbf16>
    return %0, %1, %2 : tensor<9xbf16>, tensor<8x16xf32>, tensor<30xbf16>
  }
}
