#include "graph/layout/SplitSorts.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SPLITSORTS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

namespace {

struct Splitter {
  OpBuilder b;
  Location loc;
  SortModel model;

  RankedTensorType typeOf(ArrayRef<int64_t> dims, Type element) {
    SmallVector<Dim> sizes;
    for (int64_t dim : dims)
      sizes.push_back(Dim::constant(b.getContext(), dim));
    return tensorType(b.getContext(), sizes, element);
  }
  /// Every element of the type is this number of its width.
  Value number(RankedTensorType type, uint64_t n) {
    Type element = type.getElementType();
    auto scalar = RankedTensorType::get({}, element);
    APInt bits = APInt(64, n).trunc(element.getIntOrFloatBitWidth());
    Value value = ConstantOp::create(b, loc, scalar,
                                     DenseElementsAttr::get(scalar, bits));
    return type.getRank() == 0
               ? value
               : BroadcastOp::create(b, loc, type, value, ArrayRef<int64_t>{});
  }
  Value like(Value x, uint64_t n) {
    return number(cast<RankedTensorType>(x.getType()), n);
  }
  Value convert(Value x, Type element) {
    return ConvertOp::create(b, loc, withElement(x.getType(), element), x);
  }
  Value reshape(Value x, ArrayRef<int64_t> dims) {
    return makeReshape(b, loc, x, dimsOf(typeOf(dims, elementTypeOf(x))));
  }
  Type unsignedOf(unsigned width) {
    return IntegerType::get(b.getContext(), width, IntegerType::Unsigned);
  }

  Value keysOf(Value x, bool largest);
  Value sorted(Value words, int64_t run);
  Value placesBy(Value keys, unsigned bits);
  void split(TopKOp op, int64_t lines, int64_t n, int64_t k);
  /// How many parts of a line are worth it, at least 4; 0: none.
  int64_t partsOf(int64_t lines, int64_t n, int64_t k) const;
  /// Whether a reduction finds what goes first.
  static bool isReduction(TopKOp op);
  void reduce(TopKOp op);
  void selectInParts(TopKOp op, int64_t lines, int64_t n, int64_t k,
                     int64_t parts);

  //===- Lines behind the op's other dims ---------------------------------===//
  SmallVector<int64_t> inverse = {};
  Value transposed = {}; ///< the dim last
  Value linesOf(TopKOp op, int64_t lines, int64_t n);
  /// Uses of the op get what lines [lines, k] have.
  void replace(TopKOp op, Dim count, llvm::function_ref<Value()> values,
               llvm::function_ref<Value()> places);
};

} // namespace

/// Unsigned integers of 32 or 64 bits, of which the smaller goes first. NaN
/// counts as largest, zeros are equal. Those of narrower elements have zeros
/// above as many bits.
Value Splitter::keysOf(Value x, bool largest) {
  Type element = elementTypeOf(x);
  bool isFloat = isa<FloatType>(element);
  unsigned width = 8 * elementBytes(element);
  Type word = unsignedOf(width);
  const uint64_t sign = uint64_t(1) << (width - 1), all = ~uint64_t(0);
  Value key;
  if (isFloat) {
    Value bits = BitcastOp::create(b, loc, withElement(x.getType(), word), x);
    Value negativeZero =
        CompareOp::create(b, loc, ComparePredicate::eq, bits, like(bits, sign));
    bits = SelectOp::create(b, loc, negativeZero, like(bits, 0), bits);
    Value negative =
        CompareOp::create(b, loc, ComparePredicate::ge, bits, like(bits, sign));
    // A negative number is smaller, the larger its bits are.
    key = SelectOp::create(
        b, loc, negative, NotOp::create(b, loc, bits).getResult(),
        XorOp::create(b, loc, bits, like(bits, sign)).getResult());
    key = SelectOp::create(b, loc, IsNanOp::create(b, loc, x), like(key, all),
                           key);
  } else if (element.isUnsignedInteger()) {
    key = x;
  } else {
    x = BitcastOp::create(b, loc, withElement(x.getType(), word), x);
    key = XorOp::create(b, loc, x, like(x, sign));
  }
  if (largest)
    key = NotOp::create(b, loc, key);
  return width < 32 ? convert(key, unsignedOf(32)) : key;
}

/// Lines [lines, n] in order, with words that go last behind them.
Value Splitter::sorted(Value words, int64_t run) {
  int64_t lines = *dimOf(words, 0).asConstant(),
          n = *dimOf(words, 1).asConstant();
  int64_t runs = n / run;
  auto sort = [&](int64_t count, int64_t length, int64_t sortedRuns) {
    Value x = reshape(words, {lines * count, length});
    auto op = TopKOp::create(b, loc, x, DimAttr(dimOf(x, 1).attr()),
                             b.getI64IntegerAttr(1), b.getBoolAttr(false));
    if (sortedRuns)
      op->setAttr("ts.runs", b.getI64IntegerAttr(sortedRuns));
    words = op.getValues();
  };
  sort(runs, run, 0);
  for (; runs > 1; runs /= 2, run *= 2)
    sort(runs / 2, 2 * run, run);
  return reshape(words, {lines, n});
}

