// RUN: knapper-opt %s -split-input-file -verify-diagnostics

// One function a numbered constraint (C1, C2...) of the op descriptions.

// expected-error @+1 {{(C1) 1 sizes for rank 2}}
func.func @dims_rank(%x: tensor<?x3xf32, #ts.dims<"n">>) { return }

// -----

// expected-error @+1 {{(C1) size n does not agree with the shape}}
func.func @dims_shape(%x: tensor<4x?xf32, #ts.dims<"n", "m">>) { return }

// -----

// expected-error @+1 {{(C1) a static tensor carries no sizes}}
func.func @dims_static(%x: tensor<4xf32, #ts.dims<4>>) { return }

// -----

// expected-error @+1 {{'n +' is not a size expression}}
func.func @dims_text(%x: tensor<?xf32, #ts.dims<"n +">>) { return }

// -----

func.func @select(%c: tensor<3xi1>, %x: tensor<4xf32>) {
  // expected-error @+1 {{(C1) condition is 3xi1, values are 4xf32}}
  %0 = ts.select %c, %x, %x : tensor<3xi1>, tensor<4xf32>
  return
}

// -----

func.func @convert(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) operand and result differ in shape}}
  %0 = ts.convert %x : tensor<3xf32> to tensor<4xi32>
  return
}

// -----

func.func @weight() {
  // expected-error @+1 {{(C1) the result 4xf32 does not take 12 bytes}}
  %0 = ts.weight <0, 0, 12, "w"> : tensor<4xf32>
  return
}

// -----

func.func @dim_cast(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) rank or element type changes}}
  %0 = ts.dim_cast %x : tensor<3xf32> to tensor<3x1xf32>
  return
}

// -----

func.func @broadcast_count(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) needs one entry an operand dim}}
  %0 = ts.broadcast %x [0, 1] : tensor<3xf32> to tensor<3x3xf32>
  return
}

// -----

func.func @broadcast_order(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{(C1) dims must be in range and strictly increasing}}
  %0 = ts.broadcast %x [1, 0] : tensor<3x3xf32> to tensor<3x3xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<?xf32, #ts.dims<"n">>) {
  // expected-error @+1 {{(C2) operand dim 0 is n, result dim 0 is m}}
  %0 = ts.broadcast %x [0] : tensor<?xf32, #ts.dims<"n">> to tensor<?xf32, #ts.dims<"m">>
  return
}

// -----

func.func @reshape(%x: tensor<?x4xf32, #ts.dims<"n", 4>>) {
  // expected-error @+1 {{(C1) 4*n elements become 2*n}}
  %0 = ts.reshape %x : tensor<?x4xf32, #ts.dims<"n", 4>> to tensor<?xf32, #ts.dims<"2*n">>
  return
}

// -----

func.func @transpose(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C1) not a permutation}}
  %0 = ts.transpose %x [0, 0] : tensor<3x4xf32>
  return
}

// -----

func.func @transpose_rank(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C1) permutation has 1 entries for rank 2}}
  %0 = ts.transpose %x [0] : tensor<3x4xf32>
  return
}

// -----

func.func @slice(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) starts and steps need a non-zero entry a dim}}
  %0 = ts.slice %x [#ts.dim<0>] [0] : tensor<3xf32> to tensor<3xf32>
  return
}

// -----

func.func @pad_count(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) low and high need an entry a dim}}
  %0 = ts.pad %x low [] high [] {mode = #ts<pad_mode edge>} : tensor<3xf32>
  return
}

// -----

func.func @pad_value(%x: tensor<3xf32>) {
  // expected-error @+1 {{(C2) the value belongs to mode constant}}
  %0 = ts.pad %x low [#ts.dim<1>] high [#ts.dim<1>] : tensor<3xf32>
  return
}

// -----

func.func @concat(%x: tensor<3x4xf32>, %y: tensor<3x5xf32>) {
  // expected-error @+1 {{(C1) dim 1 is 4 and 5}}
  %0 = ts.concat %x, %y dim 0 : tensor<3x4xf32>, tensor<3x5xf32>
  return
}

// -----

func.func @concat_dim(%x: tensor<3xf32>) {
  // expected-error @+1 {{dim 1 is outside rank 1}}
  %0 = ts.concat %x dim 1 : tensor<3xf32>
  return
}

// -----

func.func @iota() {
  // expected-error @+1 {{(C1) dim is out of range}}
  %0 = ts.iota 1 : tensor<3xf32>
  return
}

// -----

func.func @gather(%x: tensor<3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{dim 1 is outside rank 1}}
  %0 = ts.gather %x, %i dim 1 : tensor<3xf32>, tensor<2xi64>
  return
}

