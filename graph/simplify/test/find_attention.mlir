// RUN: knapper-opt --find-composites %s | FileCheck %s

!x = tensor<?x?x32xf32, #ts.dims<"b", "s", 32>>
!v = tensor<?x?x4x8xf32, #ts.dims<"b", "s", 4, 8>>
!q = tensor<?x4x?x8xf32, #ts.dims<"b", 4, "s", 8>>
!k3 = tensor<?x?x8xf32, #ts.dims<"4*b", "s", 8>>
!k3t = tensor<?x8x?xf32, #ts.dims<"4*b", 8, "s">>
!kt = tensor<?x4x8x?xf32, #ts.dims<"b", 4, 8, "s">>
!s = tensor<?x4x?x?xf32, #ts.dims<"b", 4, "s", "s">>
!sb = tensor<?x4x?x?xi1, #ts.dims<"b", 4, "s", "s">>
!m = tensor<?x1x?x?xf32, #ts.dims<"b", 1, "s", "s">>
!mb = tensor<?x1x?x?xi1, #ts.dims<"b", 1, "s", "s">>
!row = tensor<?x?xi1, #ts.dims<"b", "s">>
!ss = tensor<?x?xi64, #ts.dims<"s", "s">>
!ssb = tensor<?x?xi1, #ts.dims<"s", "s">>
!iota = tensor<?xi64, #ts.dims<"s">>

