// Ops that give the same elements other dims, and ops on dims themselves.
#include "frontends/onnx/RuntimeSizes.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

LogicalResult importShape(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  auto clamp = [&](int64_t at) {
    if (at < 0)
      at = at < -rank ? 0 : at + rank;
    return std::min(at, rank);
  };
  int64_t start = clamp(n.integer("start", 0)),
          end = clamp(n.integer("end", rank));
  return n.out(n.sizesTensor(
      ArrayRef<Dim>(dims).slice(start, std::max<int64_t>(end - start, 0))));
}

LogicalResult importSize(Node &n) {
  return n.out(
      n.sizeScalar(ts::elementCount(n[0].getType()), n.b.getI64Type()));
}

/// The sizes in `shape`, computed from the list that is input 1: a number above
/// 1 in that list is one here.
SmallVector<Dim> knownOrComputed(Node &n, Value shape, int64_t length,
                                 StringRef hint) {
  SmallVector<Dim> dims;
  Value list = asList(n, n[1]);
  int64_t more = length - lengthOf(list).value_or(length);
  for (int64_t i = 0; i < length; ++i) {
    std::optional<SmallVector<Dim>> known;
    if (Value element = i < more ? Value() : elementOf(n, list, i - more))
      known = n.importer.sizes(element);
    if (known && known->front().asConstant().value_or(0) > 1)
      dims.push_back(known->front());
    else
      dims.append(
          symbolsOf(n, n.sliceDim(shape, 0, n.dim(i), n.dim(1)), 1, hint));
  }
  return dims;
}

/// The sizes that zeros of a shape copy; -2, which is no size, where there is
/// none.
Value copied(Node &n, ArrayRef<Dim> own, int64_t length) {
  Value sizes =
      n.sizesTensor(own.take_front(std::min<size_t>(length, own.size())));
  int64_t more = length - static_cast<int64_t>(own.size());
  if (more <= 0)
    return sizes;
  Value none =
      n.broadcastTo(n.integerScalar(-2, n.b.getI64Type()), {n.dim(more)});
  return n.make<ts::ConcatOp>(ValueRange{sizes, none}, int64_t(0));
}

/// A shape that is known at run time only, with what 0 and -1 mean.
LogicalResult reshapeAtRunTime(Node &n, int64_t length) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  Value shape = asList(n, n[1]), zero = n.integerScalar(0, i64),
        one = n.integerScalar(1, i64),
        open = n.compare(P::eq, shape, n.integerScalar(-1, i64));
  Value holes = n.reduce(ts::ReduceKind::add, n.convert(open, i64), {0}, false);
  require(n, n.bindSize(holes, "open"), P::le, n.dim(1),
          "the shape has -1 twice");
  if (!n.flag("allowzero", false))
    shape = n.select(n.compare(P::eq, shape, zero),
                     copied(n, ts::dimsOf(n[0]), length), shape);
  Value known =
      n.reduce(ts::ReduceKind::mul, n.select(open, one, shape), {0}, false);
  require(n,
          n.binary<ts::OrOp>(n.compare(P::eq, holes, zero),
                             n.compare(P::ne, known, zero)),
          "-1 beside a dim of 0 has no answer");
  Value count = n.sizeScalar(ts::elementCount(n[0].getType()), i64);
  Value rest = n.div(count, n.binary<ts::MaxOp>(known, one));
  shape = n.select(open, rest, shape);
  return n.out(n.reshape(n[0], knownOrComputed(n, shape, length, "reshaped")));
}

