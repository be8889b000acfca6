// What the programs of a cluster do together: whole clusters, all blocks to the end, tiles in the programs' order.
// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// Three programs of a block: each leaves its tile in its own place (512 bytes a program, 16 a thread), all read them in
// order, then the blocks' in order; one place of a block's tile is for the others to read.
// CHECK-LABEL: .entry order(
// CHECK: .reqntid 96
// CHECK: .reqnctapercluster 8
// CHECK: mov.u32 [[THREAD:%r[0-9]+]], %tid.x;
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: mul.wide.u32 [[OFFSET:%rd[0-9]+]], [[THREAD]], 16;
// CHECK: add.s64 [[OWN:%rd[0-9]+]], %rd{{[0-9]+}}, [[OFFSET]];
// CHECK: st.shared.v4.b32 [[[OWN]]],
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: bra
// CHECK: ld.shared.v4.b32 {[[P0:%r[0-9]+]],{{.*}}, [%rd{{[0-9]+}}];
// CHECK: ld.shared.v4.b32 {[[P1:%r[0-9]+]],{{.*}}, [%rd{{[0-9]+}}+512];
// CHECK: ld.shared.v4.b32 {[[P2:%r[0-9]+]],{{.*}}, [%rd{{[0-9]+}}+1024];
// CHECK: add.rn.f32 [[P01:%r[0-9]+]], [[P0]], [[P1]];
// CHECK: add.rn.f32 %r{{[0-9]+}}, [[P01]], [[P2]];
// CHECK: st.shared.v4.b32
// CHECK: barrier.cluster.arrive
// CHECK-NEXT: barrier.cluster.wait
// CHECK: mapa.shared::cluster.u64 [[M0:%rd[0-9]+]], %rd{{[0-9]+}}, 0;
// CHECK: ld.shared::cluster.v4.b32 {[[B0:%r[0-9]+]],{{.*}}, [[[M0]]];
// CHECK: mapa.shared::cluster.u64 [[M1:%rd[0-9]+]], %rd{{[0-9]+}}, 1;
// CHECK: ld.shared::cluster.v4.b32 {[[B1:%r[0-9]+]],{{.*}}, [[[M1]]];
// CHECK: mapa.shared::cluster.u64 [[M2:%rd[0-9]+]], %rd{{[0-9]+}}, 2;
// CHECK: ld.shared::cluster.v4.b32 {[[B2:%r[0-9]+]],{{.*}}, [[[M2]]];
// CHECK: mapa.shared::cluster.u64 [[M3:%rd[0-9]+]], %rd{{[0-9]+}}, 3;
// CHECK: ld.shared::cluster.v4.b32 {[[B3:%r[0-9]+]],{{.*}}, [[[M3]]];
// CHECK: mapa.shared::cluster.u64 [[M4:%rd[0-9]+]], %rd{{[0-9]+}}, 4;
// CHECK: ld.shared::cluster.v4.b32 {[[B4:%r[0-9]+]],{{.*}}, [[[M4]]];
// CHECK: mapa.shared::cluster.u64 [[M5:%rd[0-9]+]], %rd{{[0-9]+}}, 5;
// CHECK: ld.shared::cluster.v4.b32 {[[B5:%r[0-9]+]],{{.*}}, [[[M5]]];
// CHECK: mapa.shared::cluster.u64 [[M6:%rd[0-9]+]], %rd{{[0-9]+}}, 6;
// CHECK: ld.shared::cluster.v4.b32 {[[B6:%r[0-9]+]],{{.*}}, [[[M6]]];
// CHECK: mapa.shared::cluster.u64 [[M7:%rd[0-9]+]], %rd{{[0-9]+}}, 7;
// CHECK: ld.shared::cluster.v4.b32 {[[B7:%r[0-9]+]],{{.*}}, [[[M7]]];
// CHECK: add.rn.f32 [[S1:%r[0-9]+]], [[B0]], [[B1]];
// CHECK: add.rn.f32 [[S2:%r[0-9]+]], [[S1]], [[B2]];
// CHECK: add.rn.f32 [[S3:%r[0-9]+]], [[S2]], [[B3]];
// CHECK: add.rn.f32 [[S4:%r[0-9]+]], [[S3]], [[B4]];
// CHECK: add.rn.f32 [[S5:%r[0-9]+]], [[S4]], [[B5]];
// CHECK: add.rn.f32 [[S6:%r[0-9]+]], [[S5]], [[B6]];
// CHECK: add.rn.f32 [[S7:%r[0-9]+]], [[S6]], [[B7]];
// CHECK-NOT: bra
// CHECK: st.global
// CHECK-NEXT: barrier.cluster.arrive
// CHECK-NEXT: barrier.cluster.wait
// CHECK-NEXT: ret
tile.func @order(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.cluster = 24 : i64, tile.threads = 32 : i64} {
  %id = tile.program_id
  %c = arith.constant 128 : index
  %at = arith.muli %id, %c : index
  %v = tile.load %x[%at] : !tile.buffer<f32> -> vector<128xf32>
  %s = tile.combine <add>, %v : vector<128xf32>
  tile.store %s, %y[%at] : vector<128xf32>, !tile.buffer<f32>
  tile.return
}

// One that runs again waits until all have read what was left.
// CHECK-LABEL: .entry again(
// CHECK: .reqnctapercluster 2
// CHECK: $L__BB{{[0-9_]+}}:
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: barrier.cluster.wait
// CHECK: st.shared.v4.b32
// CHECK: barrier.cluster.wait
// CHECK-COUNT-2: ld.shared::cluster.v4.b32
// CHECK: bra
// CHECK: barrier.cluster.wait
// CHECK-NEXT: ret
tile.func @again(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) attributes {tile.cluster = 2 : i64} {
  %id = tile.program_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c = arith.constant 128 : index
  scf.for %i = %c0 to %n step %c1 {
    %row = arith.muli %i, %c : index
    %v = tile.load %x[%row] : !tile.buffer<f32> -> vector<128xf32>
    %s = tile.combine <maximumf>, %v : vector<128xf32>
    tile.store %s, %y[%row] : vector<128xf32>, !tile.buffer<f32>
  }
  tile.return
}
