// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// Rows of 8 KiB on a GPU. Of two of them, both are read before the first is reduced.
module attributes {ts.files = ["rows"], ts.symbols = []} {
  // CHECK-LABEL: tile.func @reduce_
  // CHECK-SAME: tile.threads = 128
  // CHECK: tile.load %arg0
  // CHECK: tile.load %arg0
  // CHECK: vector.reduction <add>
  // CHECK: tile.store
  // CHECK: vector.reduction <add>
  // CHECK: tile.store
  // CHECK: tile.return
  func.func @main(%x: tensor<65536x4096xbf16>, %g: tensor<4096xbf16>) -> tensor<65536x4096xbf16> {
    %y = ts.layer_norm %x scale %g : tensor<4096xbf16> dim 1 epsilon 1.0e-5 {rms = true} : tensor<65536x4096xbf16>
    return %y : tensor<65536x4096xbf16>
  }
}
