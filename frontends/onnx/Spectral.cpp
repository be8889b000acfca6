// Fourier transforms and what speech models put around them.
#include "frontends/common/FourierTransform.h"
#include "frontends/onnx/RuntimeSizes.h"
#include "frontends/onnx/Tensors.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

using Kind = FourierKind;

/// `count` elements along dim 1 of [rows, length, parts], cut or filled with
/// zeros.
Value fitLength(Node &n, Value x, Dim count) {
  if (!x || ts::dimOf(x, 1) == count)
    return x;
  Dim own = ts::dimOf(x, 1);
  std::optional<int64_t> more = (count - own).asConstant();
  Dim kept = more ? (*more < 0 ? count : own) : own.min(count);
  x = n.sliceDim(x, 1, n.dim(0), kept);
  Dim missing = count - kept;
  if (!x || missing.isConstant(0))
    return x;
  MLIRContext *context = n.importer.context;
  Dim zero = n.dim(0);
  return n.make<ts::PadOp>(
      x, Optional{n.scalarFor(x, 0)}, ts::dimArray(context, {zero, zero, zero}),
      ts::dimArray(context, {zero, missing, zero}), ts::PadMode::constant);
}

/// [rows, length, 1 or 2] with two parts.
Value withImaginary(Node &n, Value x) {
  if (!x || ts::dimOf(x, 2).isConstant(2))
    return x;
  Value re = partOf(n, x, 0);
  return complexOf(n, re, re ? n.splatLike(0, re) : re);
}

/// The last dim counts the parts of numbers.
LogicalResult checkParts(Node &n, Dim parts) {
  if (parts.isConstant(1) || parts.isConstant(2))
    return mlir::success();
  return n.fail("the last dim of the input is " + parts.str(),
                "give 1 for real, 2 for complex numbers");
}

/// [rows, length, 1 or 2] to [rows, frequencies, 2], of which only the first
/// length / 2 + 1 are kept where `onesided`.
Value transform(Node &n, Value x, Dim length, bool inverse, bool onesided) {
  if (!x)
    return {};
  bool isReal = ts::dimOf(x, 2).isConstant(1);
  if (onesided && isReal)
    return fourierTransform(n, n.reshape(x, {ts::dimOf(x, 0), length}), length,
                            inverse, Kind::fromReal);
  Value y =
      fourierTransform(n, withImaginary(n, x), length, inverse, Kind::complex);
  return onesided ? n.sliceDim(y, 1, n.dim(0), length.floorDiv(n.dim(2)) + 1)
                  : y;
}

/// f16 and bf16 are transformed in f32.
Type fineType(Node &n, Value x) {
  Type element = ts::elementTypeOf(x);
  return element.isF64() ? element : Type(n.b.getF32Type());
}