// torch's export of scaled_dot_product_attention with a padding mask: sqrt of
// the scale on both sides, keys transposed through three dims, guard. The fill
// is finite: a row that is masked whole gives the mean of the values.
// CHECK-LABEL: @padding
// CHECK-DAG: %[[M:.*]] = ts.reshape %arg3 : {{.*}} to tensor<?x1x1x?xi1
// CHECK-DAG: %[[Q0:.*]] = ts.reshape %arg0
// CHECK-DAG: %[[Q:.*]] = ts.transpose %[[Q0]] [0, 2, 1, 3]
// CHECK-DAG: %[[K0:.*]] = ts.reshape %arg1
// CHECK-DAG: %[[K:.*]] = ts.transpose %[[K0]] [0, 2, 1, 3]
// CHECK-DAG: %[[V0:.*]] = ts.reshape %arg2
// CHECK-DAG: %[[V:.*]] = ts.transpose %[[V0]] [0, 2, 1, 3]
// CHECK: %[[A:.*]] = ts.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] : {{.*}} scale 0.35355336{{.*}} {ts.empty_row = "mean"}
// CHECK-NOT: causal = true
// CHECK: return %[[A]]
func.func @padding(%xq: !x, %xk: !x, %xv: !x, %allowed: !row) -> !q {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %root = ts.constant dense<0.594603539> : tensor<f32>
  %q0 = ts.reshape %xq : !x to !v
  %q = ts.transpose %q0 [0, 2, 1, 3] : !v
  %k0 = ts.reshape %xk : !x to !v
  %k = ts.transpose %k0 [0, 2, 1, 3] : !v
  %v0 = ts.reshape %xv : !x to !v
  %v = ts.transpose %v0 [0, 2, 1, 3] : !v
  %k1 = ts.reshape %k : !q to !k3
  %k2 = ts.transpose %k1 [0, 2, 1] : !k3
  %kt = ts.reshape %k2 : !k3t to !kt
  %rq = ts.broadcast %root [] : tensor<f32> to !q
  %rk = ts.broadcast %root [] : tensor<f32> to !kt
  %qs = ts.mul %q, %rq : !q
  %ks = ts.mul %kt, %rk : !kt
  %scores = ts.dot %qs, %ks batch [0, 1] x [0, 1] contract [3] x [2] : !q, !kt
  %allowed4 = ts.broadcast %allowed [0, 3] : !row to !mb
  %zm = ts.broadcast %zero [] : tensor<f32> to !m
  %mm = ts.broadcast %min [] : tensor<f32> to !m
  %mask = ts.select %allowed4, %zm, %mm : !mb, !m
  %maskb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %scores, %maskb : !s
  %p = ts.softmax %masked dim 3 : !s
  %nan = ts.is_nan %p : !s
  %zs = ts.broadcast %zero [] : tensor<f32> to !s
  %guarded = ts.select %nan, %zs, %p : !sb, !s
  %out = ts.dot %guarded, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// The same without the guard, which a finite fill does not need.
// CHECK-LABEL: @padding_unguarded
// CHECK: %[[M:.*]] = ts.reshape %arg3 : {{.*}} to tensor<?x1x1x?xi1
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : {{.*}} scale 1.0{{.*}} {ts.empty_row = "mean"}
func.func @padding_unguarded(%q: !q, %k: !q, %v: !q, %allowed: !row) -> !q {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %allowed4 = ts.broadcast %allowed [0, 3] : !row to !mb
  %zm = ts.broadcast %zero [] : tensor<f32> to !m
  %mm = ts.broadcast %min [] : tensor<f32> to !m
  %mask = ts.select %allowed4, %zm, %mm : !mb, !m
  %maskb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %scores, %maskb : !s
  %p = ts.softmax %masked dim 3 : !s
  %out = ts.dot %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// Causal and padding: the comparison of positions becomes an attribute.
// CHECK-LABEL: @causal_and_padding
// CHECK: %[[M:.*]] = ts.reshape %arg3 : {{.*}} to tensor<?x1x1x?xi1
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : {{.*}} scale 1.0{{.*}} {causal = true, ts.empty_row = "nan"}
func.func @causal_and_padding(%q: !q, %k: !q, %v: !q, %allowed: !row) -> !q {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %inf = ts.constant dense<0xFF800000> : tensor<f32>
  %i = ts.iota 0 : !iota
  %key = ts.broadcast %i [1] : !iota to !ss
  %query = ts.broadcast %i [0] : !iota to !ss
  %le = ts.compare le %key, %query : !ss
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %causal4 = ts.broadcast %le [2, 3] : !ssb to !mb
  %allowed4 = ts.broadcast %allowed [0, 3] : !row to !mb
  %both = ts.and %causal4, %allowed4 : !mb
  %zm = ts.broadcast %zero [] : tensor<f32> to !m
  %mm = ts.broadcast %inf [] : tensor<f32> to !m
  %mask = ts.select %both, %zm, %mm : !mb, !m
  %maskb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %maskb, %scores : !s
  %p = ts.softmax %masked dim 3 : !s
  %out = ts.dot %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// masked_fill with what is above the diagonal; no row is without a key, so a
// finite fill will do.
// CHECK-LABEL: @causal_fill
// CHECK-NEXT: %[[A:.*]] = ts.attention %arg0, %arg1, %arg2 scale 2.500000e-01 {causal = true}
// CHECK-NEXT: return %[[A]]
func.func @causal_fill(%q: !q, %k: !q, %v: !q) -> !q {
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %four = ts.constant dense<4.0> : tensor<f32>
  %i = ts.iota 0 : !iota
  %key = ts.broadcast %i [1] : !iota to !ss
  %query = ts.broadcast %i [0] : !iota to !ss
  %gt = ts.compare gt %key, %query : !ss
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %fb = ts.broadcast %four [] : tensor<f32> to !s
  %scaled = ts.div %scores, %fb : !s
  %above = ts.broadcast %gt [2, 3] : !ssb to !sb
  %mm = ts.broadcast %min [] : tensor<f32> to !s
  %masked = ts.select %above, %mm, %scaled : !sb, !s
  %p = ts.softmax %masked dim 3 : !s
  %out = ts.dot %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

!g = tensor<?x2x?x8xf32, #ts.dims<"b", 2, "s", 8>>
!g5 = tensor<?x2x2x?x8xf32, #ts.dims<"b", 2, 2, "s", 8>>

// Repeated heads are not repeated in memory; the cap on scores is an attribute.
// CHECK-LABEL: @groups
// CHECK-NEXT: %[[A:.*]] = ts.attention %arg0, %arg1, %arg2 scale 5.000000e-01 {softcap = 3.000000e+00 : f64}
// CHECK-NEXT: return %[[A]]
func.func @groups(%q: !q, %k: !g, %v: !g) -> !q {
  %half = ts.constant dense<0.5> : tensor<f32>
  %cap = ts.constant dense<3.0> : tensor<f32>
  %k5 = ts.broadcast %k [0, 1, 3, 4] : !g to !g5
  %k4 = ts.reshape %k5 : !g5 to !q
  %v5 = ts.broadcast %v [0, 1, 3, 4] : !g to !g5
  %v4 = ts.reshape %v5 : !g5 to !q
  %hb = ts.broadcast %half [] : tensor<f32> to !q
  %ks = ts.mul %k4, %hb : !q
  %scores = ts.dot %q, %ks batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %cb = ts.broadcast %cap [] : tensor<f32> to !s
  %0 = ts.div %scores, %cb : !s
  %1 = ts.tanh %0 : !s
  %2 = ts.mul %1, %cb : !s
  %p = ts.softmax %2 dim 3 : !s
  %out = ts.dot %p, %v4 batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

!g1 = tensor<?x?x8xf32, #ts.dims<"b", "s", 8>>

// One head of keys and values for all.
// CHECK-LABEL: @shared_head
// CHECK-DAG: %[[K:.*]] = ts.reshape %arg1 : {{.*}} to tensor<?x1x?x8xf32,
// CHECK-DAG: %[[V:.*]] = ts.reshape %arg2 : {{.*}} to tensor<?x1x?x8xf32,
// CHECK: %[[A:.*]] = ts.attention %arg0, %[[K]], %[[V]]
// CHECK: return %[[A]]
func.func @shared_head(%q: !q, %k: !g1, %v: !g1) -> !q {
  %k4 = ts.broadcast %k [0, 2, 3] : !g1 to !q
  %v4 = ts.broadcast %v [0, 2, 3] : !g1 to !q
  %scores = ts.dot %q, %k4 batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %p = ts.softmax %scores dim 3 : !s
  %out = ts.dot %p, %v4 batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

!q3 = tensor<?x?x8xf32, #ts.dims<"4*b", "s", 8>>
!s3 = tensor<?x?x?xf32, #ts.dims<"4*b", "s", "s">>
!added = tensor<?x1x?x?xf32, #ts.dims<"b", 1, "s", "s">>

// Heads merged into the batch, with a mask that is added in four dims.
// CHECK-LABEL: @merged_heads
// CHECK-NEXT: %[[A:.*]] = ts.attention %arg0, %arg1, %arg2 mask %arg3 : {{.*}} scale 1.0
// CHECK-NEXT: %[[R:.*]] = ts.reshape %[[A]]
// CHECK-NEXT: return %[[R]]
func.func @merged_heads(%q: !q, %k: !q, %v: !q, %mask: !added) -> !q3 {
  %q3 = ts.reshape %q : !q to !q3
  %k3 = ts.reshape %k : !q to !q3
  %v3 = ts.reshape %v : !q to !q3
  %kt = ts.transpose %k3 [0, 2, 1] : !q3
  %scores = ts.dot %q3, %kt batch [0] x [0] contract [2] x [1] : !q3, !k3t
  %four = ts.reshape %scores : !s3 to !s
  %mb = ts.broadcast %mask [0, 1, 2, 3] : !added to !s
  %masked = ts.add %four, %mb : !s
  %three = ts.reshape %masked : !s to !s3
  %p = ts.softmax %three dim 2 : !s3
  %out = ts.dot %p, %v3 batch [0] x [0] contract [2] x [1] : !s3, !q3
  return %out : !q3
}

!qn = tensor<?x4x?x8xbf16, #ts.dims<"b", 4, "s", 8>>
!sn = tensor<?x4x?x?xbf16, #ts.dims<"b", 4, "s", "s">>

// Scores of bf16 under a softmax and a matmul of f32, as torch's exporter by
// tracing writes bf16: all of it in f32, which rounds less.
// CHECK-LABEL: @narrow_scores
// CHECK-DAG: %[[Q:.*]] = ts.convert %arg0 : {{.*}}xbf16{{.*}} to {{.*}}xf32
// CHECK-DAG: %[[K:.*]] = ts.convert %arg1 : {{.*}}xbf16{{.*}} to {{.*}}xf32
// CHECK-DAG: %[[V:.*]] = ts.convert %arg2 : {{.*}}xbf16{{.*}} to {{.*}}xf32
// CHECK: %[[A:.*]] = ts.attention %[[Q]], %[[K]], %[[V]] mask %arg3 : {{.*}} scale 1.0
// CHECK-NEXT: return %[[A]]
func.func @narrow_scores(%q: !qn, %k: !qn, %v: !qn, %mask: !m) -> !q {
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !qn, !qn
  %wide = ts.convert %scores : !sn to !s
  %mb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %wide, %mb : !s
  %p = ts.softmax %masked dim 3 : !s
  %vw = ts.convert %v : !qn to !q
  %out = ts.dot %p, %vw batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// A root of 1 / sqrt(8) that the exporter rounded to bf16 (0.59375) is the root
// itself; so is a rounded sqrt(8) that divides.
// CHECK-LABEL: @narrow_roots
// CHECK-NEXT: %[[A:.*]] = ts.attention %arg0, %arg1, %arg1 scale 0.35355339059327{{[0-9]*}} :
// CHECK-NEXT: return %[[A]]
func.func @narrow_roots(%q: !qn, %k: !qn) -> !qn {
  %root = ts.constant dense<5.937500e-01> : tensor<bf16>
  %rq = ts.broadcast %root [] : tensor<bf16> to !qn
  %qs = ts.mul %q, %rq : !qn
  %ks = ts.mul %k, %rq : !qn
  %scores = ts.dot %qs, %ks batch [0, 1] x [0, 1] contract [3] x [3] : !qn, !qn
  %p = ts.softmax %scores dim 3 : !sn
  %out = ts.dot %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : !sn, !qn
  return %out : !qn
}

// CHECK-LABEL: @narrow_divisor
// CHECK-NEXT: ts.attention %arg0, %arg1, %arg1 scale 0.35355339059327{{[0-9]*}} :
func.func @narrow_divisor(%q: !qn, %k: !qn) -> !qn {
  %root = ts.constant dense<2.828125> : tensor<bf16>
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !qn, !qn
  %rs = ts.broadcast %root [] : tensor<bf16> to !sn
  %scaled = ts.div %scores, %rs : !sn
  %p = ts.softmax %scaled dim 3 : !sn
  %out = ts.dot %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : !sn, !qn
  return %out : !qn
}

// Another number is meant as it stands.
// CHECK-LABEL: @narrow_number
// CHECK-NEXT: ts.attention %arg0, %arg1, %arg1 scale 0.3515625 :
func.func @narrow_number(%q: !qn, %k: !qn) -> !qn {
  %number = ts.constant dense<0.3515625> : tensor<bf16>
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !qn, !qn
  %ns = ts.broadcast %number [] : tensor<bf16> to !sn
  %scaled = ts.mul %scores, %ns : !sn
  %p = ts.softmax %scaled dim 3 : !sn
  %out = ts.dot %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : !sn, !qn
  return %out : !qn
}

// Masks that come with the op, as torch.compile hands them over.
!q8 = tensor<2x4x8x16xbf16>
!m8 = tensor<2x1x8x8xbf16>
!b8 = tensor<2x1x8x8xi1>
!i8 = tensor<2x1x8x8xi64>

// CHECK-LABEL: @given_causal_mask
// CHECK-NOT: mask
// CHECK: ts.attention %arg0, %arg1, %arg2 scale {{.*}} {causal = true}
// CHECK-NOT: ts.select
func.func @given_causal_mask(%q: !q8, %k: !q8, %v: !q8) -> !q8 {
  %zero = ts.constant dense<0.0> : tensor<bf16>
  %least = ts.constant dense<0xFF80> : tensor<bf16>
  %i = ts.iota 0 : tensor<8xi64>
  %keys = ts.broadcast %i [3] : tensor<8xi64> to !i8
  %queries = ts.broadcast %i [2] : tensor<8xi64> to !i8
  %c = ts.compare le %keys, %queries : !i8
  %z = ts.broadcast %zero [] : tensor<bf16> to !m8
  %l = ts.broadcast %least [] : tensor<bf16> to !m8
  %m = ts.select %c, %z, %l : !b8, !m8
  %r = ts.attention %q, %k, %v mask %m : !m8 scale 0.25 : !q8, !q8, !q8
  return %r : !q8
}

// What is left of a condition stays one.
// CHECK-LABEL: @given_padding_and_causal_mask
// CHECK: %[[M:.*]] = ts.reshape %arg3 : {{.*}} to tensor<2x1x1x8xi1>
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : {{.*}} {causal = true}
func.func @given_padding_and_causal_mask(%q: !q8, %k: !q8, %v: !q8, %real: tensor<2x8xi1>) -> !q8 {
  %i = ts.iota 0 : tensor<8xi64>
  %keys = ts.broadcast %i [3] : tensor<8xi64> to !i8
  %queries = ts.broadcast %i [2] : tensor<8xi64> to !i8
  %c = ts.compare le %keys, %queries : !i8
  %p = ts.broadcast %real [0, 3] : tensor<2x8xi1> to !b8
  %both = ts.and %c, %p : !b8
  %r = ts.attention %q, %k, %v mask %both : !b8 scale 0.25 : !q8, !q8, !q8
  return %r : !q8
}

// Numbers that are added stay.
// CHECK-LABEL: @given_bias
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %arg3 : tensor<2x1x8x8xbf16> scale 2.500000e-01 : tensor
func.func @given_bias(%q: !q8, %k: !q8, %v: !q8, %bias: !m8) -> !q8 {
  %r = ts.attention %q, %k, %v mask %bias : !m8 scale 0.25 : !q8, !q8, !q8
  return %r : !q8
}

// Rows without a key become 0, told by the scores themselves.
!b4 = tensor<2x4x6x6xi1>
!s4 = tensor<2x4x6x6xf32>
!q4 = tensor<2x4x6x8xf32>
// CHECK-LABEL: @excluded_rows
// CHECK-NEXT: %[[A:.*]] = ts.attention %arg0, %arg1, %arg1 mask %arg2 : {{.*}} scale 1.000000e+00
// CHECK-NEXT: return %[[A]]
func.func @excluded_rows(%q: !q4, %k: !q4, %m: !b4) -> !q4 {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %least = ts.constant dense<0xFF800000> : tensor<f32>
  %zeros = ts.broadcast %zero [] : tensor<f32> to !s4
  %leasts = ts.broadcast %least [] : tensor<f32> to !s4
  %dot = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q4, !q4
  %scores = ts.select %m, %dot, %leasts : !b4, !s4
  %p = ts.softmax %scores dim 3 : !s4
  %inf = ts.is_inf %scores {positive = false} : !s4
  %all = ts.reduce and %inf [3] : !b4
  %row = ts.broadcast %all [0, 1, 2] : tensor<2x4x6xi1> to !b4
  %safe = ts.select %row, %zeros, %p : !b4, !s4
  %out = ts.dot %safe, %k batch [0, 1] x [0, 1] contract [3] x [2] : !s4, !q4
  return %out : !q4
}

// Of other scores, or where one infinity is enough, they stay.
// CHECK-LABEL: @other_rows
// CHECK-NOT: ts.attention
// CHECK: return
func.func @other_rows(%q: !q4, %k: !q4, %m: !b4) -> !q4 {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %least = ts.constant dense<0xFF800000> : tensor<f32>
  %zeros = ts.broadcast %zero [] : tensor<f32> to !s4
  %leasts = ts.broadcast %least [] : tensor<f32> to !s4
  %dot = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q4, !q4
  %scores = ts.select %m, %dot, %leasts : !b4, !s4
  %p = ts.softmax %scores dim 3 : !s4
  %inf = ts.is_inf %scores {positive = false} : !s4
  %any = ts.reduce or %inf [3] : !b4
  %row = ts.broadcast %any [0, 1, 2] : tensor<2x4x6xi1> to !b4
  %safe = ts.select %row, %zeros, %p : !b4, !s4
  %out = ts.dot %safe, %k batch [0, 1] x [0, 1] contract [3] x [2] : !s4, !q4
  return %out : !q4
}

!jq = tensor<2x12x6x16xbf16>
!jk = tensor<2x20x2x16xbf16>
!jg = tensor<2x12x2x3x16xbf16>
!js = tensor<2x2x12x3x20xf32>
!jp = tensor<3x2x2x12x20xf32>
!jpb = tensor<3x2x2x12x20xbf16>
!jo = tensor<2x2x16x3x12xbf16>

// As jax.nn.dot_product_attention has it: three heads of queries a head of keys
// as a dim of their own, which is in front behind the scores; scores in f32 of
// bf16; a maximum that begins at -inf; the values on the left of the last
// matmul; a mask of heads.
// CHECK-LABEL: @groups_of_heads
// CHECK-DAG: %[[K:.*]] = ts.transpose %arg1 [0, 2, 1, 3]
// CHECK-DAG: %[[V:.*]] = ts.transpose %arg2 [0, 2, 1, 3]
// CHECK-DAG: %[[Q:.*]] = ts.transpose %arg0 [0, 2, 1, 3]
// CHECK-DAG: %[[M:.*]] = ts.reshape %arg3 : {{.*}} to tensor<1x6x1x20xi1>
// CHECK: %[[A:.*]] = ts.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] {{.*}} scale 2.500000e-01 {ts.empty_row = "mean"} : tensor<2x6x12x16xbf16>, tensor<2x2x20x16xbf16>
// CHECK: %[[R:.*]] = ts.transpose %[[A]] [0, 2, 1, 3]
// CHECK: return %[[R]]
func.func @groups_of_heads(%q: !jq, %k: !jk, %v: !jk, %keep: tensor<2x3x20xi1>) -> !jq {
  %scale = ts.constant dense<0.25> : tensor<f32>
  %fill = ts.constant dense<-2.38197633E+38> : tensor<f32>
  %infinity = ts.constant dense<0xFF800000> : tensor<f32>
  %g = ts.reshape %q : !jq to !jg
  %s0 = ts.dot %g, %k batch [0, 2] x [0, 2] contract [4] x [3] {result_type = f32} : !jg, !jk
  %ss = ts.broadcast %scale [] : tensor<f32> to !js
  %s1 = ts.mul %s0, %ss : !js
  %s2 = ts.transpose %s1 [3, 0, 1, 2, 4] : !js
  %kt = ts.transpose %keep [1, 0, 2] : tensor<2x3x20xi1>
  %m = ts.broadcast %kt [0, 2, 4] : tensor<3x2x20xi1> to tensor<3x2x2x12x20xi1>
  %f = ts.broadcast %fill [] : tensor<f32> to !jp
  %s3 = ts.select %m, %s2, %f : tensor<3x2x2x12x20xi1>, !jp
  %r = ts.reduce max %s3 [4] : !jp
  %i = ts.broadcast %infinity [] : tensor<f32> to tensor<3x2x2x12xf32>
  %r1 = ts.max %i, %r : tensor<3x2x2x12xf32>
  %r2 = ts.broadcast %r1 [0, 1, 2, 3] : tensor<3x2x2x12xf32> to !jp
  %d = ts.sub %s3, %r2 : !jp
  %e = ts.exp %d : !jp
  %t = ts.reduce add %e [4] : !jp
  %t1 = ts.broadcast %t [0, 1, 2, 3] : tensor<3x2x2x12xf32> to !jp
  %p = ts.div %e, %t1 : !jp
  %pb = ts.convert %p : !jp to !jpb
  %o = ts.dot %v, %pb batch [0, 2] x [1, 2] contract [1] x [4] : !jk, !jpb
  %o1 = ts.transpose %o [0, 4, 1, 3, 2] : !jo
  %o2 = ts.reshape %o1 : tensor<2x12x2x3x16xbf16> to !jq
  return %o2 : !jq
}

// The maximum is of the scores as they are, the sum of what was moved: one
// softmax all the same.
// CHECK-LABEL: @moved_softmax
// CHECK: %[[S:.*]] = ts.softmax %arg0 dim 2 : tensor<5x4x20xf32>
// CHECK: %[[T:.*]] = ts.transpose %[[S]] [1, 0, 2]
// CHECK: return %[[T]]
func.func @moved_softmax(%x: tensor<5x4x20xf32>) -> tensor<4x5x20xf32> {
  %r = ts.reduce max %x [2] : tensor<5x4x20xf32>
  %r1 = ts.broadcast %r [0, 1] : tensor<5x4xf32> to tensor<5x4x20xf32>
  %d = ts.sub %x, %r1 : tensor<5x4x20xf32>
  %e = ts.exp %d : tensor<5x4x20xf32>
  %m = ts.transpose %e [1, 0, 2] : tensor<5x4x20xf32>
  %t = ts.reduce add %m [2] : tensor<4x5x20xf32>
  %t1 = ts.broadcast %t [0, 1] : tensor<4x5xf32> to tensor<4x5x20xf32>
  %p = ts.div %m, %t1 : tensor<4x5x20xf32>
  return %p : tensor<4x5x20xf32>
}

// A sum over another dim than the maximum's is no softmax, and neither is one
// whose broadcast swaps equal dims.
// CHECK-LABEL: @no_softmax
// CHECK-NOT: ts.softmax
func.func @no_softmax(%x: tensor<5x4x4xf32>) -> (tensor<5x4x4xf32>, tensor<5x4x4xf32>) {
  %r = ts.reduce max %x [1] : tensor<5x4x4xf32>
  %r1 = ts.broadcast %r [0, 2] : tensor<5x4xf32> to tensor<5x4x4xf32>
  %d = ts.sub %x, %r1 : tensor<5x4x4xf32>
  %e = ts.exp %d : tensor<5x4x4xf32>
  %t = ts.reduce add %e [2] : tensor<5x4x4xf32>
  %t1 = ts.broadcast %t [0, 1] : tensor<5x4xf32> to tensor<5x4x4xf32>
  %p = ts.div %e, %t1 : tensor<5x4x4xf32>
  %u = ts.reduce add %e [1] : tensor<5x4x4xf32>
  %u1 = ts.broadcast %u [0, 1] : tensor<5x4xf32> to tensor<5x4x4xf32>
  %q = ts.div %e, %u1 : tensor<5x4x4xf32>
  return %p, %q : tensor<5x4x4xf32>, tensor<5x4x4xf32>
}

!kh = tensor<?x?xf32, #ts.dims<"4*b", "s">>
!k1 = tensor<?x1x?xf32, #ts.dims<"4*b", 1, "s">>
!kss = tensor<?x?x?xf32, #ts.dims<"4*b", "s", "s">>

// Slopes times positions, added where batch and heads are one dim (torch's
// baddbmm). What is computed from integers cannot make up for the fill: a row
// without a key is the mean, although the fill is finite.
// CHECK-LABEL: @slopes
// CHECK: ts.scan add %arg3
// CHECK: %[[A:.*]] = ts.mul {{.*}} : tensor<?x4x?xf32
// CHECK: %[[S:.*]] = ts.select %{{.*}}, %[[A]], %{{.*}} : tensor<?x4x?xi1
// CHECK: %[[M:.*]] = ts.reshape %[[S]]
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : tensor<?x4x1x?xf32{{.*}} scale 2.500000e-01 {causal = true, ts.empty_row = "mean"}
func.func @slopes(%q: !q, %k: !q, %v: !q, %tokens: tensor<?x?xi64, #ts.dims<"b", "s">>) -> !q {
  %slopes = ts.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %quarter = ts.constant dense<0.25> : tensor<f32>
  %count = ts.scan add %tokens dim 1 : tensor<?x?xi64, #ts.dims<"b", "s">>
  %place = ts.convert %count : tensor<?x?xi64, #ts.dims<"b", "s">> to tensor<?x?xf32, #ts.dims<"b", "s">>
  %p3 = ts.broadcast %place [0, 2] : tensor<?x?xf32, #ts.dims<"b", "s">> to tensor<?x4x?xf32, #ts.dims<"b", 4, "s">>
  %s3 = ts.broadcast %slopes [1] : tensor<4xf32> to tensor<?x4x?xf32, #ts.dims<"b", 4, "s">>
  %a3 = ts.mul %s3, %p3 : tensor<?x4x?xf32, #ts.dims<"b", 4, "s">>
  %a1 = ts.reshape %a3 : tensor<?x4x?xf32, #ts.dims<"b", 4, "s">> to !k1
  %ab = ts.broadcast %a1 [0, 1, 2] : !k1 to !kss
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %f = ts.broadcast %quarter [] : tensor<f32> to !s
  %scaled = ts.mul %scores, %f : !s
  %merged = ts.reshape %scaled : !s to !kss
  %added = ts.add %merged, %ab : !kss
  %apart = ts.reshape %added : !kss to !s
  %allowed = ts.convert %tokens : tensor<?x?xi64, #ts.dims<"b", "s">> to !row
  %i = ts.iota 0 : !iota
  %key = ts.broadcast %i [1] : !iota to !ss
  %query = ts.broadcast %i [0] : !iota to !ss
  %le = ts.compare le %key, %query : !ss
  %causal4 = ts.broadcast %le [2, 3] : !ssb to !mb
  %allowed4 = ts.broadcast %allowed [0, 3] : !row to !mb
  %both = ts.and %causal4, %allowed4 : !mb
  %zm = ts.broadcast %zero [] : tensor<f32> to !m
  %mm = ts.broadcast %min [] : tensor<f32> to !m
  %mask = ts.select %both, %zm, %mm : !mb, !m
  %maskb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %apart, %maskb : !s
  %p = ts.softmax %masked dim 3 : !s
  %out = ts.dot %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// What may be any number, as an input, could outweigh the fill: it stays one.
// CHECK-LABEL: @any_addend
// CHECK: ts.select
// CHECK: %[[M:.*]] = ts.add %arg4, %{{.*}} : tensor<?x1x?x?xf32
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : {{.*}} scale 1.0{{.*}} {ts.empty_row = "nan"}
func.func @any_addend(%q: !q, %k: !q, %v: !q, %allowed: !row, %bias: !m) -> !q {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %biasb = ts.broadcast %bias [0, 1, 2, 3] : !m to !s
  %biased = ts.add %scores, %biasb : !s
  %allowed4 = ts.broadcast %allowed [0, 3] : !row to !mb
  %zm = ts.broadcast %zero [] : tensor<f32> to !m
  %mm = ts.broadcast %min [] : tensor<f32> to !m
  %mask = ts.select %allowed4, %zm, %mm : !mb, !m
  %maskb = ts.broadcast %mask [0, 1, 2, 3] : !m to !s
  %masked = ts.add %biased, %maskb : !s
  %p = ts.softmax %masked dim 3 : !s
  %out = ts.dot %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}

// A given mask that is a sum: its causal part becomes the attribute, the number
// beside it stays.
// CHECK-LABEL: @given_sum
// CHECK: %[[M:.*]] = ts.mul {{.*}} : tensor<1x4x?x?xf32
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : {{.*}} scale 5.000000e-01 {causal = true} :
func.func @given_sum(%q: !q, %k: !q, %v: !q) -> !q {
  %slopes = ts.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %zero = ts.constant dense<0.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %i = ts.iota 0 : !iota
  %place = ts.convert %i : !iota to tensor<?xf32, #ts.dims<"s">>
  %p4 = ts.broadcast %place [3] : tensor<?xf32, #ts.dims<"s">> to tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %s4 = ts.broadcast %slopes [1] : tensor<4xf32> to tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %a4 = ts.mul %s4, %p4 : tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %key = ts.broadcast %i [1] : !iota to !ss
  %query = ts.broadcast %i [0] : !iota to !ss
  %le = ts.compare le %key, %query : !ss
  %le4 = ts.broadcast %le [2, 3] : !ssb to tensor<1x4x?x?xi1, #ts.dims<1, 4, "s", "s">>
  %z4 = ts.broadcast %zero [] : tensor<f32> to tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %m4 = ts.broadcast %min [] : tensor<f32> to tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %c4 = ts.select %le4, %z4, %m4 : tensor<1x4x?x?xi1, #ts.dims<1, 4, "s", "s">>, tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %mask = ts.add %a4, %c4 : tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">>
  %r = ts.attention %q, %k, %v mask %mask : tensor<1x4x?x?xf32, #ts.dims<1, 4, "s", "s">> scale 0.5 : !q, !q, !q
  return %r : !q
}

!kb = tensor<?x?x6xf32, #ts.dims<"4*b", "s", 6>>
!kb4 = tensor<?x4x?x6xf32, #ts.dims<"b", 4, "s", 6>>
!pos = tensor<?x4x6x8xf32, #ts.dims<"b", 4, 6, 8>>
!ki = tensor<?x?x?xi64, #ts.dims<"4*b", "s", "s">>

// Disentangled attention: products of queries and of keys with positions,
// gathered, are added; the division joins the products. They outweigh the fill
// as little as a score does.
// CHECK-LABEL: @disentangled
// CHECK: %[[P:.*]] = ts.mul
// CHECK: %[[PR:.*]] = ts.reshape %[[P]]
// CHECK: %[[C:.*]] = ts.gather_elements %[[PR]], %arg5 dim 2
// CHECK: %[[T:.*]] = ts.transpose %{{.*}} [0, 2, 1]
// CHECK: %[[A:.*]] = ts.add %[[C]], %[[T]]
// CHECK: %[[A4:.*]] = ts.reshape %[[A]]
// CHECK: %[[M:.*]] = ts.select %{{.*}}, %[[A4]], %{{.*}}
// CHECK: ts.attention %arg0, %arg1, %arg2 mask %[[M]] : tensor<?x4x?x?xf32{{.*}} scale 1.0{{.*}} {ts.empty_row = "mean"}
// CHECK-NOT: ts.softmax
func.func @disentangled(%q: !q, %k: !q, %v: !q, %pk: !pos, %pq: !pos, %i: !ki, %j: !ki, %excluded: !mb) -> !q {
  %four = ts.constant dense<4.0> : tensor<f32>
  %min = ts.constant dense<-3.40282347E+38> : tensor<f32>
  %f = ts.broadcast %four [] : tensor<f32> to !kss
  %scores = ts.dot %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : !q, !q
  %merged = ts.reshape %scores : !s to !kss
  %cd = ts.dot %q, %pk batch [0, 1] x [0, 1] contract [3] x [3] : !q, !pos
  %c = ts.reshape %cd : !kb4 to !kb
  %cg = ts.gather_elements %c, %i dim 2 : !kb, !ki
  %cs = ts.div %cg, %f : !kss
  %pd = ts.dot %k, %pq batch [0, 1] x [0, 1] contract [3] x [3] : !q, !pos
  %p = ts.reshape %pd : !kb4 to !kb
  %pg = ts.gather_elements %p, %j dim 2 : !kb, !ki
  %ps = ts.div %pg, %f : !kss
  %pt = ts.transpose %ps [0, 2, 1] : !kss
  %bias = ts.add %cs, %pt : !kss
  %sum = ts.add %merged, %bias : !kss
  %apart = ts.reshape %sum : !kss to !s
  %x4 = ts.broadcast %excluded [0, 1, 2, 3] : !mb to !sb
  %m4 = ts.broadcast %min [] : tensor<f32> to !s
  %masked = ts.select %x4, %m4, %apart : !sb, !s
  %w = ts.softmax %masked dim 3 : !s
  %out = ts.dot %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : !s, !q
  return %out : !q
}