/// Where the elements with these keys (ui32 of so many bits, [lines, n]) stand
/// that go first, second, ...: i64. Of equal ones the first goes first.
Value Splitter::placesBy(Value keys, unsigned bits) {
  int64_t n = *dimOf(keys, 1).asConstant();
  bool byDigits = n > model.shortest &&
                  *elementCount(keys.getType()).asConstant() <= model.mostOfAll;
  constexpr int64_t access = 8; // runs begin at whole accesses
  int64_t runs = 1;
  while ((n + runs - 1) / runs > model.run)
    runs *= 2;
  int64_t run = ((n + runs - 1) / runs + access - 1) / access * access;
  Type word = unsignedOf(64);
  constexpr unsigned half = 32;
  Value high = convert(keys, word);
  high = ShiftLeftOp::create(b, loc, high, like(high, half));
  Value words = OrOp::create(
      b, loc, high, IotaOp::create(b, loc, high.getType(), uint64_t(1)));
  if (byDigits) {
    constexpr unsigned digit = 8;
    for (unsigned bit = half; bit < half + bits; bit += digit) {
      auto op = TopKOp::create(b, loc, words, DimAttr(dimOf(words, 1).attr()),
                               b.getI64IntegerAttr(1), b.getBoolAttr(false));
      op->setAttr("ts.digit", b.getI64IntegerAttr(bit));
      words = op.getValues();
    }
    words =
        AndOp::create(b, loc, words, like(words, (uint64_t(1) << half) - 1));
    return convert(words, b.getI64Type());
  }
  if (int64_t more = runs * run - n) {
    DimAttr none = Dim::constant(b.getContext(), 0).attr(),
            behind = Dim::constant(b.getContext(), more).attr();
    Value last = number(RankedTensorType::get({}, word), ~uint64_t(0));
    words = PadOp::create(b, loc, words, last, b.getArrayAttr({none, none}),
                          b.getArrayAttr({none, behind}),
                          PadModeAttr::get(b.getContext(), PadMode::constant));
  }
  words = sorted(words, run);
  if (runs * run != n)
    words = makeSlice(b, loc, words, 1, Dim::constant(b.getContext(), 0),
                      Dim::constant(b.getContext(), n));
  words = AndOp::create(b, loc, words, like(words, (uint64_t(1) << half) - 1));
  return convert(words, b.getI64Type());
}

Value Splitter::linesOf(TopKOp op, int64_t lines, int64_t n) {
  SmallVector<int64_t> permutation;
  int64_t axis = op.getDim(), rank = rankOf(op.getInput());
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis)
      permutation.push_back(i);
  permutation.push_back(axis);
  inverse = inversePermutation(permutation);
  transposed = makeTranspose(b, loc, op.getInput(), permutation);
  return reshape(transposed, {lines, n});
}

void Splitter::replace(TopKOp op, Dim count, llvm::function_ref<Value()> values,
                       llvm::function_ref<Value()> places) {
  auto back = [&](Value result) -> Value {
    SmallVector<Dim> dims = dimsOf(transposed);
    dims.back() = count;
    return makeTranspose(b, loc, makeReshape(b, loc, result, dims), inverse);
  };
  if (!op.getValues().use_empty())
    op.getValues().replaceAllUsesWith(back(values()));
  if (!op.getIndices().use_empty())
    op.getIndices().replaceAllUsesWith(back(places()));
  op.erase();
}

void Splitter::split(TopKOp op, int64_t lines, int64_t n, int64_t k) {
  Value x = linesOf(op, lines, n);
  Value keys = keysOf(x, op.getLargest()), places;
  Type word = unsignedOf(32);
  auto at = [&](Value from, Value where) -> Value {
    return GatherElementsOp::create(b, loc, from, where, uint64_t(1));
  };
  if (elementTypeOf(keys) == word) {
    places = placesBy(keys, 8 * elementBytes(elementTypeOf(x)));
  } else {
    constexpr unsigned half = 32;
    Value low = placesBy(convert(keys, word), half);
    Value high = convert(
        ShiftRightOp::create(b, loc, keys, like(keys, 32)).getResult(), word);
    places = at(low, placesBy(at(high, low), half));
  }
  Dim count = Dim::constant(b.getContext(), k);
  if (k < n)
    places =
        makeSlice(b, loc, places, 1, Dim::constant(b.getContext(), 0), count);
  replace(op, count, [&] { return at(x, places); }, [&] { return places; });
}

