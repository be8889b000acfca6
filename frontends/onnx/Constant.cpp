// Values that come from attributes and sizes, not from inputs.
#include "frontends/onnx/RuntimeSizes.h"
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"
#include <cmath>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

Value fromTensor(Node &n, const onnx::TensorProto &tensor) {
  if (!onnxElementType(n.importer.context, tensor.data_type())) {
    (void)n.unsupported("element type " + onnxTypeName(tensor.data_type()));
    return {};
  }
  Expected<OnnxTensor> data =
      readTensor(n.importer.context, n.importer.file, tensor);
  if (!data) {
    (void)n.fail(data.error().what, data.error().hint);
    return {};
  }
  if (data->constant)
    return n.constant(data->constant);
  return n.makeAs<ts::WeightOp>(data->type, data->weight);
}

LogicalResult importConstant(Node &n) {
  Builder &b = n.b;
  if (const onnx::TensorProto *tensor = n.tensor("value")) {
    if (tensor->data_type() != onnx::TensorProto::STRING)
      return n.out(fromTensor(n, *tensor));
    Expected<OnnxStrings> strings = readStrings(*tensor);
    if (!strings)
      return n.fail(strings.error().what, strings.error().hint);
    return n.out(stringConstant(n.b, n.loc, strings->values, strings->shape));
  }
  if (n.hasAttr("value_int"))
    return n.out(n.integerScalar(n.integer("value_int", 0), b.getI64Type()));
  if (n.hasAttr("value_float"))
    return n.out(n.scalar(n.real("value_float", 0), b.getF32Type()));
  if (n.hasAttr("value_ints")) {
    SmallVector<int64_t> values = n.integers("value_ints");
    return n.out(n.constant(DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(values.size())},
                              b.getI64Type()),
        ArrayRef<int64_t>(values))));
  }
  if (n.hasAttr("value_floats")) {
    SmallVector<float> values;
    for (double value : n.reals("value_floats"))
      values.push_back(static_cast<float>(value));
    return n.out(n.constant(DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(values.size())},
                              b.getF32Type()),
        ArrayRef<float>(values))));
  }
  if (n.hasAttr("value_string"))
    return n.out(stringConstant(n.b, n.loc, {n.text("value_string", "")}, {}));
  if (n.hasAttr("value_strings"))
    return n.out(stringConstant(n, n.texts("value_strings")));
  if (n.hasAttr("sparse_value"))
    return n.unsupported("a sparse value");
  return n.fail("has no value", "give one of the value attributes");
}

LogicalResult importConstantOfShape(Node &n) {
  std::optional<SmallVector<Dim>> dims = sizesOrSymbols(n, n[0], "the shape");
  if (!dims)
    return failure();
  Value value;
  if (const onnx::TensorProto *tensor = n.tensor("value")) {
    value = fromTensor(n, *tensor);
    if (!value)
      return failure();
    if (!ts::elementCount(value.getType()).isConstant(1))
      return n.fail("value must hold one element", "give a 1-element tensor");
    value = n.reshape(value, {});
  } else {
    value = n.scalar(0, n.b.getF32Type());
  }
  return n.out(n.broadcastTo(value, *dims));
}

