// RUN: knapper-opt --find-composites %s | FileCheck %s

!x = tensor<?x8xf32, #ts.dims<"b", 8>>
!r = tensor<?xf32, #ts.dims<"b">>
!k = tensor<?x1xf32, #ts.dims<"b", 1>>

// CHECK-LABEL: @gelu_erf
// CHECK-NEXT: %[[G:.*]] = ts.gelu %arg0
// CHECK-NOT: tanh = true
// CHECK-NEXT: return %[[G]]
func.func @gelu_erf(%x: !x) -> !x {
  %c = ts.constant dense<1.4142135381698608> : tensor<f32>
  %one = ts.constant dense<1.0> : tensor<f32>
  %half = ts.constant dense<0.5> : tensor<f32>
  %cb = ts.broadcast %c [] : tensor<f32> to !x
  %oneb = ts.broadcast %one [] : tensor<f32> to !x
  %halfb = ts.broadcast %half [] : tensor<f32> to !x
  %0 = ts.div %x, %cb : !x
  %1 = ts.erf %0 : !x
  %2 = ts.add %1, %oneb : !x
  %3 = ts.mul %x, %2 : !x
  %4 = ts.mul %3, %halfb : !x
  return %4 : !x
}

// Another constant is no gelu.
// CHECK-LABEL: @no_gelu
// CHECK: ts.erf
func.func @no_gelu(%x: !x) -> !x {
  %c = ts.constant dense<1.41> : tensor<f32>
  %one = ts.constant dense<1.0> : tensor<f32>
  %half = ts.constant dense<0.5> : tensor<f32>
  %cb = ts.broadcast %c [] : tensor<f32> to !x
  %oneb = ts.broadcast %one [] : tensor<f32> to !x
  %halfb = ts.broadcast %half [] : tensor<f32> to !x
  %0 = ts.div %x, %cb : !x
  %1 = ts.erf %0 : !x
  %2 = ts.add %1, %oneb : !x
  %3 = ts.mul %x, %2 : !x
  %4 = ts.mul %3, %halfb : !x
  return %4 : !x
}

// CHECK-LABEL: @gelu_tanh
// CHECK-NEXT: %[[G:.*]] = ts.gelu %arg0 {tanh = true}
// CHECK-NEXT: return %[[G]]
func.func @gelu_tanh(%x: !x) -> !x {
  %half = ts.constant dense<0.5> : tensor<f32>
  %three = ts.constant dense<3.0> : tensor<f32>
  %cubic = ts.constant dense<0.044714998453855515> : tensor<f32>
  %root = ts.constant dense<0.7978845834732056> : tensor<f32>
  %one = ts.constant dense<1.0> : tensor<f32>
  %b0 = ts.broadcast %half [] : tensor<f32> to !x
  %b1 = ts.broadcast %three [] : tensor<f32> to !x
  %b2 = ts.broadcast %cubic [] : tensor<f32> to !x
  %b3 = ts.broadcast %root [] : tensor<f32> to !x
  %b4 = ts.broadcast %one [] : tensor<f32> to !x
  %0 = ts.mul %x, %b0 : !x
  %1 = ts.pow %x, %b1 : !x
  %2 = ts.mul %1, %b2 : !x
  %3 = ts.add %x, %2 : !x
  %4 = ts.mul %3, %b3 : !x
  %5 = ts.tanh %4 : !x
  %6 = ts.add %5, %b4 : !x
  %7 = ts.mul %0, %6 : !x
  return %7 : !x
}

