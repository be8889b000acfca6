#include "graph/simplify/Match.h"

#include "ir/tensor/ConstantExpression.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static std::optional<double> splatOfConstant(ConstantOp constant) {
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat() || elements.empty())
    return std::nullopt;
  Type type = elements.getElementType();
  if (isa<FloatType>(type))
    return elements.getSplatValue<APFloat>().convertToDouble();
  APInt value = elements.getSplatValue<APInt>();
  if (type.isInteger(1) || type.isUnsignedInteger()) {
    if (value.getActiveBits() > 53)
      return std::nullopt;
    return static_cast<double>(value.getZExtValue());
  }
  if (value.getSignificantBits() > 53)
    return std::nullopt;
  return static_cast<double>(value.getSExtValue());
}

/// As elements of `type` hold it.
static double rounded(double number, FloatType type) {
  APFloat value(number);
  bool inexact;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &inexact);
  return value.convertToDouble();
}

std::optional<double> knapper::splatOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op))
      return splatOfConstant(constant);
    if (auto convert = dyn_cast<ConvertOp>(op)) {
      // Only where the number survives.
      std::optional<double> number = splatOf(convert.getInput());
      Type to = elementTypeOf(value);
      if (!number)
        return std::nullopt;
      if (to.isInteger(1))
        return *number != 0;
      auto floating = dyn_cast<FloatType>(to);
      if (!floating || isStorage(to))
        return std::nullopt;
      return rounded(*number, floating);
    }
    if (!isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

bool knapper::isSplat(Value value, double number) {
  return splatOf(value) == number;
}

bool knapper::isAbout(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

bool knapper::isPackedConstant(Value value) {
  // Breadth first: of what is no constant, an argument close by says so before
  // the search goes far.
  SmallVector<Operation *> queue{value.getDefiningOp()};
  SmallPtrSet<Operation *, 16> seen;
  for (size_t i = 0; i < queue.size(); ++i) {
    Operation *op = queue[i];
    auto isArgument = [](Value operand) { return !operand.getDefiningOp(); };
    if (!op || seen.size() > 64 || llvm::any_of(op->getOperands(), isArgument))
      return false;
    if (!seen.insert(op).second)
      continue;
    if (!keepsConstant(op))
      return false;
    for (Value operand : op->getOperands())
      queue.push_back(operand.getDefiningOp());
  }
  return true;
}

void knapper::hoistConstantExpression(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != op->getBlock() || def->isBeforeInBlock(op))
    return;
  for (Value operand : def->getOperands())
    hoistConstantExpression(operand, op);
  def->moveBefore(op);
}

Value knapper::makeSplat(OpBuilder &builder, Location location,
                         RankedTensorType type, double number) {
  Type element = type.getElementType();
  auto scalar = RankedTensorType::get({}, element);
  DenseElementsAttr data;
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat value(number);
    bool inexact;
    value.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &inexact);
    data = DenseElementsAttr::get(scalar, value);
  } else {
    data = DenseElementsAttr::get(
        scalar, APInt(element.getIntOrFloatBitWidth(),
                      static_cast<uint64_t>(static_cast<int64_t>(number)),
                      /*isSigned=*/false, /*implicitTrunc=*/true));
  }
  Value constant = ConstantOp::create(builder, location, scalar, data);
  if (type.getRank() == 0)
    return constant;
  return BroadcastOp::create(builder, location, type, constant,
                             ArrayRef<int64_t>{});
}

Value knapper::scalarOf(OpBuilder &builder, Value value) {
  if (!splatOf(value))
    return {};
  Location location = value.getLoc();
  auto scalar = RankedTensorType::get({}, elementTypeOf(value));
  while (!value.getDefiningOp<ConstantOp>()) {
    if (value.getDefiningOp<ConvertOp>())
      return makeSplat(builder, location, scalar, *splatOf(value));
    value = value.getDefiningOp()->getOperand(0);
  }
  if (value.getType() == scalar)
    return value;
  auto data =
      cast<DenseElementsAttr>(value.getDefiningOp<ConstantOp>().getValue());
  return ConstantOp::create(
      builder, location, scalar,
      DenseElementsAttr::get(scalar, data.getSplatValue<Attribute>()));
}

Value knapper::makeReshape(OpBuilder &builder, Location location, Value value,
                           ArrayRef<Dim> dims) {
  Type type = tensorType(builder.getContext(), dims, elementTypeOf(value));
  if (type == value.getType())
    return value;
  if (auto inner = value.getDefiningOp<ReshapeOp>())
    return makeReshape(builder, location, inner.getInput(), dims);
  return ReshapeOp::create(builder, location, type, value);
}

Value knapper::makeTranspose(OpBuilder &builder, Location location, Value value,
                             ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, dim] : llvm::enumerate(permutation))
    identity &= static_cast<int64_t>(i) == dim;
  return identity ? value
                  : TransposeOp::create(builder, location, value, permutation)
                        .getResult();
}

Value knapper::makeBroadcast(OpBuilder &builder, Location location, Value value,
                             ArrayRef<Dim> dims, ArrayRef<int64_t> map) {
  Type type = tensorType(builder.getContext(), dims, elementTypeOf(value));
  if (type == value.getType())
    return value;
  return BroadcastOp::create(builder, location, type, value, map);
}

