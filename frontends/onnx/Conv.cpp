// Convolutions, and blocks back into an image.
#include "frontends/onnx/Integers.h"
#include "frontends/onnx/RuntimeSizes.h"
#include "frontends/onnx/WindowAttributes.h"
#include "ir/tensor/ConstantExpression.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// Static window sizes of a filter [F, C, window...]; nothing and an error
/// when they are symbolic or differ from kernel_shape.
std::optional<SmallVector<int64_t>> filterWindow(Node &n, Value filter) {
  SmallVector<int64_t> window;
  SmallVector<Dim> dims = ts::dimsOf(filter);
  for (Dim dim :
       ArrayRef<Dim>(dims).drop_front(std::min<size_t>(2, dims.size()))) {
    std::optional<int64_t> number = dim.asConstant();
    if (!number) {
      (void)n.unsupported("a filter of symbolic size");
      return std::nullopt;
    }
    window.push_back(*number);
  }
  SmallVector<int64_t> declared = n.integers("kernel_shape");
  if (!declared.empty() && declared != window) {
    (void)n.fail("kernel_shape differs from the filter " +
                     ts::shapeText(filter.getType()),
                 "leave kernel_shape out");
    return std::nullopt;
  }
  return window;
}

LogicalResult importConv(Node &n) {
  std::optional<SmallVector<int64_t>> window = filterWindow(n, n[1]);
  if (!window)
    return failure();
  std::optional<Windows> w = readWindows(n, *window);
  if (!w)
    return failure();
  int64_t groups = n.integer("group", 1);
  if (groups < 1 || groups > 1 << 30)
    return n.fail("group is " + Twine(groups), "give a positive number");
  Value x = n[0];
  // torch's dynamo exporter folds a batch norm of 16-bit numbers into weights
  // of float32; the result it declares is of the input's type.
  for (size_t i : {1, 2})
    if (Type type = n.has(i) ? ts::elementTypeOf(n[i]) : Type();
        x && type && type.isF32() &&
        (ts::elementTypeOf(x).isBF16() || ts::elementTypeOf(x).isF16()))
      n.operands[i] = n.convert(n[i], ts::elementTypeOf(x));
  return n.out(addBias(n, convolve(n, x, n[1], *w, groups), n[2]));
}

LogicalResult importConvInteger(Node &n) {
  return n.out(integerConv(n, n[0], n[2], n[1], n[3]));
}

/// A convolution of the spread input with the mirrored filter.
LogicalResult importConvTranspose(Node &n) {
  std::optional<SmallVector<int64_t>> window = filterWindow(n, n[1]);
  if (!window)
    return failure();
  size_t spatial = window->size();
  std::string automatic = n.text("auto_pad", "NOTSET");
  std::optional<Windows> w = readWindows(n, *window, WindowsMust::spread);
  if (!w)
    return failure();
  int64_t groups = n.integer("group", 1);
  SmallVector<Dim> x = ts::dimsOf(n[0]), f = ts::dimsOf(n[1]);
  if (groups < 1 || !f[0].exactDiv(n.dim(groups)))
    return n.fail(f[0].str() + " channels do not divide into " + Twine(groups) +
                      " groups",
                  "correct group");
  SmallVector<int64_t> extra = n.integers("output_padding"),
                       wanted = n.integers("output_shape");
  if (extra.empty())
    extra.assign(spatial, 0);
  if (wanted.size() == spatial + 2) // some writers give all dims
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (extra.size() != spatial || (!wanted.empty() && wanted.size() != spatial))
    return n.fail("output_padding or output_shape do not fit",
                  "give an entry a spatial dim");
  for (int64_t size : wanted)
    if (size < 1 || size > int64_t(1) << 40)
      return n.fail("output_shape holds " + Twine(size), "give sizes");
  // Pads of the result, then of the equivalent convolution.
  for (size_t i = 0; i < spatial; ++i) {
    if (extra[i] < 0 || extra[i] > 1 << 20)
      return n.fail("output_padding is " + Twine(extra[i]),
                    "give a small number that is not negative");
    int64_t extent = ((*window)[i] - 1) * w->dilations[i] + 1;
    Dim full = (x[i + 2] - 1) * w->strides[i] + extra[i] + extent;
    bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (!wanted.empty() || same) {
      Dim target = wanted.empty() ? x[i + 2] * w->strides[i] : n.dim(wanted[i]);
      Dim total = full - target;
      std::optional<int64_t> least = ts::lowerBound(total);
      if (!least || *least < 0) {
        // More than the windows give: the rest is zeros at the end.
        if (!total.asConstant())
          return n.unsupported("cannot tell whether a pad is negative");
        extra[i] -= *total.asConstant();
        total = n.dim(0);
      }
      Dim half = total.floorDiv(n.dim(2));
      bool evenFirst = automatic == "SAME_UPPER";
      w->low[i] = evenFirst ? half : total - half;
      w->high[i] = evenFirst ? total - half : half;
    }
  }
  return n.out(
      addBias(n, convolveTransposed(n, n[0], n[1], *w, extra, groups), n[2]));
}