// -----

func.func @gather_elements(%x: tensor<3xf32>, %i: tensor<2x1xi64>) {
  // expected-error @+1 {{(C1) ranks differ}}
  %0 = ts.gather_elements %x, %i dim 0 : tensor<3xf32>, tensor<2x1xi64>
  return
}

// -----

func.func @gather_nd(%x: tensor<3xf32>, %i: tensor<2x2xi64>) {
  // expected-error @+1 {{(C1) the last dim of the indices must be a number that fits the input's rank}}
  %0 = ts.gather_nd %x, %i batch_dims 0 : tensor<3xf32>, tensor<2x2xi64>
  return
}

// -----

func.func @gather_nd_batch(%x: tensor<3x4xf32>, %i: tensor<2x1xi64>) {
  // expected-error @+1 {{(C2) batch dim 0 is 3 and 2}}
  %0 = ts.gather_nd %x, %i batch_dims 1 : tensor<3x4xf32>, tensor<2x1xi64>
  return
}

// -----

func.func @scatter_elements(%x: tensor<3xf32>, %i: tensor<2xi64>, %u: tensor<1xf32>) {
  // expected-error @+1 {{(C1) indices and updates need one shape of the input's rank}}
  %0 = ts.scatter_elements %x, %i, %u dim 0 : tensor<3xf32>, tensor<2xi64>, tensor<1xf32>
  return
}

// -----

func.func @scatter_nd(%x: tensor<3xf32>, %i: tensor<2x2xi64>, %u: tensor<2xf32>) {
  // expected-error @+1 {{(C1) the last dim of the indices must be a number, at most the input's rank}}
  %0 = ts.scatter_nd %x, %i, %u : tensor<3xf32>, tensor<2x2xi64>, tensor<2xf32>
  return
}

// -----

func.func @reduce_dims(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C1) dims must be in range and strictly increasing}}
  %0 = ts.reduce add %x [1, 0] : tensor<3x4xf32>
  return
}

// -----

func.func @reduce_kind(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C2) and/or take i1, the others numbers}}
  %0 = ts.reduce and %x [1] : tensor<3x4xf32>
  return
}

// -----

func.func @arg_reduce(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C1) kind must be max or min}}
  %0 = ts.arg_reduce add %x dim 1 : tensor<3x4xf32>
  return
}

// -----

func.func @dot_size(%x: tensor<?x4xf32, #ts.dims<"m", 4>>, %y: tensor<?x5xf32, #ts.dims<"k", 5>>) {
  // expected-error @+1 {{(C1) contracting dims are 4 and k}}
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<?x4xf32, #ts.dims<"m", 4>>, tensor<?x5xf32, #ts.dims<"k", 5>>
  return
}

// -----

func.func @dot_count(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{(C1) batch dims do not pair up}}
  %0 = ts.dot %x, %x batch [0] x [] contract [1] x [1] : tensor<3x4xf32>, tensor<3x4xf32>
  return
}

// -----

func.func @dot_twice(%x: tensor<3x3xf32>) {
  // expected-error @+1 {{(C2) a dim is named twice}}
  %0 = ts.dot %x, %x batch [0] x [0] contract [0] x [0] : tensor<3x3xf32>, tensor<3x3xf32>
  return
}

// -----

func.func @dot_types(%x: tensor<3x3xf32>, %y: tensor<3x3xf16>) {
  // expected-error @+1 {{(C3) operands have different element types}}
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<3x3xf32>, tensor<3x3xf16>
  return
}

// -----

