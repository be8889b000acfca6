// Parts of tensors: Slice, Pad.
#include "frontends/onnx/RuntimeSizes.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

Dim smaller(Dim a, Dim b) {
  if (std::optional<int64_t> gap = ts::lowerBound(b - a); gap && *gap >= 0)
    return a;
  if (std::optional<int64_t> gap = ts::lowerBound(a - b); gap && *gap >= 0)
    return b;
  return a.min(b);
}
Dim larger(Dim a, Dim b) {
  if (std::optional<int64_t> gap = ts::lowerBound(b - a); gap && *gap >= 0)
    return b;
  if (std::optional<int64_t> gap = ts::lowerBound(a - b); gap && *gap >= 0)
    return a;
  return a.max(b);
}

constexpr int64_t endless = INT32_MAX;

/// An index as ONNX gives it (negative from the end, INT_MAX for the end),
/// clamped to [low, high]. Nothing when its sign is unknown.
std::optional<Dim> resolve(Node &n, Dim index, Dim size, Dim low, Dim high) {
  if (std::optional<int64_t> number = index.asConstant()) {
    if (*number >= endless)
      return high;
    if (*number <= -endless)
      return low;
    if (*number < 0)
      index = index + size;
  } else {
    std::optional<int64_t> above = ts::upperBound(index);
    if (above && *above < 0)
      index = index + size;
    else if (!n.importer.assumeAtLeast(index, 0))
      return std::nullopt;
  }
  if (index == high)
    return high;
  // `high` last: backwards through an empty dim, it is below `low`.
  return smaller(larger(index, low), high);
}

/// One dim from `start` to `end` by `step`, 0-D tensors as ONNX gives them, a
/// null `step` for 1: how many elements that are is a fresh symbol.
Value sliceDimAtRunTime(Node &n, Value x, int64_t axis, Value start, Value end,
                        Value step) {
  using P = ts::ComparePredicate;
  if (!x)
    return {};
  Type i64 = n.b.getI64Type();
  auto number = [&](int64_t value) { return n.integerScalar(value, i64); };
  auto clamp = [&](Value value, Value low, Value high) {
    return n.binary<ts::MinOp>(n.binary<ts::MaxOp>(value, low), high);
  };
  Value zero = number(0), one = number(1);
  Value size = n.sizeScalar(ts::dimOf(x, axis), i64);
  auto fromFront = [&](Value index) {
    return n.select(n.compare(P::lt, index, zero), n.add(index, size), index);
  };
  std::optional<SmallVector<Dim>> first = n.importer.sizes(start);
  Value low = zero, high = size, distance, forward;
  if (step) {
    step = clamp(step, number(-endless), number(endless));
    require(n, n.compare(P::ne, step, zero), "has a step of 0");
    forward = n.compare(P::gt, step, zero);
    low = n.select(forward, zero, number(-1));
    high = n.select(forward, size, n.sub(size, one));
  }
  start = clamp(fromFront(start), zero, high);
  end = clamp(fromFront(end), low, high);
  distance = n.sub(end, start);
  if (step) {
    Value length = n.binary<ts::MaxOp>(n.make<ts::AbsOp>(step), one);
    distance = n.select(forward, distance, n.sub(zero, distance));
    distance = n.div(
        n.add(n.binary<ts::MaxOp>(distance, zero), n.sub(length, one)), length);
  }
  Dim count = n.bindSize(n.binary<ts::MaxOp>(distance, zero), "slice");
  if (!step && first && first->front().isConstant(0))
    return n.sliceDim(x, axis, n.dim(0), count);
  Value index = n.makeAs<ts::IotaOp>(n.type({count}, i64), uint64_t(0));
  if (step)
    index = n.mul(index, step);
  return n.make<ts::GatherOp>(x, n.add(index, start), uint64_t(axis));
}

