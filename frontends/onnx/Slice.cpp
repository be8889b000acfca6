// Parts of tensors: Slice, Pad.
#include "frontends/onnx/Node.h"

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

/// Where the data says from where to where: how many that are is a fresh
/// symbol. Steps are 1.
LogicalResult sliceByData(Node &n, ArrayRef<int64_t> axes) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  Value x = n[0], zero = n.integerScalar(0, i64);
  std::optional<SmallVector<Dim>> starts = n.importer.sizes(n[1]);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    Dim size = ts::dimOf(x, axis);
    auto bound = [&, at = n.dim(static_cast<int64_t>(i))](Value list) {
      Value index =
          n.reshape(n.sliceDim(n.convert(list, i64), 0, at, n.dim(1)), {});
      Value whole = n.sizeScalar(size, i64);
      index =
          n.select(n.compare(P::lt, index, zero), n.add(index, whole), index);
      return n.binary<ts::MaxOp>(n.binary<ts::MinOp>(index, whole), zero);
    };
    Value from = bound(n[1]), to = bound(n[2]);
    Dim count = n.bindSize(n.binary<ts::MaxOp>(n.sub(to, from), zero), "slice");
    if (starts && (*starts)[i].isConstant(0)) {
      x = n.sliceDim(x, axis, n.dim(0), count);
    } else {
      Value index = n.makeAs<ts::IotaOp>(n.type({count}, i64), uint64_t(0));
      x = n.make<ts::GatherOp>(x, n.add(index, from), uint64_t(axis));
    }
    if (!x)
      return failure();
  }
  return n.out(x);
}

LogicalResult importSlice(Node &n) {
  std::optional<SmallVector<Dim>> starts, ends;
  if (n.has(1)) {
    starts = n.importer.sizes(n[1]);
    ends = n.importer.sizes(n[2]);
  } else { // until opset 9
    auto asDims = [&](StringRef name) {
      return llvm::map_to_vector(n.integers(name),
                                 [&](int64_t number) { return n.dim(number); });
    };
    starts = asDims("starts");
    ends = asDims("ends");
  }
  int64_t rank = ts::rankOf(n[0]), listed = rank;
  bool known = starts && ends;
  if (known) {
    listed = static_cast<int64_t>(starts->size());
  } else {
    std::optional<int64_t> length;
    if (ts::rankOf(n[1]) == 1 && ts::rankOf(n[2]) == 1)
      length = ts::dimOf(n[1], 0).asConstant();
    if (!length || *length > rank || !ts::dimOf(n[2], 0).isConstant(*length))
      return n.unsupported("starts or ends depend on data and have no known "
                           "length");
    listed = *length;
  }
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
      steps.size() != axes.size() || (known && ends->size() != starts->size()))
    return n.fail("starts, ends, axes and steps differ in length",
                  "give one of each an axis");
  if (!known) {
    for (int64_t &axis : axes)
      axis = n.normalAxis(axis, rank);
    if (n.failed())
      return failure();
    if (llvm::any_of(steps, [](int64_t step) { return step != 1; }))
      return n.unsupported("starts or ends depend on data, with another step "
                           "than 1");
    return sliceByData(n, axes);
  }
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
    if (!start || !end)
      return n.unsupported("cannot tell whether " +
                           (start ? (*ends)[i] : (*starts)[i]).str() +
                           " counts from the end");
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

LogicalResult importPad(Node &n) {
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
  std::string modeName = n.text("mode", "constant");
  std::optional<ts::PadMode> mode = ts::symbolizePadMode(modeName);
  if (!mode)
    return n.fail("mode is '" + modeName + "'",
                  "use constant, reflect, edge or wrap");
  // Negative pads cut elements off first.
  SmallVector<Dim> low(rank, n.dim(0)), high(rank, n.dim(0));
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
      return n.failed()
                 ? failure()
                 : n.unsupported("cannot tell whether a pad is negative");
    if (!cutBefore.isConstant(0) || !cutAfter.isConstant(0)) {
      Dim left = ts::dimOf(n[0], axis) - cutBefore - cutAfter;
      if (left.asConstant() && *left.asConstant() < 0)
        return n.fail("cuts more than there is of dim " + Twine(axis),
                      "correct the negative pads");
      x = n.sliceDim(x, axis, cutBefore, left);
      if (!x)
        return failure();
    }
    low[axis] = low[axis] + before;
    high[axis] = high[axis] + after;
  }
  if (llvm::all_of(low, [](Dim d) { return d.isConstant(0); }) &&
      llvm::all_of(high, [](Dim d) { return d.isConstant(0); }))
    return n.out(x);
  Value value;
  if (*mode == ts::PadMode::constant) {
    value = n.has(2) ? n.convert(n.reshape(n[2], {}), ts::elementTypeOf(x))
                     : n.scalarFor(x, n.real("value", 0));
    if (!value)
      return failure();
  } else {
    // The other modes repeat elements: there has to be one.
    SmallVector<Dim> dims = ts::dimsOf(x);
    for (auto [d, dim] : llvm::enumerate(dims))
      if ((!low[d].isConstant(0) || !high[d].isConstant(0)) &&
          !n.importer.assumeAtLeast(dim, 1))
        dim = dim.max(n.dim(1));
    x = n.castDims(x, dims);
    if (!x)
      return failure();
  }
  return n.out(n.make<ts::PadOp>(
      x, Optional{value}, ts::dimArray(n.importer.context, low),
      ts::dimArray(n.importer.context, high), *mode));
}

LogicalResult importCenterCropPad(Node &n) {
  std::optional<SmallVector<Dim>> shape = n.sizes(n[1], "the shape");
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
    std::optional<int64_t> more = (target - ts::dimOf(x, axis)).asConstant();
    if (!more)
      return n.unsupported("cannot tell whether to crop or to pad");
    if (*more < 0) {
      x = n.sliceDim(x, axis, n.dim(-*more / 2), target);
    } else {
      low[axis] = n.dim(*more / 2);
      high[axis] = n.dim(*more - *more / 2);
    }
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