func.func @conv_strides(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error @+1 {{(C1) one stride, dilation, input dilation and pad pair a spatial dim}}
  %0 = ts.conv %x, %w strides [1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>
  return
}

// -----

func.func @conv_groups(%x: tensor<1x4x8x8xf32>, %w: tensor<6x1x3x3xf32>) {
  // expected-error @+1 {{(C2) 6 output channels do not divide into 4 groups}}
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {groups = 4 : i64} : tensor<1x4x8x8xf32>, tensor<6x1x3x3xf32>
  return
}

// -----

func.func @conv_channels(%x: tensor<1x4x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error @+1 {{(C3) the filter has 3 channels a group, the input 4 in 1 groups}}
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x4x8x8xf32>, tensor<6x3x3x3xf32>
  return
}

// -----

func.func @conv_window(%x: tensor<1x4x8x2xf32>, %w: tensor<6x4x3x9xf32>) {
  // expected-error @+1 {{(C4) the window does not fit into spatial dim 1}}
  %0 = ts.conv %x, %w strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x4x8x2xf32>, tensor<6x4x3x9xf32>
  return
}

// -----

func.func @pool(%x: tensor<1x4x8xf32>) {
  // expected-error @+1 {{(C1) one window, stride, dilation and pad pair a spatial dim}}
  %0 = ts.pool max %x window [2, 2] strides [1, 1] dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] : tensor<1x4x8xf32>
  return
}

// -----

func.func @pool_of_integers(%x: tensor<1x4x8xi32>) {
  // expected-error @+1 {{(C2) averages are of floats, not of 'i32'}}
  %0 = ts.pool average %x window [2] strides [1] dilations [1] low [#ts.dim<0>] high [#ts.dim<0>] : tensor<1x4x8xi32>
  return
}

// -----

func.func @scan(%x: tensor<4xi32>) {
  // expected-error @+1 {{(C2) kind must be add, mul, max or min}}
  %0 = ts.scan and %x dim 0 : tensor<4xi32>
  return
}

// -----

func.func @topk(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C2) k is 5 of 4}}
  %0:2 = ts.topk %x k <5> dim 0 : tensor<4xf32>
  return
}

// -----

func.func @softmax(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C1) dim is out of range}}
  %0 = ts.softmax %x dim 1 : tensor<4xf32>
  return
}

// -----

func.func @layer_norm(%x: tensor<3x4xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{(C2) scale and bias need the normalised dims}}
  %0 = ts.layer_norm %x scale %s : tensor<3xf32> dim 1 epsilon 1.0e-5 : tensor<3x4xf32>
  return
}

// -----

func.func @attention(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x4xf32>) {
  // expected-error @+1 {{(C1) query, key and value do not fit together: 1x2x3x8xf32, 1x2x5x4xf32, 1x2x5x4xf32}}
  %0 = ts.attention %q, %k, %k scale 1.0 : tensor<1x2x3x8xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>
  return
}

// -----

func.func @attention_heads(%q: tensor<1x3x3x8xf32>, %k: tensor<1x2x5x8xf32>) {
  // expected-error @+1 {{(C2) 3 query heads do not share 2 key heads evenly}}
  %0 = ts.attention %q, %k, %k scale 1.0 : tensor<1x3x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
  return
}

// -----

func.func @attention_mask_type(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x8xf32>, %m: tensor<1x1x1x5xf8E5M2>) {
  // expected-error @+1 {{C5: the mask is of numbers or i1, not of 'f8E5M2'}}
  %0 = ts.attention %q, %k, %k mask %m : tensor<1x1x1x5xf8E5M2> scale 1.0 : tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
  return
}

// -----

func.func @attention_mask(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x5x8xf32>, %m: tensor<1x1x3x4xf32>) {
  // expected-error @+1 {{(C3) mask 1x1x3x4xf32 does not broadcast to the scores}}
  %0 = ts.attention %q, %k, %k mask %m : tensor<1x1x3x4xf32> scale 1.0 : tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
  return
}

// -----

func.func @rope_rank(%x: tensor<2x3x8xf32>, %c: tensor<1x3x4xf32>) {
  // expected-error @+1 {{(C1) needs rank 4 and cos, sin of rank 3}}
  %0 = ts.rope %x, %c, %c : tensor<2x3x8xf32>, tensor<1x3x4xf32>
  return
}

// -----

