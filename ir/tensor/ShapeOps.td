// Constants and ops that move elements without computing on them.
#ifndef KNAPPER_IR_TENSOR_SHAPEOPS
#define KNAPPER_IR_TENSOR_SHAPEOPS

include "ir/tensor/OpBase.td"

def Ts_ConstantOp : Ts_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant (at most 64 KiB; larger data is a ts.weight)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def Ts_WeightOp : Ts_Op<"weight"> {
  let summary = "constant data in a mapped file";
  let description = "C1: the result is static and its bytes are those of the reference.";
  let arguments = (ins Ts_WeightAttr:$reference);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$reference attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Ts_SizeOp : Ts_Op<"size"> {
  let summary = "a size as a 0-d i64 tensor";
  let arguments = (ins Ts_DimAttr:$size);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "$size attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Ts_BindSizeOp : Op<Ts_Dialect, "bind_size", []> {
  let summary = "gives a symbol the value of a 0-d i64 tensor at run time";
  let description = [{
    For sizes that depend on data. The symbol is fresh; ops whose types use it come after. The run fails with a user
    error when the value is negative or above the symbol's declared bound.
  }];
  let arguments = (ins 0DTensorOf<[I64]>:$value, StrAttr:$symbol);
  let assemblyFormat = "$value `,` $symbol attr-dict `:` type($value)";
}

def Ts_DimCastOp : Ts_Op<"dim_cast", [Indexed]> {
  let summary = "asserts that sizes are equal; checked when symbols are bound";
  let description = "C1: same rank and element type. The data is the operand's.";
  let arguments = (ins Ts_AnyTensor:$input);
  let results = (outs Ts_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_BroadcastOp : Ts_Op<"broadcast", [Indexed]> {
  let summary = "repeats along new dims and along dims of size 1";
  let description = [{
    `dims[i]` is the result dim that operand dim i becomes.
    C1: one entry an operand dim, strictly increasing. C2: operand dim i is 1 or equals result dim dims[i].
  }];
  let arguments = (ins Ts_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input $dims attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_ReshapeOp : Ts_Op<"reshape", [Indexed]> {
  let summary = "same elements in row-major order, other dims";
  let description = "C1: the element counts are equal as sizes in normal form.";
  let arguments = (ins Ts_AnyTensor:$input);
  let results = (outs Ts_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Ts_TransposeOp : Ts_InferredOp<"transpose", [Indexed]> {
  let summary = "result dim i is operand dim permutation[i]";
  let description = "C1: a permutation of the operand's dims.";
  let arguments = (ins Ts_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_SliceOp : Ts_Op<"slice", [Indexed]> {
  let summary = "result[i] = input[starts + i * steps], a dim each";
  let description = [{
    C1: starts and steps have an entry a dim; no step is 0 (a negative step walks backwards from start).
    Starts are sizes; the front end guarantees that every element lies inside, or emits a check.
  }];
  let arguments = (ins Ts_Tensor:$input, Ts_DimArray:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input $starts $steps attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_PadOp : Ts_InferredOp<"pad", [Indexed]> {
  let summary = "adds elements before and after each dim (none negative)";
  let description = [{
    `value` is a 0-d tensor for mode constant, absent otherwise.
    C1: low and high have an entry a dim. C2: value is present exactly for mode constant.
  }];
  let arguments = (ins Ts_Tensor:$input, Optional<Ts_Tensor>:$value, Ts_DimArray:$low, Ts_DimArray:$high,
                       DefaultValuedAttr<Ts_PadModeAttr, "PadMode::constant">:$mode);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input (`value` $value^ `:` type($value))? `low` $low `high` $high attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Ts_ConcatOp : Ts_InferredOp<"concat", [Indexed]> {
  let summary = "joins along a dim";
  let description = "C1: at least one operand; equal element types and dims except along `dim`. C2: dim is in range.";
  let arguments = (ins Variadic<Ts_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` type($inputs)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Ts_IotaOp : Ts_Op<"iota"> {
  let summary = "the index along a dim, converted to the element type";
  let description = "C1: dim is in range.";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Ts_NumberTensor:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Ts_GatherOp : Ts_InferredOp<"gather", [Indexed]> {
  let summary = "result[a.., i.., b..] = input[a.., indices[i..], b..]; the dims a stand before `dim`";
  let description = [{
    Negative indices count from the end. An index outside makes the run fail with a user error.
    C1: dim is in range.
  }];
  let arguments = (ins Ts_Tensor:$input, Ts_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `dim` $dim attr-dict `:` type($input) `,` type($indices)";
  let hasVerifier = 1;
}

def Ts_GatherElementsOp : Ts_InferredOp<"gather_elements", [Indexed]> {
  let summary = "result[i] = input[i with indices[i] along dim]; the result has the indices' shape";
  let description = "C1: ranks are equal. C2: dim is in range.";
  let arguments = (ins Ts_Tensor:$input, Ts_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `dim` $dim attr-dict `:` type($input) `,` type($indices)";
  let hasVerifier = 1;
}

def Ts_GatherNdOp : Ts_InferredOp<"gather_nd", [Indexed]> {
  let summary = "result[b.., i.., s..] = input[b.., indices[b.., i.., :].., s..]";
  let description = "C1: the last dim of indices is a number k with batch_dims + k <= rank of input. C2: batch dims are equal.";
  let arguments = (ins Ts_Tensor:$input, Ts_IndexTensor:$indices, I64Attr:$batch_dims);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `batch_dims` $batch_dims attr-dict `:` type($input) `,` type($indices)";
  let hasVerifier = 1;
}

def Ts_ScatterElementsOp : Ts_InferredOp<"scatter_elements", [Indexed]> {
  let summary = "input with input[i with indices[i] along dim] combined with updates[i]";
  let description = [{
    Without `reduction` the update replaces; of equal indices the last in row-major order wins.
    C1: ranks are equal, indices and updates have one shape. C2: dim is in range.
  }];
  let arguments = (ins Ts_Tensor:$input, Ts_IndexTensor:$indices, Ts_Tensor:$updates, I64Attr:$dim,
                       OptionalAttr<Ts_ReduceKindAttr>:$reduction);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `,` $updates `dim` $dim attr-dict `:` type($input) `,` type($indices) `,` type($updates)";
  let hasVerifier = 1;
}

def Ts_ScatterNdOp : Ts_InferredOp<"scatter_nd", [Indexed]> {
  let summary = "input with input[indices[i.., :].., s..] combined with updates[i.., s..]";
  let description = "As scatter_elements. C1: the last dim of indices is a number, at most the rank of input.";
  let arguments = (ins Ts_Tensor:$input, Ts_IndexTensor:$indices, Ts_Tensor:$updates,
                       OptionalAttr<Ts_ReduceKindAttr>:$reduction);
  let results = (outs Ts_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `,` $updates attr-dict `:` type($input) `,` type($indices) `,` type($updates)";
  let hasVerifier = 1;
}

#endif
