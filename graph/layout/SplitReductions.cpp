#include "graph/layout/SplitReductions.h"

#include "graph/layout/CutRuns.h"
#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_SPLITREDUCTIONS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// A divisor of `length` that is at most `wanted` and leaves parts of at least
/// `least`: the largest power of two, or another where that is far from it,
/// best one whose parts begin at whole accesses.
static int64_t partsOf(int64_t length, int64_t wanted, int64_t least) {
  int64_t parts = 1;
  while (parts < wanted && length % (parts * 2) == 0 &&
         length / (parts * 2) >= least)
    parts *= 2;
  constexpr int64_t far = 4, access = 8; // times, elements
  int64_t most = std::min(wanted, length / least), any = parts;
  if (parts * far > most)
    return parts;
  for (int64_t other = most; other > parts; --other) {
    if (length % other)
      continue;
    if (length / other % access == 0)
      return other;
    any = std::max(any, other);
  }
  return any;
}

namespace {
/// A length as `parts` runs of `each`, and what is left behind them.
struct Cut {
  int64_t parts, each, rest;
};
} // namespace

/// Equal parts where their number is near the one wanted (as of `partsOf`); of
/// other lengths, primes among them, about as many as wanted, which are as many
/// whole tiles or accesses as leave a rest of at most `mostRest`.
static Cut cutOf(int64_t length, int64_t wanted, int64_t least,
                 int64_t mostRest) {
  constexpr int64_t near = 4; // times
  int64_t parts = partsOf(length, wanted, least);
  int64_t most = std::min(wanted, length / least);
  if (most < 2 || parts * near > most)
    return {parts, length / parts, 0};
  constexpr int64_t warp = 128, access = 8; // elements
  int64_t each = length / most;
  for (int64_t some : {least, each / warp * warp, each / access * access}) {
    int64_t count = some > 0 ? length / some : wanted + 1;
    if (count <= wanted && length - count * some <= mostRest)
      return {count, some, length - count * some};
  }
  return {most, each, length - most * each};
}

/// The result of a reduction of `first` dims, then of the `second` dims of what
/// is left; 16-bit numbers in f32 between them.
static Value twice(ReduceOp op, ArrayRef<int64_t> first,
                   ArrayRef<int64_t> second) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = op.getInput();
  Type element = elementTypeOf(x);
  bool half = element.isF16() || element.isBF16();
  auto convert = [&](Type to) {
    x = ConvertOp::create(b, loc, tensorType(op.getContext(), dimsOf(x), to),
                          x);
  };
  if (half)
    convert(b.getF32Type());
  for (ArrayRef<int64_t> dims : {first, second})
    x = ReduceOp::create(b, loc, op.getKind(), x, dims, op.getIgnoresNan());
  if (half)
    convert(element);
  return x;
}

/// Of a reduction of all dims from one on, of which the last are numbers and
/// others are not: rows of the last ones first.
static void splitSymbolic(ReduceOp op, const SplitModel &model) {
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t first = dims.size() - op.getDims().size(), last = dims.size(),
          row = 1, results = 1;
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (dim != first + static_cast<int64_t>(i))
      return;
  for (Dim dim : ArrayRef<Dim>(dims).take_front(first)) {
    if (!dim.asConstant())
      return; // a size that a run binds: results enough
    results *= *dim.asConstant();
  }
  while (last > first && dims[last - 1].asConstant() && row < model.row)
    row *= *dims[--last].asConstant();
  if (last == first || row < model.row || results * 2 > model.programs)
    return;
  auto rows = llvm::to_vector(llvm::seq<int64_t>(last, dims.size())),
       others = llvm::to_vector(llvm::seq<int64_t>(first, last));
  op.replaceAllUsesWith(twice(op, rows, others));
  op.erase();
}

/// Whether the programs of one kernel share the rows of columns, where they
/// can. A second kernel is worth its start for what is read in longer than
/// that, and then in two cases: rows too short for one kernel to keep memory
/// busy, and rows so wide that it has programs enough.
static bool sharesItself(Type element, int64_t columns, int64_t rows,
                         const SplitModel &model) {
  if (element.isInteger(1))
    return false;
  int64_t row = columns * elementBytes(element);
  if (row < model.shared)
    return rows * (model.shared - row) <= model.start;
  int64_t wide =
      elementBytes(element) < 4 ? 2 * model.shared : 16 * model.shared;
  return row < wide || rows * row <= 2 * model.start;
}

