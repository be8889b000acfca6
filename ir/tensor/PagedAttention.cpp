#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/PagedAttention.cpp.inc"

LogicalResult
PagedAttentionOp::inferReturnTypes(MLIRContext *context,
                                   std::optional<Location> location, Adaptor op,
                                   SmallVectorImpl<Type> &types) {
  SmallVector<Dim> q = dimsOf(op.getQuery()), k = dimsOf(op.getKeys()),
                   v = dimsOf(op.getValues());
  bool fits =
      q.size() == 3 && k.size() == 4 && v.size() == 4 &&
      rankOf(op.getTable()) == 2 && rankOf(op.getSequence()) == 1 &&
      rankOf(op.getPosition()) == 1 &&
      ArrayRef<Dim>(k).take_front(3) == ArrayRef<Dim>(v).take_front(3) &&
      q[2] == k[3] && dimOf(op.getSequence(), 0) == q[0] &&
      dimOf(op.getPosition(), 0) == q[0];
  if (!fits)
    return emitOptionalError(
        location, "(C1) query ", shapeText(op.getQuery().getType()), ", keys ",
        shapeText(op.getKeys().getType()), ", values ",
        shapeText(op.getValues().getType()), ", table ",
        shapeText(op.getTable().getType()), ", sequence ",
        shapeText(op.getSequence().getType()), " and position ",
        shapeText(op.getPosition().getType()), " do not fit together");
  if (!q[1].exactDiv(k[1]))
    return emitOptionalError(location, "(C2) ", q[1].str(),
                             " query heads do not share ", k[1].str(),
                             " key heads evenly");
  types.push_back(
      tensorType(context, {q[0], q[1], v[3]}, elementTypeOf(op.getQuery())));
  return success();
}

LogicalResult PagedAttentionOp::verify() {
  Type element = elementTypeOf(getQuery());
  if (elementTypeOf(getKeys()) != element ||
      elementTypeOf(getValues()) != element)
    return emitOpError("(C3) query, keys and values differ in element type");
  return success();
}

Indexing PagedAttentionOp::indexing() {
  return opaqueIndexing(*this);
}

bool ts::hasPlainPages(PagedAttentionOp op) {
  std::optional<int64_t> positions = dimOf(op.getKeys(), 2).asConstant();
  Type element = elementTypeOf(op.getQuery());
  return (element.isF32() || element.isF16() || element.isBF16()) &&
         positions && *positions % 16 == 0 &&
         dimOf(op.getQuery(), 1).asConstant() &&
         dimOf(op.getKeys(), 1).asConstant() &&
         dimOf(op.getKeys(), 3).asConstant() &&
         dimOf(op.getValues(), 3).asConstant();
}

Value ts::gatheredAttention(OpBuilder &b, PagedAttentionOp op) {
  Location loc = op.getLoc();
  MLIRContext *context = b.getContext();
  SmallVector<Dim> q = dimsOf(op.getQuery()), k = dimsOf(op.getKeys()),
                   v = dimsOf(op.getValues());
  Dim one = q[0].like(1), blocks = dimOf(op.getTable(), 1),
      length = blocks * k[2];
  Value mine =
      GatherOp::create(b, loc, op.getTable(), op.getSequence(), uint64_t(0));
  auto reshape = [&](Value value, ArrayRef<Dim> dims) -> Value {
    return ReshapeOp::create(
        b, loc, tensorType(context, dims, elementTypeOf(value)), value);
  };
  // [T, M, G, P, D] to [T, G, M * P, D]
  auto gathered = [&](Value pool, Dim width) -> Value {
    Value all = GatherOp::create(b, loc, pool, mine, uint64_t(0));
    all = TransposeOp::create(b, loc, all, ArrayRef<int64_t>{0, 2, 1, 3, 4});
    return reshape(all, {q[0], k[1], length, width});
  };
  RankedTensorType numbers =
      tensorType(context, {q[0], one, one, length}, b.getI32Type());
  Value line = IotaOp::create(b, loc, numbers, 3);
  Value last = BroadcastOp::create(b, loc, numbers, op.getPosition(),
                                   ArrayRef<int64_t>{0});
  Value seen = CompareOp::create(b, loc, ComparePredicate::le, line, last);
  if (op.getWindow() > 0) {
    Value first = SubOp::create(
        b, loc, last,
        splatConstant(b, loc, numbers, static_cast<double>(op.getWindow())));
    seen = AndOp::create(
        b, loc, seen,
        CompareOp::create(b, loc, ComparePredicate::gt, line, first));
  }
  Value result = AttentionOp::create(
      b, loc, reshape(op.getQuery(), {q[0], q[1], one, q[2]}),
      gathered(op.getKeys(), k[3]), gathered(op.getValues(), v[3]), seen,
      op.getScaleAttr(), b.getBoolAttr(false), b.getBoolAttr(false),
      op.getSoftcapAttr());
  return reshape(result, {q[0], q[1], v[3]});
}
