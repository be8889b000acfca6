#include "ir/tensor/SymbolicValue.h"
#include "ir/tensor/SymbolicAnalysis.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <numeric>
#include <string>

using namespace mlir;

namespace knapper::ts {

using Elements = SymbolicAnalysis::Elements;

namespace {

constexpr int64_t maxElements = 64;
constexpr unsigned maxDepth = 64;
/// Matrices occur on the way: pads are reversed by a Reshape, Slice, Transpose.
constexpr int64_t maxRank = 4;

/// Small tensors of integers, and of floats, in which some exporters count.
/// These are taken to be below 2^24, to which f32 has every integer.
bool mayBeFollowed(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getRank() > maxRank ||
      type.getNumElements() > maxElements)
    return false;
  if (type.getElementType().isF32() || type.getElementType().isF64())
    return true;
  if (!isa<IntegerType>(type.getElementType()))
    return false;
  // Differences of wide unsigned integers wrap where those of sizes do not.
  unsigned width = type.getElementTypeBitWidth();
  return !isStorage(type.getElementType()) &&
         (width <= 8 || !type.getElementType().isUnsignedInteger());
}

/// 1 where the comparison holds, else 0.
Dim indicator(ComparePredicate predicate, Dim a, Dim b) {
  Dim zero = a.like(0), one = a.like(1);
  auto isLess = [&](Dim x, Dim y) { return (y - x).max(zero).min(one); };
  switch (predicate) {
  case ComparePredicate::eq:
    return one - (a - b).max(b - a).min(one);
  case ComparePredicate::ne:
    return (a - b).max(b - a).min(one);
  case ComparePredicate::lt:
    return isLess(a, b);
  case ComparePredicate::ge:
    return one - isLess(a, b);
  case ComparePredicate::gt:
    return isLess(b, a);
  case ComparePredicate::le:
    return one - isLess(b, a);
  }
  return zero;
}

} // namespace

std::optional<int64_t> wholeNumber(const APFloat &value) {
  APFloat wide = value;
  bool lost = false;
  wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  double number = wide.convertToDouble();
  if (!(std::abs(number) < 0x1p24) || number != std::floor(number))
    return std::nullopt;
  return static_cast<int64_t>(number);
}

Elements SymbolicAnalysis::of(Value value, unsigned depth) {
  if (!mayBeFollowed(value) || depth > maxDepth)
    return std::nullopt;
  if (auto it = cache.find(value); it != cache.end())
    return it->second;
  Elements result;
  if (Operation *op = value.getDefiningOp()) {
    bool flat = rankOf(value) <= 1;
    for (Value operand : op->getOperands())
      flat &= rankOf(operand) <= 1;
    result = flat ? ofOp(op, depth + 1) : ofMatrixOp(op, depth + 1);
    if (!result && flat)
      result = ofReals(op, depth);
  }
  if (result)
    for (Dim dim : *result)
      if (!isModest(dim))
        result = std::nullopt;
  cache[value] = result;
  return result;
}

Elements SymbolicAnalysis::ofReals(Operation *op, unsigned depth) {
  Value real = op->getResult(0);
  bool cut = isa<ConvertOp>(op) && !isFloat(real);
  if (cut)
    real = op->getOperand(0);
  if (!isFloat(real))
    return std::nullopt;
  KnownReals::Numbers numbers =
      reals.of(real, [&](Value value) -> std::optional<SmallVector<int64_t>> {
        Elements elements =
            isFloat(value) ? std::nullopt : of(value, depth + 1);
        if (!elements)
          return std::nullopt;
        SmallVector<int64_t> result;
        for (Dim dim : *elements) {
          if (!dim.asConstant())
            return std::nullopt;
          result.push_back(*dim.asConstant());
        }
        return result;
      });
  if (!numbers)
    return std::nullopt;
  SmallVector<Dim> result;
  for (APFloat &number : *numbers) {
    if (cut)
      number.roundToIntegral(APFloat::rmTowardZero);
    std::optional<int64_t> whole = wholeNumber(number);
    if (!whole)
      return std::nullopt;
    result.push_back(Dim::constant(op->getContext(), *whole));
  }
  return result;
}