// A constant is what its type has of it: 0.7978 and 0.0447 in bf16.
// CHECK-LABEL: @gelu_tanh_bf16
// CHECK-NEXT: %[[G:.*]] = ts.gelu %arg0 {tanh = true}
// CHECK-NEXT: return %[[G]]
!bf = tensor<4x8xbf16>
func.func @gelu_tanh_bf16(%x: !bf) -> !bf {
  %half = ts.constant dense<0.5> : tensor<bf16>
  %cubic = ts.constant dense<4.467770e-02> : tensor<bf16>
  %root = ts.constant dense<7.968750e-01> : tensor<bf16>
  %one = ts.constant dense<1.0> : tensor<bf16>
  %b0 = ts.broadcast %half [] : tensor<bf16> to !bf
  %b2 = ts.broadcast %cubic [] : tensor<bf16> to !bf
  %b3 = ts.broadcast %root [] : tensor<bf16> to !bf
  %b4 = ts.broadcast %one [] : tensor<bf16> to !bf
  %0 = ts.mul %x, %b0 : !bf
  %1 = ts.mul %x, %x : !bf
  %2 = ts.mul %1, %x : !bf
  %3 = ts.mul %2, %b2 : !bf
  %4 = ts.add %x, %3 : !bf
  %5 = ts.mul %4, %b3 : !bf
  %6 = ts.tanh %5 : !bf
  %7 = ts.add %6, %b4 : !bf
  %8 = ts.mul %0, %7 : !bf
  return %8 : !bf
}

// Torch's pow computes in f32 and rounds once.
// CHECK-LABEL: @gelu_tanh_bf16_cube_in_f32
// CHECK-NEXT: %[[G:.*]] = ts.gelu %arg0 {tanh = true}
// CHECK-NEXT: return %[[G]]
!wide = tensor<4x8xf32>
func.func @gelu_tanh_bf16_cube_in_f32(%x: !bf) -> !bf {
  %half = ts.constant dense<0.5> : tensor<bf16>
  %cubic = ts.constant dense<4.467770e-02> : tensor<bf16>
  %root = ts.constant dense<7.968750e-01> : tensor<bf16>
  %one = ts.constant dense<1.0> : tensor<bf16>
  %b0 = ts.broadcast %half [] : tensor<bf16> to !bf
  %b2 = ts.broadcast %cubic [] : tensor<bf16> to !bf
  %b3 = ts.broadcast %root [] : tensor<bf16> to !bf
  %b4 = ts.broadcast %one [] : tensor<bf16> to !bf
  %0 = ts.mul %x, %b0 : !bf
  %w = ts.convert %x : !bf to !wide
  %w1 = ts.mul %w, %w : !wide
  %w2 = ts.mul %w1, %w : !wide
  %2 = ts.convert %w2 : !wide to !bf
  %3 = ts.mul %2, %b2 : !bf
  %4 = ts.add %x, %3 : !bf
  %5 = ts.mul %4, %b3 : !bf
  %6 = ts.tanh %5 : !bf
  %7 = ts.add %6, %b4 : !bf
  %8 = ts.mul %0, %7 : !bf
  return %8 : !bf
}

// Who rounds f32 on the way means it.
// CHECK-LABEL: @no_gelu_rounded
// CHECK-NOT: ts.gelu
// CHECK: return
func.func @no_gelu_rounded(%x: !wide) -> !wide {
  %half = ts.constant dense<0.5> : tensor<f32>
  %cubic = ts.constant dense<0.044715> : tensor<f32>
  %root = ts.constant dense<0.7978845608028654> : tensor<f32>
  %one = ts.constant dense<1.0> : tensor<f32>
  %b0 = ts.broadcast %half [] : tensor<f32> to !wide
  %b2 = ts.broadcast %cubic [] : tensor<f32> to !wide
  %b3 = ts.broadcast %root [] : tensor<f32> to !wide
  %b4 = ts.broadcast %one [] : tensor<f32> to !wide
  %0 = ts.mul %x, %b0 : !wide
  %n = ts.convert %x : !wide to !bf
  %n1 = ts.mul %n, %n : !bf
  %n2 = ts.mul %n1, %n : !bf
  %2 = ts.convert %n2 : !bf to !wide
  %3 = ts.mul %2, %b2 : !wide
  %4 = ts.add %x, %3 : !wide
  %5 = ts.mul %4, %b3 : !wide
  %6 = ts.tanh %5 : !wide
  %7 = ts.add %6, %b4 : !wide
  %8 = ts.mul %0, %7 : !wide
  return %8 : !wide
}