/// Whether programs that have columns beside each other, some `inner` of them,
/// each read theirs in little time, or are enough for the device.
static bool fitsBlock(int64_t outer, int64_t length, int64_t inner,
                      const SplitModel &model) {
  constexpr int64_t together = 32; // a warp
  return model.block > 0 && inner > 1 &&
         (length * std::min(inner, together) <= model.block ||
          outer * int64_t(llvm::divideCeil(inner, together)) >=
              int64_t(model.machine.cores));
}

/// Of a reduction of one dim whose columns are narrower than what a program
/// reads at once: several rows beside each other as one wide row, then these.
/// True where it was. (`split` has those of one matrix.)
static bool splitNarrow(ReduceOp op, const SplitModel &model) {
  // Elements: a program's own tile, no figures of a card.
  constexpr int64_t wide = 2048, leastRows = 32;
  if (model.narrowColumns == 0 || op.getDims().size() != 1)
    return false;
  Value x = op.getInput();
  MLIRContext *context = op.getContext();
  int64_t axis = op.getDims()[0], sizes[3] = {1, 1, 1};
  for (auto [i, dim] : llvm::enumerate(dimsOf(x))) {
    std::optional<int64_t> size = dim.asConstant();
    if (!size || *size == 0)
      return false;
    int64_t place = int64_t(i) - axis;
    sizes[place < 0 ? 0 : place > 0 ? 2 : 1] *= *size;
  }
  auto [outer, length, columns] = sizes;
  bool isLast = axis + 1 == rankOf(x);
  int64_t together = std::min(wide / columns, length / leastRows);
  constexpr int64_t fewest = 4;
  if (isLast || outer == 1 || columns >= model.narrowColumns ||
      fitsBlock(outer, length, columns, model) || together < fewest ||
      outer * columns * 2 > model.programs * wide)
    return false;
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto reshape = [&](Value value, ArrayRef<int64_t> shape) {
    SmallVector<Dim> dims;
    for (int64_t size : shape)
      dims.push_back(Dim::constant(context, size));
    return makeReshape(b, loc, value, dims);
  };
  auto convert = [&](Value value, Type to) -> Value {
    return elementTypeOf(value) == to
               ? value
               : ConvertOp::create(b, loc, withElement(value.getType(), to),
                                   value);
  };
  auto reduce = [&](Value value) -> Value {
    return ReduceOp::create(b, loc, op.getKind(), value, ArrayRef<int64_t>{1},
                            op.getIgnoresNan());
  };
  Type element = elementTypeOf(x);
  bool half = element.isF16() || element.isBF16();
  x = reshape(convert(x, half ? b.getF32Type() : element),
              {outer, length, columns});
  int64_t rows = length / together, whole = rows * together;
  Value rest;
  if (whole < length) {
    rest = runOf(b, loc, x, 1, whole, length - whole);
    x = runOf(b, loc, x, 1, 0, whole);
  }
  x = reduce(reshape(x, {outer, rows, together * columns}));
  x = reshape(x, {outer, together, columns});
  if (rest)
    x = ConcatOp::create(b, loc, ValueRange{x, rest}, uint64_t(1));
  x = convert(reduce(x), element);
  op.replaceAllUsesWith(makeReshape(b, loc, x, dimsOf(op.getResult())));
  op.erase();
  return true;
}

/// Whether one kernel reduces few long rows, each of which the programs of a
/// cluster hold together.
static bool holdsRows(int64_t rows, int64_t length, const SplitModel &model) {
  int64_t cores = model.machine.cores;
  return model.sharedRow > 1 && rows * model.sharedRow >= cores &&
         rows < 2 * cores && length <= model.sharedRow * model.mostShared;
}