/// Columns [.., K*L, ..] to the image [.., Y, ..] along one dim: what window
/// element k of block l holds is added at l * stride + k * dilation - low.
Value addBlocks(Node &n, Value x, int64_t axis, Dim window, Dim blocks,
                Dim image, int64_t stride, int64_t dilation, Dim low) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  auto number = [&](int64_t value) { return n.integerScalar(value, i64); };
  RankedTensorType type = n.type({window, image}, i64);
  Value tap = n.makeAs<ts::IotaOp>(type, uint64_t(0));
  Value start = n.sub(
      n.add(n.makeAs<ts::IotaOp>(type, uint64_t(1)), n.sizeScalar(low, i64)),
      n.mul(tap, number(dilation)));
  Value block = n.div(start, number(stride));
  Value inside =
      n.binary<ts::AndOp>(n.compare(P::ge, start, number(0)),
                          n.compare(P::lt, block, n.sizeScalar(blocks, i64)));
  if (stride > 1)
    inside = n.binary<ts::AndOp>(
        inside, n.compare(P::eq, n.mul(block, number(stride)), start));
  Value index = n.add(n.mul(tap, n.sizeScalar(blocks, i64)), block);
  Value parts = n.make<ts::GatherOp>(x, n.select(inside, index, number(0)),
                                     uint64_t(axis));
  if (!parts)
    return {};
  return n.reduce(
      ts::ReduceKind::add,
      n.select(n.broadcastAt(inside, {axis, axis + 1}, ts::dimsOf(parts)),
               parts, n.scalarFor(parts, 0)),
      {axis}, /*keep=*/false);
}

