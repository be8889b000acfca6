// RUN: knapper-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{argument 1 is a buffer after a symbol: buffers come first}}
tile.func @order(%n: index, %x: !tile.buffer<f32>) { tile.return }

// -----

// expected-error @+1 {{argument 0 is 'f32': arguments are buffers, then symbols of type index}}
tile.func @kind(%n: f32) { tile.return }

// -----

// expected-error @+1 {{argument 0 may alias argument 3, which is no buffer}}
tile.func @alias(%x: !tile.buffer<f32> {tile.may_alias = 3 : i64}) { tile.return }

// -----

// expected-error @+1 {{a buffer holds f32, f16, bf16, f64, i1, i8, i16, i32 or i64, not 'index'}}
tile.func @element(%x: !tile.buffer<index>) { tile.return }

// -----

tile.func @mismatch(%x: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{element type of 'result' must be that of 'buffer'}}
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<8xf16>
  tile.return
}

// -----

tile.func @pad(%x: !tile.buffer<f32>, %o: index) {
  %z = arith.constant 0.0 : f32
  // expected-error @+1 {{has a pad but nothing that leaves lanes out}}
  %v = tile.load %x[%o] pad %z : !tile.buffer<f32> -> vector<8xf32>
  tile.return
}

// -----

tile.func @scalar(%x: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{takes 'valid' for vectors only}}
  %v = tile.load %x[%o] valid %o : !tile.buffer<f32> -> f32
  tile.return
}

// -----

tile.func @alignment(%x: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{alignment must be a power of two, not 12}}
  %v = tile.load %x[%o] {alignment = 12} : !tile.buffer<f32> -> f32
  tile.return
}

// -----

tile.func @pairs_of(%a: !tile.buffer<bf16>, %b: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{takes pairs of bf16 to f32, not of 'f32' to 'f32'}}
  %v = tile.mainloop A(%a[%o], row %o, k %o) B(%b[%o], k %o) over %o {pairs} : !tile.buffer<bf16>, !tile.buffer<f32> -> vector<4x16xf32>
  tile.return
}

// -----

tile.func @pair_columns(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, %o: index) {
  // expected-error @+1 {{has 24 columns of pairs, no multiple of 16}}
  %v = tile.mainloop A(%a[%o], row %o, k %o) B(%b[%o], k %o) over %o {pairs} : !tile.buffer<bf16>, !tile.buffer<bf16> -> vector<4x24xf32>
  tile.return
}

// -----

tile.func @widen(%a: !tile.buffer<i8>, %b: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{operand A of 'i8' does not widen to 'f32'}}
  %v = tile.mainloop A(%a[%o], row %o, k %o) B(%b[%o], k %o) over %o
      : !tile.buffer<i8>, !tile.buffer<f32> -> vector<8x16xf32>
  tile.return
}

// -----

tile.func @table(%x: !tile.buffer<f32>) {
  %i = arith.constant dense<5> : vector<8xi32>
  // expected-error @+1 {{C1: the table has a power of two of words}}
  %l = tile.lookup %i in [1, 2, 4] : vector<8xi32>
  tile.return
}

// -----

tile.func @indices(%x: !tile.buffer<f32>) {
  %i = arith.constant dense<5> : vector<8xi64>
  // expected-error @+1 {{C2: indices are i32}}
  %l = tile.lookup %i in [1, 2] : vector<8xi64>
  tile.return
}

// -----

tile.func @powers(%x: !tile.buffer<f32>) {
  %v = arith.constant dense<5.0> : vector<8xf64>
  // expected-error @+1 {{C1: elements are f32}}
  %s = tile.scale_by_power %v, %v : vector<8xf64>
  tile.return
}

// -----

tile.func @byte_products(%x: !tile.buffer<f32>) {
  %v = arith.constant dense<5> : vector<8xi16>
  // expected-error @+1 {{C1: elements are i32}}
  %s = tile.add_byte_products %v, %v, %v : vector<8xi16>
  tile.return
}

// -----

tile.func @byte_product_lanes(%x: !tile.buffer<f32>) {
  %v = arith.constant dense<5> : vector<6xi32>
  // expected-error @+1 {{C2: lanes are a multiple of four}}
  %s = tile.add_byte_products %v, %v, %v : vector<6xi32>
  tile.return
}

// -----

tile.func @block_shape(%a: !tile.buffer<bf16>, %c: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{C1: 24 rows and 32 columns are no block}}
  tile.block A(%a[%o], row %o) B(%a[%o], k %o) over %o C(%c[%o], row %o) rows 24 columns 32 : !tile.buffer<bf16>, !tile.buffer<bf16> -> !tile.buffer<f32>
  tile.return
}

// -----

tile.func @block_valid(%a: !tile.buffer<bf16>, %c: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{C2: 'valid' belongs to 16 rows}}
  tile.block A(%a[%o], row %o) B(%a[%o], k %o) over %o C(%c[%o], row %o) rows 32 valid %o columns 32 : !tile.buffer<bf16>, !tile.buffer<bf16> -> !tile.buffer<f32>
  tile.return
}

