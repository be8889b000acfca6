// What data selects: true elements, boxes that do not overlap.
#ifndef KNAPPER_IR_TENSOR_DATASELECTION
#define KNAPPER_IR_TENSOR_DATASELECTION

include "ir/tensor/OpBase.td"

def Ts_TruePlacesOp : Ts_InferredOp<"true_places", [Indexed]> {
  let summary = "the index along each dim of every true element, in row-major order";
  let description = [{
    mask [..., L]; before [...]: how many true elements lie in the rows before each; count: how many there are in all.
    Result [rank, count]: column i has the indices of the i-th true element. Where `before` or `count` say something else
    than the mask, elements of the result are unspecified.
    C1: the mask has a dim. C2: before has the mask's dims without the last.
  }];
  let arguments = (ins Ts_BoolTensor:$mask, RankedTensorOf<[I64]>:$before, Ts_DimAttr:$count);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$mask `before` $before `count` $count attr-dict `:` type($mask) `,` type($before)";
}

def Ts_NonMaxSuppressionOp : Ts_InferredOp<"non_max_suppression", [Indexed]> {
  let summary = "boxes of the highest scores that do not overlap much";
  let description = [{
    boxes [B, N, 4]: two opposite corners (y, x, y, x) each; scores [B, C, N]; limit: a scalar. Boxes of a class are
    visited by falling score, equal ones by rising index; one is taken unless it and a taken box of the class have areas
    above zero, meet in more than an edge, and share more than `limit` of what they cover together (in f32). A score of NaN or of
    minus infinity is never taken. Result [B, C, most]: indices of the taken boxes in the order of taking, then -1.
    C1: the shapes are such.
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$boxes, RankedTensorOf<[F32]>:$scores, 0DTensorOf<[F32]>:$limit,
      Ts_DimAttr:$most);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = [{
    $boxes `,` $scores `limit` $limit `most` $most attr-dict `:` type($boxes) `,` type($scores) `,` type($limit)
  }];
}

#endif