LogicalResult importReshape(Node &n) {
  if (std::optional<int64_t> length = runtimeLength(n, n[1]))
    return reshapeAtRunTime(n, *length);
  std::optional<SmallVector<Dim>> shape = n.sizes(n[1], "the shape");
  if (!shape)
    return failure();
  SmallVector<Dim> own = ts::dimsOf(n[0]), dims = *shape;
  bool zeroCopies = !n.flag("allowzero", false);
  std::optional<size_t> open;
  Dim known = n.dim(1);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].isConstant(-1)) {
      if (open)
        return n.fail("the shape has -1 twice", "leave one dim open at most");
      open = i;
      continue;
    }
    if (dims[i].isConstant(0) && zeroCopies) {
      if (i >= own.size())
        return n.fail("the shape copies dim " + Twine(i) + " of " +
                          ts::shapeText(n[0].getType()),
                      "give a number, or set allowzero");
      dims[i] = own[i];
    }
    if (std::optional<int64_t> number = dims[i].asConstant();
        number && *number < -1)
      return n.fail("the shape holds " + Twine(*number),
                    "use -1 for the dim that follows from the others");
    known = known * dims[i];
  }
  if (open) {
    Dim count = ts::elementCount(n[0].getType());
    if (known.isConstant(0))
      return n.fail("-1 beside a dim of 0 has no answer",
                    "give the dim as a number");
    if (std::optional<Dim> exact = count.exactDiv(known)) {
      dims[*open] = *exact;
    } else if (count.asConstant() && known.asConstant()) {
      return n.fail(count.str() + " elements do not divide by " + known.str(),
                    "correct the requested shape");
    } else {
      dims[*open] = count.floorDiv(known); // checked by the cast of reshape
    }
  }
  return n.out(n.reshape(n[0], dims));
}

LogicalResult importFlatten(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = n.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return n.fail("axis " + Twine(axis) + " is outside rank " + Twine(rank),
                  "correct the axis");
  if (axis < 0)
    axis += rank;
  ArrayRef<Dim> all = dims;
  return n.out(
      n.reshape(n[0], {ts::product(n.importer.context, all.take_front(axis)),
                       ts::product(n.importer.context, all.drop_front(axis))}));
}

LogicalResult importSqueeze(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]), result, checked = dims;
  SmallVector<int64_t> axes;
  if (!isNumbers(n, n[1])) {
    auto rank = static_cast<int64_t>(dims.size());
    auto listed = RuntimeAxes::of(n, n[1], rank);
    if (!listed)
      return failure();
    Value sizes = n.sizesTensor(dims),
          one = n.integerScalar(1, n.b.getI64Type());
    Value taken =
        n.reduce(ts::ReduceKind::mul, n.select(listed->isListed(), sizes, one),
                 {0}, false);
    require(n, n.bindSize(taken, "squeezed"), ts::ComparePredicate::eq,
            n.dim(1), "squeezes a dim that is not 1");
    return n.out(n.reshape(n[0], symbolsOf(n, listed->without(n, sizes),
                                           rank - listed->count(), "kept")));
  }
  if (n.has(1)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[1], "axes");
    if (!given)
      return failure();
    axes = n.normalAxes(*given, dims.size());
  } else if (n.hasAttr("axes")) { // until opset 12
    axes = n.normalAxes(n.integers("axes"), dims.size());
  } else {
    for (auto [i, dim] : llvm::enumerate(dims))
      if (dim.isConstant(1))
        axes.push_back(i);
  }
  if (n.failed())
    return failure();
  bool anyAxis = !n.has(1) && !n.hasAttr("axes");
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(i))) {
      result.push_back(dim);
      if (anyAxis && !dim.asConstant())
        ts::CheckOp::create(
            n.b, n.loc, dim.attr(), ts::ComparePredicate::ne, n.dim(1).attr(),
            ("dim " + Twine(i) + " of the input, " + dim.str() +
             ", is 1, and Squeeze without axes would take it away, where the "
             "model was compiled to keep it; give the node its axes")
                .str());
      continue;
    }
    if (dim.asConstant() && !dim.isConstant(1))
      return n.fail("dim " + Twine(i) + " of " + ts::shapeText(n[0].getType()) +
                        " is not 1",
                    "squeeze dims of size 1 only");
    checked[i] = n.dim(1);
  }
  return n.out(n.reshape(n.castDims(n[0], checked), result));
}

