// ai.onnx.ml without trees: linear models, encoders, scalers.
#include "frontends/onnx/Classical.h"
#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;
using P = ts::ComparePredicate;

template <typename T>
static Value table(Node &n, ArrayRef<int64_t> dims, ArrayRef<T> values) {
  Type element = std::is_same_v<T, float>    ? Type(n.b.getF32Type())
                 : std::is_same_v<T, double> ? Type(n.b.getF64Type())
                                             : Type(n.b.getI64Type());
  auto type = RankedTensorType::get(dims, element);
  if (values.size() * sizeof(T) <= maxInlineBytes)
    return n.constant(DenseElementsAttr::get(type, values));
  OnnxFile::Region region = n.importer.file.keep(
      std::string(reinterpret_cast<const char *>(values.data()),
                  values.size() * sizeof(T)));
  return n.makeAs<ts::WeightOp>(
      type, ts::WeightAttr::get(n.importer.context, region.file, region.offset,
                                region.bytes,
                                StringAttr::get(n.importer.context, n.name)));
}

Value tableOf(Node &n, ArrayRef<int64_t> dims, ArrayRef<double> values,
              Type element) {
  if (element.isF64())
    return table<double>(n, dims, values);
  SmallVector<float> narrow(values.begin(), values.end());
  return n.convert(table<float>(n, dims, narrow), element);
}

Value tableOf(Node &n, ArrayRef<int64_t> dims, ArrayRef<int64_t> values,
              Type element) {
  return n.convert(table<int64_t>(n, dims, values), element);
}

Value features(Node &n, Value x) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  if (dims.size() == 1)
    x = n.reshape(x, {n.dim(1), dims[0]});
  else if (dims.size() != 2) {
    (void)n.fail("the input is " + ts::shapeText(x.getType()),
                 "give [rows, features]");
    return {};
  }
  Type element = ts::elementTypeOf(x);
  return n.convert(x, element.isF64() ? element : Type(n.b.getF32Type()));
}

/// The inverse of the normal distribution's sum, by Winitzki's approximation.
static Value probit(Node &n, Value p) {
  Value x = n.add(n.mul(p, 2), -1);
  Value one = n.scalarFor(x, 1);
  Value log = n.make<ts::LogOp>(n.mul(n.sub(one, x), n.add(x, 1)));
  Value v = n.add(n.mul(log, 0.5), 2 / (M_PI * 0.147));
  Value root = n.make<ts::SqrtOp>(n.sub(n.mul(v, v), n.mul(log, 1 / 0.147)));
  Value size = n.make<ts::SqrtOp>(n.sub(root, v));
  return n.mul(n.mul(n.make<ts::SignOp>(x), size), M_SQRT2);
}

Value postTransform(Node &n, Value scores) {
  return postTransform(n, scores, n.text("post_transform", "NONE"));
}

Value postTransform(Node &n, Value scores, StringRef name) {
  if (name == "NONE" || name.empty())
    return scores;
  if (name == "LOGISTIC")
    return n.make<ts::SigmoidOp>(scores);
  if (name == "SOFTMAX")
    return n.make<ts::SoftmaxOp>(scores, uint64_t(1), bool(false));
  if (name == "PROBIT")
    return probit(n, scores);
  if (name == "SOFTMAX_ZERO") {
    // A score of 0 stays 0.
    Value largest = n.reduce(ts::ReduceKind::max, scores, {1}, true);
    Value zero =
        n.compare(P::le, n.make<ts::AbsOp>(scores), n.scalarFor(scores, 1e-7));
    Value power = n.make<ts::ExpOp>(n.sub(scores, largest));
    Value rest = n.mul(scores, n.make<ts::ExpOp>(n.make<ts::NegOp>(largest)));
    Value parts = n.select(zero, rest, power);
    Value sum = n.reduce(ts::ReduceKind::add, parts, {1}, true);
    Value none = n.compare(P::eq, sum, n.scalarFor(sum, 0));
    Value share = n.div(parts, n.select(none, n.scalarFor(sum, 1), sum));
    return n.select(none, n.scalarFor(share, 0.5), share);
  }
  (void)n.fail("post_transform is '" + name + "'",
               "use NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
  return {};
}

Value labelsOf(Node &n, Value scores, ArrayRef<int64_t> labels) {
  Value index = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, scores,
                                        uint64_t(1), bool(false));
  bool plain = true;
  for (auto [i, label] : llvm::enumerate(labels))
    plain &= label == static_cast<int64_t>(i);
  if (plain)
    return index;
  Value names = tableOf(n, {static_cast<int64_t>(labels.size())}, labels,
                        n.b.getI64Type());
  return n.make<ts::GatherOp>(names, index, uint64_t(0));
}