/// How many numbers lie from start to limit, when sizes and constants say so;
/// nothing (perhaps with an error) when data decides.
std::optional<Dim> knownCount(Node &n) {
  if (isa<FloatType>(ts::elementTypeOf(n[0]))) {
    double numbers[3];
    for (unsigned i = 0; i < 3; ++i) {
      if (!n[i].getDefiningOp<ts::ConstantOp>())
        return std::nullopt;
      numbers[i] = n.realNumbers(n[i], "a bound")->front();
    }
    auto [from, to, by] = numbers;
    if (by == 0) {
      (void)n.fail("has delta 0", "give a delta other than 0");
      return std::nullopt;
    }
    double steps = std::ceil((to - from) / by);
    if (!(steps < 1e12)) { // or not a number
      (void)n.fail("from " + std::to_string(from) + " to " +
                       std::to_string(to) + " by " + std::to_string(by) +
                       " has no end",
                   "give finite numbers that are nearer to each other");
      return std::nullopt;
    }
    return n.dim(static_cast<int64_t>(std::max(0.0, steps)));
  }
  std::optional<SmallVector<Dim>> a = n.importer.sizes(n[0]),
                                  b = n.importer.sizes(n[1]),
                                  c = n.importer.sizes(n[2]);
  std::optional<int64_t> step = c ? c->front().asConstant() : std::nullopt;
  if (!a || !b || !step)
    return std::nullopt;
  if (*step == 0 || *step == INT64_MIN) {
    (void)n.fail("has delta " + Twine(*step), "give another delta");
    return std::nullopt;
  }
  if (auto from = (*a)[0].asConstant(), to = (*b)[0].asConstant(); from && to)
    if (int64_t length; llvm::SubOverflow(*to, *from, length) ||
                        length == INT64_MIN ||
                        length > INT64_MAX - std::abs(*step)) {
      (void)n.fail("from " + Twine(*from) + " to " + Twine(*to) +
                       " is too long",
                   "give numbers that are nearer to each other");
      return std::nullopt;
    }
  Dim distance = *step > 0 ? (*b)[0] - (*a)[0] : (*a)[0] - (*b)[0];
  Dim count = distance.ceilDiv(n.dim(std::abs(*step)));
  std::optional<int64_t> low = ts::lowerBound(count);
  return low && *low >= 0 ? count : count.max(n.dim(0));
}

/// The same, computed when the model runs; -1, which is refused then, for a
/// delta of 0.
Value computedCount(Node &n, Value start, Value limit, Value delta) {
  using P = ts::ComparePredicate;
  Type i64 = n.b.getI64Type();
  bool floating = isa<FloatType>(ts::elementTypeOf(start));
  Type wide = floating ? Type(n.b.getF64Type()) : i64;
  Value from = n.convert(start, wide), to = n.convert(limit, wide),
        by = n.convert(delta, wide), zero = n.scalar(0, wide);
  Value distance = n.sub(to, from), count;
  if (floating) {
    count = n.convert(n.make<ts::CeilOp>(n.div(distance, by)), i64);
  } else {
    Value whole = n.div(distance, by);
    Value rest = n.sub(distance, n.mul(whole, by));
    Value sameSign = n.compare(P::eq, n.compare(P::lt, rest, zero),
                               n.compare(P::lt, by, zero));
    Value more = n.binary<ts::AndOp>(n.compare(P::ne, rest, zero), sameSign);
    count = n.add(whole, n.convert(more, i64));
  }
  count = n.binary<ts::MaxOp>(count, n.integerScalar(0, i64));
  return n.select(n.compare(P::eq, by, zero), n.integerScalar(-1, i64), count);
}

LogicalResult importRange(Node &n) {
  Type element = ts::elementTypeOf(n[0]);
  for (unsigned i = 0; i < 3; ++i)
    if (ts::elementTypeOf(n[i]) != element ||
        !ts::elementCount(n[i].getType()).isConstant(1))
      return n.fail("start, limit and delta must be scalars of one type",
                    "convert them before");
  Value start = n.reshape(n[0], {}), limit = n.reshape(n[1], {}),
        delta = n.reshape(n[2], {});
  std::optional<Dim> count = knownCount(n);
  if (n.failed())
    return failure();
  if (!count)
    count = n.bindSize(computedCount(n, start, limit, delta), "range");
  auto is = [&](Value value, int64_t number) {
    std::optional<SmallVector<Dim>> known = n.importer.sizes(value);
    return known && known->front().isConstant(number);
  };
  bool plain = is(start, 0) && is(delta, 1);
  // Steps of narrow floats are rounded once.
  bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  bool stashDouble = n.integer("stash_type", onnx::TensorProto::FLOAT) ==
                     onnx::TensorProto::DOUBLE;
  Type fine = !narrow       ? element
              : stashDouble ? Type(n.b.getF64Type())
                            : Type(n.b.getF32Type());
  Value index = n.makeAs<ts::IotaOp>(n.type({*count}, fine), uint64_t(0));
  if (plain)
    return n.out(n.convert(index, element));
  return n.out(n.convert(
      n.add(n.mul(index, n.convert(delta, fine)), n.convert(start, fine)),
      element));
}

