#include "ir/tensor/SymbolicValue.h"
#include "ir/tensor/Dialect.h"
#include "ir/tensor/KnownReals.h"
#include "ir/tensor/Multiples.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <numeric>
#include <string>

using namespace mlir;

namespace knapper::ts {
namespace {

constexpr int64_t maxElements = 64;
constexpr unsigned maxDepth = 64;

using Elements = std::optional<SmallVector<Dim>>;

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

std::optional<int64_t> readInteger(const APInt &value, Type type) {
  if (value.getBitWidth() > 64)
    return std::nullopt;
  return type.isInteger(1) || type.isUnsignedInteger()
             ? static_cast<int64_t>(value.getZExtValue())
             : value.getSExtValue();
}

bool isFloat(Value value) { return isa<FloatType>(elementTypeOf(value)); }

/// A whole number that floats hold exactly.
std::optional<int64_t> readWhole(const APFloat &value) {
  APFloat wide = value;
  bool lost = false;
  wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  double number = wide.convertToDouble();
  if (!(std::abs(number) < 0x1p24) || number != std::floor(number))
    return std::nullopt;
  return static_cast<int64_t>(number);
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

class Analysis {
public:
  explicit Analysis(SymbolicValueCache &cache) : cache(cache) {}

  Elements of(Value value, unsigned depth) {
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

private:
  /// Floats that are numbers already, and integers cut from them.
  Elements ofReals(Operation *op, unsigned depth) {
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
      std::optional<int64_t> whole = readWhole(number);
      if (!whole)
        return std::nullopt;
      result.push_back(Dim::constant(op->getContext(), *whole));
    }
    return result;
  }

  Elements map(Value a, Value b, unsigned depth,
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

  /// The element of the operand that each element of the result is.
  Elements gathered(Value input, Value result, unsigned depth,
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

  /// A float as a quotient of whole numbers; the divisor is never below 1
  /// where it is a number.
  struct Quotient {
    Dim over, under;
  };
  using Quotients = std::optional<SmallVector<Quotient>>;

  /// What is divided in floats before it is rounded to a whole number.
  Quotients quotients(Value value, unsigned depth) {
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
        std::optional<int64_t> scaled = readWhole(
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

  Elements rounded(Value value, unsigned depth,
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

  /// The elements of a condition as 0 and 1, where they depend on the sizes of
  /// a run too.
  Elements condition(Value value, unsigned depth) {
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
      l = isa<NotOp>(op)   ? l.like(1) - l
          : isa<AndOp>(op) ? l * r
                           : l + r - l * r;
    return x;
  }

  /// Ops that move what a matrix holds, or go through it element by element.
  Elements ofMatrixOp(Operation *op, unsigned depth) {
    if (isa<ConstantOp, ReshapeOp, DimCastOp, ElementwiseOpInterface>(op))
      return ofOp(op, depth); // row-major order stays
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      auto in = cast<RankedTensorType>(broadcast.getInput().getType());
      return gathered(broadcast.getInput(), broadcast.getResult(), depth,
                      [&](MutableArrayRef<int64_t> index) {
                        // Ascending, so that none is read after it is written.
                        for (auto [i, dim] :
                             llvm::enumerate(broadcast.getDims()))
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

  Elements ofOp(Operation *op, unsigned depth) {
    MLIRContext *context = op->getContext();
    return TypeSwitch<Operation *, Elements>(op)
        .Case([&](SizeOp size) -> Elements {
          return SmallVector<Dim>{Dim(size.getSize())};
        })
        .Case([&](ConstantOp constant) -> Elements {
          auto data = dyn_cast<DenseElementsAttr>(constant.getValue());
          if (!data)
            return std::nullopt;
          SmallVector<Dim> result;
          if (isFloat(constant.getResult())) {
            for (const APFloat &element : data.getValues<APFloat>()) {
              std::optional<int64_t> number = readWhole(element);
              if (!number)
                return std::nullopt;
              result.push_back(Dim::constant(context, *number));
            }
            return result;
          }
          for (const APInt &element : data.getValues<APInt>()) {
            std::optional<int64_t> number =
                readInteger(element, data.getElementType());
            if (!number)
              return std::nullopt;
            result.push_back(Dim::constant(context, *number));
          }
          return result;
        })
        .Case([&](ConcatOp concat) -> Elements {
          SmallVector<Dim> result;
          for (Value input : concat.getInputs()) {
            Elements part = of(input, depth);
            if (!part)
              return std::nullopt;
            llvm::append_range(result, *part);
          }
          return result;
        })
        .Case([&](ReshapeOp reshape) -> Elements {
          return of(reshape.getInput(), depth);
        })
        .Case([&](DimCastOp cast) -> Elements {
          return of(cast.getInput(), depth);
        })
        .Case([&](TransposeOp transpose) -> Elements {
          return of(transpose.getInput(), depth);
        })
        .Case([&](BroadcastOp broadcast) -> Elements {
          Elements input = of(broadcast.getInput(), depth);
          if (!input)
            return std::nullopt;
          auto count =
              static_cast<size_t>(broadcast.getType().getNumElements());
          if (input->size() == 1)
            return SmallVector<Dim>(count, input->front());
          return input->size() == count ? input : std::nullopt;
        })
        .Case([&](SliceOp slice) -> Elements {
          Elements input = of(slice.getInput(), depth);
          if (!input || rankOf(slice.getInput()) != 1)
            return input;
          std::optional<int64_t> start =
              dimsOf(slice.getStarts())[0].asConstant();
          if (!start)
            return std::nullopt;
          SmallVector<Dim> result;
          int64_t step = slice.getSteps()[0],
                  count = slice.getType().getNumElements(), at = *start;
          for (int64_t i = 0; i < count; ++i) {
            if (at < 0 || at >= static_cast<int64_t>(input->size()))
              return std::nullopt;
            result.push_back((*input)[at]);
            if (llvm::AddOverflow(at, step, at))
              at = -1;
          }
          return result;
        })
        .Case([&](GatherOp gather) -> Elements {
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
        })
        .Case([&](IotaOp iota) -> Elements {
          SmallVector<Dim> result;
          for (int64_t i = 0; i < iota.getType().getNumElements(); ++i)
            result.push_back(Dim::constant(context, i));
          return result;
        })
        .Case([&](ConvertOp convert) -> Elements {
          Type type = elementTypeOf(convert.getResult());
          bool cut = isFloat(convert.getInput()) && isa<IntegerType>(type) &&
                     !type.isInteger(1);
          Elements input =
              cut ? rounded(convert.getInput(), depth, truncatedDiv)
                  : of(convert.getInput(), depth);
          if (!input || type.isInteger(64) || isa<FloatType>(type) ||
              (type.isInteger(32) &&
               elementTypeOf(convert.getInput()).isInteger(1)))
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
        })
        .Case([&](NegOp neg) -> Elements {
          Elements input = of(neg.getInput(), depth);
          if (input)
            for (Dim &dim : *input)
              dim = dim * -1;
          return input;
        })
        .Case([&](NotOp op) -> Elements {
          Elements input = of(op.getInput(), depth);
          if (!input || !elementTypeOf(op.getInput()).isInteger(1))
            return std::nullopt;
          for (Dim &dim : *input)
            dim = dim.like(1) - dim;
          return input;
        })
        .Case([&](AddOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) { return multiplesAsProducts(a + b); });
        })
        .Case([&](SubOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) { return multiplesAsProducts(a - b); });
        })
        .Case([&](MulOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) { return a * b; });
        })
        .Case([&](DivOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [&](Dim a, Dim b) -> std::optional<Dim> {
                       if (isFloat(op.getResult()))
                         return b.isConstant(0) ? std::nullopt : a.exactDiv(b);
                       return truncatedDiv(a, b);
                     });
        })
        .Case([&](FloorOp op) -> Elements {
          return rounded(
              op.getInput(), depth,
              [](Dim a, Dim b) -> std::optional<Dim> { return a.floorDiv(b); });
        })
        .Case([&](CeilOp op) -> Elements {
          return rounded(
              op.getInput(), depth,
              [](Dim a, Dim b) -> std::optional<Dim> { return a.ceilDiv(b); });
        })
        .Case([&](AbsOp op) -> Elements {
          Elements input = of(op.getInput(), depth);
          if (input)
            for (Dim &dim : *input)
              dim = lowerBound(dim).value_or(-1) >= 0 ? dim : dim.max(dim * -1);
          return input;
        })
        .Case([&](ModOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) -> std::optional<Dim> {
                       std::optional<int64_t> y = lowerBound(b);
                       if (!y || *y < 0 || b.isConstant(0))
                         return std::nullopt;
                       return a.mod(b);
                     });
        })
        .Case([&](RemOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [&](Dim a, Dim b) -> std::optional<Dim> {
                       std::optional<Dim> quotient = truncatedDiv(a, b);
                       if (!quotient)
                         return std::nullopt;
                       return a - *quotient * b;
                     });
        })
        .Case([&](MaxOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth, [](Dim a, Dim b) {
            if (std::optional<bool> less = isLess(a, b))
              return *less ? b : a;
            return a.max(b);
          });
        })
        .Case([&](MinOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth, [](Dim a, Dim b) {
            if (std::optional<bool> less = isLess(a, b))
              return *less ? a : b;
            return a.min(b);
          });
        })
        .Case([&](AndOp op) -> Elements {
          if (!elementTypeOf(op.getResult()).isInteger(1))
            return std::nullopt;
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) { return a * b; });
        })
        .Case([&](OrOp op) -> Elements {
          if (!elementTypeOf(op.getResult()).isInteger(1))
            return std::nullopt;
          return map(op.getLhs(), op.getRhs(), depth,
                     [](Dim a, Dim b) { return a + b - a * b; });
        })
        .Case([&](CompareOp op) -> Elements {
          return map(op.getLhs(), op.getRhs(), depth,
                     [&](Dim a, Dim b) -> std::optional<Dim> {
                       std::optional<bool> answer =
                           compare(op.getPredicate(), a, b);
                       if (!answer)
                         return std::nullopt;
                       return a.like(*answer ? 1 : 0);
                     });
        })
        .Case([&](SelectOp op) -> Elements {
          Elements which = condition(op.getCondition(), depth);
          if (!which)
            return std::nullopt;
          // A side is only looked at where it is taken.
          Elements yes = of(op.getOnTrue(), depth),
                   no = of(op.getOnFalse(), depth);
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
        })
        .Case([&](ReduceOp op) -> Elements {
          Elements input = of(op.getInput(), depth);
          if (!input || op.getDims().size() != 1 || rankOf(op.getInput()) != 1)
            return op.getDims().empty() ? input : std::nullopt;
          Type type = elementTypeOf(op.getInput());
          if (op.getKind() == ReduceKind::mul && !type.isInteger(1))
            return SmallVector<Dim>{product(context, *input)};
          if (op.getKind() == ReduceKind::add) {
            Dim sum = Dim::constant(context, 0);
            for (Dim dim : *input)
              sum = sum + dim;
            return SmallVector<Dim>{sum};
          }
          if (input->empty() || (op.getKind() != ReduceKind::max &&
                                 op.getKind() != ReduceKind::min))
            return std::nullopt;
          Dim best = input->front();
          for (Dim dim : ArrayRef<Dim>(*input).drop_front())
            best =
                op.getKind() == ReduceKind::max ? best.max(dim) : best.min(dim);
          return SmallVector<Dim>{best};
        })
        .Case([&](ScanOp op) -> Elements {
          Elements input = of(op.getInput(), depth);
          if (!input || op.getKind() != ReduceKind::add || op.getReverse() ||
              op.getExclusive())
            return std::nullopt;
          for (size_t i = 1; i < input->size(); ++i)
            (*input)[i] = (*input)[i] + (*input)[i - 1];
          return input;
        })
        .Default([](Operation *) -> Elements { return std::nullopt; });
  }

  static std::optional<bool> negate(std::optional<bool> answer) {
    if (answer)
      return !*answer;
    return answer;
  }

  static std::optional<bool> compare(ComparePredicate predicate, Dim a, Dim b) {
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

  SymbolicValueCache &cache;
  KnownReals reals;
};

} // namespace

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
  Elements elements = Analysis(cache).of(value, 0);
  return elements && rankOf(value) <= 1 ? elements : std::nullopt;
}

} // namespace knapper::ts