/// Unsqueeze by axes that are known at run time only.
LogicalResult unsqueezeAtRunTime(Node &n, int64_t count) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size()) + count;
  auto axes = RuntimeAxes::of(n, n[1], rank);
  if (!axes)
    return failure();
  // Where the dims in front of an axis are counted, each finds its own.
  dims.push_back(n.dim(1));
  Value kept = n.convert(n.make<ts::NotOp>(axes->isListed()), i64);
  Value from = n.make<ts::ScanOp>(ts::ReduceKind::add, kept, uint64_t(0),
                                  /*exclusive=*/true, /*reverse=*/false);
  Value sizes = n.make<ts::GatherOp>(n.sizesTensor(dims), from, uint64_t(0));
  sizes = n.select(axes->isListed(), n.integerScalar(1, i64), sizes);
  return n.out(n.reshape(n[0], symbolsOf(n, sizes, rank, "expanded")));
}

LogicalResult importUnsqueeze(Node &n) {
  if (std::optional<int64_t> count = n.has(1) ? lengthOf(n[1]) : std::nullopt;
      count && !isNumbers(n, n[1]))
    return unsqueezeAtRunTime(n, *count);
  std::optional<SmallVector<int64_t>> given;
  if (n.has(1))
    given = n.numbers(n[1], "axes");
  else // until opset 12
    given = n.integers("axes");
  if (!given)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]), result;
  size_t rank = dims.size() + given->size();
  SmallVector<int64_t> axes = n.normalAxes(*given, rank);
  if (n.failed())
    return failure();
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i)
    result.push_back(llvm::is_contained(axes, static_cast<int64_t>(i))
                         ? n.dim(1)
                         : dims[next++]);
  return n.out(n.reshape(n[0], result));
}

LogicalResult importTranspose(Node &n) {
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> permutation = n.integers("perm");
  if (!n.hasAttr("perm"))
    for (int64_t i = rank; i-- > 0;)
      permutation.push_back(i);
  return n.out(n.transpose(n[0], permutation));
}

LogicalResult importConcat(Node &n) {
  if (!n.hasAttr("axis"))
    return n.fail("has no axis", "give the axis to join along");
  int64_t rank = ts::rankOf(n[0]), axis = n.axis("axis", 0, rank);
  // Sizes that must agree: a number decides, then a bare symbol.
  SmallVector<Dim> common = ts::dimsOf(n[0]);
  for (Value value : n.all()) {
    if (ts::rankOf(value) != rank)
      return n.fail("joins " + ts::shapeText(n[0].getType()) + " with " +
                        ts::shapeText(value.getType()),
                    "all inputs need one rank");
    for (auto [mine, other] : llvm::zip(common, ts::dimsOf(value)))
      if (mine.isSymbolic() &&
          (other.asConstant() || (!mine.asSymbol() && other.asSymbol())))
        mine = other;
  }
  SmallVector<Value> parts;
  for (Value value : n.all()) {
    SmallVector<Dim> dims = common;
    if (!n.failed())
      dims[axis] = ts::dimOf(value, axis);
    parts.push_back(n.castDims(value, dims));
  }
  if (parts.size() == 1)
    return n.out(parts[0]);
  return n.out(n.make<ts::ConcatOp>(ValueRange(parts), axis));
}