// -----

tile.func @block_parts(%a: !tile.buffer<i8>, %c: !tile.buffer<i32>, %o: index) {
  // expected-error @+1 {{C4: 2 parts of 'i8'}}
  tile.block A(%a[%o], row %o) B(%a[%o], k %o) over %o parts 2 (%o, %o) C(%c[%o], row %o) rows 32 columns 32 : !tile.buffer<i8>, !tile.buffer<i8> -> !tile.buffer<i32>
  tile.return
}

// -----

tile.func @block_types(%a: !tile.buffer<i8>, %c: !tile.buffer<f32>, %o: index) {
  // expected-error @+1 {{C3: matmuls of 'i8' and 'i8' are not summed in 'f32'}}
  tile.block A(%a[%o], row %o) B(%a[%o], k %o) over %o C(%c[%o], row %o) rows 32 columns 32 : !tile.buffer<i8>, !tile.buffer<i8> -> !tile.buffer<f32>
  tile.return
}

// -----

tile.func @combine(%x: !tile.buffer<f32>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<256xf32>
  // expected-error @+1 {{C1: 'tile.cluster' of its function is missing}}
  %s = tile.combine <add>, %v : vector<256xf32>
  tile.return
}

// -----

tile.func @combine_flags(%x: !tile.buffer<i1>, %o: index) attributes {tile.cluster = 2 : i64} {
  %v = tile.load %x[%o] : !tile.buffer<i1> -> vector<256xi1>
  // expected-error @+1 {{C2: elements are 'i1'}}
  %s = tile.combine <and>, %v : vector<256xi1>
  tile.return
}

// -----

// expected-error @+1 {{has 'tile.cluster' = 0 : i64, which is no number of programs}}
tile.func @no_cluster(%x: !tile.buffer<f32>) attributes {tile.cluster = 0 : i64} { tile.return }

// -----

// expected-error @+1 {{has 'tile.ctas_per_sm' = 0 : i64, which is no number of CTAs}}
tile.func @no_ctas(%x: !tile.buffer<f32>) attributes {tile.ctas_per_sm = 0 : i64} { tile.return }

// -----

tile.func @scan_halves(%x: !tile.buffer<bf16>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<bf16> -> vector<256xbf16>
  // expected-error @+1 {{C1: elements are 'bf16'}}
  %s, %all = tile.scan <add>, %v : vector<256xbf16>, bf16
  tile.return
}

// -----

tile.func @scan_kind(%x: !tile.buffer<f32>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<256xf32>
  // expected-error @+1 {{C2: the kind is maxnumf of 'f32'}}
  %s, %all = tile.scan <maxnumf>, %v : vector<256xf32>, f32
  tile.return
}

// -----

tile.func @scan_total(%x: !tile.buffer<f32>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<256xf32>
  // expected-error @+1 {{C3: 'total' and 'init' are 'f32'}}
  %s, %all = tile.scan <add>, %v : vector<256xf32>, f64
  tile.return
}

// -----

tile.func @scan_columns(%x: !tile.buffer<f32>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<256xf32>
  // expected-error @+1 {{C3: 24 columns are no power of two that divides 256 lanes}}
  %s = tile.scan_rows <add>, %v columns 24 : vector<256xf32>
  tile.return
}

// -----

tile.func @scan_cluster(%x: !tile.buffer<f32>, %o: index) {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> f32
  // expected-error @+1 {{C1: 'tile.cluster' of its function is missing}}
  %s = tile.cluster_scan <add>, %v : f32
  tile.return
}

// -----

tile.func @no_shared(%x: !tile.buffer<f32>) {
  // expected-error @+1 {{C1: 0 elements}}
  %l = tile.shared 0 : !tile.buffer<i32>
  tile.return
}

// -----

tile.func @append_to_memory(%x: !tile.buffer<i32>, %o: index) {
  %c = tile.shared 1 : !tile.buffer<i32>
  %v = tile.load %x[%o] : !tile.buffer<i32> -> vector<256xi32>
  %m = arith.cmpi slt, %v, %v : vector<256xi32>
  // expected-error @+1 {{C3: a list or the counter is no tile.shared}}
  tile.append %v mask %m to %x count %c limit 9
      : vector<256xi1>, vector<256xi32> to !tile.buffer<i32> count !tile.buffer<i32>
  tile.return
}

// -----

tile.func @rank_lists(%n: index) {
  %a = tile.shared 8 : !tile.buffer<i64>
  %b = tile.shared 8 : !tile.buffer<i32>
  // expected-error @+1 {{C1: '!tile.buffer<i64>' to '!tile.buffer<i32>'}}
  tile.rank %a to %b count %n : !tile.buffer<i64> to !tile.buffer<i32>
  tile.return
}

// -----

tile.func @rank_memory(%x: !tile.buffer<i64>, %n: index) {
  %a = tile.shared 8 : !tile.buffer<i64>
  // expected-error @+1 {{C2: a list is no tile.shared}}
  tile.rank %a to %x count %n : !tile.buffer<i64> to !tile.buffer<i64>
  tile.return
}

