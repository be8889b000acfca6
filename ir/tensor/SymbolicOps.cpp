// What each op makes of the elements of its operands (SymbolicAnalysis.h).
#include "ir/tensor/Multiples.h"
#include "ir/tensor/SymbolicAnalysis.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace knapper::ts {

using Elements = SymbolicAnalysis::Elements;

namespace {

std::optional<int64_t> readInteger(const APInt &value, Type type) {
  if (value.getBitWidth() > 64)
    return std::nullopt;
  return type.isInteger(1) || type.isUnsignedInteger()
             ? static_cast<int64_t>(value.getZExtValue())
             : value.getSExtValue();
}

/// The quotient rounded towards zero, as integers are divided.
std::optional<Dim> truncatedDiv(Dim a, Dim b) {
  if (b.isConstant(0))
    return std::nullopt;
  if (std::optional<Dim> exact = a.exactDiv(b))
    return exact;
  std::optional<int64_t> x = lowerBound(a), y = lowerBound(b),
                         most = upperBound(b);
  if (most && *most < 0) {
    std::optional<Dim> opposite = truncatedDiv(a, b * -1);
    return opposite ? std::optional<Dim>(*opposite * -1) : std::nullopt;
  }
  // By a size that is 0 in a run: an error of that run.
  if (!y || *y < 0)
    return std::nullopt;
  if (x && *x >= 0)
    return a.floorDiv(b);
  Dim zero = a.like(0), above = a.max(zero).floorDiv(b);
  if (x && *x > -*y) // the quotient of what is below 0 is 0
    return above;
  return above - (a * -1).max(zero).floorDiv(b);
}

std::optional<bool> negate(std::optional<bool> answer) {
  if (answer)
    return !*answer;
  return answer;
}

std::optional<bool> compare(ComparePredicate predicate, Dim a, Dim b) {
  switch (predicate) {
  case ComparePredicate::eq:
    return isEqual(a, b);
  case ComparePredicate::ne:
    return negate(isEqual(a, b));
  case ComparePredicate::lt:
    return isLess(a, b);
  case ComparePredicate::ge:
    return negate(isLess(a, b));
  case ComparePredicate::gt:
    return isLess(b, a);
  case ComparePredicate::le:
    return negate(isLess(b, a));
  }
  return std::nullopt;
}

} // namespace

Elements SymbolicAnalysis::ofOp(Operation *op, unsigned depth) {
  return TypeSwitch<Operation *, Elements>(op)
      .Case<SizeOp, ConstantOp, ConcatOp, ReshapeOp, DimCastOp, TransposeOp,
            BroadcastOp, SliceOp, GatherOp, IotaOp, ConvertOp, NegOp, NotOp,
            AddOp, SubOp, MulOp, DivOp, FloorOp, CeilOp, AbsOp, ModOp, RemOp,
            MaxOp, MinOp, AndOp, OrOp, CompareOp, SelectOp, ReduceOp, ScanOp>(
          [&](auto op) { return ofOp(op, depth); })
      .Default([](Operation *) -> Elements { return std::nullopt; });
}

Elements SymbolicAnalysis::ofOp(SizeOp size, unsigned /*depth*/) {
  return SmallVector<Dim>{Dim(size.getSize())};
}

Elements SymbolicAnalysis::ofOp(ConstantOp constant, unsigned /*depth*/) {
  auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!data)
    return std::nullopt;
  SmallVector<Dim> result;
  if (isFloat(constant.getResult())) {
    for (const APFloat &element : data.getValues<APFloat>()) {
      std::optional<int64_t> number = wholeNumber(element);
      if (!number)
        return std::nullopt;
      result.push_back(Dim::constant(constant.getContext(), *number));
    }
    return result;
  }
  for (const APInt &element : data.getValues<APInt>()) {
    std::optional<int64_t> number = readInteger(element, data.getElementType());
    if (!number)
      return std::nullopt;
    result.push_back(Dim::constant(constant.getContext(), *number));
  }
  return result;
}

Elements SymbolicAnalysis::ofOp(ConcatOp concat, unsigned depth) {
  SmallVector<Dim> result;
  for (Value input : concat.getInputs()) {
    Elements part = of(input, depth);
    if (!part)
      return std::nullopt;
    llvm::append_range(result, *part);
  }
  return result;
}

Elements SymbolicAnalysis::ofOp(ReshapeOp reshape, unsigned depth) {
  return of(reshape.getInput(), depth);
}

Elements SymbolicAnalysis::ofOp(DimCastOp cast, unsigned depth) {
  return of(cast.getInput(), depth);
}

Elements SymbolicAnalysis::ofOp(TransposeOp transpose, unsigned depth) {
  return of(transpose.getInput(), depth);
}