func.func @rope(%x: tensor<2x3x4x8xf32>, %c: tensor<1x4x5xf32>) {
  // expected-error @+1 {{(C2) cos and sin 1x4x5xf32 do not fit 2x3x4x8xf32}}
  %0 = ts.rope %x, %c, %c : tensor<2x3x4x8xf32>, tensor<1x4x5xf32>
  return
}

// -----

func.func @kernel_arguments(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C2) yielded values differ from the results}}
  %0 = ts.kernel pointwise (%a = %x : tensor<4xf32>) -> (tensor<4xf32>) {
    ts.yield
  }
  return
}

// -----

func.func private @yes(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @if_inputs(%c: tensor<i1>, %x: tensor<3xf32>) {
  // expected-error @+1 {{(C1) other inputs than its body}}
  %0 = ts.if %c : tensor<i1> then @yes(%x : tensor<3xf32>) else @yes(%x : tensor<3xf32>) symbols [] to (tensor<4xf32>)
  return
}

// -----

func.func private @yes(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @if_results(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @+1 {{(C2) @yes gives 4xf32 where the result is 3xf32}}
  %0 = ts.if %c : tensor<i1> then @yes(%x : tensor<4xf32>) else @yes(%x : tensor<4xf32>) symbols [] to (tensor<3xf32>)
  return
}

// -----

func.func @if_missing(%c: tensor<i1>) {
  // expected-error @+1 {{has no body @gone}}
  %0 = ts.if %c : tensor<i1> then @gone() else @gone() symbols [] to (tensor<3xf32>)
  return
}

// -----

func.func private @iteration(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = ts.constant dense<0.0> : tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func @loop_carried(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C2) carried value 0 becomes 5xf32, the body takes 4xf32}}
  %0 = ts.loop @iteration counter "i" trips <3> carried(%x : tensor<4xf32>) captures() symbols [] reversed [] to (tensor<4xf32>)
  return
}

// -----

func.func private @iteration(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @loop_scans(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C3) scan 0 of 4xf32 is not its result's type}}
  %0:2 = ts.loop @iteration counter "i" trips <3> carried(%x : tensor<4xf32>) captures() symbols [] reversed [false] to (tensor<4xf32>, tensor<4x4xf32>)
  return
}

// -----

func.func private @iteration(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @loop_rows(%x: tensor<4xf32>) {
  // expected-error @+1 {{(C4) scans need a number of iterations}}
  %0:2 = ts.loop @iteration counter "i" carried(%x : tensor<4xf32>) captures() symbols [] reversed [false] to (tensor<4xf32>, tensor<4x4xf32>)
  return
}

// -----

func.func @grouped_depth(%x: tensor<4x3xf32>, %w: tensor<2x3x5xf32>, %e: tensor<2xi32>) {
  // expected-error @+1 {{(C1) tokens 4x3xf32, weights 2x3x5xf32 (transposed) and ends 2xi32 do not fit together}}
  %0 = ts.grouped_matmul %x, %w transposed ends %e : tensor<4x3xf32>, tensor<2x3x5xf32>, tensor<2xi32>
  return
}

// -----

func.func @grouped_types(%x: tensor<4x3xf16>, %w: tensor<2x3x5xbf16>, %e: tensor<2xi32>) {
  // expected-error @+1 {{(C2) tokens and weights differ in element type}}
  %0 = ts.grouped_matmul %x, %w ends %e : tensor<4x3xf16>, tensor<2x3x5xbf16>, tensor<2xi32>
  return
}

// -----

func.func @f(%h: tensor<2x4xf32>, %x: tensor<5x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{(C1) argument 1 is none of the operand}}
  %0 = ts.recurrence steps <3> states(%h : tensor<2x4xf32>) sequences(%x : tensor<5x2x4xf32>) reversed [false] weights(%w : tensor<4x4xf32>) outputs [] to(tensor<2x4xf32>) {
  ^bb0(%s: tensor<2x4xf32>, %t: tensor<2x4xf32>, %v: tensor<4x4xf32>):
    %1 = ts.add %s, %t : tensor<2x4xf32>
    ts.next %1 : tensor<2x4xf32>
  }
  return %0 : tensor<2x4xf32>
}

// -----

