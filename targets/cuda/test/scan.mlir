// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// The lanes of a thread, of a warp by shuffles, then a word a warp in shared
// memory, which every warp scans for itself: one barrier.
// CHECK-LABEL: .visible .entry scan(
// CHECK: .reqntid 256
// CHECK: shfl.sync.up.b32
// CHECK: st.shared.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK-NOT: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared.b32
// CHECK: shfl.sync.idx.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
tile.func @scan(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 4096 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] : !tile.buffer<f32> -> vector<4096xf32>
  %s, %all = tile.scan <add>, %v : vector<4096xf32>, f32
  tile.store %s, %y[%off] : vector<4096xf32>, !tile.buffer<f32>
  tile.return
}

// From the end; a program of one warp needs no barrier.
// CHECK-LABEL: .visible .entry backward(
// CHECK: shfl.sync.down.b32
// CHECK-NOT: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ret;
tile.func @backward(%x: !tile.buffer<i32>, %y: !tile.buffer<i32>, %o: index) {
  %init = tile.load %x[%o] : !tile.buffer<i32> -> i32
  %v = tile.load %x[%o] : !tile.buffer<i32> -> vector<256xi32>
  %s, %all = tile.scan <maxsi>, %v init %init : i32 {exclusive, reverse} : vector<256xi32>, i32
  tile.store %s, %y[%o] : vector<256xi32>, !tile.buffer<i32>
  tile.store %all, %y[%o] : i32, !tile.buffer<i32>
  tile.return
}

// Rows of 16 lanes are four threads': two steps.
// CHECK-LABEL: .visible .entry rows(
// CHECK-COUNT-3: shfl.sync.up.b32
// CHECK-NOT: shfl.sync
// CHECK: ret;
tile.func @rows(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %o = arith.constant 0 : index
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<128xf32>
  %s = tile.scan_rows <add>, %v columns 16 : vector<128xf32>
  tile.store %s, %y[%o] : vector<128xf32>, !tile.buffer<f32>
  tile.return
}

// Blocks of a cluster read what the others left.
// CHECK-LABEL: .visible .entry cluster(
// CHECK: .reqnctapercluster 4
// CHECK: barrier.cluster.arrive
// CHECK: barrier.cluster.wait
// CHECK: mapa
// CHECK: ld.shared::cluster.b32
// CHECK: ret;
tile.func @cluster(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.cluster = 4 : i64} {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] : !tile.buffer<f32> -> vector<1024xf32>
  %sum = vector.reduction <add>, %v fastmath<reassoc> : vector<1024xf32> into f32
  %before = tile.cluster_scan <add>, %sum : f32
  %s, %all = tile.scan <add>, %v init %before : f32 : vector<1024xf32>, f32
  tile.store %s, %y[%off] : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

// Lanes of a mask take their places by an atomic increment in shared memory.
// CHECK-LABEL: .visible .entry chosen(
// CHECK: atom{{.*}}.shared.{{.*}}add
// CHECK: st.shared.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: ret;
tile.func @chosen(%x: !tile.buffer<i32>, %y: !tile.buffer<i32>, %o: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %zeros = arith.constant dense<0> : vector<1024xi32>
  %list = tile.shared 1024 : !tile.buffer<i32>
  %count = tile.shared 1 : !tile.buffer<i32>
  tile.store %zero, %count[%c0] : i32, !tile.buffer<i32>
  tile.barrier
  %v = tile.load %x[%o] : !tile.buffer<i32> -> vector<1024xi32>
  %m = arith.cmpi sgt, %v, %zeros : vector<1024xi32>
  tile.append %v mask %m to %list count %count limit 1024
      : vector<1024xi1>, vector<1024xi32> to !tile.buffer<i32> count !tile.buffer<i32>
  tile.barrier
  %w = tile.load %list[%c0] : !tile.buffer<i32> -> vector<1024xi32>
  tile.store %w, %y[%o] : vector<1024xi32>, !tile.buffer<i32>
  tile.return
}
