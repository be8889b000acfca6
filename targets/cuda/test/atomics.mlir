// RUN: knapper-translate --tile-to-ptx --isa=sm_90a %s | FileCheck %s
// RUN: knapper-translate --tile-to-ptx --isa=sm_80 %s | FileCheck %s --check-prefix=OLDER

// A program is a thread: no loop over lanes, no shuffles; four neighbours go in
// one instruction, which needs a newer version of PTX.
// CHECK: .version 8.1
// CHECK-LABEL: .visible .entry four(
// CHECK: .reqntid 128
// CHECK-NOT: shfl
// CHECK: ld.global.nc.v4.b32
// CHECK: red.global.add.v4.f32
// CHECK-NOT: red.
// CHECK: ret;
// OLDER: .version 8.0
// OLDER-LABEL: .visible .entry four(
// OLDER-COUNT-4: red.global.add.f32
tile.func @four(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.threads = 1 : i64, tile.grid = 100000 : i64} {
  %p = tile.program_id
  %n = arith.constant 4 : index
  %o = arith.muli %p, %n : index
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<4xf32>
  tile.atomic <add>, %v, %y[%o] : vector<4xf32>, !tile.buffer<f32>
  tile.return
}

// Two where more are not known to lie at a multiple of 16 bytes.
// CHECK-LABEL: .visible .entry two(
// CHECK-COUNT-2: red.global.add.v2.f32
// CHECK: ret;
tile.func @two(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) attributes {tile.threads = 1 : i64} {
  %p = tile.program_id
  %n = arith.constant 6 : index
  %o = arith.muli %p, %n : index
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<4xf32>
  tile.atomic <add>, %v, %y[%o] : vector<4xf32>, !tile.buffer<f32>
  tile.return
}

// Threads of a block have a tile together; a scalar is one thread's.
// CHECK-LABEL: .visible .entry block(
// CHECK: red.global.add.v4.f32
// CHECK: red.global.add.f64
// CHECK: ret;
tile.func @block(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %z: !tile.buffer<f64>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %o = arith.muli %p, %n : index
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<1024xf32>
  %one = arith.constant 1.0 : f64
  tile.atomic <add>, %v, %y[%o] : vector<1024xf32>, !tile.buffer<f32>
  tile.atomic <add>, %one, %z[%p] : f64, !tile.buffer<f64>
  tile.return
}

// Integers of 32 and 64 bits have instructions of their own; a maximum of
// floats is written only where it is larger, and what came between is seen.
// CHECK-LABEL: .visible .entry others(
// CHECK: atom{{.*}}.global.max.s32
// CHECK: atom{{.*}}.global.add.u64
// CHECK: ld.relaxed.gpu.global.b32
// CHECK: max.NaN.f32
// CHECK: setp.{{eq|ne}}
// CHECK: atom{{.*}}.global.cas.b32
// CHECK: ret;
tile.func @others(%x: !tile.buffer<f32>, %i: !tile.buffer<i32>, %j: !tile.buffer<i64>) attributes {tile.threads = 1 : i64} {
  %p = tile.program_id
  %a = arith.index_cast %p : index to i32
  %b = arith.index_cast %p : index to i64
  %c = arith.sitofp %a : i32 to f32
  tile.atomic <maxsi>, %a, %i[%p] : i32, !tile.buffer<i32>
  tile.atomic <add>, %b, %j[%p] : i64, !tile.buffer<i64>
  tile.atomic <maximumf>, %c, %x[%p] : f32, !tile.buffer<f32>
  tile.return
}
