// com.microsoft: what is the standard's under another name or nearly so.
#include "frontends/onnx/Standard.h"

#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

/// The node under the name of an operator of the standard, attributes and all.
struct Alias {
  StringRef name, standard;
  int64_t opset;
  SmallVector<StringRef, 8> attributes;
};

const Alias *aliasOf(StringRef name) {
  static const Alias aliases[] = {
      {"GatherND", "GatherND", 11, {}},
      {"GridSample",
       "GridSample",
       16,
       {"align_corners", "mode", "padding_mode"}},
      {"Pad", "Pad", 13, {"mode"}},
      {"Range", "Range", 11, {}},
      {"Trilu", "Trilu", 14, {"upper"}},
  };
  const Alias *found =
      llvm::find_if(aliases, [&](const Alias &a) { return a.name == name; });
  return found == std::end(aliases) ? nullptr : found;
}

LogicalResult importAlias(Node &n) {
  const Alias &alias = *aliasOf(n.proto.op_type());
  SmallVector<Value> operands(n.all());
  if (alias.name == "Range" && operands.size() == 2)
    operands.push_back(n.scalarFor(operands[0], 1));
  return n.out(Standard(n, alias.standard, alias.opset)
                   .keep(alias.attributes)(operands));
}

LogicalResult importExpandDims(Node &n) {
  std::optional<SmallVector<int64_t>> axis = n.numbers(n[1], "axis");
  if (!axis)
    return failure();
  if (axis->size() != 1)
    return n.fail("axis is no single number", "give one");
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  int64_t at =
      n.normalAxis(axis->front(), static_cast<int64_t>(dims.size()) + 1);
  if (n.failed())
    return failure();
  dims.insert(dims.begin() + at, n.dim(1));
  return n.out(n.reshape(n[0], dims));
}

/// The values in the order of their first places, where each element is among
/// them, and how many of each there are.
LogicalResult importUnique(Node &n) {
  SmallVector<Value> results =
      Standard(n, "Unique", 11).set("sorted", int64_t(0)).results({n[0]}, 4);
  if (n.failed())
    return failure();
  const size_t which[] = {0, 2, 3};
  for (size_t i = 0; i < 3; ++i)
    if (n.wants(i) && failed(n.out(results[which[i]], i)))
      return failure();
  return mlir::success();
}

/// Pairs of real and imaginary parts in the last dim.
template <bool conjugate> LogicalResult importComplexMul(Node &n) {
  for (Value x : n.all())
    if (!ts::rankOf(x) || !ts::dimOf(x, ts::rankOf(x) - 1).isConstant(2))
      return n.fail(ts::shapeText(x.getType()) + " holds no complex numbers",
                    "give pairs in the last dim");
  auto of = [&](Value x, int64_t index) {
    return n.sliceDim(x, ts::rankOf(x) - 1, n.dim(index), n.dim(1));
  };
  Value ar = of(n[0], 0), ai = of(n[0], 1), br = of(n[1], 0), bi = of(n[1], 1);
  if (conjugate)
    bi = n.make<ts::NegOp>(bi);
  Value real = n.sub(n.mul(ar, br), n.mul(ai, bi));
  Value imaginary = n.add(n.mul(ar, bi), n.mul(ai, br));
  if (!real || !imaginary)
    return failure();
  return n.out(
      n.make<ts::ConcatOp>(ValueRange{real, imaginary}, ts::rankOf(real) - 1));
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// The signal is the last dim, real; the result has pairs in one more.
LogicalResult importRfft(Node &n) {
  if (n.integer("signal_ndim", 1) != 1 || !n.flag("onesided", true) ||
      n.flag("normalized", false))
    return n.unsupported("signals of several dims, both sides, or normalised "
                         "ones");
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  dims.push_back(n.dim(1));
  return n.out(Standard(n, "DFT", 17)
                   .set("axis", static_cast<int64_t>(dims.size()) - 2)
                   .set("onesided", int64_t(1))({n.reshape(n[0], dims)}));
}

/// The half that Rfft gives, [.., m, 2], to [.., 2 * (m - 1)].
LogicalResult importIrfft(Node &n) {
  if (n.integer("signal_ndim", 1) != 1 || !n.flag("onesided", true) ||
      n.flag("normalized", false))
    return n.unsupported("signals of several dims, both sides, or normalised "
                         "ones");
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (dims.size() < 2 || !dims.back().isConstant(2))
    return n.fail(ts::shapeText(n[0].getType()) + " holds no complex numbers",
                  "give pairs in the last dim");
  auto axis = static_cast<int64_t>(dims.size()) - 2;
  std::optional<int64_t> half = dims[axis].asConstant();
  if (!half || *half < 2)
    return n.unsupported("a signal of symbolic length");
  // The other half is the conjugate, mirrored; the zero frequency and the
  // highest one stand once.
  Value inner = n.sliceDim(n[0], axis, n.dim(*half - 2), n.dim(*half - 2), -1);
  Value sign = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({2}, n.b.getF32Type()), ArrayRef<float>{1, -1}));
  Value whole = n[0];
  if (*half > 2) {
    Value mirrored = n.mul(inner, n.convert(sign, ts::elementTypeOf(n[0])));
    if (!mirrored)
      return failure();
    whole = n.make<ts::ConcatOp>(ValueRange{n[0], mirrored}, axis);
  }
  Value y = Standard(n, "DFT", 17)
                .set("axis", axis)
                .set("inverse", int64_t(1))({whole});
  if (!y)
    return failure();
  dims.pop_back();
  dims[axis] = n.dim(2 * (*half - 1));
  return n.out(n.reshape(n.sliceDim(y, axis + 1, n.dim(0), n.dim(1)), dims));
}

