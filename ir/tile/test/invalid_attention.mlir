// RUN: knapper-opt %s -split-input-file -verify-diagnostics

tile.func @k(%q: !tile.buffer<bf16>, %o: !tile.buffer<bf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  // expected-error@+1 {{C4: shape has no 'head_dim'}}
  tile.attention Q(%q[%c0], %c64, %c64, %c64, %c1) K(%q[%c0], %c64, %c64, %c64, %c1) V(%q[%c0], %c64, %c64, %c64, %c1) O(%o[%c0], %c64, %c64, %c64, %c1)
    size %c1, %c1, %c1, %c64, %c64, %c64, %c64 scale 1.0 shape {algorithm = 1, empty_row = 0, tile_m = 128, tile_n = 128}
    : !tile.buffer<bf16>, !tile.buffer<bf16>, !tile.buffer<bf16>, !tile.buffer<bf16> {
  ^bb0(%s: f32, %b: index, %h: index, %r: index, %t: index):
    tile.yield %s : f32
  }
  tile.return
}
