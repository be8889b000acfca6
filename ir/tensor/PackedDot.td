// Matmuls with a matrix of small integers as GPUs read it.
#ifndef KNAPPER_IR_TENSOR_PACKEDDOT
#define KNAPPER_IR_TENSOR_PACKEDDOT

include "ir/tensor/OpBase.td"

def Ts_PackedDotOp : Ts_InferredOp<"packed_dot", [Indexed]> {
  let summary = "matmul with rows of packed integers, scaled in groups";
  let description = [{
    result[.., n] = sum over k of input[.., k] * (q[n, k] * scale[n, floor(k / group)]), in f32. q has integers of `bits`
    bits, two's complement: 8, a byte of weight[n] each; or 4, q[n, k] in byte k / 2 of weight[n], the even k in its low
    half. Unlike ts.scaled_dot the integers need not be constants, and they lie by depth. `expanded` may hold
    rows of q * scale, rounded to the input's type: all of them or none, as sizes say. A target that puts it there
    (expandForManyRows) multiplies by it where it has rows.
    C1: `bits` is 4 or 8. C2: input is [.., K], weight [N, ceil(K * bits / 8)]. C3: scale is [N, ceil(K / group)]. C4:
    group is positive. C5: expanded is [E, K], of the input's type.
  }];
  let arguments = (ins RankedTensorOf<[F32, F16, BF16]>:$input, RankedTensorOf<[I8]>:$weight,
      RankedTensorOf<[F32]>:$scale,
      Optional<RankedTensorOf<[F32, F16, BF16]>>:$expanded, I64Attr:$bits, I64Attr:$group);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $input `,` $weight `scale` $scale (`expanded` $expanded^ `:` type($expanded))? `bits` $bits `group` $group attr-dict
    `:` type($input) `,` type($weight) `,` type($scale)
  }];
  let hasVerifier = 1;
}

#endif