namespace {

LogicalResult importArrayFeatureExtractor(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Value index = n.reshape(n[1], {ts::elementCount(n[1].getType())});
  if (dims.empty() || !index)
    return n.fail("needs a vector or more, has " +
                      ts::shapeText(n[0].getType()),
                  "give features");
  Value y = n.make<ts::GatherOp>(n[0], index, uint64_t(dims.size() - 1));
  if (dims.size() == 1 && y)
    y = n.reshape(y, {n.dim(1), ts::dimOf(y, 0)});
  return n.out(y);
}

LogicalResult importBinarizer(Node &n) {
  Value above =
      n.compare(P::gt, n[0], n.scalarFor(n[0], n.real("threshold", 0)));
  return n.out(n.convert(above, ts::elementTypeOf(n[0])));
}

/// Inputs side by side, each cut or filled with zeros to its size.
LogicalResult importFeatureVectorizer(Node &n) {
  SmallVector<int64_t> sizes = n.integers("inputdimensions");
  if (sizes.size() != n.size())
    return n.fail("inputdimensions has " + Twine(sizes.size()) + " sizes for " +
                      Twine(n.size()) + " inputs",
                  "give a size an input");
  SmallVector<Value> parts;
  for (auto [value, size] : llvm::zip(n.all(), sizes)) {
    if (!value || ts::rankOf(value) > 2 || !ts::rankOf(value) || size < 0)
      return n.fail("an input is no vector or matrix", "give [rows, features]");
    SmallVector<Dim> dims = ts::dimsOf(value);
    Value x = dims.size() == 1 ? n.reshape(value, {dims[0], n.dim(1)}) : value;
    if (!x)
      return failure();
    if (!parts.empty()) {
      SmallVector<Dim> same = ts::dimsOf(x);
      same[0] = ts::dimOf(parts[0], 0);
      x = n.castDims(x, same);
    }
    x = n.convert(x, n.b.getF32Type());
    if (!x)
      return failure();
    std::optional<int64_t> own = ts::dimOf(x, 1).asConstant();
    if (!own)
      return n.unsupported("features of symbolic number");
    if (*own > size)
      x = n.sliceDim(x, 1, n.dim(0), n.dim(size));
    MLIRContext *context = n.importer.context;
    if (*own < size)
      x = n.make<ts::PadOp>(
          x, Optional{n.scalarFor(x, 0)},
          ts::dimArray(context, {n.dim(0), n.dim(0)}),
          ts::dimArray(context, {n.dim(0), n.dim(size - *own)}),
          ts::PadMode::constant);
    parts.push_back(x);
  }
  return n.out(parts.size() == 1
                   ? parts[0]
                   : n.make<ts::ConcatOp>(ValueRange(parts), int64_t(1)));
}

LogicalResult importImputer(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Type element = ts::elementTypeOf(n[0]);
  bool floating = isa<FloatType>(element);
  SmallVector<double> values = n.reals("imputed_value_floats");
  if (!floating)
    for (int64_t value : n.integers("imputed_value_int64s"))
      values.push_back(static_cast<double>(value));
  auto count = static_cast<int64_t>(values.size());
  if (dims.empty() || !count || (count != 1 && !dims.back().isConstant(count)))
    return n.fail("has " + Twine(count) + " values for " +
                      ts::shapeText(n[0].getType()),
                  "give one value, or one a feature");
  Value value = n.broadcastTo(count == 1 ? n.scalar(values[0], element)
                                         : tableOf(n, {count}, values, element),
                              dims);
  double replaced = n.real("replaced_value_float", 0);
  Value missing =
      floating && std::isnan(replaced)
          ? n.make<ts::IsNanOp>(n[0])
          : n.compare(P::eq, n[0],
                      floating
                          ? n.scalarFor(n[0], replaced)
                          : n.integerScalar(
                                n.integer("replaced_value_int64", 0), element));
  return n.out(n.select(missing, value, n[0]));
}

/// Keys or values of a LabelEncoder; `element` is null where there are none.
struct Labels {
  SmallVector<double> reals;
  SmallVector<int64_t> integers;
  SmallVector<std::string> texts;
  Type element;
  bool isText() const { return isa<ts::StringType>(element); }
  size_t size() const {
    return isText()                  ? texts.size()
           : isa<FloatType>(element) ? reals.size()
                                     : integers.size();
  }
};

std::optional<Labels> labelsOf(Node &n, StringRef what) {
  Labels labels;
  if (n.hasAttr((what + "_int64s").str())) {
    labels.integers = n.integers((what + "_int64s").str());
    labels.element = n.b.getI64Type();
    return labels;
  }
  if (n.hasAttr((what + "_floats").str())) {
    labels.reals = n.reals((what + "_floats").str());
    labels.element = n.b.getF32Type();
    return labels;
  }
  if (n.hasAttr((what + "_strings").str())) {
    labels.texts = n.texts((what + "_strings").str());
    labels.element = ts::StringType::get(n.importer.context);
    return labels;
  }
  const onnx::TensorProto *tensor = n.tensor((what + "_tensor").str());
  if (tensor && tensor->data_type() == onnx::TensorProto::STRING) {
    Expected<OnnxStrings> strings = readStrings(*tensor);
    if (!strings) {
      (void)n.fail(strings.error().what, strings.error().hint);
      return std::nullopt;
    }
    labels.texts.assign(strings->values.begin(), strings->values.end());
    labels.element = ts::StringType::get(n.importer.context);
    return labels;
  }
  if (!tensor || !onnxElementType(n.importer.context, tensor->data_type())) {
    (void)n.unsupported("no " + what + " of an element type that we have");
    return std::nullopt;
  }
  Expected<OnnxTensor> data =
      readTensor(n.importer.context, n.importer.file, *tensor);
  if (!data) {
    (void)n.fail(data.error().what, data.error().hint);
    return std::nullopt;
  }
  if (!data->constant) {
    (void)n.unsupported("more than 64 KiB of labels");
    return std::nullopt;
  }
  labels.element = data->type.getElementType();
  if (isa<FloatType>(labels.element)) {
    for (APFloat value : data->constant.getValues<APFloat>()) {
      bool lost = false;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      labels.reals.push_back(value.convertToDouble());
    }
  } else {
    for (const APInt &value : data->constant.getValues<APInt>())
      labels.integers.push_back(value.getSExtValue());
  }
  return labels;
}

Value tableOf(Node &n, const Labels &labels) {
  auto count = static_cast<int64_t>(labels.size());
  if (isa<FloatType>(labels.element))
    return knapper::tableOf(n, {count}, ArrayRef<double>(labels.reals),
                            labels.element);
  return knapper::tableOf(n, {count}, ArrayRef<int64_t>(labels.integers),
                          labels.element);
}

/// Where each element of the input stands among the numbers, and whether it
/// does: each is compared with each.
std::pair<Value, Value> placeAmong(Node &n, const Labels &keys) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]), all = dims;
  all.push_back(n.dim(static_cast<int64_t>(keys.size())));
  SmallVector<int64_t> at = llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
  Value x = n.broadcastAt(n[0], at, all);
  Value key = n.broadcastTo(tableOf(n, keys), all);
  Value same = n.compare(P::eq, x, key);
  if (x && isa<FloatType>(keys.element)) {
    Value both =
        n.binary<ts::AndOp>(n.make<ts::IsNanOp>(x), n.make<ts::IsNanOp>(key));
    same = n.binary<ts::OrOp>(same, both);
  }
  Value bit = n.convert(same, n.b.getIntegerType(8));
  // Of equal keys the last one counts.
  Value index = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, bit,
                                        uint64_t(dims.size()), bool(true));
  Value found = n.reduce(ts::ReduceKind::logical_or, same,
                         {static_cast<int64_t>(dims.size())}, false);
  return {index, found};
}

