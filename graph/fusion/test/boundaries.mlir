// RUN: knapper-opt %s --form-kernels=remarks --verify-diagnostics --split-input-file -o /dev/null
// Why two kernels stay two: one case a reason.

!t = tensor<64x128xf32>
!r = tensor<64xf32>
!w = tensor<128x128xf32>

func.func @two_matmuls(%x: !t, %w: !w) -> !t {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !t, !w
  // expected-remark@+1 {{not fused with the kernel of dot: a kernel holds one of dot and dot}}
  %1 = ts.dot %0, %w batch [] x [] contract [1] x [0] : !t, !w
  return %1 : !t
}

// -----

!t = tensor<64x128xf32>
func.func @other_rows(%x: !t) -> (tensor<128xf32>, !t) {
  %0 = ts.softmax %x dim 1 : !t
  // expected-remark@+1 {{not fused with the kernel of softmax: reduce works on other rows}}
  %1 = ts.reduce add %0 [0] : !t
  return %1, %0 : tensor<128xf32>, !t
}

// -----

!t = tensor<64x64xf32>
!r = tensor<64xf32>
func.func @row_value_for_other_rows(%x: !t) -> !t {
  %0 = ts.reduce add %x [1] : !t
  // expected-remark@+2 {{not fused with the kernel of reduce: a broadcast after the reduction does not lead back to its rows}}
  %1 = ts.broadcast %0 [1] : !r to !t
  %2 = ts.mul %x, %1 : !t
  return %2 : !t
}

// -----

!t = tensor<64x128xf32>
func.func @moved_after_reduction(%x: !t) -> tensor<128x64xf32> {
  %0 = ts.softmax %x dim 1 : !t
  // expected-remark@+1 {{not fused with the kernel of softmax: transpose moves rows after the reduction}}
  %1 = ts.transpose %0 [1, 0] : !t
  return %1 : tensor<128x64xf32>
}

// -----

!t = tensor<64x128xf32>
!w = tensor<128x128xf32>
func.func @arithmetic_before_matmul(%x: !t, %w: !w) -> !t {
  %0 = ts.tanh %x : !t
  // expected-remark@+1 {{not fused with the kernel of tanh: operands of dot take views and widening conversions of integers, not tanh}}
  %1 = ts.dot %0, %w batch [] x [] contract [1] x [0] : !t, !w
  return %1 : !t
}

// -----

!t = tensor<64x128xf32>
!n = tensor<128x128xbf16>
!w = tensor<128x128xf32>
func.func @conversion_before_matmul(%x: !t, %w: !n) -> !t {
  %0 = ts.convert %w : !n to !w
  // expected-remark@+1 {{not fused with the kernel of convert: operands of dot take views and widening conversions of integers, not convert}}
  %1 = ts.dot %x, %0 batch [] x [] contract [1] x [0] : !t, !w
  return %1 : !t
}

// -----

// Halves of a row meet: they are in different tiles of the matmul.
func.func @halves(%x: tensor<64x32xf32>, %w: tensor<32x128xf32>) -> tensor<64x64xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<64x32xf32>, tensor<32x128xf32>
  // expected-remark@+3 {{not fused with the kernel of dot: the epilogue of dot does not take slice}}
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<64x128xf32> to tensor<64x64xf32>
  %2 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : tensor<64x128xf32> to tensor<64x64xf32>
  %3 = ts.mul %1, %2 : tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}

// -----

// Rows of a transposed tensor do not merge into one strided dim.
func.func @no_strides(%x: tensor<8x4x16xf32>, %w: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %0 = ts.transpose %x [2, 1, 0] : tensor<8x4x16xf32>
  %1 = ts.reshape %0 : tensor<16x4x8xf32> to tensor<16x32xf32>
  // expected-remark@+1 {{not fused with the kernel of transpose: an operand of dot would have no strides}}
  %2 = ts.dot %1, %w batch [] x [] contract [1] x [0] : tensor<16x32xf32>, tensor<32x8xf32>
  return %2 : tensor<16x8xf32>
}

// -----

// 4 MB evaluated again for each of 1024 rows cost more than a store and a launch.
func.func @recomputation(%x: tensor<1024xf32>) -> tensor<1024x1024xf32> {
  %0 = ts.exp %x : tensor<1024xf32>
  %1 = ts.pow %0, %0 : tensor<1024xf32>
  %2 = ts.pow %1, %0 : tensor<1024xf32>
  // expected-remark@+1 {{not fused with the kernel of pow: the modelled time would rise by}}
  %3 = ts.broadcast %2 [1] : tensor<1024xf32> to tensor<1024x1024xf32>
  return %3 : tensor<1024x1024xf32>
}

