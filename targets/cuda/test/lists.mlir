// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// A thread takes a word and counts the larger ones, which is its place.
// CHECK-LABEL: .visible .entry rank(
// CHECK: ld.shared.b64
// CHECK: ld.shared.b64
// CHECK: setp.gt.u64
// CHECK: st.shared.b64
// CHECK: ret;
tile.func @rank(%x: !tile.buffer<i64>, %y: !tile.buffer<i64>, %n: index) {
  %c0 = arith.constant 0 : index
  %from = tile.shared 1024 : !tile.buffer<i64>
  %to = tile.shared 1024 : !tile.buffer<i64>
  %v = tile.load %x[%c0] valid %n : !tile.buffer<i64> -> vector<256xi64>
  tile.store %v, %from[%c0] : vector<256xi64>, !tile.buffer<i64>
  tile.barrier
  tile.rank %from to %to count %n : !tile.buffer<i64> to !tile.buffer<i64>
  tile.barrier
  %w = tile.load %to[%c0] : !tile.buffer<i64> -> vector<256xi64>
  tile.store %w, %y[%c0] valid %n : vector<256xi64>, !tile.buffer<i64>
  tile.return
}

// By the first list, then by the second.
// CHECK-LABEL: .visible .entry pairs(
// CHECK: setp.gt.u32
// CHECK: setp.eq.b64
// CHECK: and.pred
// CHECK: setp.gt.u64
// CHECK: or.pred
// CHECK: ret;
tile.func @pairs(%x: !tile.buffer<i64>, %y: !tile.buffer<i64>, %n: index) {
  %c0 = arith.constant 0 : index
  %a = tile.shared 256 : !tile.buffer<i64>
  %b = tile.shared 256 : !tile.buffer<i32>
  %c = tile.shared 256 : !tile.buffer<i64>
  %d = tile.shared 256 : !tile.buffer<i32>
  tile.rank %a, %b to %c, %d count %n
      : !tile.buffer<i64>, !tile.buffer<i32> to !tile.buffer<i64>, !tile.buffer<i32>
  %w = tile.load %c[%c0] : !tile.buffer<i64> -> vector<256xi64>
  tile.store %w, %y[%c0] : vector<256xi64>, !tile.buffer<i64>
  tile.return
}

// How many each block has, then their words, by shared memory of the cluster;
// no block ends before the others have read.
// CHECK-LABEL: .visible .entry collect(
// CHECK: .reqnctapercluster 2
// CHECK: barrier.cluster.wait
// CHECK: mapa
// CHECK: ld.shared::cluster.b32
// CHECK: ld.shared::cluster.b64
// CHECK: st.shared.b64
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: barrier.cluster.wait
// CHECK-NEXT: ret;
tile.func @collect(%x: !tile.buffer<i64>, %y: !tile.buffer<i64>, %n: index) attributes {tile.cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %from = tile.shared 1024 : !tile.buffer<i64>
  %to = tile.shared 1024 : !tile.buffer<i64>
  %v = tile.load %x[%c0] : !tile.buffer<i64> -> vector<1024xi64>
  tile.store %v, %from[%c0] : vector<1024xi64>, !tile.buffer<i64>
  tile.barrier
  %all = tile.cluster_collect %from to %to count %n limit 1024 : !tile.buffer<i64> to !tile.buffer<i64>
  %w = tile.load %to[%c0] valid %all : !tile.buffer<i64> -> vector<1024xi64>
  tile.store %w, %y[%c0] valid %all : vector<1024xi64>, !tile.buffer<i64>
  tile.return
}

// Eight lanes side by side, though some accesses are of eight bytes a lane.
// CHECK-LABEL: .visible .entry side_by_side(
// CHECK: ld.global{{.*}}.v4.b32
// CHECK: ret;
tile.func @side_by_side(%x: !tile.buffer<bf16>, %y: !tile.buffer<i64>)
    attributes {tile.threads = 128 : i64, tile.width = 8 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<bf16> -> vector<1024xbf16>
  %b = arith.bitcast %v : vector<1024xbf16> to vector<1024xi16>
  %w = arith.extui %b : vector<1024xi16> to vector<1024xi64>
  tile.store %w, %y[%c0] : vector<1024xi64>, !tile.buffer<i64>
  tile.return
}
