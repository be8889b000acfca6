// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// One block a program; 16-byte accesses through the read-only path; the edge of
// a row is reached lane by lane.
// CHECK: .target sm_90a
// CHECK-LABEL: .visible .entry relu(
// CHECK: .reqntid 256
// CHECK: ld.global.nc.v4.b32
// CHECK: max.{{.*}}f32
// CHECK: st.global.v4.b32
// CHECK-NOT: call
tile.func @relu(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %zero = arith.constant dense<0.0> : vector<1024xf32>
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = arith.maximumf %v, %zero : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

// A row of any length: a loop carries a partial tile, one reduction follows.
// CHECK-LABEL: .visible .entry row_sum(
// CHECK: ld.global.nc.v4.b32
// CHECK: shfl.sync.bfly.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared.b32
// CHECK: st.global.b32
tile.func @row_sum(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %cols: index) {
  %p = tile.program_id
  %row = arith.muli %p, %cols : index
  %c0 = arith.constant 0 : index
  %n = arith.constant 1024 : index
  %zero = arith.constant dense<0.0> : vector<1024xf32>
  %sum = scf.for %i = %c0 to %cols step %n iter_args(%acc = %zero) -> (vector<1024xf32>) {
    %off = arith.addi %row, %i : index
    %left = arith.subi %cols, %i : index
    %v = tile.load %x[%off] valid %left {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
    %s = arith.addf %acc, %v : vector<1024xf32>
    scf.yield %s : vector<1024xf32>
  }
  %t = vector.reduction <add>, %sum fastmath<reassoc> : vector<1024xf32> into f32
  tile.store %t, %y[%p] : f32, !tile.buffer<f32>
  tile.return
}

// Softmax: the row stays in registers, read once, written once.
// CHECK-LABEL: .visible .entry softmax(
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: ld.global.nc.v4.b32
// CHECK: shfl.sync.bfly.b32
// CHECK: fma.rn.f32
// CHECK: shfl.sync.bfly.b32
// CHECK: div.rn.f32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: .local
tile.func @softmax(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %cols = arith.constant 2048 : index
  %row = arith.muli %p, %cols : index
  %v = tile.load %x[%row] {alignment = 16} : !tile.buffer<f32> -> vector<2048xf32>
  %m = vector.reduction <maximumf>, %v : vector<2048xf32> into f32
  %mb = vector.broadcast %m : f32 to vector<2048xf32>
  %d = arith.subf %v, %mb : vector<2048xf32>
  %e = math.exp %d : vector<2048xf32>
  %s = vector.reduction <add>, %e fastmath<reassoc> : vector<2048xf32> into f32
  %sb = vector.broadcast %s : f32 to vector<2048xf32>
  %q = arith.divf %e, %sb : vector<2048xf32>
  tile.store %q, %y[%row] {alignment = 16} : vector<2048xf32>, !tile.buffer<f32>
  tile.return
}

// bf16: eight elements in 16 bytes.
// CHECK-LABEL: .visible .entry scale(
// CHECK: ld.global.nc.v4.b32
// CHECK: st.global.v4.b32
tile.func @scale(%x: !tile.buffer<bf16>, %y: !tile.buffer<bf16>) {
  %p = tile.program_id
  %n = arith.constant 2048 : index
  %off = arith.muli %p, %n : index
  %two = arith.constant dense<2.0> : vector<2048xf32>
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<bf16> -> vector<2048xbf16>
  %w = arith.extf %v : vector<2048xbf16> to vector<2048xf32>
  %r = arith.mulf %w, %two : vector<2048xf32>
  %h = arith.truncf %r : vector<2048xf32> to vector<2048xbf16>
  tile.store %h, %y[%off] {alignment = 16} : vector<2048xbf16>, !tile.buffer<bf16>
  tile.return
}

// A row that starts anywhere, at one place of all it is read from and written to: it lies that many lanes into its
// tile. Accesses stay whole, nothing is shifted; at its ends elements are written one by one.
// CHECK-LABEL: .visible .entry odd_row(
// CHECK: .reqntid 128
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: shf.
// CHECK: ex2.approx.ftz.f32
// CHECK-NOT: shf.
// CHECK: st.global.v4.b32
// CHECK: st.global.b16
// CHECK-NOT: .local
tile.func @odd_row(%x: !tile.buffer<bf16>, %y: !tile.buffer<bf16>) {
  %p = tile.program_id
  %cols = arith.constant 4099 : index
  %row = arith.muli %p, %cols : index
  %v = tile.load %x[%row] valid %cols : !tile.buffer<bf16> -> vector<5120xbf16>
  %w = arith.extf %v : vector<5120xbf16> to vector<5120xf32>
  %e = tile.exp2 %w : vector<5120xf32>
  %s = vector.reduction <add>, %e fastmath<reassoc> : vector<5120xf32> into f32
  %sb = vector.broadcast %s : f32 to vector<5120xf32>
  %q = arith.mulf %e, %sb : vector<5120xf32>
  %h = arith.truncf %q : vector<5120xf32> to vector<5120xbf16>
  tile.store %h, %y[%row] valid %cols : vector<5120xbf16>, !tile.buffer<bf16>
  tile.return
}

// Ten warps: eight leaves of the tree over their words, of which two take the
// words beyond first.
// CHECK-LABEL: .visible .entry ten_warps(
// CHECK: .reqntid 320
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: and.b64 %[[LEAF:rd[0-9]+]], %{{rd[0-9]+}}, 7;
// CHECK: or.b64 %[[BEYOND:rd[0-9]+]], %[[LEAF]], 8;
// CHECK: setp.lt.u64 %[[IS_WORD:p[0-9]+]], %[[BEYOND]], 10;
// CHECK: selp.b64 %{{rd[0-9]+}}, %[[BEYOND]], %[[LEAF]], %[[IS_WORD]];
// CHECK: shfl.sync.bfly.b32 %{{r[0-9]+}}, %{{r[0-9]+}}, 4,
tile.func @ten_warps(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.threads = 320 : i64} {
  %p = tile.program_id
  %cols = arith.constant 2560 : index
  %off = arith.muli %p, %cols : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<2560xf32>
  %sum = vector.reduction <add>, %v fastmath<reassoc> : vector<2560xf32> into f32
  tile.store %sum, %y[%p] : f32, !tile.buffer<f32>
  tile.return
}

// Half of 160 threads are no whole warps: two are left.
// CHECK-LABEL: .visible .entry two_of_five_warps(
// CHECK: .reqntid 64
tile.func @two_of_five_warps(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.threads = 160 : i64} {
  %p = tile.program_id
  %cols = arith.constant 1024 : index
  %off = arith.muli %p, %cols : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %sum = vector.reduction <add>, %v fastmath<reassoc> : vector<1024xf32> into f32
  tile.store %sum, %y[%p] : f32, !tile.buffer<f32>
  tile.return
}

// The schedule says how many CTAs an SM is to hold.
// CHECK-LABEL: .entry bound_ctas(
// CHECK: .minnctapersm 3
tile.func @bound_ctas(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.ctas_per_sm = 3 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] : !tile.buffer<f32> -> vector<1024xf32>
  tile.store %v, %y[%c0] : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

// Unless what a thread gathers takes the registers of more.
// CHECK-LABEL: .entry gathers(
// CHECK: .minnctapersm 2
tile.func @gathers(%x: !tile.buffer<f32>, %i: !tile.buffer<i64>, %y: !tile.buffer<f32>) attributes {tile.ctas_per_sm = 8 : i64, tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %at = tile.load %i[%c0] : !tile.buffer<i64> -> vector<128xi64>
  %index = arith.index_cast %at : vector<128xi64> to vector<128xindex>
  %v = tile.gather %x[%index] : !tile.buffer<f32> -> vector<128xf32>
  tile.store %v, %y[%c0] : vector<128xf32>, !tile.buffer<f32>
  tile.return
}
