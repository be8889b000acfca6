// RUN: knapper-opt %s -split-input-file -verify-diagnostics

// The entries of a matmul's shape (ir/config/MatmulGpuConfig.h).
tile.func @missing(%x: !tile.buffer<bf16>, %c: index) {
  // expected-error@+1 {{C4: shape has no 'tile_k'}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = 0, tile_m = 64, tile_n = 64} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

// What warpgroups need, multiply-adds do not.
tile.func @of_a_path(%x: !tile.buffer<bf16>, %c: index) {
  // expected-error@+1 {{C4: shape has no 'a_transposed'}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = 1, tile_m = 64, tile_n = 64, tile_k = 64, stages = 4, consumers = 1, pingpong = 0, raster_group = 8} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = 0, tile_m = 64, tile_n = 64, tile_k = 16, stages = 2, consumers = 0, pingpong = 0, raster_group = 8} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

tile.func @no_such_path(%x: !tile.buffer<bf16>, %c: index) {
  // expected-error@+1 {{C4: shape has algorithm = 4, which there is not}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = 4, tile_m = 64, tile_n = 64, tile_k = 16, stages = 2, consumers = 0, pingpong = 0, raster_group = 8} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

tile.func @unknown(%x: !tile.buffer<bf16>, %c: index) {
  // expected-error@+1 {{C4: shape has an unknown 'clusters'}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = 0, tile_m = 64, tile_n = 64, tile_k = 16, stages = 2, consumers = 0, pingpong = 0, raster_group = 8, clusters = 2} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

tile.func @no_number(%x: !tile.buffer<bf16>, %c: index) {
  // expected-error@+1 {{C4: shape has 'algorithm', which is no 64-bit integer}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c shape {algorithm = "wgmma", tile_m = 64, tile_n = 64} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

// Rows of experts are those of a CTA alone, and their ends are words.
tile.func @ends_of_gemv(%x: !tile.buffer<bf16>, %e: !tile.buffer<i32>, %c: index) {
  // expected-error@+1 {{C6: 'ends' are i32, of a matmul whose CTAs have rows of their own}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c ends %e : !tile.buffer<i32> shape {algorithm = 2, tile_m = 1, tile_n = 64, tile_k = 16, stages = 2, consumers = 8, pingpong = 0, raster_group = 8} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}

// -----

tile.func @ends_of_i64(%x: !tile.buffer<bf16>, %e: !tile.buffer<i64>, %c: index) {
  // expected-error@+1 {{C6: 'ends' are i32, of a matmul whose CTAs have rows of their own}}
  tile.matmul A(%x[%c], row %c, k %c) B(%x[%c], column %c, k %c) size %c, %c, %c ends %e : !tile.buffer<i64> shape {algorithm = 0, tile_m = 64, tile_n = 64, tile_k = 16, stages = 2, consumers = 0, pingpong = 0, raster_group = 8} : !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%value: f32, %i: index, %j: index):
    tile.yield
  }
  tile.return
}