Elements SymbolicAnalysis::ofOp(BroadcastOp broadcast, unsigned depth) {
  Elements input = of(broadcast.getInput(), depth);
  if (!input)
    return std::nullopt;
  auto count = static_cast<size_t>(broadcast.getType().getNumElements());
  if (input->size() == 1)
    return SmallVector<Dim>(count, input->front());
  return input->size() == count ? input : std::nullopt;
}

Elements SymbolicAnalysis::ofOp(SliceOp slice, unsigned depth) {
  Elements input = of(slice.getInput(), depth);
  if (!input || rankOf(slice.getInput()) != 1)
    return input;
  std::optional<int64_t> start = dimsOf(slice.getStarts())[0].asConstant();
  if (!start)
    return std::nullopt;
  SmallVector<Dim> result;
  int64_t step = slice.getSteps()[0], count = slice.getType().getNumElements(),
          at = *start;
  for (int64_t i = 0; i < count; ++i) {
    if (at < 0 || at >= static_cast<int64_t>(input->size()))
      return std::nullopt;
    result.push_back((*input)[at]);
    if (llvm::AddOverflow(at, step, at))
      at = -1;
  }
  return result;
}

Elements SymbolicAnalysis::ofOp(GatherOp gather, unsigned depth) {
  Elements input = of(gather.getInput(), depth);
  Elements indices = of(gather.getIndices(), depth);
  if (!input || !indices || rankOf(gather.getInput()) != 1)
    return std::nullopt;
  SmallVector<Dim> result;
  auto size = static_cast<int64_t>(input->size());
  for (Dim index : *indices) {
    std::optional<int64_t> at = index.asConstant();
    if (!at || *at < -size || *at >= size)
      return std::nullopt;
    result.push_back((*input)[*at < 0 ? *at + size : *at]);
  }
  return result;
}

Elements SymbolicAnalysis::ofOp(IotaOp iota, unsigned /*depth*/) {
  SmallVector<Dim> result;
  for (int64_t i = 0; i < iota.getType().getNumElements(); ++i)
    result.push_back(Dim::constant(iota.getContext(), i));
  return result;
}

Elements SymbolicAnalysis::ofOp(ConvertOp convert, unsigned depth) {
  Type type = elementTypeOf(convert.getResult());
  bool cut = isFloat(convert.getInput()) && isa<IntegerType>(type) &&
             !type.isInteger(1);
  Elements input = cut ? rounded(convert.getInput(), depth, truncatedDiv)
                       : of(convert.getInput(), depth);
  if (!input || type.isInteger(64) || isa<FloatType>(type) ||
      (type.isInteger(32) && elementTypeOf(convert.getInput()).isInteger(1)))
    return input;
  // Sizes are taken to fit into 32 bits; narrower types wrap.
  for (Dim &dim : *input) {
    std::optional<int64_t> number = dim.asConstant();
    if (type.isInteger(1)) {
      std::optional<bool> zero = isEqual(dim, dim.like(0));
      if (!zero)
        return std::nullopt;
      dim = dim.like(*zero ? 0 : 1);
    } else if (!type.isInteger(32) || number) {
      unsigned width = type.getIntOrFloatBitWidth();
      if (!number || !llvm::isIntN(width, *number))
        return std::nullopt;
    }
  }
  return input;
}

Elements SymbolicAnalysis::ofOp(NegOp neg, unsigned depth) {
  Elements input = of(neg.getInput(), depth);
  if (input)
    for (Dim &dim : *input)
      dim = dim * -1;
  return input;
}

Elements SymbolicAnalysis::ofOp(NotOp op, unsigned depth) {
  Elements input = of(op.getInput(), depth);
  if (!input || !elementTypeOf(op.getInput()).isInteger(1))
    return std::nullopt;
  for (Dim &dim : *input)
    dim = dim.like(1) - dim;
  return input;
}

Elements SymbolicAnalysis::ofOp(AddOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) { return multiplesAsProducts(a + b); });
}

Elements SymbolicAnalysis::ofOp(SubOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) { return multiplesAsProducts(a - b); });
}

Elements SymbolicAnalysis::ofOp(MulOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) { return a * b; });
}

Elements SymbolicAnalysis::ofOp(DivOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [&](Dim a, Dim b) -> std::optional<Dim> {
               if (isFloat(op.getResult()))
                 return b.isConstant(0) ? std::nullopt : a.exactDiv(b);
               return truncatedDiv(a, b);
             });
}

Elements SymbolicAnalysis::ofOp(FloorOp op, unsigned depth) {
  return rounded(op.getInput(), depth, [](Dim a, Dim b) -> std::optional<Dim> {
    return a.floorDiv(b);
  });
}

Elements SymbolicAnalysis::ofOp(CeilOp op, unsigned depth) {
  return rounded(op.getInput(), depth, [](Dim a, Dim b) -> std::optional<Dim> {
    return a.ceilDiv(b);
  });
}