namespace {
/// How a reduction of lines, along its first or its last dims, is cut.
struct LineParts {
  bool rows;        ///< lines lie along the last dims, else along the first
  int64_t results;  ///< lines
  int64_t length;   ///< of a line
  int64_t together; ///< rows of a column's part that are one
  Cut cut;
};
} // namespace

/// Replaces `op` by a reduction of each part and one of the parts' results.
static void reduceInParts(ReduceOp op, const SplitModel &model,
                          const LineParts &of) {
  auto [rows, results, length, together, cut] = of;
  int64_t parts = cut.parts, rank = rankOf(op.getInput());
  int64_t reduced = op.getDims().size();
  OpBuilder b(op);
  Location loc = op.getLoc();
  MLIRContext *context = op.getContext();
  auto dim = [&](int64_t n) { return Dim::constant(context, n); };
  Value x = op.getInput();
  Type element = elementTypeOf(x);
  bool half = element.isF16() || element.isBF16();
  if (half)
    x = ConvertOp::create(b, loc,
                          tensorType(context, dimsOf(x), b.getF32Type()), x);
  int64_t first = rows ? 2 : 1, second = rows ? 1 : 0;
  Value rest;
  // Rows of the last dim that are no whole tiles, of which a tile's lanes would
  // each find their place in two dims.
  constexpr int64_t tile = 64; // elements
  bool hasPartialTiles =
      rows && reduced > 1 && *dimOf(x, rank - 1).asConstant() % tile;
  SmallVector<Dim> flat = {dim(results), dim(length)};
  if (!rows)
    std::swap(flat[0], flat[1]);
  int64_t whole = parts * cut.each;
  if (model.flatRuns && (cut.rest || hasPartialTiles)) {
    std::tie(x, rest) = cutInTwo(b, op, x, flat, second, whole, cut.rest);
  } else if (cut.rest) {
    x = ReshapeOp::create(b, loc, tensorType(context, flat, elementTypeOf(x)),
                          x);
    rest = runOf(b, loc, x, second, whole, cut.rest);
    x = runOf(b, loc, x, second, 0, whole);
  }
  SmallVector<Dim> shape;
  if (rows)
    shape = {dim(results), dim(parts), dim(cut.each)};
  else
    shape = {dim(parts), dim(cut.each / together), dim(together * results)};
  x = ReshapeOp::create(b, loc, tensorType(context, shape, elementTypeOf(x)),
                        x);
  x = ReduceOp::create(b, loc, op.getKind(), x, ArrayRef<int64_t>{first},
                       op.getIgnoresNan());
  if (together > 1) {
    SmallVector<Dim> apart = {dim(parts * together), dim(results)};
    x = ReshapeOp::create(b, loc, tensorType(context, apart, elementTypeOf(x)),
                          x);
  }
  // What is left is no longer than a few parts' results.
  if (rest) {
    x = ConcatOp::create(b, loc, ValueRange{x, rest}, uint64_t(second));
  } else {
    // In the result's dims, so that what comes after it is the same kernel's.
    SmallVector<Dim> dims = dimsOf(op.getResult());
    second = rows ? int64_t(dims.size()) : 0;
    dims.insert(dims.begin() + second, dim(parts * together));
    x = makeReshape(b, loc, x, dims);
  }
  x = ReduceOp::create(b, loc, op.getKind(), x, ArrayRef<int64_t>{second},
                       op.getIgnoresNan());
  if (half)
    x = ConvertOp::create(b, loc, tensorType(context, dimsOf(x), element), x);
  if (x.getType() != op.getType())
    x = ReshapeOp::create(b, loc, op.getType(), x);
  op.replaceAllUsesWith(x);
  op.erase();
}

