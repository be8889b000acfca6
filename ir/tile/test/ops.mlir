// RUN: knapper-opt %s | knapper-opt | FileCheck %s

// CHECK-LABEL: tile.func @softmax(
// CHECK-SAME: %[[X:.*]]: !tile.buffer<f32>, %[[Y:.*]]: !tile.buffer<f32> {tile.may_alias = 0 : i64}, %{{.*}}: index)
tile.func @softmax(%x: !tile.buffer<f32>, %y: !tile.buffer<f32> {tile.may_alias = 0 : i64}, %n: index) {
  // CHECK: %[[R:.*]] = tile.program_id
  %r = tile.program_id
  %off = arith.muli %r, %n : index
  %ninf = arith.constant 0xFF800000 : f32
  // CHECK: tile.load %[[X]][%[[OFF:.*]]] valid %{{.*}} pad %{{.*}} : !tile.buffer<f32> -> vector<64xf32>
  %v = tile.load %x[%off] valid %n pad %ninf : !tile.buffer<f32> -> vector<64xf32>
  // CHECK: tile.load %[[X]][%[[OFF]]] {alignment = 64 : i64} : !tile.buffer<f32> -> f32
  %s = tile.load %x[%off] {alignment = 64} : !tile.buffer<f32> -> f32
  // CHECK: tile.load_strided %[[X]][%[[OFF]], %{{.*}}] valid %{{.*}} : !tile.buffer<f32> -> vector<8xf32>
  %t = tile.load_strided %x[%off, %n] valid %n : !tile.buffer<f32> -> vector<8xf32>
  // CHECK: tile.store %{{.*}}, %[[Y]][%[[OFF]]] valid %{{.*}} {nontemporal} : vector<64xf32>, !tile.buffer<f32>
  tile.store %v, %y[%off] valid %n {nontemporal} : vector<64xf32>, !tile.buffer<f32>
  tile.store %s, %y[%off] : f32, !tile.buffer<f32>
  tile.store %t, %y[%off] : vector<8xf32>, !tile.buffer<f32>
  tile.return
}

// CHECK-LABEL: tile.func @lanes
tile.func @lanes(%x: !tile.buffer<bf16>, %y: !tile.buffer<bf16>, %n: index) {
  %o = vector.step : vector<8xindex>
  %m = vector.create_mask %n : vector<8xi1>
  %zero = arith.constant 0.0 : bf16
  %i = arith.constant dense<5> : vector<8xi32>
  // CHECK: tile.lookup %{{.*}} in [1, 2, 4, 8] : vector<8xi32>
  %l = tile.lookup %i in [1, 2, 4, 8] : vector<8xi32>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] valid %{{.*}} mask %{{.*}} pad %{{.*}} : !tile.buffer<bf16> -> vector<8xbf16>
  %g = tile.gather %x[%o] valid %n mask %m pad %zero : !tile.buffer<bf16> -> vector<8xbf16>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}] mask %{{.*}} : vector<8xbf16>, !tile.buffer<bf16>
  tile.scatter %g, %y[%o] mask %m : vector<8xbf16>, !tile.buffer<bf16>
  // CHECK: tile.scale_by_power %{{.*}}, %{{.*}} : vector<8xf32>
  %power = arith.sitofp %l : vector<8xi32> to vector<8xf32>
  %scaled = tile.scale_by_power %power, %power : vector<8xf32>
  // CHECK: tile.add_byte_products %{{.*}}, %{{.*}}, %{{.*}} : vector<8xi32>
  %products = tile.add_byte_products %l, %i, %l : vector<8xi32>
  // CHECK: tile.scratch[%{{.*}}] : !tile.buffer<i32>
  %s = tile.scratch[%n] : !tile.buffer<i32>
  // CHECK: tile.page_offset %{{.*}}[%{{.*}}] : !tile.buffer<i32>
  %place = tile.page_offset %s[%n] : !tile.buffer<i32>
  // CHECK: tile.prefetch %{{.*}}[%{{.*}}] {locality = 3 : i32} : !tile.buffer<i32>
  tile.prefetch %s[%n] {locality = 3 : i32} : !tile.buffer<i32>
  %bad = arith.cmpi slt, %n, %n : index
  // CHECK: tile.set_status 1 if
  tile.set_status 1 if %bad
  tile.return
}

// CHECK-LABEL: tile.func @matmul
tile.func @matmul(%a: !tile.buffer<f32>, %b: !tile.buffer<f32>, %y: !tile.buffer<f32>, %k: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: tile.mainloop A(%{{.*}}[%{{.*}}], row %{{.*}}, k %{{.*}}) B(%{{.*}}[%{{.*}}], k %{{.*}}) over %{{.*}} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<8x48xf32>
  %acc = tile.mainloop A(%a[%c0], row %k, k %c1) B(%b[%c0], k %c1) over %k
      : !tile.buffer<f32>, !tile.buffer<f32> -> vector<8x48xf32>
  // CHECK: rows %{{.*}}) B({{.*}}) over %{{.*}} outer %{{.*}}(%{{.*}}, %{{.*}}) init %{{.*}} prefetch %{{.*}}[%{{.*}}] step %{{.*}} : !tile.buffer<f32>, !tile.buffer<f32> -> vector<8x48xf32>
  %more = tile.mainloop A(%a[%c0], row %k, k %c1, rows %k) B(%b[%c0], k %c1) over %k
      outer %k (%c0, %k) init %acc prefetch %b[%k] step %c1
      : !tile.buffer<f32>, !tile.buffer<f32> -> vector<8x48xf32>
  %row = vector.extract %more[7] : vector<48xf32> from vector<8x48xf32>
  tile.store %row, %y[%c0] : vector<48xf32>, !tile.buffer<f32>
  tile.return
}

// CHECK-LABEL: tile.func @combine
// CHECK: tile.combine <add>, %{{.*}} : vector<256xf32>
// CHECK: tile.combine <maximumf>, %{{.*}} fastmath<nnan> : vector<256xf32>
tile.func @combine(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %o: index) attributes {tile.cluster = 2 : i64} {
  %v = tile.load %x[%o] : !tile.buffer<f32> -> vector<256xf32>
  %s = tile.combine <add>, %v : vector<256xf32>
  %m = tile.combine <maximumf>, %s fastmath<nnan> : vector<256xf32>
  tile.store %m, %y[%o] : vector<256xf32>, !tile.buffer<f32>
  tile.return
}