// The next number of the type is another one.
// CHECK-LABEL: @no_gelu_bf16
// CHECK-NOT: ts.gelu
// CHECK: return
func.func @no_gelu_bf16(%x: !bf) -> !bf {
  %half = ts.constant dense<0.5> : tensor<bf16>
  %cubic = ts.constant dense<4.467770e-02> : tensor<bf16>
  %root = ts.constant dense<8.046875e-01> : tensor<bf16>
  %one = ts.constant dense<1.0> : tensor<bf16>
  %b0 = ts.broadcast %half [] : tensor<bf16> to !bf
  %b2 = ts.broadcast %cubic [] : tensor<bf16> to !bf
  %b3 = ts.broadcast %root [] : tensor<bf16> to !bf
  %b4 = ts.broadcast %one [] : tensor<bf16> to !bf
  %0 = ts.mul %x, %b0 : !bf
  %1 = ts.mul %x, %x : !bf
  %2 = ts.mul %1, %x : !bf
  %3 = ts.mul %2, %b2 : !bf
  %4 = ts.add %x, %3 : !bf
  %5 = ts.mul %4, %b3 : !bf
  %6 = ts.tanh %5 : !bf
  %7 = ts.add %6, %b4 : !bf
  %8 = ts.mul %0, %7 : !bf
  return %8 : !bf
}

// CHECK-LABEL: @softmax
// CHECK-NEXT: ts.softmax %arg0 dim 1
func.func @softmax(%x: !x) -> !x {
  %0 = ts.reduce max %x [1] : !x
  %1 = ts.reshape %0 : !r to !k
  %2 = ts.broadcast %1 [0, 1] : !k to !x
  %3 = ts.sub %x, %2 : !x
  %4 = ts.exp %3 : !x
  %5 = ts.reduce add %4 [1] : !x
  %6 = ts.broadcast %5 [0] : !r to !x
  %7 = ts.div %4, %6 : !x
  return %7 : !x
}

// CHECK-LABEL: @rms_norm
// CHECK-NEXT: %[[N:.*]] = ts.layer_norm %arg0 scale %arg1 : tensor<8xf32> dim 1 epsilon 9.9999999{{.*}} {rms = true}
// CHECK-NEXT: return %[[N]]
func.func @rms_norm(%x: !x, %w: tensor<8xf32>) -> !x {
  %two = ts.constant dense<2.0> : tensor<f32>
  %twob = ts.broadcast %two [] : tensor<f32> to !x
  %n = ts.constant dense<8.0> : tensor<f32>
  %nb = ts.broadcast %n [] : tensor<f32> to !k
  %e = ts.constant dense<9.99999997E-7> : tensor<f32>
  %eb = ts.broadcast %e [] : tensor<f32> to !k
  %one = ts.constant dense<1.0> : tensor<f32>
  %oneb = ts.broadcast %one [] : tensor<f32> to !k
  %0 = ts.pow %x, %twob : !x
  %1 = ts.reduce add %0 [1] : !x
  %2 = ts.reshape %1 : !r to !k
  %3 = ts.div %2, %nb : !k
  %4 = ts.add %3, %eb : !k
  %5 = ts.sqrt %4 : !k
  %6 = ts.div %oneb, %5 : !k
  %7 = ts.broadcast %6 [0, 1] : !k to !x
  %8 = ts.mul %x, %7 : !x
  %9 = ts.broadcast %w [1] : tensor<8xf32> to !x
  %10 = ts.mul %9, %8 : !x
  return %10 : !x
}

// CHECK-LABEL: @layer_norm
// CHECK-NEXT: %[[N:.*]] = ts.layer_norm %arg0 scale %arg1 : tensor<8xf32> bias %arg2 : tensor<8xf32> dim 1 epsilon
// CHECK-NOT: rms = true
// CHECK-NEXT: return %[[N]]
func.func @layer_norm(%x: !x, %w: tensor<8xf32>, %b: tensor<8xf32>) -> !x {
  %n = ts.constant dense<0.125> : tensor<f32>
  %nb = ts.broadcast %n [] : tensor<f32> to !r
  %e = ts.constant dense<1.0E-5> : tensor<f32>
  %eb = ts.broadcast %e [] : tensor<f32> to !r
  %0 = ts.reduce add %x [1] : !x
  %1 = ts.mul %0, %nb : !r
  %2 = ts.broadcast %1 [0] : !r to !x
  %3 = ts.sub %x, %2 : !x
  %4 = ts.mul %3, %3 : !x
  %5 = ts.reduce add %4 [1] : !x
  %6 = ts.mul %5, %nb : !r
  %7 = ts.add %6, %eb : !r
  %8 = ts.sqrt %7 : !r
  %9 = ts.broadcast %8 [0] : !r to !x
  %10 = ts.div %3, %9 : !x
  %11 = ts.broadcast %w [1] : tensor<8xf32> to !x
  %12 = ts.mul %10, %11 : !x
  %13 = ts.broadcast %b [1] : tensor<8xf32> to !x
  %14 = ts.add %12, %13 : !x
  return %14 : !x
}

