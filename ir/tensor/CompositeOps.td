// Ops that stay whole until scheduling because they are hard to find again once taken apart.
// Each knows its decomposition (`ir/tensor/Decompose.h`).
#ifndef KNAPPER_IR_TENSOR_COMPOSITEOPS
#define KNAPPER_IR_TENSOR_COMPOSITEOPS

include "ir/tensor/OpBase.td"

def Ts_SoftmaxOp : Ts_Op<"softmax", [SameOperandsAndResultType, Indexed]> {
  let summary = "e^(x - max) / sum along a dim; with `log` its logarithm";
  let description = "C1: dim is in range.";
  let arguments = (ins Ts_FloatTensor:$input, I64Attr:$dim, DefaultValuedAttr<BoolAttr, "false">:$log);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Ts_LayerNormOp : Ts_InferredOp<"layer_norm", [AttrSizedOperandSegments, Indexed]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) over the dims from `dim` on, times scale plus bias";
  let description = [{
    `rms`: x / sqrt(mean of squares + epsilon) instead. Statistics are computed in f32 (f64 for f64). Scale and bias
    have the normalised dims.
    C1: dim is in range. C2: scale and bias have the dims of the input from `dim` on.
  }];
  let arguments = (ins Ts_FloatTensor:$input, Optional<Ts_FloatTensor>:$scale, Optional<Ts_FloatTensor>:$bias,
                       I64Attr:$dim, F64Attr:$epsilon, DefaultValuedAttr<BoolAttr, "false">:$rms);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))? `dim` $dim `epsilon` $epsilon attr-dict
    `:` type($input)
  }];
  let hasVerifier = 1;
}

def Ts_AttentionOp : Ts_InferredOp<"attention", [Indexed]> {
  let summary = "softmax(scale * q k^T + mask) v, heads in dim 1";
  let description = [{
    q [B, H, S, D], k [B, G, T, D], v [B, G, T, E], H a multiple of G: query head h reads key head h / (H/G). mask is
    added to the scores and broadcasts to [B, H, S, T] (dims equal or 1); an i1 mask keeps where true. causal: key t is
    seen by query s when t <= s + T - S (the last query sees every key) or, with causal_top_left, when t <= s.
    A row with no key seen gives 0, or what the attribute `ts.empty_row` says: "nan", or "mean" of all T values. softcap > 0: scores become softcap * tanh(score / softcap) before the mask.
    `ts.narrow_probabilities`: decomposed, the probabilities are rounded to the tensors' type before they meet the values.
    Result [B, H, S, E].
    C1: ranks are 4, B, D and T agree. C2: H is a multiple of G. C3: mask dims are 1 or those of the scores. C4: `ts.empty_row` is
    one of the two. C5: the mask is of numbers or i1.
  }];
  let arguments = (ins Ts_FloatTensor:$query, Ts_FloatTensor:$key, Ts_FloatTensor:$value, Optional<Ts_Tensor>:$mask,
                       F64Attr:$scale, DefaultValuedAttr<BoolAttr, "false">:$causal,
                       DefaultValuedAttr<BoolAttr, "false">:$causal_top_left,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))? `scale` $scale attr-dict
    `:` type($query) `,` type($key) `,` type($value)
  }];
  let hasVerifier = 1;
}

def Ts_RopeOp : Ts_InferredOp<"rope", [Indexed, AllTypesMatch<["cos", "sin"]>]> {
  let summary = "rotary position embedding of the last dim";
  let description = [{
    input [B, H, S, D]; cos and sin [B or 1, S, R/2] for the first R of the D elements, the rest pass through. Pairs are
    (i, i + R/2), or (2i, 2i + 1) when interleaved: (x, y) becomes (x cos - y sin, y cos + x sin).
    C1: ranks 4 and 3. C2: cos and sin have one type with dims B or 1, S, at most D/2.
  }];
  let arguments = (ins Ts_FloatTensor:$input, Ts_FloatTensor:$cos, Ts_FloatTensor:$sin,
                       DefaultValuedAttr<BoolAttr, "false">:$interleaved);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cos `,` $sin attr-dict `:` type($input) `,` type($cos)";
  let hasVerifier = 1;
}

#endif