// -----

// The sum needs the matmul's result and the scan of it: the scan would have to be inside.
!t = tensor<64x128xf32>
!w = tensor<128x128xf32>
func.func @between(%x: !t, %w: !w) -> !t {
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : !t, !w
  // expected-remark@+1 {{not fused with the kernel of dot: a kernel holds one of dot and scan}}
  %1 = ts.scan add %0 dim 1 : !t
  // expected-remark@+2 {{not fused with the kernel of dot: another kernel stands between them}}
  // expected-remark@+1 {{not fused with the kernel of scan: scan runs alone}}
  %2 = ts.add %0, %1 : !t
  return %2 : !t
}

// -----

func.func @other_shape(%x: tensor<64xf32>, %y: tensor<32x64xf32>) -> (tensor<64xf32>, tensor<32x64xf32>) {
  %0 = ts.tanh %x : tensor<64xf32>
  // expected-remark@+2 {{not fused with the kernel of tanh: results have different shapes: 64xf32 and 32x64xf32}}
  %1 = ts.broadcast %0 [1] : tensor<64xf32> to tensor<32x64xf32>
  %2 = ts.add %1, %y : tensor<32x64xf32>
  return %0, %2 : tensor<64xf32>, tensor<32x64xf32>
}

// -----

!t = tensor<64x128xf32>
!h = tensor<64x64xf32>
func.func @other_sizes(%x: !t) -> (!t, !h) {
  %0 = ts.tanh %x : !t
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<64>] [1, 1] : !t to !h
  // expected-remark@+1 {{not fused with the kernel of tanh: results have different shapes: 64x128xf32 and 64x64xf32}}
  %2 = ts.exp %1 : !h
  return %0, %2 : !t, !h
}

// -----

// The mask is used by two layers; it is made once.
!p = tensor<1x2x8x4xf32>
!m = tensor<1x1x1x8xf32>
func.func @mask(%q: !p, %x: !m) -> (!p, !p) {
  %0 = ts.neg %x : !m
  // expected-remark@+1 {{not fused with the kernel of neg: an operand of the attention is needed elsewhere}}
  %1 = ts.attention %q, %q, %q mask %0 : !m scale 0.5 : !p, !p, !p
  // expected-remark@+2 {{not fused with the kernel of neg: an operand of the attention is needed elsewhere}}
  // expected-remark@+1 {{not fused with the kernel of attention: a kernel holds one of attention and attention}}
  %2 = ts.attention %1, %q, %q mask %0 : !m scale 0.5 : !p, !p, !p
  return %1, %2 : !p, !p
}

// -----

// Each sum reads the one before at two places: pulled together, the code doubles at each.
!v = tensor<1024xf32>
func.func @growth(%x: !v) -> !v {
  %1 = ts.slice %x [#ts.dim<1023>] [-1] : !v to !v
  %2 = ts.add %x, %1 : !v
  %3 = ts.slice %2 [#ts.dim<1023>] [-1] : !v to !v
  %4 = ts.add %2, %3 : !v
  %5 = ts.slice %4 [#ts.dim<1023>] [-1] : !v to !v
  %6 = ts.add %4, %5 : !v
  %7 = ts.slice %6 [#ts.dim<1023>] [-1] : !v to !v
  %8 = ts.add %6, %7 : !v
  %9 = ts.slice %8 [#ts.dim<1023>] [-1] : !v to !v
  %10 = ts.add %8, %9 : !v
  %11 = ts.slice %10 [#ts.dim<1023>] [-1] : !v to !v
  %12 = ts.add %10, %11 : !v
  %13 = ts.slice %12 [#ts.dim<1023>] [-1] : !v to !v
  %14 = ts.add %12, %13 : !v
  %15 = ts.slice %14 [#ts.dim<1023>] [-1] : !v to !v
  // expected-remark@+1 {{the kernel's code would grow to 510 operations}}
  %16 = ts.add %14, %15 : !v
  return %16 : !v
}

// -----

// What is updated lies in memory, so that it can be updated there.
!c = tensor<64x128xf32>
!u = tensor<1x128xf32>
!i = tensor<1x128xi64>
func.func @updated_in_memory(%x: !c, %i: !i, %u: !u) -> !c {
  %0 = ts.exp %x : !c
  // expected-remark@+1 {{not fused with the kernel of exp: what scatter_elements updates lies in memory}}
  %1 = ts.scatter_elements %0, %i, %u dim 0 : !c, !i, !u
  // expected-remark@+1 {{not fused with the kernel of scatter_elements: a kernel with scatter_elements gives its result alone}}
  %2 = ts.exp %1 : !c
  return %2 : !c
}
