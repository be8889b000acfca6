// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Nineteen lines beside each other: a program has a run of all of them, 16
// elements a thread, and waits for what the programs before make of each.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 256
// CHECK: tile.ticket
// CHECK-COUNT-16: tile.gather {{.*}} !tile.buffer<bf16> -> vector<256xbf16>
// CHECK: tile.look_back <add>, {{.*}} lanes 19 {{.*}}: vector<256xf32>
// CHECK-COUNT-16: tile.scatter {{.*}} mask {{.*}} vector<256xbf16>
func.func @main(%x: tensor<250002x19xbf16>) -> tensor<250002x19xbf16> {
  %0 = ts.kernel scan (%a = %x : tensor<250002x19xbf16>) -> tensor<250002x19xbf16> {
    %r = ts.scan add %a dim 0 : tensor<250002x19xbf16>
    ts.yield %r : tensor<250002x19xbf16>
  }
  return %0 : tensor<250002x19xbf16>
}
