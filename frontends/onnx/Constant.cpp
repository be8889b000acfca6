// Values that come from attributes and sizes, not from inputs.
#include "frontends/onnx/Node.h"
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
  if (const onnx::TensorProto *tensor = n.tensor("value"))
    return n.out(fromTensor(n, *tensor));
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
  if (n.hasAttr("value_string") || n.hasAttr("value_strings"))
    return n.unsupported("element type STRING");
  if (n.hasAttr("sparse_value"))
    return n.unsupported("a sparse value");
  return n.fail("has no value", "give one of the value attributes");
}

LogicalResult importConstantOfShape(Node &n) {
  std::optional<SmallVector<Dim>> dims = n.sizes(n[0], "the shape");
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

LogicalResult importRange(Node &n) {
  Type element = ts::elementTypeOf(n[0]);
  for (unsigned i = 0; i < 3; ++i)
    if (ts::elementTypeOf(n[i]) != element ||
        !ts::elementCount(n[i].getType()).isConstant(1))
      return n.fail("start, limit and delta must be scalars of one type",
                    "convert them before");
  Value start = n.reshape(n[0], {}), delta = n.reshape(n[2], {});
  Dim count;
  bool plain = false; // start 0, delta 1
  if (isa<FloatType>(element)) {
    std::optional<SmallVector<double>> a = n.realNumbers(n[0], "start"),
                                       b = n.realNumbers(n[1], "limit"),
                                       c = n.realNumbers(n[2], "delta");
    if (!a || !b || !c)
      return failure();
    double steps = (*c)[0] == 0 ? -1 : std::ceil(((*b)[0] - (*a)[0]) / (*c)[0]);
    if ((*c)[0] == 0)
      return n.fail("has delta 0", "give a delta other than 0");
    if (!(steps < 1e12)) // or not a number
      return n.fail("from " + std::to_string((*a)[0]) + " to " +
                        std::to_string((*b)[0]) + " by " +
                        std::to_string((*c)[0]) + " has no end",
                    "give finite numbers that are nearer to each other");
    count = n.dim(static_cast<int64_t>(std::max(0.0, steps)));
  } else {
    std::optional<SmallVector<Dim>> a = n.sizes(n[0], "start"),
                                    b = n.sizes(n[1], "limit");
    std::optional<SmallVector<int64_t>> c = n.numbers(n[2], "delta");
    if (!a || !b || !c)
      return failure();
    int64_t step = (*c)[0];
    if (step == 0 || step == INT64_MIN)
      return n.fail("has delta " + Twine(step), "give another delta");
    if (auto from = (*a)[0].asConstant(), to = (*b)[0].asConstant(); from && to)
      if (int64_t length; llvm::SubOverflow(*to, *from, length) ||
                          length == INT64_MIN ||
                          length > INT64_MAX - std::abs(step))
        return n.fail("from " + Twine(*from) + " to " + Twine(*to) +
                          " is too long",
                      "give numbers that are nearer to each other");
    Dim distance = step > 0 ? (*b)[0] - (*a)[0] : (*a)[0] - (*b)[0];
    count = distance.ceilDiv(n.dim(std::abs(step)));
    std::optional<int64_t> low = ts::lowerBound(count);
    if (!low || *low < 0)
      count = count.max(n.dim(0));
    plain = (*a)[0].isConstant(0) && step == 1;
  }
  Value index = n.makeAs<ts::IotaOp>(n.type({count}, element), uint64_t(0));
  return n.out(plain ? index : n.add(n.mul(index, delta), start));
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
  Value keep = n.compare(n.integer("upper", 1) ? ts::ComparePredicate::ge
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
  std::optional<SmallVector<Dim>> size = n.sizes(n[0], "the size");
  if (!size)
    return failure();
  if (size->size() != 1)
    return n.fail("the size must be one number", "give a scalar");
  auto dtype = static_cast<int32_t>(
      n.integer("output_datatype", onnx::TensorProto::FLOAT));
  Type element = onnxElementType(n.importer.context, dtype);
  if (!element)
    return n.unsupported("element type " + onnxTypeName(dtype));
  Type f64 = n.b.getF64Type();
  Dim period = n.integer("periodic", 1) ? (*size)[0] : (*size)[0] - 1;
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
