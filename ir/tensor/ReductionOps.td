// Reductions, matmuls, windows, scans, sorts.
#ifndef KNAPPER_IR_TENSOR_REDUCTIONOPS
#define KNAPPER_IR_TENSOR_REDUCTIONOPS

include "ir/tensor/OpBase.td"

def Ts_ReduceOp : Ts_InferredOp<"reduce", [Indexed]> {
  let summary = "combines all elements along `dims`, which disappear";
  let description = [{
    f16 and bf16 accumulate in f32. An empty range gives the neutral element (max of floats: -inf).
    With `ignores_nan`, max and min may pass over a NaN (softmax, where the sum brings it back).
    C1: dims are in range and strictly increasing. C2: and/or take i1.
  }];
  let arguments = (ins Ts_ReduceKindAttr:$kind, Ts_NumberOrBoolTensor:$input, DenseI64ArrayAttr:$dims,
                       UnitAttr:$ignores_nan);
  let results = (outs Ts_NumberOrBoolTensor:$result);
  let assemblyFormat = "$kind $input $dims attr-dict `:` type($input)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_ArgReduceOp : Ts_InferredOp<"arg_reduce", [Indexed]> {
  let summary = "index of the largest (max) or smallest (min) element along a dim, as i64";
  let description = "Of equal elements the first, or the last. C1: kind is max or min. C2: dim is in range.";
  let arguments = (ins Ts_ReduceKindAttr:$kind, Ts_NumberTensor:$input, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "false">:$last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$kind $input `dim` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Ts_DotOp : Ts_InferredOp<"dot", [Indexed]> {
  let summary = "sum of products over the contracting dims, for each batch index";
  let description = [{
    Result dims: batch dims, then the free dims of lhs, then those of rhs. f16 and bf16 accumulate in f32, integers
    in i32 (`result_type` says the element type of the result; absent: the operands').
    C1: batch and contracting dims pair up in number and size. C2: no dim is named twice. C3: operand element types are equal,
    or both bytes.
  }];
  let arguments = (ins Ts_NumberTensor:$lhs, Ts_NumberTensor:$rhs, DenseI64ArrayAttr:$lhs_batch,
                       DenseI64ArrayAttr:$rhs_batch, DenseI64ArrayAttr:$lhs_contract,
                       DenseI64ArrayAttr:$rhs_contract, OptionalAttr<TypeAttr>:$result_type);
  let results = (outs Ts_NumberTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `batch` $lhs_batch `x` $rhs_batch `contract` $lhs_contract `x` $rhs_contract attr-dict
    `:` type($lhs) `,` type($rhs)
  }];
  let hasVerifier = 1;
}

def Ts_ConvOp : Ts_InferredOp<"conv", [Indexed]> {
  let summary = "convolution (cross-correlation) over any number of spatial dims";
  let description = [{
    input [N, C, spatial..] or, with channels_last, [N, spatial.., C]; filter [F, C/groups, window..] or, with
    channels_last, [window.., C/groups, F]; the result's layout is the input's. `input_dilations` > 1 spreads the input
    (transposed convolution). bias and activations are separate ops that fuse.
    C1: one stride, dilation, input dilation and pad pair a spatial dim. C2: channels divide into groups.
    C3: filter channels are C/groups. C4: windows fit into the padded input. C5: operand element types are equal, or
    both bytes.
  }];
  let arguments = (ins Ts_NumberTensor:$input, Ts_NumberTensor:$filter, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$input_dilations,
                       Ts_DimArray:$low, Ts_DimArray:$high,
                       DefaultValuedAttr<I64Attr, "1">:$groups, DefaultValuedAttr<BoolAttr, "false">:$channels_last);
  let results = (outs Ts_NumberTensor:$result);
  let assemblyFormat = [{
    $input `,` $filter `strides` $strides `dilations` $dilations `input_dilations` $input_dilations
    `low` $low `high` $high attr-dict `:` type($input) `,` type($filter)
  }];
  let hasVerifier = 1;
}

def Ts_PoolOp : Ts_InferredOp<"pool", [Indexed]> {
  let summary = "max, average or sum over sliding windows of the spatial dims";
  let description = [{
    Layout as in ts.conv. Padding never wins a max; an average divides by the number of elements inside, or by the
    number inside the padded input with count_padding. `high` may exceed what the windows need (ceil mode).
    C1: one window, stride, dilation and pad pair a spatial dim. C2: an average is of floats.
  }];
  let arguments = (ins Ts_PoolKindAttr:$kind, Ts_NumberTensor:$input, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, Ts_DimArray:$low, Ts_DimArray:$high,
                       DefaultValuedAttr<BoolAttr, "false">:$count_padding,
                       DefaultValuedAttr<BoolAttr, "false">:$channels_last);
  let results = (outs Ts_NumberTensor:$result);
  let assemblyFormat = [{
    $kind $input `window` $window `strides` $strides `dilations` $dilations `low` $low `high` $high attr-dict
    `:` type($input)
  }];
  let hasVerifier = 1;
}

def Ts_ScanOp : Ts_InferredOp<"scan", [Indexed]> {
  let summary = "running reduction along a dim";
  let description = "C1: dim is in range. C2: kind is add, mul, max or min.";
  let arguments = (ins Ts_ReduceKindAttr:$kind, Ts_NumberTensor:$input, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "false">:$exclusive,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs Ts_NumberTensor:$result);
  let assemblyFormat = "$kind $input `dim` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Ts_TopKOp : Ts_InferredOp<"topk", [Indexed]> {
  let summary = "the k largest (or smallest) elements along a dim in order, and their indices as i64";
  let description = [{
    Of equal elements the one with the smaller index comes first. k equal to the dim is a stable sort. NaN counts as
    largest. C1: dim is in range. C2: k does not exceed the dim (checked when bound, if symbolic).
  }];
  let arguments = (ins Ts_NumberTensor:$input, Ts_DimAttr:$k, I64Attr:$dim,
                       DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs Ts_NumberTensor:$values, RankedTensorOf<[I64]>:$indices);
  let assemblyFormat = "$input `k` $k `dim` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
}

#endif