Elements
SymbolicAnalysis::map(Value a, Value b, unsigned depth,
                      llvm::function_ref<std::optional<Dim>(Dim, Dim)> fn) {
  Elements x = of(a, depth), y = of(b, depth);
  if (!x || !y || x->size() != y->size())
    return std::nullopt;
  SmallVector<Dim> result;
  for (auto [l, r] : llvm::zip(*x, *y)) {
    std::optional<Dim> element = fn(l, r);
    if (!element)
      return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

Elements SymbolicAnalysis::gathered(
    Value input, Value result, unsigned depth,
    llvm::function_ref<void(MutableArrayRef<int64_t>)> source) {
  Elements from = of(input, depth);
  if (!from)
    return std::nullopt;
  auto in = cast<RankedTensorType>(input.getType()),
       out = cast<RankedTensorType>(result.getType());
  SmallVector<int64_t> index(out.getRank(), 0), at;
  SmallVector<Dim> elements;
  for (int64_t i = 0; i < out.getNumElements(); ++i) {
    at = index;
    source(at);
    int64_t position = 0;
    for (auto [k, size] : llvm::zip(at, in.getShape())) {
      if (k < 0 || k >= size)
        return std::nullopt;
      position = position * size + k;
    }
    elements.push_back((*from)[position]);
    for (int64_t d = out.getRank(); d-- > 0;) {
      if (++index[d] < out.getDimSize(d))
        break;
      index[d] = 0;
    }
  }
  return elements;
}

SymbolicAnalysis::Quotients SymbolicAnalysis::quotients(Value value,
                                                        unsigned depth) {
  SmallVector<Quotient> result;
  if (Elements whole = of(value, depth)) {
    for (Dim dim : *whole)
      result.push_back({dim, dim.like(1)});
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (!op || depth > maxDepth || !mayBeFollowed(value))
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!data)
      return std::nullopt;
    for (APFloat number : data.getValues<APFloat>()) {
      // Quarters and their kind; a longer number would be rounded.
      constexpr int64_t parts = 1 << 10;
      std::optional<int64_t> scaled = wholeNumber(
          number * APFloat(number.getSemantics(), std::to_string(parts)));
      if (!scaled || std::abs(*scaled) > (parts << 6))
        return std::nullopt;
      int64_t common = std::gcd(*scaled, parts);
      result.push_back({Dim::constant(op->getContext(), *scaled / common),
                        Dim::constant(op->getContext(), parts / common)});
    }
    return result;
  }
  if (isa<ReshapeOp, DimCastOp>(op))
    return quotients(op->getOperand(0), depth + 1);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Quotients input = quotients(broadcast.getInput(), depth + 1);
    if (!input || input->size() != 1)
      return std::nullopt;
    return SmallVector<Quotient>(broadcast.getType().getNumElements(),
                                 input->front());
  }
  if (!isa<AddOp, SubOp, MulOp, DivOp>(op))
    return std::nullopt;
  Quotients x = quotients(op->getOperand(0), depth + 1),
            y = quotients(op->getOperand(1), depth + 1);
  if (!x || !y || x->size() != y->size())
    return std::nullopt;
  for (auto [l, r] : llvm::zip(*x, *y)) {
    Quotient q{l.over * r.under, l.under * r.under};
    if (isa<AddOp>(op))
      q.over = q.over + r.over * l.under;
    else if (isa<SubOp>(op))
      q.over = q.over - r.over * l.under;
    else if (isa<MulOp>(op))
      q.over = l.over * r.over;
    else if (lowerBound(r.over).value_or(-1) >= 0 && !r.over.isConstant(0))
      q.under = l.under * r.over;
    else
      return std::nullopt;
    if (!isModest(q.over) || !isModest(q.under))
      return std::nullopt;
    result.push_back(q);
  }
  return result;
}

Elements
SymbolicAnalysis::rounded(Value value, unsigned depth,
                          llvm::function_ref<std::optional<Dim>(Dim, Dim)> fn) {
  Quotients parts = quotients(value, depth);
  if (!parts)
    return std::nullopt;
  SmallVector<Dim> result;
  for (Quotient part : *parts) {
    std::optional<Dim> whole = fn(part.over, part.under);
    if (!whole)
      return std::nullopt;
    result.push_back(*whole);
  }
  return result;
}

