// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// Programs are numbered as they begin. Each leaves what it makes in a word whose
// upper half says that it is there; one warp reads the words before it, four a
// lane, and that of the group before, until all are there. The last of a group
// leaves what all up to it make.
// CHECK-LABEL: .visible .entry look_back(
// CHECK: atom{{.*}}.global.add.u64
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.relaxed.gpu.global.b64
// CHECK: min.u64
// CHECK: [[WAIT:\$L__BB[0-9_]+]]:
// CHECK-COUNT-5: ld.relaxed.gpu.global.b64
// CHECK: bra {{.*}}[[WAIT]]
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: st.relaxed.gpu.global.b64
// CHECK: st.shared.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
tile.func @look_back(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %words: !tile.buffer<i64>, %tiles: index) {
  %c0 = arith.constant 0 : index
  %first = arith.constant 16 : index
  %p = tile.ticket %words[%c0] : !tile.buffer<i64>
  %n = arith.constant 4096 : index
  %o = arith.muli %p, %n : index
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<4096xf32>
  %s, %all = tile.scan <add>, %v : vector<4096xf32>, f32
  %before = tile.look_back <add>, %all state %words[%first] number %p of %tiles : f32, !tile.buffer<i64>
  %b = vector.broadcast %before : f32 to vector<4096xf32>
  %r = arith.addf %b, %s : vector<4096xf32>
  tile.store %r, %y[%o] : vector<4096xf32>, !tile.buffer<f32>
  tile.return
}

// Values of 64 bits take two words, each with a mark of its own.
// CHECK-LABEL: .visible .entry wide(
// CHECK-COUNT-2: st.relaxed.gpu.global.b64
// CHECK-COUNT-10: ld.relaxed.gpu.global.b64
// CHECK: ret;
tile.func @wide(%x: !tile.buffer<f64>, %y: !tile.buffer<f64>, %words: !tile.buffer<i64>, %tiles: index) {
  %c0 = arith.constant 0 : index
  %p = tile.ticket %words[%c0] : !tile.buffer<i64>
  %n = arith.constant 1024 : index
  %o = arith.muli %p, %n : index
  %v = tile.load %x[%o] : !tile.buffer<f64> -> vector<1024xf64>
  %s, %all = tile.scan <maximumf>, %v : vector<1024xf64>, f64
  %before = tile.look_back <maximumf>, %all state %words[%n] number %p of %tiles : f64, !tile.buffer<i64>
  tile.store %before, %y[%p] : f64, !tile.buffer<f64>
  tile.return
}