!q = tensor<?x4x?x8xf32, #ts.dims<"b", 4, "s", 8>>
!h = tensor<?x4x?x4xf32, #ts.dims<"b", 4, "s", 4>>
!t = tensor<1x?x8xf32, #ts.dims<1, "s", 8>>
!f = tensor<1x?x4xf32, #ts.dims<1, "s", 4>>

// CHECK-LABEL: @rope
// CHECK-DAG: %[[C:.*]] = ts.cos %arg1 : tensor<1x?x4xf32
// CHECK-DAG: %[[S:.*]] = ts.sin %arg1 : tensor<1x?x4xf32
// CHECK: %[[R:.*]] = ts.rope %arg0, %[[C]], %[[S]]
// CHECK-NEXT: return %[[R]]
func.func @rope(%x: !q, %f: !f) -> !q {
  %cat = ts.concat %f, %f dim 2 : !f, !f
  %cos = ts.cos %cat : !t
  %sin = ts.sin %cat : !t
  %cosb = ts.broadcast %cos [0, 2, 3] : !t to !q
  %sinb = ts.broadcast %sin [0, 2, 3] : !t to !q
  %0 = ts.mul %x, %cosb : !q
  %lo = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  return %2 : !q
}

// Tables whose halves may differ stay as they are.
// CHECK-LABEL: @no_rope
// CHECK-NOT: ts.rope
func.func @no_rope(%x: !q, %cos: !t, %sin: !t) -> !q {
  %cosb = ts.broadcast %cos [0, 2, 3] : !t to !q
  %sinb = ts.broadcast %sin [0, 2, 3] : !t to !q
  %0 = ts.mul %x, %cosb : !q
  %lo = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  return %2 : !q
}

// A rotation needs both halves.
// CHECK-LABEL: @one_half_twice
// CHECK-NOT: ts.rope
// CHECK: return
func.func @one_half_twice(%x: !q, %f: !f) -> !q {
  %cat = ts.concat %f, %f dim 2 : !f, !f
  %cos = ts.cos %cat : !t
  %sin = ts.sin %cat : !t
  %cosb = ts.broadcast %cos [0, 2, 3] : !t to !q
  %sinb = ts.broadcast %sin [0, 2, 3] : !t to !q
  %0 = ts.mul %x, %cosb : !q
  %lo = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  return %2 : !q
}

!th = tensor<4x?x8xf32, #ts.dims<4, "s", 8>>
!fh = tensor<4x?x4xf32, #ts.dims<4, "s", 4>>

// ts.rope has one table for all heads.
// CHECK-LABEL: @table_of_heads
// CHECK-NOT: ts.rope
// CHECK: return
func.func @table_of_heads(%x: !q, %f: !fh) -> !q {
  %cat = ts.concat %f, %f dim 2 : !fh, !fh
  %cos = ts.cos %cat : !th
  %sin = ts.sin %cat : !th
  %cosb = ts.broadcast %cos [1, 2, 3] : !th to !q
  %sinb = ts.broadcast %sin [1, 2, 3] : !th to !q
  %0 = ts.mul %x, %cosb : !q
  %lo = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  return %2 : !q
}

!w = tensor<?x4x?x12xf32, #ts.dims<"b", 4, "s", 12>>