/// Slice whose starts, ends, axes or steps are known at run time only.
LogicalResult sliceAtRunTime(Node &n) {
  std::optional<int64_t> listed = lengthOf(n[1]);
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  if (!listed || *listed > rank || lengthOf(n[2]) != listed ||
      (n.has(3) && lengthOf(n[3]) != listed) ||
      (n.has(4) && lengthOf(n[4]) != listed))
    return n.unsupported("starts, ends, axes or steps depend on data and have "
                         "no common length that is known");
  Value starts = asList(n, n[1]), ends = asList(n, n[2]),
        steps = asList(n, n[4]), x = n[0];
  if (!isNumbers(n, n[3])) {
    auto axes = RuntimeAxes::of(n, n[3], rank);
    if (!axes)
      return failure();
    Value zeros = n.sizesTensor(SmallVector<Dim>(rank, n.dim(0))),
          ones = n.sizesTensor(SmallVector<Dim>(rank, n.dim(1)));
    starts = axes->spread(n, starts, zeros);
    ends = axes->spread(n, ends, n.sizesTensor(dims));
    steps = steps ? axes->spread(n, steps, ones) : ones;
    for (int64_t d = 0; d < rank; ++d)
      x = sliceDimAtRunTime(n, x, d, elementOf(n, starts, d),
                            elementOf(n, ends, d), elementOf(n, steps, d));
    return n.out(x);
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, *listed));
  if (n.has(3))
    axes = *n.numbers(n[3], "axes");
  std::optional<SmallVector<Dim>> by;
  if (steps)
    by = n.importer.sizes(steps);
  llvm::SmallDenseSet<int64_t> seen;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t d = n.normalAxis(axis, rank);
    if (n.failed())
      return failure();
    if (!seen.insert(d).second)
      return n.fail("names an axis twice", "name each axis once");
    auto at = static_cast<int64_t>(i);
    bool hasStep = steps && !(by && (*by)[i].isConstant(1));
    x = sliceDimAtRunTime(n, x, d, elementOf(n, starts, at),
                          elementOf(n, ends, at),
                          hasStep ? elementOf(n, steps, at) : Value());
  }
  return n.out(x);
}

LogicalResult importSlice(Node &n) {
  if (n.has(1) && !(isKnown(n, n[1]) && isKnown(n, n[2]) &&
                    isNumbers(n, n[3]) && isNumbers(n, n[4])))
    return sliceAtRunTime(n);
  std::optional<SmallVector<Dim>> starts, ends;
  if (n.has(1)) {
    starts = n.sizes(n[1], "starts");
    ends = n.sizes(n[2], "ends");
  } else { // until opset 9
    auto asDims = [&](StringRef name) {
      return llvm::map_to_vector(n.integers(name),
                                 [&](int64_t number) { return n.dim(number); });
    };
    starts = asDims("starts");
    ends = asDims("ends");
  }
  if (!starts || !ends)
    return failure();
  int64_t rank = ts::rankOf(n[0]);
  auto listed = static_cast<int64_t>(starts->size());
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, listed)),
                       steps(listed, 1);
  if (n.hasAttr("axes"))
    axes = n.integers("axes");
  if (n.has(3)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[3], "axes");
    if (!given)
      return failure();
    axes = *given;
  }
  if (n.has(4)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[4], "steps");
    if (!given)
      return failure();
    steps = *given;
  }
  if (axes.size() != static_cast<size_t>(listed) ||
      steps.size() != axes.size() || ends->size() != starts->size())
    return n.fail("starts, ends, axes and steps differ in length",
                  "give one of each an axis");
  SmallVector<Dim> dims = ts::dimsOf(n[0]), from(rank, n.dim(0));
  SmallVector<int64_t> by(rank, 1);
  llvm::SmallDenseSet<int64_t> seen;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = n.normalAxis(axes[i], rank);
    if (n.failed())
      return failure();
    if (!seen.insert(axis).second)
      return n.fail("names an axis twice", "name each axis once");
    // A step beyond every size takes one element, however long it is.
    int64_t step = std::clamp(steps[i], -endless, endless);
    if (step == 0)
      return n.fail("has a step of 0", "give another step");
    Dim size = dims[axis], zero = n.dim(0), last = size - 1;
    bool forward = step > 0;
    Dim low = forward ? zero : n.dim(-1), high = forward ? size : last;
    std::optional<Dim> start = resolve(n, (*starts)[i], size,
                                       forward ? low : zero, high),
                       end = resolve(n, (*ends)[i], size, low, high);
    if (!start || !end) // the sign of one says where it counts from
      return sliceAtRunTime(n);
    Dim distance = forward ? *end - *start : *start - *end;
    Dim count = larger(distance.ceilDiv(n.dim(std::abs(step))), zero);
    dims[axis] = count;
    from[axis] = *start;
    by[axis] = step;
    if (count.isConstant(0) || count.isConstant(1)) {
      by[axis] = 1; // the step does not matter
      if (count.isConstant(0))
        from[axis] = zero;
    }
  }
  if (dims == ts::dimsOf(n[0]) &&
      llvm::all_of(by, [](int64_t step) { return step == 1; }))
    return n.out(n[0]);
  return n.out(
      n.makeAs<ts::SliceOp>(n.type(dims, ts::elementTypeOf(n[0])), n[0],
                            ts::dimArray(n.importer.context, from), by));
}

