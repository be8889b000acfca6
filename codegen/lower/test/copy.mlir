// RUN: knapper-translate --tile-to-asm %s | FileCheck %s
// RUN: knapper-translate --tile-to-asm --isa=x86-64-v3 %s | FileCheck %s --check-prefix=V3

// A run of 16 KB is copied at once where processors are good at it.
// CHECK-LABEL: run:
// CHECK: {{rep[[:space:];]+movsb}}
// CHECK-NOT: zmm
// CHECK: retq
// V3-LABEL: run:
// V3-NOT: movsb
// V3: retq
tile.func @run(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  %p = tile.program_id
  %base = arith.muli %p, %c4096 : index
  scf.for %i = %c0 to %c4096 step %c64 {
    %at = arith.addi %i, %base : index
    %v = tile.load %x[%at] : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%at] : vector<64xf32>, !tile.buffer<f32>
  }
  tile.return
}

// Of a length that is not known the longer ones.
// CHECK-LABEL: either:
// CHECK-DAG: {{rep[[:space:];]+movsb}}
// CHECK-DAG: vmovups {{.*}}%zmm
// CHECK: retq
tile.func @either(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %n step %c64 {
    %v = tile.load %x[%i] : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%i] : vector<64xf32>, !tile.buffer<f32>
  }
  tile.return
}

// Short runs, runs that are computed with, every other tile: not so.
// CHECK-LABEL: others:
// CHECK-NOT: movsb
// CHECK: retq
tile.func @others(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %c512 = arith.constant 512 : index
  %c4096 = arith.constant 4096 : index
  scf.for %i = %c0 to %c512 step %c64 {
    %v = tile.load %x[%i] : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%i] : vector<64xf32>, !tile.buffer<f32>
  }
  scf.for %i = %c0 to %c4096 step %c64 {
    %v = tile.load %x[%i] : !tile.buffer<f32> -> vector<64xf32>
    %w = arith.negf %v : vector<64xf32>
    tile.store %w, %y[%i] : vector<64xf32>, !tile.buffer<f32>
  }
  scf.for %i = %c0 to %c4096 step %c64 {
    %twice = arith.muli %i, %c2 : index
    %v = tile.load %x[%twice] : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%i] : vector<64xf32>, !tile.buffer<f32>
  }
  tile.return
}

// Of the last tile some lanes alone are read, or written: what lies behind them
// is not the program's to touch.
// CHECK-LABEL: ends:
// CHECK-NOT: movsb
// CHECK: retq
tile.func @ends(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c64 {
    %rest = arith.subi %n, %i : index
    %v = tile.load %x[%i] valid %rest pad %zero : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%i] : vector<64xf32>, !tile.buffer<f32>
  }
  scf.for %i = %c0 to %n step %c64 {
    %rest = arith.subi %n, %i : index
    %v = tile.load %x[%i] : !tile.buffer<f32> -> vector<64xf32>
    tile.store %v, %y[%i] valid %rest : vector<64xf32>, !tile.buffer<f32>
  }
  tile.return
}
