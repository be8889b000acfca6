// Attention over keys and values that lie in blocks of a pool.
#ifndef KNAPPER_IR_TENSOR_PAGEDATTENTION
#define KNAPPER_IR_TENSOR_PAGEDATTENTION

include "ir/tensor/OpBase.td"

def Ts_PagedAttentionOp : Ts_InferredOp<"paged_attention", [Indexed]> {
  let summary = "causal attention of the tokens of many sequences, whose keys "
                "lie in blocks";
  let description = [{
    query [T, H, D]: T tokens of B sequences, in any order; keys [N, G, P, D] and values [N, G, P, E]: N blocks of P
    positions each; table [B, M]: the blocks of each sequence; sequence [T] and position [T]: which one a token is of,
    and where in it. H is a multiple of G: query head h reads key head h / (H/G). Token t sees position p of its
    sequence when p <= position[t] and, with window > 0, p > position[t] - window; the key lies at
    keys[table[sequence[t], p / P], h / (H/G), p % P]. Scores are scale * q k, with softcap > 0 then
    softcap * tanh(score / softcap); result [T, H, E] is their softmax times the values, in f32 (f64 for f64). A token
    with a negative position sees nothing and gives 0; one from M * P on sees none of the positions that have no block.
    A sequence or block that does not exist makes the run fail with a user error (a negative one may count from the
    end); blocks that no token sees may be looked at too.
    C1: ranks are 3, 4, 4, 2, 1, 1; T, N, G, P and D agree. C2: H is a multiple of G. C3: query, keys and values have one
    element type.
  }];
  let arguments = (ins Ts_FloatTensor:$query, Ts_FloatTensor:$keys,
      Ts_FloatTensor:$values, RankedTensorOf<[I32]>:$table,
      RankedTensorOf<[I32]>:$sequence, RankedTensorOf<[I32]>:$position,
      F64Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
      DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Ts_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $keys `,` $values `table` $table `sequence` $sequence `position` $position `scale` $scale attr-dict
    `:` type($query) `,` type($keys) `,` type($values) `,` type($table) `,` type($sequence) `,` type($position)
  }];
  let hasVerifier = 1;
}

#endif