Elements SymbolicAnalysis::condition(Value value, unsigned depth) {
  if (Elements decided = of(value, depth))
    return decided;
  Operation *op = value.getDefiningOp();
  if (!op || depth > maxDepth || !mayBeFollowed(value))
    return std::nullopt;
  if (auto comparison = dyn_cast<CompareOp>(op))
    return map(comparison.getLhs(), comparison.getRhs(), depth + 1,
               [&](Dim a, Dim b) -> std::optional<Dim> {
                 return indicator(comparison.getPredicate(), a, b);
               });
  if (isa<ReshapeOp, DimCastOp>(op))
    return condition(op->getOperand(0), depth + 1);
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Elements input = condition(broadcast.getInput(), depth + 1);
    if (!input || input->size() != 1)
      return std::nullopt;
    return SmallVector<Dim>(broadcast.getType().getNumElements(),
                            input->front());
  }
  if (!isa<NotOp, AndOp, OrOp>(op))
    return std::nullopt;
  Elements x = condition(op->getOperand(0), depth + 1);
  Elements y = isa<NotOp>(op) ? x : condition(op->getOperand(1), depth + 1);
  if (!x || !y || x->size() != y->size())
    return std::nullopt;
  for (auto [l, r] : llvm::zip(*x, *y))
    l = isa<NotOp>(op) ? l.like(1) - l : isa<AndOp>(op) ? l * r : l + r - l * r;
  return x;
}

Elements SymbolicAnalysis::ofMatrixOp(Operation *op, unsigned depth) {
  if (isa<ConstantOp, ReshapeOp, DimCastOp, ElementwiseOpInterface>(op))
    return ofOp(op, depth); // row-major order stays
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    auto in = cast<RankedTensorType>(broadcast.getInput().getType());
    return gathered(broadcast.getInput(), broadcast.getResult(), depth,
                    [&](MutableArrayRef<int64_t> index) {
                      // Ascending, so that none is read after it is written.
                      for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
                        index[i] = in.getDimSize(i) == 1 ? 0 : index[dim];
                    });
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    auto type = cast<RankedTensorType>(iota.getType());
    auto dim = static_cast<int64_t>(iota.getDim());
    int64_t inner = 1;
    for (int64_t size : type.getShape().drop_front(dim + 1))
      inner *= size;
    SmallVector<Dim> result;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      result.push_back(
          Dim::constant(op->getContext(), i / inner % type.getDimSize(dim)));
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return gathered(transpose.getInput(), transpose.getResult(), depth,
                    [&](MutableArrayRef<int64_t> index) {
                      SmallVector<int64_t> from(index);
                      for (auto [i, dim] :
                           llvm::enumerate(transpose.getPermutation()))
                        index[dim] = from[i];
                    });
  auto slice = dyn_cast<SliceOp>(op);
  if (!slice)
    return std::nullopt;
  SmallVector<int64_t> starts;
  for (Dim start : dimsOf(slice.getStarts())) {
    if (!start.asConstant())
      return std::nullopt;
    starts.push_back(*start.asConstant());
  }
  return gathered(slice.getInput(), slice.getResult(), depth,
                  [&](MutableArrayRef<int64_t> index) {
                    for (size_t i = 0; i < index.size(); ++i) {
                      int64_t step = slice.getSteps()[i];
                      if (llvm::MulOverflow(index[i], step, index[i]) ||
                          llvm::AddOverflow(index[i], starts[i], index[i]))
                        index[i] = -1;
                    }
                  });
}

bool isModest(Dim dim) {
  ArrayRef<ArrayAttr> monomials = dim.attr().getMonomials();
  if (monomials.size() > 32)
    return false;
  bool plain = monomials.size() <= 4;
  for (ArrayAttr monomial : monomials) {
    if (monomial.size() > 16)
      return false;
    for (Attribute atom : monomial)
      plain &= isa<StringAttr>(atom);
  }
  return plain || dim.str().size() <= 2048;
}

std::optional<SmallVector<Dim>> symbolicValue(Value value,
                                              SymbolicValueCache &cache) {
  if (!isa<IntegerType>(getElementTypeOrSelf(value.getType())))
    return std::nullopt;
  Elements elements = SymbolicAnalysis(cache).of(value, 0);
  return elements && rankOf(value) <= 1 ? elements : std::nullopt;
}

} // namespace knapper::ts