/// Row and column numbers of the last two dims.
std::pair<Value, Value> matrixIndices(Node &n, ArrayRef<Dim> dims) {
  Type i64 = n.b.getI64Type();
  SmallVector<Dim> last(dims.take_back(2));
  Value row = n.makeAs<ts::IotaOp>(n.type(last, i64), uint64_t(0));
  Value column = n.makeAs<ts::IotaOp>(n.type(last, i64), uint64_t(1));
  return {row, column};
}

LogicalResult importTrilu(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (dims.size() < 2)
    return n.fail("needs a matrix, has " + ts::shapeText(n[0].getType()),
                  "give an input of rank 2 or more");
  auto [row, column] = matrixIndices(n, dims);
  Value limit = row;
  if (n.has(1))
    limit = n.add(row, n.convert(n.reshape(n[1], {}), n.b.getI64Type()));
  Value keep = n.compare(n.flag("upper", true) ? ts::ComparePredicate::ge
                                               : ts::ComparePredicate::le,
                         column, limit);
  return n.out(n.select(keep, n[0], n.scalarFor(n[0], 0)));
}

LogicalResult importEyeLike(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (dims.size() != 2)
    return n.fail("needs a matrix, has " + ts::shapeText(n[0].getType()),
                  "give an input of rank 2");
  Type element = ts::elementTypeOf(n[0]);
  if (n.hasAttr("dtype")) {
    auto dtype = static_cast<int32_t>(n.integer("dtype", 0));
    element = onnxElementType(n.importer.context, dtype);
    if (!element)
      return n.unsupported("element type " + onnxTypeName(dtype));
  }
  auto [row, column] = matrixIndices(n, dims);
  Value diagonal =
      n.add(row, n.integerScalar(n.integer("k", 0), n.b.getI64Type()));
  return n.out(n.convert(n.compare(ts::ComparePredicate::eq, column, diagonal),
                         element));
}

/// a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N); N is one less when symmetric.
LogicalResult window(Node &n, double a0, double a1, double a2) {
  std::optional<SmallVector<Dim>> size = sizesOrSymbols(n, n[0], "the size");
  if (!size)
    return failure();
  if (size->size() != 1)
    return n.fail("the size must be one number", "give a scalar");
  Type element = n.outputDatatype();
  if (!element)
    return failure();
  Type f64 = n.b.getF64Type();
  Dim period = n.flag("periodic", true) ? (*size)[0] : (*size)[0] - 1;
  Value angle =
      n.mul(n.div(n.makeAs<ts::IotaOp>(n.type({(*size)[0]}, f64), uint64_t(0)),
                  n.sizeScalar(period, f64)),
            2 * M_PI);
  Value y = n.add(n.mul(n.make<ts::CosOp>(angle), -a1), a0);
  if (a2 != 0)
    y = n.add(y, n.mul(n.make<ts::CosOp>(n.mul(angle, 2.0)), a2));
  return n.out(n.convert(y, element));
}

LogicalResult importBlackmanWindow(Node &n) {
  return window(n, 0.42, 0.5, 0.08);
}
LogicalResult importHammingWindow(Node &n) {
  return window(n, 25.0 / 46, 21.0 / 46, 0);
}
LogicalResult importHannWindow(Node &n) { return window(n, 0.5, 0.5, 0); }

constexpr OpRow rows[] = {
    {"", "BlackmanWindow", 17, 1, 1, importBlackmanWindow},
    {"", "Constant", 1, 0, 0, importConstant},
    {"", "ConstantOfShape", 9, 1, 1, importConstantOfShape},
    {"", "EyeLike", 9, 1, 1, importEyeLike},
    {"", "HammingWindow", 17, 1, 1, importHammingWindow},
    {"", "HannWindow", 17, 1, 1, importHannWindow},
    {"", "Range", 11, 3, 3, importRange},
    {"", "Trilu", 14, 1, 2, importTrilu},
};

} // namespace

ArrayRef<OpRow> constantRows() { return rows; }

} // namespace knapper