LogicalResult importSplit(Node &n) {
  int64_t axis = n.axis("axis", 0, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  Dim size = ts::dimOf(n[0], axis);
  auto count = static_cast<int64_t>(n.resultCount());
  SmallVector<Dim> parts;
  if (n.has(1)) {
    std::optional<SmallVector<Dim>> given = sizesOrSymbols(n, n[1], "split");
    if (!given)
      return failure();
    parts = *given;
    if (static_cast<int64_t>(parts.size()) != count)
      return n.fail("splits into " + Twine(parts.size()) + " parts but has " +
                        Twine(count) + " results",
                    "give a size a result");
  } else if (n.hasAttr("split")) { // until opset 12
    for (int64_t part : n.integers("split"))
      parts.push_back(n.dim(part));
    if (static_cast<int64_t>(parts.size()) != count)
      return n.fail("splits into " + Twine(parts.size()) + " parts but has " +
                        Twine(count) + " results",
                    "give a size a result");
  } else {
    int64_t chunks = n.integer("num_outputs", count);
    if (chunks != count || count < 1)
      return n.fail("num_outputs is " + Twine(chunks) + " for " + Twine(count) +
                        " results",
                    "make them equal");
    // The last part takes what is left.
    Dim chunk = size.ceilDiv(n.dim(count));
    for (int64_t i = 0; i + 1 < count; ++i)
      parts.push_back(chunk);
    parts.push_back(size - chunk * (count - 1));
  }
  Dim total = n.dim(0);
  for (Dim part : parts)
    total = total + part;
  Value input = n[0];
  if (!(total == size)) {
    SmallVector<Dim> dims = ts::dimsOf(input);
    dims[axis] = total;
    input = n.castDims(input, dims);
  }
  Dim start = n.dim(0);
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (failed(n.out(n.sliceDim(input, axis, start, part), i)))
      return failure();
    start = start + part;
  }
  return mlir::success();
}

/// Expand to a shape that is known at run time only.
LogicalResult expandAtRunTime(Node &n, int64_t length) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> own = ts::dimsOf(n[0]);
  Value shape = asList(n, n[1]);
  auto rank = static_cast<int64_t>(own.size());
  if (length < rank) { // the shape broadcasts, too
    SmallVector<Dim> ones(static_cast<size_t>(rank - length), n.dim(1));
    shape = n.make<ts::ConcatOp>(ValueRange{n.sizesTensor(ones), shape},
                                 int64_t(0));
    length = rank;
  }
  own.insert(own.begin(), static_cast<size_t>(length - rank), n.dim(1));
  shape = n.select(
      n.compare(ts::ComparePredicate::eq, shape, n.integerScalar(1, i64)),
      n.sizesTensor(own), shape);
  SmallVector<Dim> dims = knownOrComputed(n, shape, length, "expanded");
  Value x = n[0];
  for (int64_t d = 0; d < length; ++d) {
    Dim mine = own[d];
    if (mine.asConstant() && !mine.isConstant(1)) { // stays as it is
      require(n, dims[d], ts::ComparePredicate::eq, mine,
              "cannot broadcast to this shape");
      dims[d] = mine;
    } else if (mine.isSymbolic()) {
      x = n.broadcastDim(x, d - (length - rank), dims[d]);
    }
  }
  return n.out(n.broadcastTo(x, dims));
}

LogicalResult importExpand(Node &n) {
  if (std::optional<int64_t> length = runtimeLength(n, n[1]))
    return expandAtRunTime(n, *length);
  std::optional<SmallVector<Dim>> shape = sizesOrSymbols(n, n[1], "the shape");
  if (!shape)
    return failure();
  for (Dim dim : *shape)
    if (std::optional<int64_t> number = dim.asConstant(); number && *number < 0)
      return n.fail("the shape holds " + Twine(*number),
                    "give sizes; 1 keeps a dim");
  return n.out(
      n.broadcastTo(n[0], n.broadcastDims({ts::dimsOf(n[0]), *shape})));
}

LogicalResult importTile(Node &n) {
  std::optional<SmallVector<Dim>> repeats = sizesOrSymbols(n, n[1], "repeats");
  if (!repeats)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]), wide, result;
  if (repeats->size() != dims.size())
    return n.fail("has " + Twine(repeats->size()) + " repeats for rank " +
                      Twine(dims.size()),
                  "give a repeat a dim");
  // Each repeated dim gets a dim of its own in front, then they merge.
  SmallVector<int64_t> at;
  for (auto [dim, count] : llvm::zip(dims, *repeats)) {
    if (std::optional<int64_t> number = count.asConstant();
        number && *number < 0)
      return n.fail("repeats " + Twine(*number) + " times",
                    "give numbers that are not negative");
    if (!count.isConstant(1))
      wide.push_back(count);
    at.push_back(wide.size());
    wide.push_back(dim);
    result.push_back(dim * count);
  }
  // A dim of size 1 would broadcast along itself; here it stays.
  return n.out(n.reshape(n.broadcastAt(n[0], at, wide), result));
}