func.func @f(%h: tensor<2x4xf32>, %x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{(C4) a flag for each sequence and output is needed}}
  %0 = ts.recurrence steps <3> states(%h : tensor<2x4xf32>) sequences(%x : tensor<3x2x4xf32>) reversed [] weights(%w : tensor<4x4xf32>) outputs [] to(tensor<2x4xf32>) {
  ^bb0(%s: tensor<2x4xf32>, %t: tensor<2x4xf32>, %v: tensor<4x4xf32>):
    %1 = ts.add %s, %t : tensor<2x4xf32>
    ts.next %1 : tensor<2x4xf32>
  }
  return %0 : tensor<2x4xf32>
}

// -----

func.func @f(%h: tensor<2x4xf32>, %x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{(C1) next value 0 is none of the result}}
  %0 = ts.recurrence steps <3> states(%h : tensor<2x4xf32>) sequences(%x : tensor<3x2x4xf32>) reversed [false] weights(%w : tensor<4x4xf32>) outputs [] to(tensor<2x4xf32>) {
  ^bb0(%s: tensor<2x4xf32>, %t: tensor<2x4xf32>, %v: tensor<4x4xf32>):
    %1 = ts.slice %s [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
    ts.next %1 : tensor<2x2xf32>
  }
  return %0 : tensor<2x4xf32>
}

// -----

func.func @f(%h: tensor<8xf32>, %x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{(C2) states are not of one shape}}
  %0 = ts.recurrence steps <3> states(%h : tensor<8xf32>) sequences(%x : tensor<3x2x4xf32>) reversed [false] weights(%w : tensor<4x4xf32>) outputs [] to(tensor<8xf32>) {
  ^bb0(%s: tensor<8xf32>, %t: tensor<2x4xf32>, %v: tensor<4x4xf32>):
    ts.next %s : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @f(%h: tensor<2x4xf32>, %x: tensor<3x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = ts.recurrence steps <3> states(%h : tensor<2x4xf32>) sequences(%x : tensor<3x2x4xf32>) reversed [false] weights(%w : tensor<4x4xf32>) outputs [] to(tensor<2x4xf32>) {
  ^bb0(%s: tensor<2x4xf32>, %t: tensor<2x4xf32>, %v: tensor<4x4xf32>):
  // expected-error @+1 {{(C3) takes no state of a recurrence so}}
    %1 = ts.transpose %s [1, 0] : tensor<2x4xf32>
    %2 = ts.transpose %1 [1, 0] : tensor<4x2xf32>
    ts.next %2 : tensor<2x4xf32>
  }
  return %0 : tensor<2x4xf32>
}

// -----

func.func @packed_bits(%x: tensor<3x8xf32>, %w: tensor<5x2xi8>, %s: tensor<5x1xf32>) {
  // expected-error @+1 {{(C1) integers of 2 bits}}
  %0 = ts.packed_dot %x, %w scale %s bits 2 group 8 : tensor<3x8xf32>, tensor<5x2xi8>, tensor<5x1xf32>
  return
}

// -----

func.func @packed_depth(%x: tensor<3x9xf32>, %w: tensor<5x4xi8>, %s: tensor<5x1xf32>) {
  // expected-error @+1 {{(C2) input}}
  %0 = ts.packed_dot %x, %w scale %s bits 4 group 16 : tensor<3x9xf32>, tensor<5x4xi8>, tensor<5x1xf32>
  return
}

// -----

func.func @packed_scale(%x: tensor<3x9xf32>, %w: tensor<5x5xi8>, %s: tensor<5x1xf32>) {
  // expected-error @+1 {{(C3) scale is 5x1xf32, not 5x2}}
  %0 = ts.packed_dot %x, %w scale %s bits 4 group 8 : tensor<3x9xf32>, tensor<5x5xi8>, tensor<5x1xf32>
  return
}

// -----

func.func @packed_group(%x: tensor<3x9xf32>, %w: tensor<5x9xi8>, %s: tensor<5x1xf32>) {
  // expected-error @+1 {{(C4) a group of 0 elements}}
  %0 = ts.packed_dot %x, %w scale %s bits 8 group 0 : tensor<3x9xf32>, tensor<5x9xi8>, tensor<5x1xf32>
  return
}