static void split(ReduceOp op, const SplitModel &model) {
  std::optional<int64_t> all =
      elementCount(op.getInput().getType()).asConstant();
  std::optional<int64_t> results = elementCount(op.getType()).asConstant();
  if (!all)
    return splitSymbolic(op, model);
  if (!all || !results || *all == 0 || *results == 0)
    return;
  int64_t rank = rankOf(op.getInput()), reduced = op.getDims().size();
  int64_t length = *all / *results;
  auto areFrom = [&](int64_t first) {
    for (auto [i, dim] : llvm::enumerate(op.getDims()))
      if (dim != first + static_cast<int64_t>(i))
        return false;
    return reduced > 0;
  };
  bool rows = areFrom(rank - reduced), columns = !rows && areFrom(0);
  if (!rows && !columns)
    return;
  if (columns && model.shared > 0 &&
      sharesItself(elementTypeOf(op.getInput()), *results, length, model))
    return;
  if (columns && length * *results <= model.block)
    return;
  if (rows && !elementTypeOf(op.getInput()).isInteger(1) &&
      holdsRows(*results, length, model))
    return;
  int64_t programs =
      columns ? (*results + model.tile - 1) / model.tile : *results;
  // A program that walks down a long column finds every row on another page;
  // of a part, the columns beside it are near.
  constexpr int64_t partsOfFar = 16, rowsOfFar = 64;
  bool isFar = columns && model.far > 0 && *results >= model.far &&
               length >= partsOfFar * rowsOfFar;
  // Half as many as wanted are still enough.
  if (programs * 2 > model.programs && !isFar)
    return;
  // A column of many parts would itself be long; parts of rows are read at once
  // and rows of them again.
  constexpr int64_t mostOfColumn = 64, leastOfColumn = 16;
  int64_t wanted = mostOfColumn;
  if (model.narrow > 0)
    wanted = std::clamp(model.programs * model.narrow / *results, leastOfColumn,
                        mostOfColumn);
  // Parts so long that most processors would have none are cut further.
  int64_t part = model.part;
  if (model.leastPart > 0)
    part = std::clamp(*all / (4 * int64_t(model.machine.cores)),
                      model.leastPart, model.part);
  // What is left is read by one program of the second step.
  constexpr int64_t mostRest = 8192, mostRowsOfRest = 64;
  Cut cut = isFar     ? cutOf(length, partsOfFar, rowsOfFar, mostRowsOfRest)
            : columns ? cutOf(length, wanted, model.leastColumn, mostRowsOfRest)
                      : cutOf(length, model.parts, part, mostRest);
  int64_t parts = cut.parts;
  if (parts == 1)
    return;
  // Rows of a column that lie next to each other in memory, as one.
  int64_t together = 1;
  while (columns && !cut.rest && *results * together * 2 <= model.wide &&
         length / parts % (together * 2) == 0)
    together *= 2;
  reduceInParts(op, model, {rows, *results, length, together, cut});
}

