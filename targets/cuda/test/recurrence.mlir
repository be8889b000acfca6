// RUN: knapper-translate --tile-to-ptx %s -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// REQUIRES: ptxas
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=SPILLS
// SPILLS-COUNT-3: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads

// A thread has a unit's weights of every second run; one barrier a step, the input of the next step is read before the matmuls.
// CHECK-LABEL: .entry one(
// CHECK: .reqntid 64
// CHECK-COUNT-16: ld.global.nc.b32
// CHECK: bar.sync
// CHECK: [[STEP:\$L__BB[0-9_]+]]:
// CHECK: ld.global.nc.b32
// CHECK-COUNT-4: ld.shared.v4.b32
// CHECK-NOT: ld.shared
// CHECK: shfl.sync.bfly.b32
// CHECK-NOT: shfl
// CHECK: st.shared.b32
// CHECK: ret;
tile.func @one(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  tile.recurrence steps %n rows %b units 32 sources [0] shape {rows = 1, slices = 2, threads = 64} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// Two rows a CTA: each half of a unit's threads keeps one of them. Weights of 16 bits stay two a register.
// CHECK-LABEL: .entry packed(
// CHECK-COUNT-8: prmt.b32
// CHECK: selp
// CHECK: shfl.sync.bfly.b32
// CHECK: ret;
tile.func @packed(%x: !tile.buffer<f32>, %w: !tile.buffer<bf16>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  tile.recurrence steps %n rows %b units 32 sources [0] shape {rows = 2, slices = 4, threads = 128, packed = 1} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<bf16> -> vector<4xbf16>
    tile.values %2 : vector<4xbf16>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// A cluster: new states go to the other CTAs by 16 bytes, and all wait for each other.
// CHECK-LABEL: .entry parts(
// CHECK: .reqnctapercluster 4
// CHECK: mapa.shared::cluster
// CHECK: st.shared::cluster.v4.b32
// CHECK: barrier.cluster.arrive
// CHECK: barrier.cluster.wait
// CHECK: ret;
tile.func @parts(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) attributes {tile.cluster = 4 : i64} {
  %cU = arith.constant 64 : index
  tile.recurrence steps %n rows %b units 64 sources [0] shape {rows = 1, slices = 4, threads = 64, cluster_size = 4} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}