/// What a Pad has beside its pads.
struct Padding {
  ts::PadMode mode;
  SmallVector<Dim> low, high; ///< none negative
};

/// Pads `x`, of which negative pads have been cut off.
LogicalResult pad(Node &n, Value x, const Padding &p) {
  if (!x)
    return failure();
  auto none = [](Dim d) { return d.isConstant(0); };
  if (llvm::all_of(p.low, none) && llvm::all_of(p.high, none))
    return n.out(x);
  Value value;
  if (p.mode == ts::PadMode::constant) {
    value = n.has(2) ? n.convert(n.reshape(n[2], {}), ts::elementTypeOf(x))
                     : n.scalarFor(x, n.real("value", 0));
    if (!value)
      return failure();
  } else {
    // The other modes repeat elements: there has to be one where any is added.
    for (auto [d, dim] : llvm::enumerate(ts::dimsOf(x))) {
      Dim added = p.low[d] + p.high[d];
      if (none(added) ||
          (added.asConstant() && n.importer.assumeAtLeast(dim, 1)))
        continue;
      if (added.asConstant() && dim.asConstant())
        return n.fail("repeats an element of dim " + Twine(d) +
                          ", which has none",
                      "give at least one element");
      require(n, added.min(n.dim(1)), ts::ComparePredicate::le, dim,
              "repeats an element of a dim that has none");
    }
  }
  return n.out(n.make<ts::PadOp>(
      x, Optional{value}, ts::dimArray(n.importer.context, p.low),
      ts::dimArray(n.importer.context, p.high), p.mode));
}

/// Pad whose pads or axes are known at run time only.
LogicalResult padAtRunTime(Node &n, ts::PadMode mode) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  std::optional<int64_t> length = lengthOf(n[1]);
  int64_t count = length.value_or(0) / 2;
  if (!length || *length != 2 * count ||
      (n.has(3) ? lengthOf(n[3]) != count : count != rank))
    return n.unsupported("pads depend on data and are not two for each axis");
  Type i64 = n.b.getI64Type();
  Value list = asList(n, n[1]), zero = n.integerScalar(0, i64),
        none = n.sizesTensor(SmallVector<Dim>(rank, n.dim(0)));
  Value before = n.sliceDim(list, 0, n.dim(0), n.dim(count)),
        after = n.sliceDim(list, 0, n.dim(count), n.dim(count));
  if (n.has(3)) {
    auto axes = RuntimeAxes::of(n, n[3], rank);
    if (!axes)
      return failure();
    before = axes->spread(n, before, none);
    after = axes->spread(n, after, none);
  }
  auto split = [&](Value pads, StringRef hint) {
    return symbolsOf(n, n.binary<ts::MaxOp>(pads, zero), rank, hint);
  };
  Padding p{mode, split(before, "before"), split(after, "after")};
  SmallVector<Dim> from = split(n.sub(zero, before), "cut");
  Value left =
      n.add(n.add(n.sizesTensor(dims), n.binary<ts::MinOp>(before, zero)),
            n.binary<ts::MinOp>(after, zero));
  SmallVector<Dim> kept = symbolsOf(n, left, rank, "kept");
  Value x = n[0];
  for (int64_t d = 0; d < rank; ++d)
    x = n.sliceDim(x, d, from[d], kept[d]);
  return pad(n, x, p);
}