/// Overlapping blocks are added where they came from, a dim after the other.
LogicalResult importCol2Im(Node &n) {
  std::optional<SmallVector<Dim>> image =
      sizesOrSymbols(n, n[1], "image_shape");
  std::optional<SmallVector<Dim>> window =
      sizesOrSymbols(n, n[2], "block_shape");
  if (!image || !window)
    return failure();
  size_t spatial = window->size();
  if (ts::rankOf(n[0]) != 3 || !spatial || spatial > 8 ||
      image->size() != spatial)
    return n.fail("the input " + ts::shapeText(n[0].getType()) + ", " +
                      Twine(image->size()) + " image and " + Twine(spatial) +
                      " block dims do not fit",
                  "the input is [N, C * block, blocks], the shapes have an "
                  "entry a spatial dim, 8 at most");
  if (ts::elementTypeOf(n[0]).isInteger(1))
    return n.unsupported("element type BOOL");
  // Only numbers can be out of range here; a symbol's range is the run's.
  SmallVector<int64_t> known;
  for (Dim size : *window) {
    known.push_back(size.asConstant().value_or(1));
    if (!size.asConstant())
      require(n, size, ts::ComparePredicate::ge, n.dim(1),
              "a block has no element");
  }
  std::optional<Windows> w = readWindows(n, known, *image);
  if (!w)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  // A size of the run's is named, so that others stay short expressions.
  auto named = [&](Dim size, StringRef hint) {
    return n.bindSize(n.sizeScalar(size, n.b.getI64Type()), hint);
  };
  Dim channels = dims[1];
  // Numbers first: what is left of a size of the run's divides by no number.
  for (Dim size : *window) {
    if (!size.asConstant())
      continue;
    std::optional<Dim> rest = channels.exactDiv(size);
    if (!rest)
      return n.fail(dims[1].str() + " channels do not divide by the block",
                    "correct block_shape");
    channels = *rest;
  }
  // Whether these divide them the reshape below asks.
  for (Dim size : *window)
    if (!size.asConstant())
      channels = named(channels.floorDiv(size.max(n.dim(1))), "channels");
  // [N, C * K.., L..] to [N, C, K * L..]
  SmallVector<Dim> split{dims[0], channels}, merged = split, blocks;
  SmallVector<int64_t> order{0, 1};
  for (size_t i = 0; i < spatial; ++i) {
    Dim extent = ((*window)[i] - 1) * w->dilations[i] + 1;
    blocks.push_back(((*image)[i] + w->low[i] + w->high[i] - extent)
                         .floorDiv(n.dim(w->strides[i])) +
                     1);
    if (!(*window)[i].asConstant())
      blocks[i] = named(blocks[i], "blocks");
    if (std::optional<int64_t> count = blocks[i].asConstant();
        count && *count < 1)
      return n.fail("image dim " + Twine(i) + " of " + (*image)[i].str() +
                        " is smaller than a block of " + extent.str(),
                    "correct image_shape, block_shape or pads");
    split.push_back((*window)[i]);
    merged.push_back(blocks[i] * (*window)[i]);
    order.push_back(static_cast<int64_t>(i) + 2);
    order.push_back(static_cast<int64_t>(i + spatial) + 2);
  }
  llvm::append_range(split, blocks);
  Value x = n.castDims(
      n[0], {dims[0], dims[1], ts::product(n.importer.context, blocks)});
  x = n.reshape(n.transpose(n.reshape(x, split), order), merged);
  for (size_t i = 0; i < spatial && x; ++i)
    x = addBlocks(n, x, static_cast<int64_t>(i) + 2, (*window)[i], blocks[i],
                  (*image)[i], w->strides[i], w->dilations[i], w->low[i]);
  return n.out(x);
}

/// A depthwise convolution along the last dim that sees this and earlier
/// positions only; the k - 1 before the first one come as a state and go as
/// one.
LogicalResult importCausalConvWithState(Node &n) {
  if (ts::rankOf(n[0]) != 3 || ts::rankOf(n[1]) != 3)
    return n.fail("input and weight are " + ts::shapeText(n[0].getType()) +
                      " and " + ts::shapeText(n[1].getType()),
                  "give [batch, channels, length] and [channels, 1, k]");
  std::optional<SmallVector<int64_t>> window = filterWindow(n, n[1]);
  if (!window)
    return failure();
  std::optional<int64_t> channels = ts::dimOf(n[1], 0).asConstant();
  if (!channels || *channels < 1 || window->front() < 1)
    return n.unsupported("a filter of symbolic size or without elements");
  std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.fail("activation is '" + activation + "'",
                  "give none, silu or swish");
  Value x = fitChannels(n, n[0], n.dim(*channels));
  if (!x)
    return failure();
  int64_t before = window->front() - 1;
  if (before > 0) {
    SmallVector<Dim> dims = ts::dimsOf(x);
    dims[2] = n.dim(before);
    Value state = n.has(3)
                      ? n.castDims(n[3], dims)
                      : n.broadcastTo(n.scalar(0, ts::elementTypeOf(x)), dims);
    if (!state)
      return failure();
    x = n.make<ts::ConcatOp>(ValueRange{state, x}, int64_t(2));
  }
  Windows w;
  w.strides = w.dilations = {1};
  w.low = w.high = {n.dim(0)};
  Value y = addBias(n, convolve(n, x, n[1], w, *channels), n[2]);
  if (y && activation != "none")
    y = n.mul(y, n.make<ts::SigmoidOp>(y));
  if (failed(n.out(y)))
    return failure();
  if (!n.wants(1))
    return mlir::success();
  return n.out(n.sliceDim(x, 2, ts::dimOf(x, 2) - n.dim(before), n.dim(before)),
               1);
}