/// The index of a line's best element: the best of the parts' best ones, and
/// where it is in its part. Of equal parts the first (last) has the first
/// (last) of equal elements, and a NaN is better than any number, as it is
/// among the elements.
static void splitIndex(ArgReduceOp op, const SplitModel &model) {
  std::optional<int64_t> all =
      elementCount(op.getInput().getType()).asConstant();
  int64_t axis = op.getDim();
  std::optional<int64_t> length = dimOf(op.getInput(), axis).asConstant();
  if (model.lines == 0 || !all || *all == 0 || !length)
    return;
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t inner = 1;
  for (Dim dim : ArrayRef<Dim>(dims).drop_front(axis + 1))
    inner *= *dim.asConstant();
  int64_t outer = *all / *length / inner;
  int64_t programs = outer * ((inner + model.tile - 1) / model.tile);
  // Narrow columns are one warp's.
  constexpr int64_t columnsOfWarp = 128, warps = 8, mostRest = 8192,
                    mostRowsOfRest = 64;
  int64_t wanted =
      inner > 1 && inner <= columnsOfWarp ? warps * model.lines : model.lines;
  // Half as many as wanted are still enough.
  if (programs * 2 > wanted || fitsBlock(outer, *length, inner, model))
    return;
  Cut cut = inner == 1
                ? cutOf(*length, wanted / programs, model.leastLine, mostRest)
                : cutOf(*length, wanted / programs, model.leastColumn,
                        mostRowsOfRest);
  if (cut.parts == 1)
    return;

  OpBuilder b(op);
  Location loc = op.getLoc();
  MLIRContext *context = op.getContext();
  Type i64 = b.getI64Type();
  auto typeOf = [&](ArrayRef<int64_t> sizes, Type element) {
    SmallVector<Dim> shape;
    for (int64_t size : sizes)
      shape.push_back(Dim::constant(context, size));
    return tensorType(context, shape, element);
  };
  auto best = [&](Value x, uint64_t dim) -> Value {
    return ArgReduceOp::create(b, loc, op.getKind(), x, dim, op.getLast());
  };
  auto number = [&](ArrayRef<int64_t> shape, int64_t n) -> Value {
    auto scalar = RankedTensorType::get({}, i64);
    Value value = ConstantOp::create(
        b, loc, scalar, DenseElementsAttr::get(scalar, b.getI64IntegerAttr(n)));
    return BroadcastOp::create(b, loc, typeOf(shape, i64), value,
                               ArrayRef<int64_t>{});
  };
  Type element = elementTypeOf(op.getInput());
  Value x = op.getInput(), rest;
  int64_t whole = cut.parts * cut.each;
  if (cut.rest) {
    x = ReshapeOp::create(b, loc, typeOf({outer, *length, inner}, element), x);
    rest = runOf(b, loc, x, 1, whole, cut.rest);
    x = runOf(b, loc, x, 1, 0, whole);
  }
  x = ReshapeOp::create(
      b, loc, typeOf({outer, cut.parts, cut.each, inner}, element), x);
  Value within = best(x, 2); // [outer, parts, inner]
  Value values =
      ReduceOp::create(b, loc, op.getKind(), x, ArrayRef<int64_t>{2}, false);
  Value index;
  auto choose = [&](Value from, Value at) -> Value {
    at = ReshapeOp::create(b, loc, typeOf({outer, 1, inner}, i64), at);
    return GatherElementsOp::create(b, loc, from, at, uint64_t(1));
  };
  if (rest) {
    // The rest's elements stand for themselves, behind the parts' best ones.
    SmallVector<int64_t> shape{outer, cut.parts, inner},
        behind{outer, cut.rest, inner};
    auto count = [&](ArrayRef<int64_t> sizes) -> Value {
      return IotaOp::create(b, loc, typeOf(sizes, i64), uint64_t(1));
    };
    Value first = MulOp::create(b, loc, count(shape), number(shape, cut.each));
    Value places = AddOp::create(b, loc, within, first);
    Value others = AddOp::create(b, loc, count(behind), number(behind, whole));
    values = ConcatOp::create(b, loc, ValueRange{values, rest}, uint64_t(1));
    places = ConcatOp::create(b, loc, ValueRange{places, others}, uint64_t(1));
    index = choose(places, best(values, 1));
  } else {
    SmallVector<int64_t> one{outer, 1, inner};
    Value part = best(values, 1);
    within = choose(within, part);
    part = ReshapeOp::create(b, loc, typeOf(one, i64), part);
    index = AddOp::create(
        b, loc, within,
        MulOp::create(b, loc, part, number(one, cut.each)).getResult());
  }
  op.replaceAllUsesWith(
      ReshapeOp::create(b, loc, op.getType(), index).getResult());
  op.erase();
}

void knapper::widenLongRows(func::FuncOp function, const SplitModel &model) {
  SmallVector<Operation *> found;
  function.walk([&](Operation *op) {
    if (hasFewLongRows(op, model))
      found.push_back(op);
  });
  for (Operation *op : found) {
    Type narrow = elementTypeOf(op->getResult(0));
    if (!narrow.isF16() && !narrow.isBF16())
      continue;
    OpBuilder b(op);
    auto convert = [&](Value value, Type element) -> Value {
      return ConvertOp::create(b, op->getLoc(),
                               withElement(value.getType(), element), value);
    };
    for (OpOperand &operand : op->getOpOperands())
      if (elementTypeOf(operand.get()) == narrow)
        operand.set(convert(operand.get(), b.getF32Type()));
    Value result = op->getResult(0);
    result.setType(withElement(result.getType(), b.getF32Type()));
    b.setInsertionPointAfter(op);
    Value back = convert(result, narrow);
    result.replaceAllUsesExcept(back, back.getDefiningOp());
  }
}

