// Every function as a GPU kernel: no calls, and the assembler takes it unspilled.
// RUN: knapper-translate --tile-to-ptx %s -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// CHECK: .target sm_90a
// CHECK-NOT: call
// CHECK-NOT: .extern
// CHECK-NOT: .local

tile.func @exp(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.exp %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @exp2(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.exp2 %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @expm1(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.expm1 %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @log(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.log %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @log2(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.log2 %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @log10(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.log10 %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @log1p(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.log1p %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @tanh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.tanh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @erf(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.erf %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @erfc(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.erfc %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @sin(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.sin %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @cos(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.cos %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @tan(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.tan %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @asin(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.asin %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @acos(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.acos %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @atan(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.atan %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @sinh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.sinh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @cosh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.cosh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @asinh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.asinh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @acosh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.acosh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @atanh(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.atanh %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @cbrt(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.cbrt %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @rsqrt(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.rsqrt %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @round(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.round %v : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @powf(%x: !tile.buffer<f32>, %z: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %w = tile.load %z[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.powf %v, %w : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @atan2(%x: !tile.buffer<f32>, %z: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %w = tile.load %z[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = math.atan2 %v, %w : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}

tile.func @remf(%x: !tile.buffer<f32>, %z: !tile.buffer<f32>, %y: !tile.buffer<f32>) {
  %p = tile.program_id
  %n = arith.constant 1024 : index
  %off = arith.muli %p, %n : index
  %v = tile.load %x[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %w = tile.load %z[%off] {alignment = 16} : !tile.buffer<f32> -> vector<1024xf32>
  %r = arith.remf %v, %w : vector<1024xf32>
  tile.store %r, %y[%off] {alignment = 16} : vector<1024xf32>, !tile.buffer<f32>
  tile.return
}