Value knapper::makeSlice(OpBuilder &builder, Location location, Value value,
                         int64_t dim, Dim start, Dim size) {
  SmallVector<Dim> dims = dimsOf(value);
  SmallVector<Dim> starts(dims.size(), size.like(0));
  starts[dim] = start;
  dims[dim] = size;
  Type type = tensorType(builder.getContext(), dims, elementTypeOf(value));
  if (type == value.getType() && start.isConstant(0))
    return value;
  return SliceOp::create(builder, location, type, value,
                         dimArray(builder.getContext(), starts),
                         SmallVector<int64_t>(dims.size(), 1));
}

Value knapper::cloneElementwise(OpBuilder &builder, Operation *op,
                                ValueRange operands) {
  Type type =
      withElement(operands[0].getType(), elementTypeOf(op->getResult(0)));
  OperationState state(op->getLoc(), op->getName(), operands, {type},
                       op->getAttrs());
  return builder.create(state)->getResult(0);
}

bool knapper::isElementwise(Operation *op) {
  return op && isa<ElementwiseOpInterface>(op);
}

std::optional<SmallVector<DimGroup>> knapper::reshapeGroups(ArrayRef<Dim> in,
                                                            ArrayRef<Dim> out) {
  SmallVector<DimGroup> groups;
  unsigned i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    if (i < in.size() && o < out.size() && in[i] == out[o]) {
      groups.push_back({i, i + 1, o, o + 1});
      ++i, ++o;
      continue;
    }
    if (i < in.size() && in[i].isConstant(1)) {
      groups.push_back({i, i + 1, o, o});
      ++i;
      continue;
    }
    if (o < out.size() && out[o].isConstant(1)) {
      groups.push_back({i, i, o, o + 1});
      ++o;
      continue;
    }
    if (i == in.size() || o == out.size())
      return std::nullopt;
    unsigned iEnd = i + 1, oEnd = o + 1;
    Dim a = in[i], b = out[o];
    while (!(a == b)) {
      if (a.isConstant(0) || b.isConstant(0))
        return std::nullopt;
      if (oEnd < out.size() && a.exactDiv(b))
        b = b * out[oEnd++];
      else if (iEnd < in.size() && b.exactDiv(a))
        a = a * in[iEnd++];
      else if (a.asConstant() && b.asConstant()) {
        if (*a.asConstant() < *b.asConstant() && iEnd < in.size())
          a = a * in[iEnd++];
        else if (*a.asConstant() > *b.asConstant() && oEnd < out.size())
          b = b * out[oEnd++];
        else
          return std::nullopt;
      } else if (iEnd < in.size() && oEnd < out.size()) {
        a = a * in[iEnd++]; // neither divides the other: [4, b] to [b, 4]
      } else if (iEnd < in.size())
        a = a * in[iEnd++];
      else if (oEnd < out.size())
        b = b * out[oEnd++];
      else
        return std::nullopt;
    }
    groups.push_back({i, iEnd, o, oEnd});
    i = iEnd;
    o = oEnd;
  }
  return groups;
}

std::optional<SmallVector<int64_t>> knapper::unitReshapeMap(ArrayRef<Dim> in,
                                                            ArrayRef<Dim> out) {
  SmallVector<int64_t> map(in.size(), -1);
  unsigned o = 0;
  auto skip = [&] {
    while (o < out.size() && out[o].isConstant(1))
      ++o;
  };
  for (auto [i, dim] : llvm::enumerate(in)) {
    if (dim.isConstant(1))
      continue;
    skip();
    if (o == out.size() || !(out[o] == dim))
      return std::nullopt;
    map[i] = o++;
  }
  skip();
  if (o != out.size())
    return std::nullopt;
  return map;
}

std::optional<SmallVector<int64_t>> knapper::movedDims(Operation *op) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return unitReshapeMap(dimsOf(reshape.getInput()),
                          dimsOf(reshape.getResult()));
  auto transpose = dyn_cast<TransposeOp>(op);
  if (!transpose)
    return std::nullopt;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  SmallVector<int64_t> dims(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    dims[from] = to;
  return dims;
}

Moved knapper::behindMovement(Value value) {
  Moved result = {value, llvm::to_vector(llvm::seq(rankOf(value)))};
  while (Operation *op = result.value.getDefiningOp()) {
    std::optional<SmallVector<int64_t>> dims = movedDims(op);
    if (!dims)
      break;
    for (int64_t &dim : *dims)
      dim = dim < 0 ? -1 : result.dims[dim];
    result = {op->getOperand(0), *dims};
  }
  return result;
}

SmallVector<int64_t>
knapper::inversePermutation(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [i, dim] : llvm::enumerate(permutation))
    inverse[dim] = i;
  return inverse;
}

SmallVector<Dim> knapper::permuted(ArrayRef<Dim> dims,
                                   ArrayRef<int64_t> permutation) {
  SmallVector<Dim> result;
  for (int64_t dim : permutation)
    result.push_back(dims[dim]);
  return result;
}
