#include "ir/tensor/PackedDot.h"

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
  return success();
}

Indexing PackedDotOp::indexing() {
  Indexing indexing;
  llvm::append_range(indexing.loops, dimsOf(getResult()));
  indexing.parallelLoops = indexing.loops.size();
  indexing.loops.push_back(dimsOf(getInput()).back());
  IndexMap opaque;
  opaque.kind = IndexMap::opaque;
  indexing.maps.assign((*this)->getNumOperands(), opaque);
  return indexing;
}

/// The integers of both halves of each byte, in order.
static Value unpacked(OpBuilder &b, PackedDotOp op) {
  Location loc = op.getLoc();
  MLIRContext *context = b.getContext();
  Type i32 = b.getI32Type();
  SmallVector<Dim> dims = dimsOf(op.getWeight());
  RankedTensorType bytes = tensorType(context, dims, i32);
  auto number = [&](int64_t value) -> Value {
    Value one = ConstantOp::create(
        b, loc,
        DenseElementsAttr::get(RankedTensorType::get({}, i32),
                               static_cast<int32_t>(value)));
    return BroadcastOp::create(b, loc, bytes, one, ArrayRef<int64_t>{});
  };
  Value byte = ConvertOp::create(b, loc, bytes, op.getWeight());
  Value low = AndOp::create(b, loc, byte, number(15));
  Value high =
      DivOp::create(b, loc, SubOp::create(b, loc, byte, low), number(16));
  low = SubOp::create(b, loc, XorOp::create(b, loc, low, number(8)), number(8));
  Dim one = dims[0].like(1);
  SmallVector<Dim> apart{dims[0], dims[1], one};
  SmallVector<Value> halves;
  for (Value half : {low, high})
    halves.push_back(
        ReshapeOp::create(b, loc, tensorType(context, apart, i32), half));
  Value both = ConcatOp::create(b, loc, halves, uint64_t(2));
  SmallVector<Dim> wide{dims[0], dims[1] * 2};
  return ReshapeOp::create(b, loc, tensorType(context, wide, i32), both);
}

Value ts::expandedWeight(OpBuilder &b, PackedDotOp op) {
  Location loc = op.getLoc();
  MLIRContext *context = b.getContext();
  Type f32 = b.getF32Type();
  auto group = static_cast<int64_t>(op.getGroup());
  Dim rows = dimsOf(op.getWeight())[0], depth = dimsOf(op.getInput()).back(),
      zero = rows.like(0);
  RankedTensorType matrix = tensorType(context, {rows, depth}, f32);
  // The first columns of what may have more.
  auto cut = [&](Value wide) -> Value {
    SmallVector<Dim> wanted{rows, depth};
    if (dimsOf(wide) == wanted)
      return wide;
    return SliceOp::create(
        b, loc, tensorType(context, wanted, elementTypeOf(wide)), wide,
        dimArray(context, {zero, zero}), ArrayRef<int64_t>{1, 1});
  };
  Value integers = op.getBits() == 8 ? Value(op.getWeight()) : unpacked(b, op);
  Value value = ConvertOp::create(b, loc, matrix, cut(integers));
  Dim groups = dimsOf(op.getScale())[1];
  Value scale = BroadcastOp::create(
      b, loc, tensorType(context, {rows, groups, groups.like(group)}, f32),
      op.getScale(), ArrayRef<int64_t>{0, 1});
  scale = ReshapeOp::create(
      b, loc, tensorType(context, {rows, groups * group}, f32), scale);
  return MulOp::create(b, loc, value, cut(scale));
}
