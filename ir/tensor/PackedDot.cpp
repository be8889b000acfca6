#include "ir/tensor/PackedDot.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/PackedDot.cpp.inc"

LogicalResult PackedDotOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> location,
                                            Adaptor op,
                                            SmallVectorImpl<Type> &types) {
  SmallVector<Dim> input = dimsOf(op.getInput()),
                   weight = dimsOf(op.getWeight());
  uint64_t bits = op.getBits();
  if (bits != 4 && bits != 8)
    return emitOptionalError(location, "(C1) integers of ", bits, " bits");
  int64_t inByte = 8 / static_cast<int64_t>(bits);
  if (input.empty() || weight.size() != 2 ||
      !(weight[1] == input.back().ceilDiv(input.back().like(inByte))))
    return emitOptionalError(location, "(C2) input ",
                             shapeText(op.getInput().getType()), " and weight ",
                             shapeText(op.getWeight().getType()),
                             " do not fit together");
  input.back() = weight[0];
  types.push_back(tensorType(context, input, Float32Type::get(context)));
  return success();
}

LogicalResult PackedDotOp::verify() {
  auto group = static_cast<int64_t>(getGroup());
  if (group < 1)
    return emitOpError("(C4) a group of ") << group << " elements";
  Dim depth = dimsOf(getInput()).back();
  SmallVector<Dim> wanted{dimsOf(getWeight())[0],
                          depth.ceilDiv(depth.like(group))};
  if (dimsOf(getScale()) != wanted)
    return emitOpError("(C3) scale is ")
           << shapeText(getScale().getType()) << ", not " << wanted[0].str()
           << "x" << wanted[1].str();
  if (Value expanded = getExpanded();
      expanded && (rankOf(expanded) != 2 || !(dimOf(expanded, 1) == depth) ||
                   elementTypeOf(expanded) != elementTypeOf(getInput())))
    return emitOpError("(C5) expanded is ") << expanded.getType();
  return success();
}

Indexing PackedDotOp::indexing() {
  return opaqueIndexing(*this, dimsOf(getInput()).back());
}

/// The first `rows` of a matrix.
static Value firstRows(OpBuilder &b, Location loc, Value matrix, Dim rows) {
  SmallVector<Dim> dims = dimsOf(matrix);
  if (dims[0] == rows)
    return matrix;
  Dim zero = rows.like(0);
  dims[0] = rows;
  return SliceOp::create(
      b, loc, tensorType(b.getContext(), dims, elementTypeOf(matrix)), matrix,
      dimArray(b.getContext(), {zero, zero}), ArrayRef<int64_t>{1, 1});
}

/// The integers of both halves of each byte, in order.
static Value unpacked(OpBuilder &b, Location loc, Value bytes) {
  MLIRContext *context = b.getContext();
  Type i32 = b.getI32Type();
  SmallVector<Dim> dims = dimsOf(bytes);
  SmallVector<Dim> apart{dims[0], dims[1], dims[0].like(2)};
  RankedTensorType halves = tensorType(context, apart, i32);
  auto number = [&](int64_t value) -> Value {
    Value one = ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(RankedTensorType::get({}, i32),
                               static_cast<int32_t>(value)));
    return BroadcastOp::create(b, loc, halves, one, ArrayRef<int64_t>{});
  };
  Value word = ConvertOp::create(b, loc, tensorType(context, dims, i32), bytes);
  word = BroadcastOp::create(b, loc, halves, word, ArrayRef<int64_t>{0, 1});
  Value half = IotaOp::create(b, loc, halves, uint64_t(2));
  Value integer = ShiftRightOp::create(b, loc, word,
                                       MulOp::create(b, loc, half, number(4)));
  integer = AndOp::create(b, loc, integer, number(15));
  integer = SubOp::create(b, loc, XorOp::create(b, loc, integer, number(8)),
                          number(8));
  SmallVector<Dim> wide{dims[0], dims[1] * 2};
  return ReshapeOp::create(b, loc, tensorType(context, wide, i32), integer);
}

Value ts::expandedWeight(OpBuilder &b, PackedDotOp op, Dim rows) {
  Location loc = op.getLoc();
  MLIRContext *context = b.getContext();
  Type f32 = b.getF32Type();
  auto group = static_cast<int64_t>(op.getGroup());
  Dim depth = dimsOf(op.getInput()).back(), zero = rows.like(0);
  SmallVector<Dim> wanted{rows, depth};
  // The first columns of what may have more.
  auto cut = [&](Value wide) -> Value {
    if (dimsOf(wide) == wanted)
      return wide;
    return SliceOp::create(
        b, loc, tensorType(context, wanted, elementTypeOf(wide)), wide,
        dimArray(context, {zero, zero}), ArrayRef<int64_t>{1, 1});
  };
  Value integers = firstRows(b, loc, op.getWeight(), rows);
  if (op.getBits() == 4)
    integers = unpacked(b, loc, integers);
  Value value = ConvertOp::create(b, loc, tensorType(context, wanted, f32),
                                  cut(integers));
  Value scale = firstRows(b, loc, op.getScale(), rows);
  Dim groups = dimsOf(scale)[1];
  scale = BroadcastOp::create(
      b, loc, tensorType(context, {rows, groups, groups.like(group)}, f32),
      scale, ArrayRef<int64_t>{0, 1});
  scale = ReshapeOp::create(
      b, loc, tensorType(context, {rows, groups * group}, f32), scale);
  return MulOp::create(b, loc, value, cut(scale));
}
