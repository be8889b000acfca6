// Matmuls whose rows are sorted by the matrix they are multiplied with.
#ifndef KNAPPER_IR_TENSOR_GROUPEDMATMUL
#define KNAPPER_IR_TENSOR_GROUPEDMATMUL

include "ir/tensor/OpBase.td"

def Ts_GroupedMatmulOp : Ts_InferredOp<"grouped_matmul", [Indexed]> {
  let summary = "matmul of each row with the matrix of its expert";
  let description = [{
    tokens [T, K], weights [E, K, N] (`transposed`: [E, N, K]), ends [E]; result [T, N] of the tokens' element type,
    accumulated as ts.dot does. Row t is of the first expert e with ends[e] > t, and is multiplied with the matrix of e; a
    row that no expert has gives 0. So with ends the running sum of row counts each expert has its rows, and experts
    without rows cost nothing. Any `ends` has a meaning: negative ones and ones that decrease are experts without rows,
    what exceeds T is T.
    C1: tokens [T, K], weights [E, K, N] and ends [E] fit together. C2: tokens and weights have one element type.
  }];
  let arguments = (ins Ts_FloatTensor:$tokens, Ts_FloatTensor:$weights,
      RankedTensorOf<[I32]>:$ends, UnitAttr:$transposed);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = [{
    $tokens `,` $weights (`transposed` $transposed^)? `ends` $ends attr-dict `:` type($tokens) `,` type($weights) `,` type($ends)
  }];
  let hasVerifier = 1;
}

#endif
