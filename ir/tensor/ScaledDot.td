// Matmuls with a matrix of small integers that stay small in memory.
#ifndef KNAPPER_IR_TENSOR_SCALEDDOT
#define KNAPPER_IR_TENSOR_SCALEDDOT

include "ir/tensor/OpBase.td"

def Ts_ScaledDotOp : Ts_InferredOp<"scaled_dot", [Indexed]> {
  let summary = "matmul with a matrix of integers, scaled in groups of rows";
  let description = [{
    result[.., n] = sum over k of input[.., k] * ((weight[k, n] - zero[g, n]) * scale[g, n]), g = floor(k / group), in
    f32. Without `zero` nothing is subtracted. It stays whole until scheduling: taken apart, the matrix would be a
    constant expression, evaluated to floats when constants are packed.
    C1: input is [.., K], weight [K, N]. C2: scale and zero are [ceil(K / group), N]. C3: group is positive, and even
    for integers of four bits.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$input,
      RankedTensorOf<[I<4>, I8]>:$weight, RankedTensorOf<[F32]>:$scale,
      Optional<RankedTensorOf<[F32]>>:$zero, I64Attr:$group);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $input `,` $weight `scale` $scale (`zero` $zero^ `:` type($zero))? `group` $group attr-dict
    `:` type($input) `,` type($weight) `,` type($scale)
  }];
  let hasVerifier = 1;
}

#endif
