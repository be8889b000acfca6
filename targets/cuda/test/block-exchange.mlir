// What the threads of a CTA exchange in a loop. A step writes to the shared
// memory that the step before still reads: a barrier on either side.
// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// All 32 threads of a warp take part in the tree.
// CHECK-LABEL: .visible .entry sums(
// CHECK: .reqntid 128
// CHECK: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 8, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
// CHECK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.shared.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: ret;
tile.func @sums(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) attributes {tile.threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = arith.constant 512 : index
  scf.for %i = %c0 to %n step %c1 {
    %at = arith.muli %i, %size : index
    %v = tile.load %x[%at] : !tile.buffer<f32> -> vector<512xf32>
    %s = vector.reduction <add>, %v fastmath<reassoc> : vector<512xf32> into f32
    tile.store %s, %y[%i] : f32, !tile.buffer<f32>
  }
  tile.return
}

// CHECK-LABEL: .visible .entry transposed(
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.shared.v4.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared.b32
// CHECK: ret;
tile.func @transposed(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = arith.constant 1024 : index
  scf.for %i = %c0 to %n step %c1 {
    %at = arith.muli %i, %size : index
    %v = tile.load %x[%at] : !tile.buffer<f32> -> vector<1024xf32>
    %t = tile.transpose %v columns 32 : vector<1024xf32>
    tile.store %t, %y[%at] : vector<1024xf32>, !tile.buffer<f32>
  }
  tile.return
}

// A scan up: what comes from before lane 0 is left out (bound 0).
// CHECK-LABEL: .visible .entry scans(
// CHECK: shfl.sync.up.b32 {{.*}}, 1, 0, -1;
// CHECK: shfl.sync.up.b32 {{.*}}, 16, 0, -1;
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.shared.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: ret;
tile.func @scans(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %size = arith.constant 1024 : index
  scf.for %i = %c0 to %n step %c1 {
    %at = arith.muli %i, %size : index
    %v = tile.load %x[%at] : !tile.buffer<f32> -> vector<1024xf32>
    %s, %all = tile.scan <add>, %v : vector<1024xf32>, f32
    tile.store %s, %y[%at] : vector<1024xf32>, !tile.buffer<f32>
  }
  tile.return
}

// Down: past the last lane (bound 31).
// CHECK-LABEL: .visible .entry down(
// CHECK: shfl.sync.down.b32 {{.*}}, 1, 31, -1;
// CHECK: shfl.sync.down.b32 {{.*}}, 16, 31, -1;
// CHECK: ret;
tile.func @down(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<1024xf32>
  %s, %all = tile.scan <add>, %v {reverse} : vector<1024xf32>, f32
  tile.store %s, %y[%c0] : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

// Each lane of a gather has its own offset.
// CHECK-LABEL: .visible .entry gathered(
// CHECK: ld.global.nc.v2.b64 {[[A:%rd[0-9]+]], [[B:%rd[0-9]+]]}
// CHECK-DAG: shl.b64 [[BYTESA:%rd[0-9]+]], [[A]], 2;
// CHECK-DAG: shl.b64 [[BYTESB:%rd[0-9]+]], [[B]], 2;
// CHECK-DAG: add.s64 [[ATA:%rd[0-9]+]], {{%rd[0-9]+}}, [[BYTESA]];
// CHECK-DAG: add.s64 [[ATB:%rd[0-9]+]], {{%rd[0-9]+}}, [[BYTESB]];
// CHECK-DAG: ld.global.nc.b32 {{%r[0-9]+}}, {{\[}}[[ATA]]];
// CHECK-DAG: ld.global.nc.b32 {{%r[0-9]+}}, {{\[}}[[ATB]]];
// CHECK: ret;
tile.func @gathered(%x: !tile.buffer<f32>, %index: !tile.buffer<i64>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %i = tile.load %index[%c0] : !tile.buffer<i64> -> vector<128xi64>
  %at = arith.index_cast %i : vector<128xi64> to vector<128xindex>
  %v = tile.gather %x[%at] : !tile.buffer<f32> -> vector<128xf32>
  tile.store %v, %y[%c0] : vector<128xf32>, !tile.buffer<f32>
  tile.return
}