bool knapper::hasFewLongRows(Operation *op, const SplitModel &model) {
  int64_t axis;
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    axis = softmax.getDim();
  else if (auto norm = dyn_cast<LayerNormOp>(op))
    axis = norm.getDim();
  else
    return false;
  SmallVector<Dim> dims = dimsOf(op->getOperand(0));
  if (isa<SoftmaxOp>(op) && axis + 1 != int64_t(dims.size()))
    return false;
  double rows = 1, length = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!dim.asConstant() || dim.isConstant(0))
      return false;
    (int64_t(i) < axis ? rows : length) *= double(*dim.asConstant());
  }
  // A program holds a shorter row in its registers, and reads it once.
  constexpr double held = 32768, passes = 3, kernels = 4;
  double bytes = length * elementBytes(elementTypeOf(op->getOperand(0)));
  double parts = 1;
  while (parts < double(model.sharedRow) &&
         rows * parts < double(model.machine.cores) &&
         length / (2 * parts) >= double(model.leastShared))
    parts *= 2;
  if (length / parts > held)
    parts = 1;
  double reads = length / parts <= held ? 1 : passes;
  double waves = std::ceil(rows * parts / double(model.machine.cores));
  double whole =
      waves * bytes / parts * (reads + 1) / model.machine.coreBandwidth;
  double split = rows * bytes * (passes + 1) / model.machine.copyBandwidth +
                 kernels * model.machine.launchSeconds;
  return split < whole;
}

/// Of a reduction of the last dims, few elements together, and of others before
/// a kept one: the others first, which leaves columns that lie beside each
/// other; of a program a result, each access would have what the last dims
/// have. The first reduction; null where there was nothing to do.
static ReduceOp splitAround(ReduceOp op, const SplitModel &model) {
  constexpr int64_t fewLast = 64, leastOthers = 32;
  std::optional<int64_t> all =
      elementCount(op.getInput().getType()).asConstant();
  if (!model.around || !all || *all < model.around)
    return {};
  SmallVector<Dim> dims = dimsOf(op.getInput());
  int64_t last = dims.size(), size = 1, others = 1;
  auto isReduced = [&](int64_t d) {
    return llvm::is_contained(op.getDims(), d);
  };
  while (last > 0 && isReduced(last - 1))
    size *= *dims[--last].asConstant();
  SmallVector<int64_t> first;
  for (int64_t d = 0; d < last; ++d)
    if (isReduced(d)) {
      first.push_back(d);
      others *= *dims[d].asConstant();
    }
  if (size == 1 || size >= fewLast || others < leastOthers)
    return {};
  auto second = llvm::to_vector(llvm::seq<int64_t>(
      last - int64_t(first.size()), dims.size() - int64_t(first.size())));
  Value result = twice(op, first, second);
  op.replaceAllUsesWith(result);
  op.erase();
  if (auto narrows = result.getDefiningOp<ConvertOp>())
    result = narrows.getInput();
  return result.getDefiningOp<ReduceOp>().getInput().getDefiningOp<ReduceOp>();
}

void knapper::splitReductions(func::FuncOp function, const SplitModel &model) {
  SmallVector<ReduceOp> ops(function.getOps<ReduceOp>());
  for (ReduceOp op : ops) {
    if (ReduceOp first = splitAround(op, model))
      op = first;
    if (!splitNarrow(op, model))
      split(op, model);
  }
  SmallVector<ArgReduceOp> indices(function.getOps<ArgReduceOp>());
  for (ArgReduceOp op : indices)
    splitIndex(op, model);
}

namespace {
struct SplitReductionsPass
    : knapper::impl::SplitReductionsBase<SplitReductionsPass> {
  SplitReductionsPass() = default;
  SplitReductionsPass(const SplitReductionsPass &other)
      : SplitReductionsBase(other) {}

  Option<bool> flatRuns{*this, "flat-runs",
                        llvm::cl::desc("SplitModel::flatRuns")};

  void runOnOperation() override {
    SplitModel model;
    model.flatRuns = flatRuns;
    splitReductions(getOperation(), model);
  }
};
} // namespace
