// RUN: not knapper-translate --tile-to-ptx --split-input-file %s 2>&1 | FileCheck %s

// CHECK: error: 'tile.func' op has a cluster of 12 programs, which blocks cannot hold
tile.func @twelve(%x: !tile.buffer<f32>, %o: index) attributes {tile.cluster = 12 : i64} {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<128xf32>
  %s = tile.combine <add>, %v : vector<128xf32>
  tile.store %s, %x[%o] : vector<128xf32>, !tile.buffer<f32>
  tile.return
}

// -----

// Programs of a block are told apart by bits.
// CHECK: error: 'tile.func' op has a tile of 384 elements, which does not spread over threads
tile.func @odd(%x: !tile.buffer<f32>, %o: index) attributes {tile.cluster = 16 : i64, tile.threads = 96 : i64} {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<384xf32>
  %s = tile.combine <add>, %v : vector<384xf32>
  tile.store %s, %x[%o] : vector<384xf32>, !tile.buffer<f32>
  tile.return
}

// -----

tile.func @wide(%x: !tile.buffer<i8>, %o: index) attributes {tile.cluster = 128 : i64} {
  %v = tile.load %x[%o] : !tile.buffer<i8> -> vector<512xi8>
  %w = arith.extsi %v : vector<512xi8> to vector<512xi64>
  // CHECK: error: 'tile.combine' op and those before it leave 69632 bytes in shared memory, which has 49152
  %s = tile.combine <add>, %w : vector<512xi64>
  %r = arith.trunci %s : vector<512xi64> to vector<512xi8>
  tile.store %r, %x[%o] : vector<512xi8>, !tile.buffer<i8>
  tile.return
}
