// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Two lines of 56 elements beside each other: a program has nine such pairs,
// four elements a thread, and waits for no other program.
// CHECK-LABEL: tile.func
// CHECK-SAME: tile.threads = 256
// CHECK-NOT: tile.ticket
// CHECK-COUNT-4: tile.gather %arg0{{.*}} vector<256xbf16>
// CHECK: tile.shared 256
// CHECK: tile.barrier
// CHECK-COUNT-14: tile.gather {{.*}} vector<256xf32>
// CHECK-NOT: tile.look_back
// CHECK-COUNT-4: tile.scatter {{.*}} mask {{.*}} vector<256xbf16>
func.func @main(%x: tensor<1664x56x2xbf16>) -> tensor<1664x56x2xbf16> {
  %0 = ts.kernel scan (%a = %x : tensor<1664x56x2xbf16>) -> tensor<1664x56x2xbf16> {
    %r = ts.scan add %a dim 1 : tensor<1664x56x2xbf16>
    ts.yield %r : tensor<1664x56x2xbf16>
  }
  return %0 : tensor<1664x56x2xbf16>
}