Elements SymbolicAnalysis::ofOp(AbsOp op, unsigned depth) {
  Elements input = of(op.getInput(), depth);
  if (input)
    for (Dim &dim : *input)
      dim = lowerBound(dim).value_or(-1) >= 0 ? dim : dim.max(dim * -1);
  return input;
}

Elements SymbolicAnalysis::ofOp(ModOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) -> std::optional<Dim> {
               std::optional<int64_t> y = lowerBound(b);
               if (!y || *y < 0 || b.isConstant(0))
                 return std::nullopt;
               return a.mod(b);
             });
}

Elements SymbolicAnalysis::ofOp(RemOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [&](Dim a, Dim b) -> std::optional<Dim> {
               std::optional<Dim> quotient = truncatedDiv(a, b);
               if (!quotient)
                 return std::nullopt;
               return a - *quotient * b;
             });
}

Elements SymbolicAnalysis::ofOp(MaxOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth, [](Dim a, Dim b) {
    if (std::optional<bool> less = isLess(a, b))
      return *less ? b : a;
    return a.max(b);
  });
}

Elements SymbolicAnalysis::ofOp(MinOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth, [](Dim a, Dim b) {
    if (std::optional<bool> less = isLess(a, b))
      return *less ? a : b;
    return a.min(b);
  });
}

Elements SymbolicAnalysis::ofOp(AndOp op, unsigned depth) {
  if (!elementTypeOf(op.getResult()).isInteger(1))
    return std::nullopt;
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) { return a * b; });
}

Elements SymbolicAnalysis::ofOp(OrOp op, unsigned depth) {
  if (!elementTypeOf(op.getResult()).isInteger(1))
    return std::nullopt;
  return map(op.getLhs(), op.getRhs(), depth,
             [](Dim a, Dim b) { return a + b - a * b; });
}

Elements SymbolicAnalysis::ofOp(CompareOp op, unsigned depth) {
  return map(op.getLhs(), op.getRhs(), depth,
             [&](Dim a, Dim b) -> std::optional<Dim> {
               std::optional<bool> answer = compare(op.getPredicate(), a, b);
               if (!answer)
                 return std::nullopt;
               return a.like(*answer ? 1 : 0);
             });
}

Elements SymbolicAnalysis::ofOp(SelectOp op, unsigned depth) {
  Elements which = condition(op.getCondition(), depth);
  if (!which)
    return std::nullopt;
  // A side is only looked at where it is taken.
  Elements yes = of(op.getOnTrue(), depth), no = of(op.getOnFalse(), depth);
  auto at = [](const Elements &side, size_t i) -> std::optional<Dim> {
    if (!side || i >= side->size())
      return std::nullopt;
    return (*side)[i];
  };
  SmallVector<Dim> result;
  for (auto [i, chosen] : llvm::enumerate(*which)) {
    std::optional<Dim> x = at(yes, i), y = at(no, i);
    if (chosen.asConstant())
      (chosen.isConstant(0) ? x : y) = chosen.isConstant(0) ? y : x;
    if (!x || !y)
      return std::nullopt;
    result.push_back(*x == *y ? *x : *y + chosen * (*x - *y));
  }
  return result;
}

Elements SymbolicAnalysis::ofOp(ReduceOp op, unsigned depth) {
  Elements input = of(op.getInput(), depth);
  if (!input || op.getDims().size() != 1 || rankOf(op.getInput()) != 1)
    return op.getDims().empty() ? input : std::nullopt;
  Type type = elementTypeOf(op.getInput());
  if (op.getKind() == ReduceKind::mul && !type.isInteger(1))
    return SmallVector<Dim>{product(op.getContext(), *input)};
  if (op.getKind() == ReduceKind::add) {
    Dim sum = Dim::constant(op.getContext(), 0);
    for (Dim dim : *input)
      sum = sum + dim;
    return SmallVector<Dim>{sum};
  }
  if (input->empty() ||
      (op.getKind() != ReduceKind::max && op.getKind() != ReduceKind::min))
    return std::nullopt;
  Dim best = input->front();
  for (Dim dim : ArrayRef<Dim>(*input).drop_front())
    best = op.getKind() == ReduceKind::max ? best.max(dim) : best.min(dim);
  return SmallVector<Dim>{best};
}

Elements SymbolicAnalysis::ofOp(ScanOp op, unsigned depth) {
  Elements input = of(op.getInput(), depth);
  if (!input || op.getKind() != ReduceKind::add || op.getReverse() ||
      op.getExclusive())
    return std::nullopt;
  for (size_t i = 1; i < input->size(); ++i)
    (*input)[i] = (*input)[i] + (*input)[i - 1];
  return input;
}

} // namespace knapper::ts