bool Splitter::isReduction(TopKOp op) {
  return Dim(op.getK()).isConstant(1) &&
         (op.getLargest() || !isa<FloatType>(elementTypeOf(op.getInput())));
}

void Splitter::reduce(TopKOp op) {
  Value places = ArgReduceOp::create(
      b, loc, op.getLargest() ? ReduceKind::max : ReduceKind::min,
      op.getInput(), op.getDim(), /*last=*/false);
  places = makeReshape(b, loc, places, dimsOf(op.getIndices()));
  if (!op.getValues().use_empty())
    op.getValues().replaceAllUsesWith(
        GatherElementsOp::create(b, loc, op.getInput(), places, op.getDim()));
  op.getIndices().replaceAllUsesWith(places);
  op.erase();
}

int64_t Splitter::partsOf(int64_t lines, int64_t n, int64_t k) const {
  constexpr int64_t fewest = 4, often = 4;
  int64_t parts = 1;
  // So that a part is about as long as all parts' first elements together.
  while (2 * parts * lines <= model.lines && 2 * parts * parts * k <= n &&
         n / (2 * parts) >= std::max(model.part, often * k))
    parts *= 2;
  return parts >= fewest ? parts : 0;
}

void Splitter::selectInParts(TopKOp op, int64_t lines, int64_t n, int64_t k,
                             int64_t parts) {
  Value x = linesOf(op, lines, n);
  int64_t part = n / parts, rest = n - parts * part;
  auto number = [&](int64_t value) {
    return Dim::constant(b.getContext(), value);
  };
  auto select = [&](Value from) {
    return TopKOp::create(b, loc, from, number(k).attr(),
                          b.getI64IntegerAttr(1),
                          b.getBoolAttr(op.getLargest()));
  };
  // Equal elements keep their order: by parts, then within a part, then what
  // is left behind the last part.
  Value cut =
      rest ? makeSlice(b, loc, x, 1, number(0), number(parts * part)) : x;
  TopKOp first = select(reshape(cut, {lines * parts, part}));
  Value values = reshape(first.getValues(), {lines, parts * k}),
        places = reshape(first.getIndices(), {lines, parts, k});
  Value begin = IotaOp::create(b, loc, places.getType(), uint64_t(1));
  begin = MulOp::create(b, loc, begin, like(begin, part));
  places = reshape(AddOp::create(b, loc, places, begin), {lines, parts * k});
  if (rest) {
    SmallVector<Value> with{
        values, makeSlice(b, loc, x, 1, number(parts * part), number(rest))};
    values = ConcatOp::create(b, loc, ValueRange(with), uint64_t(1));
    Value own = IotaOp::create(
        b, loc, typeOf({lines, rest}, elementTypeOf(places)), uint64_t(1));
    with = {places, AddOp::create(b, loc, own, like(own, parts * part))};
    places = ConcatOp::create(b, loc, ValueRange(with), uint64_t(1));
  }
  TopKOp last = select(values);
  replace(
      op, number(k), [&] { return last.getValues(); },
      [&]() -> Value {
        return GatherElementsOp::create(b, loc, places, last.getIndices(),
                                        uint64_t(1));
      });
}

void knapper::splitSorts(func::FuncOp function, const SortModel &model) {
  SmallVector<TopKOp> ops(function.getOps<TopKOp>());
  for (TopKOp op : ops) {
    std::optional<int64_t> all =
        elementCount(op.getInput().getType()).asConstant();
    std::optional<int64_t> n = dimOf(op.getInput(), op.getDim()).asConstant(),
                           k = Dim(op.getK()).asConstant();
    constexpr int64_t most = int64_t(1) << 30; // places, twice, are i32
    if (!all || !n || !k || *all == 0 || *k == 0 || *n > most ||
        op->hasAttr("ts.runs") || op->hasAttr("ts.digit"))
      continue;
    if (*n == 1) { // one element is in order
      OpBuilder b(op);
      auto type = cast<RankedTensorType>(op.getIndices().getType());
      op.getValues().replaceAllUsesWith(op.getInput());
      if (!op.getIndices().use_empty())
        op.getIndices().replaceAllUsesWith(makeSplat(b, op.getLoc(), type, 0));
      op.erase();
      continue;
    }
    Splitter splitter{OpBuilder(op), op.getLoc(), model};
    int64_t lines = *all / *n;
    if (lines >= model.lines && *n > model.held && Splitter::isReduction(op))
      splitter.reduce(op);
    else if (*k > model.fewest && *n > model.run)
      splitter.split(op, lines, *n, *k);
    else if (int64_t parts = splitter.partsOf(lines, *n, *k);
             parts && *k <= model.fewest)
      splitter.selectInParts(op, lines, *n, *k, parts);
  }
}

namespace {
struct SplitSortsPass : knapper::impl::SplitSortsBase<SplitSortsPass> {
  void runOnOperation() override { splitSorts(getOperation()); }
};
} // namespace
