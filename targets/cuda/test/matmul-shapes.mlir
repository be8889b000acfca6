// Shapes of matmuls that do not fit in a processor's shared memory, or that read past what there is, are refused.
// RUN: not knapper-translate --tile-to-ptx %s -o %t.ptx 2>&1 | FileCheck %s

// CHECK: 'tile.matmul' op has a shape or element types that this algorithm cannot do
tile.func @rows_that_are_not_there(%x: !tile.buffer<bf16>, %w: !tile.buffer<bf16>, %y: !tile.buffer<bf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = arith.constant 21 : index
  %n = arith.constant 3736 : index
  %k = arith.constant 1240 : index
  tile.matmul A(%x[%c0], row %k, k %c1) B(%w[%c0], column %k, k %c1) size %m, %n, %k to %y : !tile.buffer<bf16> shape {a_batch_dims = 0, copied_m = 24, a_transposed = 0, b_batch_dims = 0, b_transposed = 0, epilogue_chunks = 0, tile_n = 32, consumers = 1, tile_k = 64, raster_group = 16, algorithm = 1, pingpong = 0, tile_m = 64, stages = 16} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%v: vector<2xf32>, %row: index, %column: index):
    tile.yield %v : vector<2xf32>
  }
  tile.return
}