//===----------------------------------------------------------------------===//
// Matrices, tokens
//===----------------------------------------------------------------------===//

/// Gauss and Jordan with the largest pivot of each column, written out.
LogicalResult importInverse(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto rank = static_cast<int64_t>(dims.size());
  std::optional<int64_t> size =
      rank < 2 ? std::nullopt : dims[rank - 1].asConstant();
  if (rank < 2 || (size && !dims[rank - 2].isConstant(*size)))
    return n.fail("needs square matrices, has " + ts::shapeText(n[0].getType()),
                  "give [..., n, n]");
  if (!size || *size > 16 || *size < 1)
    return n.unsupported(size ? "matrices of more than 16 rows, or of none"
                              : "matrices of symbolic size");
  int64_t rows = *size;
  Type element = ts::elementTypeOf(n[0]), i64 = n.b.getI64Type();
  Type fine = element.isF64() ? element : Type(n.b.getF32Type());
  Dim count = ts::product(n.importer.context, ArrayRef<Dim>(dims).drop_back(2)),
      one = n.dim(1), width = n.dim(2 * rows);
  SmallVector<Dim> square{count, n.dim(rows), n.dim(rows)};
  RankedTensorType grid = n.type(square, i64);
  Value identity =
      n.convert(n.compare(P::eq, n.makeAs<ts::IotaOp>(grid, uint64_t(1)),
                          n.makeAs<ts::IotaOp>(grid, uint64_t(2))),
                fine);
  Value a = n.reshape(n.convert(n[0], fine), square);
  if (!a || !identity)
    return failure();
  a = n.make<ts::ConcatOp>(ValueRange{a, identity}, int64_t(2));
  SmallVector<Dim> wide{count, n.dim(rows), width};
  for (int64_t i = 0; i < rows && a; ++i) {
    // The best pivot's row changes places with row i.
    Value below = n.reshape(n.sliceDim(n.sliceDim(a, 2, n.dim(i), one), 1,
                                       n.dim(i), n.dim(rows - i)),
                            {count, n.dim(rows - i)});
    Value best = n.make<ts::ArgReduceOp>(
        ts::ReduceKind::max, n.make<ts::AbsOp>(below), uint64_t(1), false);
    best = n.reshape(n.add(best, n.integerScalar(i, i64)), {count, one, one});
    Value number = n.makeAs<ts::IotaOp>(n.type(wide, i64), uint64_t(1));
    Value here = n.integerScalar(i, i64);
    Value index =
        n.select(n.compare(P::eq, number, here), best,
                 n.select(n.compare(P::eq, number, best), here, number));
    a = n.make<ts::GatherElementsOp>(a, index, uint64_t(1));
    Value row = n.sliceDim(a, 1, n.dim(i), one);
    row = n.div(row, n.sliceDim(row, 2, n.dim(i), one));
    Value rest = n.sub(a, n.mul(n.sliceDim(a, 2, n.dim(i), one), row));
    a = n.select(n.compare(P::eq, number, here), row, rest);
  }
  Value y = n.sliceDim(a, 2, n.dim(rows), n.dim(rows));
  return n.out(n.convert(n.reshape(y, dims), element));
}

/// Tokens that would repeat the last ngram_size - 1 tokens with what followed
/// them score -inf.
LogicalResult importNGramRepeatBlock(Node &n) {
  int64_t size = n.integer("ngram_size", 0);
  if (ts::rankOf(n[0]) != 2 || ts::rankOf(n[1]) != 2 || size < 1 || size > 64)
    return n.fail("needs tokens and scores of [batch, ..] and an ngram_size "
                  "of 1 to 64",
                  "correct them");
  Dim batch = ts::dimOf(n[0], 0), length = ts::dimOf(n[0], 1);
  if (!n.importer.assumeAtLeast(length, size))
    if (std::optional<int64_t> least = ts::lowerBound(length);
        !least || *least < size)
      return n.unsupported("a sequence that may be shorter than ngram_size");
  Value ids = n.convert(n[0], n.b.getI64Type());
  Dim starts = length - (size - 1);
  Value same =
      n.broadcastTo(n.integerScalar(1, n.b.getI1Type()), {batch, starts});
  for (int64_t i = 0; i + 1 < size; ++i)
    same = n.binary<ts::AndOp>(
        same, n.compare(P::eq, n.sliceDim(ids, 1, n.dim(i), starts),
                        n.sliceDim(ids, 1, starts + i, n.dim(1))));
  Value next = n.sliceDim(ids, 1, n.dim(size - 1), starts);
  Value banned =
      n.select(same, n.scalarFor(n[1], -INFINITY), n.scalarFor(n[1], INFINITY));
  auto least = ts::ReduceKindAttr::get(n.importer.context, ts::ReduceKind::min);
  return n.out(
      n.make<ts::ScatterElementsOp>(n[1], next, banned, uint64_t(1), least));
}