/// The value of the key that an element equals.
LogicalResult importLabelEncoder(Node &n) {
  std::optional<Labels> keys = labelsOf(n, "keys"),
                        values = labelsOf(n, "values");
  if (!keys || !values)
    return failure();
  if (keys->size() != values->size() || !keys->size())
    return n.fail("has " + Twine(keys->size()) + " keys for " +
                      Twine(values->size()) + " values",
                  "give a value a key");
  if (keys->element != ts::elementTypeOf(n[0]))
    return n.fail("the keys have another element type than the input",
                  "convert the input");
  Type i64 = n.b.getI64Type();
  auto count = static_cast<int64_t>(keys->size());
  Value index, found; // of the last key that is equal
  if (keys->isText()) {
    index = lookUpStrings(n, n[0], keys->texts);
    found = n.compare(P::ge, index, n.integerScalar(0, i64));
  } else {
    std::tie(index, found) = placeAmong(n, *keys);
  }
  if (values->isText()) {
    std::string otherwise = n.text("default_string", "_Unused");
    if (const onnx::TensorProto *tensor = n.tensor("default_tensor")) {
      if (tensor->string_data_size() != 1)
        return n.fail("default_tensor must hold one string", "give one");
      otherwise = tensor->string_data(0);
    }
    SmallVector<std::string> all = values->texts;
    all.push_back(otherwise);
    return n.out(selectStrings(
        n, stringConstant(n, all),
        n.select(found, n.convert(index, i64), n.integerScalar(count, i64))));
  }
  Value otherwise;
  if (const onnx::TensorProto *tensor = n.tensor("default_tensor")) {
    Expected<OnnxTensor> data =
        readTensor(n.importer.context, n.importer.file, *tensor);
    if (!data || !data->constant || data->type.getNumElements() != 1)
      return n.fail("default_tensor must hold one number", "give one number");
    otherwise = n.reshape(n.constant(data->constant), {});
  } else if (isa<FloatType>(values->element)) {
    otherwise = n.scalar(n.real("default_float", -0.0), values->element);
  } else {
    otherwise =
        n.integerScalar(n.integer("default_int64", -1), values->element);
  }
  // What is not found takes the last value, -1 from the end, and loses it.
  Value value = n.make<ts::GatherOp>(tableOf(n, *values), index, uint64_t(0));
  return n.out(n.select(found, value, n.convert(otherwise, values->element)));
}

