// RUN: knapper compile %s --start-from simplify --stop-after tile --isa x86-64-v4 --no-cache | FileCheck %s

// Results too large for any cache. What is read is asked for ahead of its use.
module attributes {ts.files = ["rows"], ts.symbols = []} {
  // CHECK-LABEL: tile.func @pointwise_
  // CHECK: scf.for
  // CHECK: tile.prefetch %arg0
  // CHECK: tile.load %arg0
  // CHECK: tile.store {{.*}}, %arg1{{.*}} {nontemporal}

  // The first row is reduced: the mean, while later rows are asked for, then
  // the variance.
  // CHECK-LABEL: tile.func @reduce_
  // CHECK: scf.for
  // CHECK: tile.prefetch
  // CHECK: vector.reduction <add>
  // CHECK: scf.for
  // CHECK-NOT: tile.prefetch
  // CHECK: vector.reduction <add>
  // Each other row, while the results of the row before are stored, from their
  // first whole cache line on.
  // CHECK: scf.for
  // CHECK: tile.page_offset %arg3
  // CHECK: scf.for
  // CHECK: tile.prefetch
  // CHECK: tile.load %arg0
  // CHECK: tile.store {{.*}}, %arg3{{.*}} {nontemporal}
  // CHECK: vector.reduction <add>
  // CHECK: vector.reduction <add>
  // CHECK: tile.return
  func.func @main(%x: tensor<4096x4096xf32> {ts.name = "x"}, %z: tensor<4096x4096xf32> {ts.name = "z"},
      %g: tensor<4096xf32> {ts.name = "g"}, %b: tensor<4096xf32> {ts.name = "b"})
      -> (tensor<4096x4096xf32> {ts.name = "y"}, tensor<4096x4096xf32> {ts.name = "n"}) {
    %y = ts.neg %z : tensor<4096x4096xf32>
    %n = ts.layer_norm %x scale %g : tensor<4096xf32> bias %b : tensor<4096xf32> dim 1 epsilon 1.0e-5 : tensor<4096x4096xf32>
    return %y, %n : tensor<4096x4096xf32>, tensor<4096x4096xf32>
  }
}