constexpr OpRow rows[] = {
    {"", "CausalConvWithState", 27, 2, 4, importCausalConvWithState},
    {"", "Col2Im", 18, 3, 3, importCol2Im},
    {"", "Conv", 1, 2, 3, importConv},
    {"", "ConvInteger", 10, 2, 4, importConvInteger},
    {"", "ConvTranspose", 1, 2, 3, importConvTranspose},
};

} // namespace

ArrayRef<OpRow> convRows() { return rows; }

Value integerConv(Node &n, Value x, Value xZero, Value filter,
                  Value filterZero) {
  Type i32 = n.b.getI32Type();
  std::optional<SmallVector<int64_t>> window = filterWindow(n, filter);
  if (!window)
    return {};
  std::optional<Windows> w = readWindows(n, *window);
  if (!w)
    return {};
  int64_t groups = n.integer("group", 1);
  if (groups < 1 || groups > 1 << 30) {
    (void)n.fail("group is " + Twine(groups), "give a positive number");
    return {};
  }
  if (xZero)
    xZero = n.reshape(xZero, {});
  if (filterZero && ts::elementCount(filterZero.getType()).isConstant(1))
    filterZero = n.reshape(filterZero, {});
  else if (filterZero)
    filterZero = n.broadcastAt(filterZero, {0}, ts::dimsOf(filter));
  Centred input = centred(x, xZero), weights = centred(filter, filterZero);
  // Bytes by constant ones stay bytes (QuantisedMatmuls.h).
  int64_t slice = exactTerms(input, weights);
  std::optional<int64_t> read = ts::elementCount(filter.getType()).asConstant();
  if (slice && read && *read > 0 && ts::isConstantExpression(filter)) {
    Value wide = input.as(n, i32), wideFilter = weights.as(n, i32);
    return convolve(n, wide, wideFilter, *w, groups);
  }
  // Slices of channels: all taps of a channel are one sum.
  int64_t terms = slice;
  for (int64_t taps : *window)
    terms /= std::max<int64_t>(1, taps);
  std::optional<int64_t> channels = ts::dimOf(filter, 1).asConstant();
  if (terms >= 16) // whole vectors of channels
    terms = terms / 16 * 16;
  if (terms < 1 || !channels || *channels < 1 ||
      *channels > terms * (groups == 1 ? maxSlices : 1)) {
    Value wide = input.as(n, i32), wideFilter = weights.as(n, i32);
    return convolve(n, wide, wideFilter, *w, groups);
  }
  Type f32 = n.b.getF32Type();
  Value wide = input.as(n, f32), wideFilter = weights.as(n, f32);
  if (*channels <= terms)
    return n.convert(convolve(n, wide, wideFilter, *w, groups), i32);
  wide = fitChannels(n, wide, n.dim(*channels));
  Value sum;
  for (int64_t at = 0; at < *channels; at += terms) {
    Dim start = n.dim(at), count = n.dim(std::min(terms, *channels - at));
    Value xs = n.sliceDim(wide, 1, start, count);
    Value fs = n.sliceDim(wideFilter, 1, start, count);
    Value part = n.convert(convolve(n, xs, fs, *w, groups), i32);
    sum = sum ? n.add(sum, part) : part;
  }
  return sum;
}

} // namespace knapper