/// x [rows, features] times coefficients [outputs, features] plus intercepts.
Value linear(Node &n, Value x, ArrayRef<double> coefficients, int64_t outputs) {
  if (!x)
    return {};
  auto size = static_cast<int64_t>(coefficients.size());
  if (outputs < 1 || size % outputs || !size) {
    (void)n.fail(Twine(size) + " coefficients do not divide into " +
                     Twine(outputs) + " rows",
                 "correct the attributes");
    return {};
  }
  Type element = ts::elementTypeOf(x);
  x = n.castDims(x, {ts::dimOf(x, 0), n.dim(size / outputs)});
  Value weights = tableOf(n, {outputs, size / outputs}, coefficients, element);
  if (!x || !weights)
    return {};
  Value y =
      n.make<ts::DotOp>(x, weights, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                        ArrayRef<int64_t>{1}, ArrayRef<int64_t>{1}, TypeAttr());
  SmallVector<double> intercepts = n.reals("intercepts");
  if (intercepts.empty() || !y)
    return y;
  if (static_cast<int64_t>(intercepts.size()) != outputs) {
    (void)n.fail("has " + Twine(intercepts.size()) + " intercepts for " +
                     Twine(outputs) + " outputs",
                 "give one an output");
    return {};
  }
  return n.add(y, tableOf(n, {outputs}, intercepts, element));
}