/// Splits the channel dim by the block, and moves the parts beside height and
/// width; the reverse for SpaceToDepth.
LogicalResult importDepthToSpace(Node &n) {
  int64_t block = n.integer("blocksize", 0);
  if (ts::rankOf(n[0]) != 4 || block < 1 || block > 1 << 15)
    return n.fail("needs a 4-D input and a positive blocksize",
                  "correct the input or the attribute");
  Value x = castToMultiples(n, n[0], {1}, n.dim(block * block));
  SmallVector<Dim> d = ts::dimsOf(x);
  std::optional<Dim> channels = d[1].exactDiv(n.dim(block * block));
  if (!channels)
    return n.fail(d[1].str() + " channels do not divide by blocksize squared",
                  "correct the blocksize");
  Dim s = n.dim(block);
  bool crd = n.text("mode", "DCR") == "CRD";
  Value split = crd ? n.reshape(x, {d[0], *channels, s, s, d[2], d[3]})
                    : n.reshape(x, {d[0], s, s, *channels, d[2], d[3]});
  Value moved = crd ? n.transpose(split, {0, 1, 4, 2, 5, 3})
                    : n.transpose(split, {0, 3, 4, 1, 5, 2});
  return n.out(n.reshape(moved, {d[0], *channels, d[2] * s, d[3] * s}));
}

LogicalResult importSpaceToDepth(Node &n) {
  int64_t block = n.integer("blocksize", 0);
  if (ts::rankOf(n[0]) != 4 || block < 1 || block > 1 << 15)
    return n.fail("needs a 4-D input and a positive blocksize",
                  "correct the input or the attribute");
  Dim s = n.dim(block);
  Value x = castToMultiples(n, n[0], {2, 3}, s);
  SmallVector<Dim> d = ts::dimsOf(x);
  std::optional<Dim> height = d[2].exactDiv(s), width = d[3].exactDiv(s);
  if (!height || !width)
    return n.fail(ts::shapeText(n[0].getType()) +
                      " does not divide by the blocksize",
                  "correct the blocksize");
  Value split = n.reshape(x, {d[0], d[1], *height, s, *width, s});
  bool crd = n.text("mode", "DCR") == "CRD";
  Value moved = crd ? n.transpose(split, {0, 1, 3, 5, 2, 4})
                    : n.transpose(split, {0, 3, 5, 1, 2, 4});
  return n.out(n.reshape(moved, {d[0], d[1] * s * s, *height, *width}));
}

constexpr OpRow rows[] = {
    {"", "Concat", 4, 1, anyNumber, importConcat},
    {"", "DepthToSpace", 1, 1, 1, importDepthToSpace},
    {"", "Expand", 8, 2, 2, importExpand},
    {"", "Flatten", 1, 1, 1, importFlatten},
    {"", "Reshape", 5, 2, 2, importReshape},
    {"", "Shape", 1, 1, 1, importShape},
    {"", "Size", 1, 1, 1, importSize},
    {"", "SpaceToDepth", 1, 1, 1, importSpaceToDepth},
    {"", "Split", 13, 1, 2, importSplit},
    {"", "Split", 1, 1, 2, importSplit, 1},
    {"", "Split", 2, 1, 1, importSplit, 12},
    {"", "Squeeze", 1, 1, 1, importSqueeze, 12},
    {"", "Squeeze", 13, 1, 2, importSqueeze},
    {"", "Tile", 6, 2, 2, importTile},
    {"", "Transpose", 1, 1, 1, importTranspose},
    {"", "Unsqueeze", 1, 1, 1, importUnsqueeze, 12},
    {"", "Unsqueeze", 13, 2, 2, importUnsqueeze},
};

} // namespace

ArrayRef<OpRow> shapeRows() { return rows; }

} // namespace knapper