// -----

tile.func @collect_alone(%n: index) {
  %a = tile.shared 8 : !tile.buffer<i64>
  %b = tile.shared 8 : !tile.buffer<i64>
  // expected-error @+1 {{C3: 'tile.cluster' of its function is missing}}
  %all = tile.cluster_collect %a to %b count %n limit 8 : !tile.buffer<i64> to !tile.buffer<i64>
  tile.return
}

// -----

tile.func @looks(%s: !tile.buffer<i64>, %x: !tile.buffer<f32>, %n: index) {
  %v = tile.load %x[%n] : !tile.buffer<f32> -> vector<32xf32>
  // expected-error @+1 {{C3: lanes of 'vector<32xf32>'}}
  %b = tile.look_back <add>, %v state %s[%n] number %n of %n lanes 33 : vector<32xf32>, !tile.buffer<i64>
  tile.return
}

// -----

tile.func @digit(%s: !tile.buffer<i64>, %x: !tile.buffer<i64>, %n: index) {
  // expected-error @+1 {{C2: the bits begin at 57}}
  tile.radix_pass %x to %s state %s[%n] number %n lines %n of %n bit 57 items 4 : !tile.buffer<i64>, !tile.buffer<i64>, !tile.buffer<i64>
  tile.return
}

// -----

tile.func @k(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  // expected-error@+1 {{C2: shape has no 'slices'}}
  tile.recurrence steps %n rows %b units 32 sources [0] shape {rows = 1, threads = 64} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// -----

tile.func @k(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 30 : index
  // expected-error@+1 {{C1: weights are no runs that divide the units}}
  tile.recurrence steps %n rows %b units 30 sources [0] shape {rows = 1, slices = 2, threads = 64} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// -----

tile.func @k(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  // expected-error@+1 {{C1: weights are no runs that divide the units}}
  tile.recurrence steps %n rows %b units 32 sources [0] shape {rows = 1, slices = 2, threads = 64, packed = 1} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// -----

tile.func @k(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  // expected-error@+1 {{C3: a source is no state}}
  tile.recurrence steps %n rows %b units 32 sources [1] shape {rows = 1, slices = 2, threads = 64} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: f32):
    %0 = arith.addf %sum, %in : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// -----

tile.func @k(%x: !tile.buffer<f32>, %w: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %b: index) {
  %cU = arith.constant 32 : index
  // expected-error@+1 {{C3: a region takes or gives something else}}
  tile.recurrence steps %n rows %b units 32 sources [0] shape {rows = 1, slices = 2, threads = 64} weights {
  ^bb0(%u: index, %k: index):
    %0 = arith.muli %u, %cU : index
    %1 = arith.addi %0, %k : index
    %2 = tile.load %w[%1] : !tile.buffer<f32> -> vector<4xf32>
    tile.values %2 : vector<4xf32>
  } initial {
  ^bb0(%r: index, %u: index):
    %0 = arith.constant 0.0 : f32
    tile.values %0 : f32
  } inputs {
  ^bb0(%t: index, %r: index, %u: index):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    %2 = tile.load %x[%1] : !tile.buffer<f32> -> f32
    tile.values %2 : f32
  } update {
  ^bb0(%t: index, %r: index, %u: index, %sum: f32, %h: f32, %in: i32):
    %0 = arith.addf %sum, %h : f32
    tile.values %0 : f32
  } last {
  ^bb0(%r: index, %u: index, %h: f32):
    %0 = arith.muli %r, %cU : index
    %1 = arith.addi %0, %u : index
    tile.store %h, %y[%1] : f32, !tile.buffer<f32>
    tile.values
  }
  tile.return
}

// -----

tile.func @packed_region(%a: !tile.buffer<bf16>, %w: !tile.buffer<i8>, %s: !tile.buffer<f32>, %n: index) {
  // expected-error @+1 {{C1: the region takes an f32, row and column}}
  tile.packed_matmul A(%a) integers(%w) scale(%s) size %n, %n shape {bits = 8, bytes = 16, depth = 64, group = 64, stages = 1, tile_m = 8, warps_k = 1, warps_n = 1}
      : !tile.buffer<bf16>, !tile.buffer<i8>, !tile.buffer<f32> {
  ^bb0(%v: f32, %row: index):
    tile.stored
  }
  tile.return
}

// -----

tile.func @packed_shape(%a: !tile.buffer<bf16>, %w: !tile.buffer<i8>, %s: !tile.buffer<f32>, %n: index) {
  // expected-error @+1 {{C2: shape has groups or a depth that its accesses cut}}
  tile.packed_matmul A(%a) integers(%w) scale(%s) size %n, %n shape {bits = 8, bytes = 16, depth = 128, group = 32, stages = 1, tile_m = 8, warps_k = 1, warps_n = 1}
      : !tile.buffer<bf16>, !tile.buffer<i8>, !tile.buffer<f32> {
  ^bb0(%v: f32, %row: index, %column: index):
    tile.stored
  }
  tile.return
}