// The first 8 of 12 elements are rotated, the others stay.
// CHECK-LABEL: @partial_rope
// CHECK: %[[R:.*]] = ts.rope %arg0, {{.*}} : tensor<?x4x?x12xf32
// CHECK-NEXT: return %[[R]]
func.func @partial_rope(%x: !w, %f: !f) -> !w {
  %cat = ts.concat %f, %f dim 2 : !f, !f
  %cos = ts.cos %cat : !t
  %sin = ts.sin %cat : !t
  %cosb = ts.broadcast %cos [0, 2, 3] : !t to !q
  %sinb = ts.broadcast %sin [0, 2, 3] : !t to !q
  %y = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !w to !q
  %rest = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<8>] [1, 1, 1, 1] : !w to !h
  %0 = ts.mul %y, %cosb : !q
  %lo = ts.slice %y [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %y [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  %3 = ts.concat %2, %rest dim 3 : !q, !h
  return %3 : !w
}

// What follows the rotated elements is not what followed them before.
// CHECK-LABEL: @partial_rope_of_other_rest
// CHECK: ts.rope {{.*}} : tensor<?x4x?x8xf32
// CHECK: ts.concat
func.func @partial_rope_of_other_rest(%x: !w, %f: !f) -> !w {
  %cat = ts.concat %f, %f dim 2 : !f, !f
  %cos = ts.cos %cat : !t
  %sin = ts.sin %cat : !t
  %cosb = ts.broadcast %cos [0, 2, 3] : !t to !q
  %sinb = ts.broadcast %sin [0, 2, 3] : !t to !q
  %y = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !w to !q
  %rest = ts.slice %x [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !w to !h
  %0 = ts.mul %y, %cosb : !q
  %lo = ts.slice %y [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !q to !h
  %hi = ts.slice %y [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>, #ts.dim<4>] [1, 1, 1, 1] : !q to !h
  %neg = ts.neg %hi : !h
  %rotated = ts.concat %neg, %lo dim 3 : !h, !h
  %1 = ts.mul %rotated, %sinb : !q
  %2 = ts.add %0, %1 : !q
  %3 = ts.concat %2, %rest dim 3 : !q, !h
  return %3 : !w
}

// max(x, 0) + log(1 + e^-|x|), in any order.
// CHECK-LABEL: @softplus
// CHECK-NEXT: %[[S:.*]] = ts.softplus %arg0
// CHECK-NEXT: return %[[S]]
func.func @softplus(%x: !x) -> !x {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %zerob = ts.broadcast %zero [] : tensor<f32> to !x
  %0 = ts.abs %x : !x
  %1 = ts.neg %0 : !x
  %2 = ts.exp %1 : !x
  %3 = ts.log1p %2 : !x
  %4 = ts.max %zerob, %x : !x
  %5 = ts.add %3, %4 : !x
  return %5 : !x
}

// The larger of another value and 0 is no softplus.
// CHECK-LABEL: @no_softplus
// CHECK: ts.log1p
func.func @no_softplus(%x: !x, %y: !x) -> !x {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %zerob = ts.broadcast %zero [] : tensor<f32> to !x
  %0 = ts.abs %x : !x
  %1 = ts.neg %0 : !x
  %2 = ts.exp %1 : !x
  %3 = ts.log1p %2 : !x
  %4 = ts.max %y, %zerob : !x
  %5 = ts.add %4, %3 : !x
  return %5 : !x
}

// A NaN stays one.
// CHECK-LABEL: @softplus_of_nan
// CHECK-NEXT: %[[S:.*]] = ts.softplus %arg0
// CHECK-NEXT: return %[[S]]
func.func @softplus_of_nan(%x: !x) -> !x {
  %0 = ts.compare ne %x, %x : !x
  %1 = ts.softplus %x : !x
  %2 = ts.select %0, %x, %1 : tensor<?x8xi1, #ts.dims<"b", 8>>, !x
  return %2 : !x
}

// Another value for a NaN stays.
// CHECK-LABEL: @softplus_or_other
// CHECK: ts.select
func.func @softplus_or_other(%x: !x, %y: !x) -> !x {
  %0 = ts.compare ne %x, %x : !x
  %1 = ts.softplus %x : !x
  %2 = ts.select %0, %y, %1 : tensor<?x8xi1, #ts.dims<"b", 8>>, !x
  return %2 : !x
}
