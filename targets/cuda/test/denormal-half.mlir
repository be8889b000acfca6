// RUN: knapper-translate --tile-to-ptx %s | FileCheck %s

// f16 below its normal numbers is a result like others, also in kernels of 2^x, where f32 below them is not.
// CHECK-LABEL: .entry signs(
// CHECK: ex2.approx.ftz.f32
// CHECK-NOT: ftz.f16{{[^x]}}
// CHECK: st.global.v4.b32
tile.func @signs(%x: !tile.buffer<f16>, %s: !tile.buffer<f16>, %y: !tile.buffer<f16>) {
  %p = tile.program_id
  %n = arith.constant 2048 : index
  %at = arith.muli %p, %n : index
  %v = tile.load %x[%at] {alignment = 16} : !tile.buffer<f16> -> vector<2048xf16>
  %u = tile.load %s[%at] {alignment = 16} : !tile.buffer<f16> -> vector<2048xf16>
  %w = arith.extf %v : vector<2048xf16> to vector<2048xf32>
  %g = arith.extf %u : vector<2048xf16> to vector<2048xf32>
  %e = tile.exp2 %w : vector<2048xf32>
  %r = math.copysign %e, %g : vector<2048xf32>
  %h = arith.truncf %r : vector<2048xf32> to vector<2048xf16>
  tile.store %h, %y[%at] {alignment = 16} : vector<2048xf16>, !tile.buffer<f16>
  tile.return
}