LogicalResult importPad(Node &n) {
  std::string modeName = n.text("mode", "constant");
  std::optional<ts::PadMode> mode = ts::symbolizePadMode(modeName);
  if (!mode)
    return n.fail("mode is '" + modeName + "'",
                  "use constant, reflect, edge or wrap");
  if (!isKnown(n, n[1]) || !isNumbers(n, n[3]))
    return padAtRunTime(n, *mode);
  std::optional<SmallVector<Dim>> pads;
  if (n.has(1))
    pads = n.sizes(n[1], "pads");
  else // until opset 10
    pads = llvm::map_to_vector(n.integers(n.opset < 2 ? "paddings" : "pads"),
                               [&](int64_t number) { return n.dim(number); });
  if (!pads)
    return failure();
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (n.has(3)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[3], "axes");
    if (!given)
      return failure();
    axes.clear();
    for (int64_t axis : *given)
      axes.push_back(n.normalAxis(axis, rank));
  }
  if (n.failed())
    return failure();
  if (pads->size() != 2 * axes.size())
    return n.fail("has " + Twine(pads->size()) + " pads for " +
                      Twine(axes.size()) + " axes",
                  "give a pad before and after each axis");
  // Negative pads cut elements off first.
  Padding p{*mode, SmallVector<Dim>(rank, n.dim(0)),
            SmallVector<Dim>(rank, n.dim(0))};
  Value x = n[0];
  for (auto [i, axis] : llvm::enumerate(axes)) {
    Dim before = (*pads)[i], after = (*pads)[i + axes.size()];
    Dim cutBefore = n.dim(0), cutAfter = n.dim(0);
    auto split = [&](Dim &pad, Dim &cut) {
      std::optional<int64_t> number = pad.asConstant();
      if (number && std::abs(static_cast<double>(*number)) > 1e12) {
        (void)n.fail("has a pad of " + Twine(*number), "give a smaller pad");
        return false;
      }
      if (number && *number < 0) {
        cut = pad * -1;
        pad = n.dim(0);
        return true;
      }
      return number.has_value() || n.importer.assumeAtLeast(pad, 0);
    };
    if (!split(before, cutBefore) || !split(after, cutAfter))
      return n.failed() ? failure() : padAtRunTime(n, *mode);
    if (!cutBefore.isConstant(0) || !cutAfter.isConstant(0)) {
      Dim left = ts::dimOf(n[0], axis) - cutBefore - cutAfter;
      if (left.asConstant() && *left.asConstant() < 0)
        return n.fail("cuts more than there is of dim " + Twine(axis),
                      "correct the negative pads");
      x = n.sliceDim(x, axis, cutBefore, left);
      if (!x)
        return failure();
    }
    p.low[axis] = p.low[axis] + before;
    p.high[axis] = p.high[axis] + after;
  }
  return pad(n, x, p);
}

LogicalResult importCenterCropPad(Node &n) {
  std::optional<SmallVector<Dim>> shape = sizesOrSymbols(n, n[1], "the shape");
  if (!shape)
    return failure();
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> axes = n.axesOrAll(rank);
  if (n.failed())
    return failure();
  if (shape->size() != axes.size())
    return n.fail("has " + Twine(shape->size()) + " sizes for " +
                      Twine(axes.size()) + " axes",
                  "give a size an axis");
  Value x = n[0];
  SmallVector<Dim> low(rank, n.dim(0)), high = low;
  for (auto [axis, target] : llvm::zip(axes, *shape)) {
    if (!x)
      return failure();
    Dim own = ts::dimOf(x, axis), zero = n.dim(0);
    Dim more = larger(target - own, zero), less = larger(own - target, zero);
    if (!less.isConstant(0))
      x = n.sliceDim(x, axis, less.floorDiv(n.dim(2)), own - less);
    low[axis] = more.floorDiv(n.dim(2));
    high[axis] = more - low[axis];
  }
  if (llvm::all_of(high, [](Dim dim) { return dim.isConstant(0); }))
    return n.out(x);
  return n.out(n.make<ts::PadOp>(
      x, Optional{n.scalarFor(x, 0)}, ts::dimArray(n.importer.context, low),
      ts::dimArray(n.importer.context, high), ts::PadMode::constant));
}

constexpr OpRow rows[] = {
    {"", "CenterCropPad", 18, 2, 2, importCenterCropPad},
    {"", "Pad", 1, 1, 1, importPad, 10},
    {"", "Pad", 11, 2, 4, importPad},
    {"", "Slice", 1, 1, 1, importSlice, 9},
    {"", "Slice", 10, 3, 5, importSlice},
};

} // namespace

ArrayRef<OpRow> sliceRows() { return rows; }

} // namespace knapper