/// T5's buckets of distances, read from a table [buckets, heads]; the result is
/// [1, heads, queries, keys].
LogicalResult importRelativePositionBias(Node &n) {
  std::optional<SmallVector<Dim>> queries = n.sizes(n[1], "query_length"),
                                  keys = n.sizes(n[2], "key_length");
  if (!queries || !keys)
    return failure();
  std::optional<int64_t> count = ts::dimOf(n[0], 0).asConstant();
  int64_t most = n.integer("max_distance", 128);
  if (ts::rankOf(n[0]) != 2 || !count || queries->size() != 1 ||
      keys->size() != 1)
    return n.fail("needs a table of [buckets, heads] and two lengths",
                  "correct them");
  Type i64 = n.b.getI64Type(), f32 = n.b.getF32Type();
  SmallVector<Dim> grid{queries->front(), keys->front()};
  auto iota = [&](int64_t dim) {
    return n.makeAs<ts::IotaOp>(n.type(grid, i64), uint64_t(dim));
  };
  // Keys before the query count upwards.
  Value distance = n.sub(iota(0), iota(1)), zero = n.integerScalar(0, i64);
  int64_t buckets = *count;
  Value base = zero;
  if (n.flag("is_bidirectional", false)) {
    buckets /= 2;
    base = n.select(n.compare(P::lt, distance, zero),
                    n.integerScalar(buckets, i64), zero);
    distance = n.make<ts::AbsOp>(distance);
  } else {
    distance = n.binary<ts::MaxOp>(distance, zero);
  }
  int64_t exact = buckets / 2;
  if (exact < 1 || most <= exact)
    return n.fail("has too few buckets for max_distance", "correct them");
  Value ratio = n.mul(
      n.convert(n.binary<ts::MaxOp>(distance, n.integerScalar(1, i64)), f32),
      1.0 / static_cast<double>(exact));
  Value steps =
      n.mul(n.make<ts::LogOp>(ratio), static_cast<double>(buckets - exact) /
                                          std::log(static_cast<double>(most) /
                                                   static_cast<double>(exact)));
  Value far = n.add(n.convert(steps, i64), n.integerScalar(exact, i64));
  far = n.binary<ts::MinOp>(far, n.integerScalar(buckets - 1, i64));
  Value bucket = n.add(
      base, n.select(n.compare(P::lt, distance, n.integerScalar(exact, i64)),
                     distance, far));
  Value read = n.make<ts::GatherOp>(n[0], bucket, uint64_t(0));
  Value y = n.transpose(read, {2, 0, 1});
  if (!y)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(y);
  dims.insert(dims.begin(), n.dim(1));
  return n.out(n.reshape(y, dims));
}

constexpr OpRow rows[] = {
    {"com.microsoft", "ComplexMul", 1, 2, 2, importComplexMul<false>},
    {"com.microsoft", "ComplexMulConj", 1, 2, 2, importComplexMul<true>},
    {"com.microsoft", "ExpandDims", 1, 2, 2, importExpandDims},
    {"com.microsoft", "GatherND", 1, 2, 2, importAlias},
    {"com.microsoft", "GridSample", 1, 2, 2, importAlias},
    {"com.microsoft", "Inverse", 1, 1, 1, importInverse},
    {"com.microsoft", "Irfft", 1, 1, 1, importIrfft},
    {"com.microsoft", "NGramRepeatBlock", 1, 2, 2, importNGramRepeatBlock},
    {"com.microsoft", "Pad", 1, 2, 3, importAlias},
    {"com.microsoft", "Range", 1, 2, 3, importAlias},
    {"com.microsoft", "RelativePositionBias", 1, 3, 3,
     importRelativePositionBias},
    {"com.microsoft", "Rfft", 1, 1, 1, importRfft},
    {"com.microsoft", "Trilu", 1, 1, 2, importAlias},
    {"com.microsoft", "Unique", 1, 1, 1, importUnique},
};

} // namespace

ArrayRef<OpRow> contribOtherRows() { return rows; }

} // namespace knapper