LogicalResult importLinearRegressor(Node &n) {
  Value y = linear(n, features(n, n[0]), n.reals("coefficients"),
                   n.integer("targets", 1));
  return n.out(n.convert(postTransform(n, y), n.b.getF32Type()));
}

LogicalResult importLinearClassifier(Node &n) {
  SmallVector<std::string> names = n.texts("classlabels_strings");
  SmallVector<int64_t> labels = n.integers("classlabels_ints");
  if (!names.empty()) // their places, until the end
    labels = llvm::to_vector(llvm::seq<int64_t>(0, names.size()));
  SmallVector<double> coefficients = n.reals("coefficients");
  Value x = features(n, n[0]);
  if (!x)
    return failure();
  std::optional<int64_t> width = ts::dimOf(x, 1).asConstant();
  if (!width || !*width)
    return n.unsupported("features of symbolic number");
  auto outputs = static_cast<int64_t>(coefficients.size()) / *width;
  Value scores = linear(n, x, coefficients, outputs);
  if (!scores)
    return failure();
  if (outputs == 1 && labels.size() == 2) {
    scores = n.make<ts::ConcatOp>(ValueRange{n.make<ts::NegOp>(scores), scores},
                                  int64_t(1));
    outputs = 2;
  }
  // As ONNX Runtime does: before the transform, whose largest may be equal or
  // change places.
  Value raw = scores, label;
  scores = postTransform(n, raw);
  if (outputs > 1) {
    if (static_cast<int64_t>(labels.size()) != outputs)
      return n.fail("has " + Twine(labels.size()) + " labels for " +
                        Twine(outputs) + " classes",
                    "give a label a class");
    label = knapper::labelsOf(n, raw, labels);
  } else {
    // One class: its label, or 0.
    double threshold = n.text("post_transform", "NONE") == "NONE" ? 0 : 0.5;
    Type i64 = n.b.getI64Type();
    Value score = n.reshape(scores, {ts::dimOf(x, 0)});
    label = n.select(n.compare(P::ge, score, n.scalarFor(score, threshold)),
                     n.integerScalar(labels.empty() ? 1 : labels[0], i64),
                     n.integerScalar(0, i64));
  }
  if (!names.empty())
    label = selectStrings(n, stringConstant(n, names), label);
  if (failed(n.out(label)))
    return failure();
  return n.out(n.convert(scores, n.b.getF32Type()), 1);
}

LogicalResult importNormalizer(Node &n) {
  std::string norm = n.text("norm", "MAX");
  Value x = features(n, n[0]), size;
  Value positive = n.make<ts::AbsOp>(x);
  if (norm == "MAX")
    size = n.reduce(ts::ReduceKind::max, x, {1}, true); // with its sign
  else if (norm == "L1")
    size = n.reduce(ts::ReduceKind::add, positive, {1}, true);
  else if (norm == "L2")
    size = n.make<ts::SqrtOp>(
        n.reduce(ts::ReduceKind::add, n.mul(x, x), {1}, true));
  else
    return n.fail("norm is '" + norm + "'", "use MAX, L1 or L2");
  // A row of zeros stays one.
  Value none = n.compare(P::eq, size, n.scalarFor(x, 0));
  Value y = n.div(x, n.select(none, n.scalarFor(x, 1), size));
  return n.out(n.convert(n.reshape(y, ts::dimsOf(n[0])), n.b.getF32Type()));
}

LogicalResult importOneHotEncoder(Node &n) {
  SmallVector<int64_t> categories = n.integers("cats_int64s");
  Value x = n[0];
  if (isString(x)) {
    SmallVector<std::string> words = n.texts("cats_strings");
    categories = llvm::to_vector(llvm::seq<int64_t>(0, words.size()));
    x = words.empty() ? Value() : lookUpStrings(n, x, words);
  }
  if (categories.empty())
    return n.fail("has no categories for its input",
                  "give cats_int64s, or cats_strings for strings");
  if (!n.flag("zeros", true))
    return n.unsupported("an error for unknown categories (zeros 0)");
  SmallVector<Dim> all = ts::dimsOf(n[0]);
  SmallVector<int64_t> at = llvm::to_vector(llvm::seq<int64_t>(0, all.size()));
  auto count = static_cast<int64_t>(categories.size());
  all.push_back(n.dim(count));
  Type i64 = n.b.getI64Type();
  Value same = n.compare(P::eq, n.broadcastAt(n.convert(x, i64), at, all),
                         tableOf(n, {count}, categories, i64));
  return n.out(n.convert(same, n.b.getF32Type()));
}

