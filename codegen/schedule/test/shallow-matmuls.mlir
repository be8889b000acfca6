// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// On a GPU matmuls of little depth are computed by elements of their result:
// where no copies of blocks reach the operands, the deeper the fewer rows there
// are.
module attributes {ts.files = ["shallow"], ts.symbols = []} {
  // CHECK: kind = "pointwise"
  // CHECK: kind = "pointwise"
  // CHECK: kind = "pointwise"
  // CHECK: kind = "gpu_matmul"
  // CHECK: kind = "gpu_matmul"
  // Many small ones, of which none fills a tile; not such as read their operand
  // from line to line.
  // CHECK: kind = "pointwise"
  // CHECK: kind = "gpu_matmul"
  func.func @main(%x: tensor<318x5xbf16>, %y: tensor<5x1024xbf16>, %a: tensor<9x23x14xf16>, %b: tensor<9x14x1560xf16>, %c: tensor<6x24xf32>, %d: tensor<24x1063xf32>,
                  %e: tensor<318x14xbf16>, %f: tensor<14x1024xbf16>, %g: tensor<318x8xbf16>, %h: tensor<8x1024xbf16>,
                  %i: tensor<254x3x8xbf16>, %j: tensor<254x8x401xbf16>, %k: tensor<512x48x64xbf16>, %l: tensor<512x64x64xbf16>)
      -> (tensor<318x1024xbf16>, tensor<9x23x1560xf16>, tensor<6x1063xf32>, tensor<318x1024xbf16>, tensor<318x1024xbf16>, tensor<254x3x401xbf16>, tensor<512x48x64xbf16>) {
    %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<318x5xbf16>, tensor<5x1024xbf16>
    %1 = ts.dot %a, %b batch [0] x [0] contract [2] x [1] : tensor<9x23x14xf16>, tensor<9x14x1560xf16>
    %2 = ts.dot %c, %d batch [] x [] contract [1] x [0] : tensor<6x24xf32>, tensor<24x1063xf32>
    %3 = ts.dot %e, %f batch [] x [] contract [1] x [0] : tensor<318x14xbf16>, tensor<14x1024xbf16>
    %4 = ts.dot %g, %h batch [] x [] contract [1] x [0] : tensor<318x8xbf16>, tensor<8x1024xbf16>
    %5 = ts.dot %i, %j batch [0] x [0] contract [2] x [1] : tensor<254x3x8xbf16>, tensor<254x8x401xbf16>
    %6 = ts.dot %k, %l batch [0] x [0] contract [2] x [2] : tensor<512x48x64xbf16>, tensor<512x64x64xbf16>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<318x1024xbf16>, tensor<9x23x1560xf16>, tensor<6x1063xf32>, tensor<318x1024xbf16>, tensor<318x1024xbf16>, tensor<254x3x401xbf16>, tensor<512x48x64xbf16>
  }
}