LogicalResult importDft(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  if (rank < 2)
    return n.fail("needs a signal and a last dim of 1 or 2, has " +
                      ts::shapeText(n[0].getType()),
                  "give an input of rank 2 or more");
  int64_t axis = n.opset < 20 ? n.integer("axis", 1) : -2;
  Value signal = n[0];
  std::optional<RuntimeAxes> axes;
  SmallVector<Dim> whole = dims;
  if (!isNumbers(n, n[2]) && lengthOf(n[2]) == 1) {
    axes = RuntimeAxes::of(n, n[2], rank);
    if (!axes)
      return failure();
    require(n, n.make<ts::NotOp>(elementOf(n, axes->isListed(), rank - 1)),
            "the axis is the last dim, which holds real and imaginary parts");
    Dim parts = dims.back();
    dims.back() = n.dim(1);
    dims = axes->foldAround(n, dims);
    dims.push_back(parts);
    signal = n.reshape(signal, dims);
    rank = 4, axis = 1;
  } else if (n.has(2)) {
    std::optional<SmallVector<int64_t>> given = n.numbers(n[2], "the axis");
    if (!given)
      return failure();
    axis = given->size() == 1 ? given->front() : rank;
  }
  axis = n.normalAxis(axis, rank);
  if (n.failed())
    return failure();
  if (axis == rank - 1)
    return n.fail("the axis is the last dim, which holds real and imaginary "
                  "parts",
                  "give another axis");
  bool inverse = n.flag("inverse", false), onesided = n.flag("onesided", false);
  bool real = inverse && onesided;
  Dim length = real ? (dims[axis] - 1) * 2 : dims[axis];
  if (n.has(1)) {
    std::optional<SmallVector<Dim>> given =
        sizesOrSymbols(n, n[1], "dft_length");
    if (!given)
      return failure();
    if (given->size() != 1)
      return n.fail("dft_length must be one number", "give a scalar");
    length = given->front();
  }
  if (std::optional<int64_t> known = length.asConstant(); known && *known < 1)
    return n.fail("transforms " + Twine(*known) + " elements",
                  "give a positive length");
  if (!length.asConstant())
    require(n, length, P::ge, n.dim(1), "transforms no element");
  // [around, length, parts]
  SmallVector<int64_t> order, back(rank);
  SmallVector<Dim> around;
  for (int64_t i = 0; i + 1 < rank; ++i)
    if (i != axis) {
      order.push_back(i);
      around.push_back(dims[i]);
    }
  order.push_back(axis);
  order.push_back(rank - 1);
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = static_cast<int64_t>(to);
  Dim rows = ts::product(n.importer.context, around);
  Value flat =
      n.reshape(n.transpose(n.convert(signal, fineType(n, n[0])), order),
                {rows, dims[axis], dims.back()});
  if (failed(checkParts(n, dims.back())))
    return failure();
  Value x = fitLength(n, flat, real ? length.floorDiv(n.dim(2)) + 1 : length);
  around.push_back(onesided && !real ? length.floorDiv(n.dim(2)) + 1 : length);
  around.push_back(n.dim(real ? 1 : 2));
  auto give = [&](Value result) {
    result = n.transpose(n.reshape(result, around), back);
    if (axes) {
      whole.back() = around.back();
      Value sizes =
          n.select(axes->isListed(), n.sizeScalar(around[2], n.b.getI64Type()),
                   n.sizesTensor(whole));
      result =
          n.reshape(result, symbolsOf(n, sizes, axes->rank(), "transformed"));
    }
    return n.out(n.convert(result, ts::elementTypeOf(n[0])));
  };
  Value y = real ? fourierTransform(n, withImaginary(n, x), length, true,
                                    Kind::toReal)
                 : transform(n, x, length, inverse, onesided);
  if (!y)
    return n.failed() ? failure() : n.out(Value());
  if (inverse)
    y = n.div(y, n.sizeScalar(length, ts::elementTypeOf(y)));
  return give(y);
}

/// Transforms of overlapping frames, [batch, frames, frequencies, 2].
LogicalResult importStft(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  std::optional<SmallVector<Dim>> steps = sizesOrSymbols(n, n[1], "frame_step");
  if (!steps)
    return failure();
  if (dims.size() != 3 || steps->size() != 1 ||
      steps->front().asConstant().value_or(1) < 1 ||
      (n.has(2) && ts::rankOf(n[2]) != 1))
    return n.fail("needs a signal [batch, length, 1 or 2], a positive "
                  "frame_step and a window of rank 1",
                  "correct the inputs");
  Dim step = steps->front();
  if (!step.asConstant())
    require(n, step, P::ge, n.dim(1), "the frames do not advance");
  Dim length = n.has(2) ? ts::dimOf(n[2], 0) : dims[1];
  if (n.has(3)) {
    std::optional<SmallVector<Dim>> given =
        sizesOrSymbols(n, n[3], "frame_length");
    if (!given)
      return failure();
    if (given->size() != 1)
      return n.fail("frame_length must be one number", "give a scalar");
    length = given->front();
  }
  Dim frames = (dims[1] - length).floorDiv(step.max(n.dim(1))) + 1;
  if (std::optional<int64_t> known = frames.asConstant();
      (known && *known < 1) ||
      (length.asConstant() && *length.asConstant() < 1))
    return n.fail("a signal of " + dims[1].str() + " has no frame of " +
                      length.str(),
                  "give a longer signal or shorter frames");
  if (!frames.asConstant() || !length.asConstant()) {
    require(n, length, P::ge, n.dim(1), "the frames have no element");
    require(n, frames, P::ge, n.dim(1), "the signal is shorter than a frame");
  }
  Type i64 = n.b.getI64Type(), fine = fineType(n, n[0]);
  RankedTensorType type = n.type({frames, length}, i64);
  Value frame = n.makeAs<ts::IotaOp>(type, uint64_t(0)),
        place = n.makeAs<ts::IotaOp>(type, uint64_t(1));
  Value index = n.add(n.mul(frame, n.sizeScalar(step, i64)), place);
  // [batch, frames, length, parts]
  Value parts = n.make<ts::GatherOp>(n.convert(n[0], fine), index, uint64_t(1));
  if (n.has(2) && parts) {
    Value window = n.convert(n.castDims(n[2], {length}), fine);
    parts = n.mul(parts, n.broadcastAt(window, {2}, ts::dimsOf(parts)));
  }
  if (failed(checkParts(n, dims[2])))
    return failure();
  bool onesided = n.flag("onesided", true);
  Dim kept = onesided ? length.floorDiv(n.dim(2)) + 1 : length;
  Value made =
      transform(n, n.reshape(parts, {dims[0] * frames, length, dims[2]}),
                length, false, onesided);
  Value result = n.reshape(made, {dims[0], frames, kept, n.dim(2)});
  return n.failed() ? failure()
                    : n.out(n.convert(result, ts::elementTypeOf(n[0])));
}