/// Strings to numbers or numbers to strings, by two lists.
LogicalResult importCategoryMapper(Node &n) {
  SmallVector<std::string> words = n.texts("cats_strings");
  SmallVector<int64_t> numbers = n.integers("cats_int64s");
  if (words.size() != numbers.size() || words.empty())
    return n.fail("has " + Twine(words.size()) + " strings for " +
                      Twine(numbers.size()) + " numbers",
                  "give a string a number");
  Type i64 = n.b.getI64Type();
  auto count = static_cast<int64_t>(numbers.size());
  Value zero = n.integerScalar(0, i64);
  if (isString(n[0])) {
    Value index = lookUpStrings(n, n[0], words);
    Value found = n.compare(P::ge, index, zero);
    Value value =
        n.make<ts::GatherOp>(tableOf(n, {count}, numbers, i64),
                             n.select(found, index, zero), uint64_t(0));
    return n.out(n.select(
        found, value, n.integerScalar(n.integer("default_int64", -1), i64)));
  }
  if (ts::elementTypeOf(n[0]) != i64)
    return n.fail("takes strings or INT64", "convert the input");
  Labels keys;
  keys.integers = numbers;
  keys.element = i64;
  auto [index, found] = placeAmong(n, keys);
  words.push_back(n.text("default_string", "_Unused"));
  return n.out(selectStrings(
      n, stringConstant(n, words),
      n.select(found, n.convert(index, i64), n.integerScalar(count, i64))));
}

LogicalResult importScaler(Node &n) {
  SmallVector<double> offset = n.reals("offset"), scale = n.reals("scale");
  Type element = ts::elementTypeOf(n[0]);
  Value x = n.convert(n[0], element.isF64() ? element : Type(n.b.getF32Type()));
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  auto factor = [&](ArrayRef<double> values) -> Value {
    auto count = static_cast<int64_t>(values.size());
    if (dims.empty() || (count != 1 && !dims.back().isConstant(count))) {
      (void)n.fail("has " + Twine(count) + " numbers for " +
                       ts::shapeText(n[0].getType()),
                   "give one, or one a feature");
      return {};
    }
    return tableOf(n, {count}, values, ts::elementTypeOf(x));
  };
  if (!offset.empty())
    x = n.sub(x, factor(offset));
  if (!x)
    return failure();
  if (!scale.empty())
    x = n.mul(x, factor(scale));
  return n.out(n.convert(x, n.b.getF32Type()));
}

constexpr OpRow rows[] = {
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, 2, 2,
     importArrayFeatureExtractor},
    {"ai.onnx.ml", "Binarizer", 1, 1, 1, importBinarizer},
    {"ai.onnx.ml", "CategoryMapper", 1, 1, 1, importCategoryMapper},
    {"ai.onnx.ml", "FeatureVectorizer", 1, 1, anyNumber,
     importFeatureVectorizer},
    {"ai.onnx.ml", "Imputer", 1, 1, 1, importImputer},
    {"ai.onnx.ml", "LabelEncoder", 2, 1, 1, importLabelEncoder},
    {"ai.onnx.ml", "LinearClassifier", 1, 1, 1, importLinearClassifier},
    {"ai.onnx.ml", "LinearRegressor", 1, 1, 1, importLinearRegressor},
    {"ai.onnx.ml", "Normalizer", 1, 1, 1, importNormalizer},
    {"ai.onnx.ml", "OneHotEncoder", 1, 1, 1, importOneHotEncoder},
    {"ai.onnx.ml", "Scaler", 1, 1, 1, importScaler},
};

} // namespace

ArrayRef<OpRow> classicalRows() { return rows; }

} // namespace knapper