/// Triangles over the frequencies, a column a band of equal width in mel.
LogicalResult importMelWeightMatrix(Node &n) {
  std::optional<SmallVector<Dim>> bands =
                                      sizesOrSymbols(n, n[0], "num_mel_bins"),
                                  size = sizesOrSymbols(n, n[1], "dft_length");
  if (!bands || !size)
    return failure();
  for (unsigned i = 0; i < 5; ++i)
    if (!ts::elementCount(n[i].getType()).isConstant(1))
      return n.fail("input " + Twine(i) + " must be one number",
                    "give scalars");
  Type element = n.outputDatatype();
  if (!element)
    return failure();
  Type f64 = n.b.getF64Type();
  Dim count = bands->front(), bins = size->front().floorDiv(n.dim(2)) + 1;
  auto mel = [&](Value hertz) {
    Value x = n.convert(n.reshape(hertz, {}), f64);
    return n.mul(n.make<ts::Log1pOp>(n.mul(x, 1.0 / 700)), 2595 / std::log(10));
  };
  Value low = mel(n[3]), high = mel(n[4]);
  Value step = n.div(n.sub(high, low), n.sizeScalar(count + 2, f64));
  Value rate = n.convert(n.reshape(n[2], {}), f64);
  // Edge i of the bands, as the number of a frequency.
  auto edge = [&](int64_t i) {
    Value band =
        n.add(n.makeAs<ts::IotaOp>(n.type({bins, count}, f64), uint64_t(1)),
              static_cast<double>(i));
    Value at = n.mul(n.add(n.mul(band, step), low), std::log(10) / 2595);
    Value hertz = n.mul(n.make<ts::Expm1Op>(at), 700);
    return n.make<ts::FloorOp>(
        n.div(n.mul(hertz, n.sizeScalar(size->front() + 1, f64)), rate));
  };
  Value left = edge(0), centre = edge(1), right = edge(2);
  Value bin = n.makeAs<ts::IotaOp>(n.type({bins, count}, f64), uint64_t(0));
  Value zero = n.scalar(0, f64), one = n.scalar(1, f64);
  auto ratio = [&](Value a, Value b) {
    return n.div(a, n.select(n.compare(P::eq, b, zero), one, b));
  };
  Value rise = n.sub(centre, left), fall = n.sub(right, centre);
  Value up = n.select(n.compare(P::eq, rise, zero),
                      n.convert(n.compare(P::eq, bin, centre), f64),
                      ratio(n.sub(bin, left), rise));
  Value rising = n.binary<ts::AndOp>(n.compare(P::ge, bin, left),
                                     n.compare(P::le, bin, centre));
  Value falling = n.binary<ts::AndOp>(n.compare(P::ge, bin, centre),
                                      n.compare(P::lt, bin, right));
  Value y = n.select(falling, ratio(n.sub(right, bin), fall),
                     n.select(rising, up, zero));
  return n.out(n.convert(y, element));
}

constexpr OpRow rows[] = {
    {"", "DFT", 17, 1, 2, importDft, 19},
    {"", "DFT", 20, 1, 3, importDft},
    {"", "MelWeightMatrix", 17, 5, 5, importMelWeightMatrix},
    {"", "STFT", 17, 2, 4, importStft},
};

} // namespace

ArrayRef<OpRow> spectralRows() { return rows; }

} // namespace knapper
