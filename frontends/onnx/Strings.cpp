#include "frontends/onnx/Strings.h"
#include "frontends/onnx/Tensors.h"
#include "ir/tensor/reference/ExternalAttributes.h"
#include "runtime/base/DType.h"
#include "runtime/operators/HostDomain.h"
#include "runtime/operators/Registry.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

Expected<OnnxStrings> readStrings(const onnx::TensorProto &tensor) {
  OnnxStrings read;
  int64_t count = 1;
  for (int64_t dim : tensor.dims()) {
    read.shape.push_back(dim);
    count = dim < 0 || dim > (1 << 26) || count > (1 << 26) ? -1 : count * dim;
    if (count < 0)
      break;
  }
  read.values.assign(tensor.string_data().begin(), tensor.string_data().end());
  if (count != static_cast<int64_t>(read.values.size()) ||
      read.shape.size() > 32)
    return userError("holds " + std::to_string(read.values.size()) +
                         " strings, which do not fill its dims",
                     "tensor '" + tensor.name() + "'",
                     "export the model again");
  return read;
}

Value stringConstant(OpBuilder &b, Location loc, ArrayRef<std::string> values,
                     ArrayRef<int64_t> shape) {
  SmallVector<Attribute> texts;
  for (const std::string &value : values)
    texts.push_back(b.getStringAttr(value));
  DictionaryAttr parameters = b.getDictionaryAttr(
      {b.getNamedAttr("shape", b.getDenseI64ArrayAttr(shape)),
       b.getNamedAttr("values", b.getArrayAttr(texts))});
  Type type = RankedTensorType::get(shape, ts::StringType::get(b.getContext()));
  return ts::ExternalOp::create(
             b, loc, TypeRange(type), kHostDomain, "StringConstant", 1,
             parameters, ArrayRef<bool>(), b.getStrArrayAttr({}), ValueRange())
      .getResult(0);
}

Value stringConstant(Node &n, ArrayRef<std::string> values) {
  return n.failed() ? Value()
                    : stringConstant(n.b, n.loc, values,
                                     {static_cast<int64_t>(values.size())});
}

namespace {

Type stringType(Node &n) { return ts::StringType::get(n.importer.context); }

/// An operator of the runtime's whose only result is of the type.
Value host(Node &n, StringRef op, ValueRange inputs, Type type,
           ArrayRef<NamedAttribute> parameters = {},
           ArrayRef<StringRef> symbols = {}) {
  if (!type || llvm::any_of(inputs, [](Value input) { return !input; }))
    return {};
  Operation *made = n.external(
      kHostDomain, op, n.b.getDictionaryAttr(parameters),
      SmallVector<bool>(inputs.size(), true), inputs, symbols, TypeRange(type));
  return made ? made->getResult(0) : Value();
}

/// The positions of x's strings, shaped as x, counted from `first`.
Value positionsOf(Node &n, Value x, Dim first) {
  Type i64 = n.b.getI64Type();
  Dim count = ts::elementCount(x.getType());
  Value flat = n.makeAs<ts::IotaOp>(n.type({count}, i64), uint64_t(0));
  if (!first.isConstant(0))
    flat = n.add(flat, n.sizeScalar(first, i64));
  return n.reshape(flat, ts::dimsOf(x));
}

/// Rows that only move elements: each result takes strings from the operands.
bool onlyMoves(StringRef op) {
  return llvm::is_contained(
      ArrayRef<StringRef>{"Compress", "Concat", "Expand", "Gather",
                          "GatherElements", "GatherND", "ReverseSequence",
                          "ScatterElements", "ScatterND", "Slice", "Split",
                          "Tile", "Transpose", "Where",
                          "ArrayFeatureExtractor"},
      op);
}
/// Whether they move elements of this operand; others say where to.
bool isMoved(StringRef op, size_t operand) {
  if (op == "Concat")
    return true;
  if (op == "Where")
    return operand > 0;
  if (op == "ScatterElements" || op == "ScatterND")
    return operand != 1;
  return operand == 0;
}
/// Rows that pass an operand on, seen with other dims, or look at its dims.
bool onlyViews(StringRef op) {
  return llvm::is_contained(ArrayRef<StringRef>{"Flatten", "Identity",
                                                "Reshape", "Shape", "Size",
                                                "Squeeze", "Unsqueeze"},
                            op);
}
/// Rows that ask for the element type themselves.
bool knowsStrings(StringRef op) {
  return llvm::is_contained(
      ArrayRef<StringRef>{"Cast", "CategoryMapper", "LabelEncoder",
                          "OneHotEncoder", "RegexFullMatch", "StringConcat",
                          "StringNormalizer", "StringSplit", "TfIdfVectorizer"},
      op);
}

LogicalResult move(Node &n, const OpRow &row) {
  SmallVector<Value> strings;
  Dim first = n.dim(0);
  for (auto [i, operand] : llvm::enumerate(n.operands)) {
    if (!operand)
      continue;
    if (isString(operand) != isMoved(n.proto.op_type(), i))
      return n.fail("has strings and numbers together",
                    "convert one of its inputs");
    if (!isString(operand))
      continue;
    strings.push_back(operand);
    operand = positionsOf(n, operand, first);
    first = first + ts::elementCount(strings.back().getType());
  }
  if (n.failed() || failed(row.import(n)))
    return failure();
  Value all = strings[0];
  if (strings.size() > 1)
    all = host(n, "StringJoin", strings, n.type({first}, stringType(n)));
  for (Value &result : n.results)
    if (result)
      if (!(result = selectStrings(n, all, result)))
        return failure();
  return mlir::success(!n.failed());
}

/// Both operands with the shape that they broadcast to.
std::pair<Value, Value> broadcastStrings(Node &n) {
  if (!isString(n[0]) || !isString(n[1])) {
    (void)n.fail("strings and numbers together", "convert one of them");
    return {};
  }
  if (n[0].getType() == n[1].getType())
    return {n[0], n[1]};
  SmallVector<Value> positions = n.broadcastAll(
      {positionsOf(n, n[0], n.dim(0)), positionsOf(n, n[1], n.dim(0))});
  return {selectStrings(n, n[0], positions[0]),
          selectStrings(n, n[1], positions[1])};
}

LogicalResult importStringEqual(Node &n) {
  auto [x, y] = broadcastStrings(n);
  if (!x || !y)
    return failure();
  return n.out(host(n, "StringEqual", {x, y},
                    ts::withElement(x.getType(), n.b.getI1Type())));
}

} // namespace

Value selectStrings(Node &n, Value x, Value positions) {
  if (!x || !positions)
    return {};
  return host(n, "StringSelect", {x, positions},
              ts::withElement(positions.getType(), stringType(n)));
}

Value lookUpStrings(Node &n, Value x, ArrayRef<std::string> keys) {
  std::map<std::string, int64_t> places;
  for (auto [i, key] : llvm::enumerate(keys))
    places[key] = static_cast<int64_t>(i);
  SmallVector<Attribute> sorted;
  SmallVector<int64_t> place;
  for (auto &[key, i] : places) {
    sorted.push_back(n.b.getStringAttr(key));
    place.push_back(i);
  }
  if (!x || places.empty())
    return {};
  Type i64 = n.b.getI64Type();
  Value found = host(n, "StringLookup", {x}, ts::withElement(x.getType(), i64),
                     {n.b.getNamedAttr("keys", n.b.getArrayAttr(sorted))});
  if (llvm::is_sorted(place))
    return found;
  Value known =
      n.compare(ts::ComparePredicate::ge, found, n.integerScalar(0, i64));
  Value table = n.constant(DenseElementsAttr::get(
      RankedTensorType::get({static_cast<int64_t>(place.size())}, i64),
      ArrayRef<int64_t>(place)));
  Value none = n.integerScalar(0, i64);
  Value at =
      n.make<ts::GatherOp>(table, n.select(known, found, none), uint64_t(0));
  return n.select(known, at, n.integerScalar(-1, i64));
}

LogicalResult castFromStrings(Node &n, Type element) {
  // What the runtime reads; narrower types follow from it.
  Type read = n.b.getF32Type();
  DType dtype = DType::f32;
  if (element.isF64()) {
    read = element;
    dtype = DType::f64;
  } else if (element.isInteger(1)) {
    return n.unsupported("strings as BOOL");
  } else if (isa<IntegerType>(element)) {
    bool large = element.isUnsignedInteger(64);
    read = large ? element : Type(n.b.getI64Type());
    dtype = large ? DType::u64 : DType::i64;
  }
  Value numbers =
      host(n, "StringParse", {n[0]}, ts::withElement(n[0].getType(), read),
           {n.b.getNamedAttr(
               "type", n.b.getI64IntegerAttr(static_cast<int64_t>(dtype)))});
  return n.out(n.convert(numbers, element));
}

LogicalResult castToStrings(Node &n) {
  if (isString(n[0]))
    return n.out(n[0]);
  Type element = ts::elementTypeOf(n[0]);
  if (element.isInteger(1))
    return n.unsupported("BOOL as strings");
  Type wide = element.isF64() ? element : Type(n.b.getF32Type());
  if (isa<IntegerType>(element))
    wide = element.isUnsignedInteger(64) ? element : Type(n.b.getI64Type());
  return n.out(host(n, "StringFormat", {n.convert(n[0], wide)},
                    ts::withElement(n[0].getType(), stringType(n))));
}

LogicalResult importOnStrings(Node &n, const OpRow &row) {
  StringRef op = n.proto.op_type();
  if (op == "Equal")
    return importStringEqual(n);
  if (onlyViews(op) || knowsStrings(op))
    return row.import(n);
  if (onlyMoves(op))
    return move(n, row);
  for (auto [i, operand] : llvm::enumerate(n.operands))
    if (isString(operand))
      return n.unsupported("its input '" + n.proto.input(static_cast<int>(i)) +
                           "' has element type STRING");
  return n.unsupported("element type STRING");
}

//===----------------------------------------------------------------------===//
// Operators of strings alone
//===----------------------------------------------------------------------===//

namespace {

LogicalResult wantStrings(Node &n) {
  for (Value operand : n.all())
    if (!isString(operand))
      return n.fail("takes strings", "convert the input");
  return mlir::success();
}

LogicalResult importStringConcat(Node &n) {
  if (failed(wantStrings(n)))
    return failure();
  auto [x, y] = broadcastStrings(n);
  return x && y ? n.out(host(n, "StringConcat", {x, y}, x.getType()))
                : failure();
}

LogicalResult importStringSplit(Node &n) {
  if (failed(wantStrings(n)))
    return failure();
  SmallVector<NamedAttribute> parameters;
  if (n.hasAttr("delimiter"))
    parameters.push_back(n.b.getNamedAttr(
        "delimiter", n.b.getStringAttr(n.text("delimiter", ""))));
  if (n.hasAttr("maxsplit"))
    parameters.push_back(n.b.getNamedAttr(
        "maxsplit", n.b.getI64IntegerAttr(n.integer("maxsplit", -1))));
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Type counts = n.type(dims, n.b.getI64Type());
  dims.push_back(n.importer.freshSymbol(n.resultName(0) + "_parts"));
  Type parts = n.type(dims, stringType(n));
  if (!counts || !parts)
    return failure();
  Operation *made =
      n.external(kHostDomain, "StringSplit", n.b.getDictionaryAttr(parameters),
                 {true}, n[0], {*dims.back().asSymbol()}, {parts, counts});
  if (!made || failed(n.out(made->getResult(0))))
    return failure();
  return n.out(made->getResult(1), 1);
}

LogicalResult importStringNormalizer(Node &n) {
  if (failed(wantStrings(n)))
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  std::string action = n.text("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return n.fail("case_change_action is '" + action + "'",
                  "use NONE, LOWER or UPPER");
  if (dims.empty() || dims.size() > 2)
    return n.fail("the input is " + ts::shapeText(n[0].getType()),
                  "give [C] or [1, C]");
  std::string locale = n.text("locale", "en_US");
  for (StringRef turkic : {"tr", "az"}) // i has a case of its own there
    if (StringRef(locale).split('_').first == turkic)
      return n.unsupported("case in the locale '" + locale + "'");
  SmallVector<Attribute> words;
  for (const std::string &word : n.texts("stopwords"))
    words.push_back(n.b.getStringAttr(word));
  if (action == "NONE" && words.empty() && dims.back().asConstant() &&
      *dims.back().asConstant() > 0)
    return n.out(n[0]);
  Dim count = n.importer.freshSymbol(n.resultName(0) + "_words");
  dims.back() = count;
  if (dims.size() == 2)
    dims[0] = n.dim(1);
  return n.out(host(
      n, "StringNormalize", {n[0]}, n.type(dims, stringType(n)),
      {n.b.getNamedAttr("case_change_action", n.b.getStringAttr(action)),
       n.b.getNamedAttr("is_case_sensitive", n.b.getI64IntegerAttr(n.integer(
                                                 "is_case_sensitive", 0))),
       n.b.getNamedAttr("stopwords", n.b.getArrayAttr(words))},
      {*count.asSymbol()}));
}

LogicalResult importRegexFullMatch(Node &n) {
  if (failed(wantStrings(n)))
    return failure();
  if (!n.hasAttr("pattern"))
    return n.fail("has no pattern", "give the attribute pattern");
  DictionaryAttr parameters = n.b.getDictionaryAttr(
      {n.b.getNamedAttr("pattern", n.b.getStringAttr(n.text("pattern", "")))});
  std::shared_ptr<const Operator> op =
      findOperator(kHostDomain, "RegexFullMatch");
  if (!op)
    return n.fail("needs a library that is not there",
                  howToRegister(kHostDomain, "RegexFullMatch"));
  // Its shape function compiles the pattern.
  OperatorNode node{n.where(), n.opset,
                    std::make_shared<const OperatorAttributes>(
                        ts::operatorAttributes(parameters))};
  knapper_tensor text = {nullptr, 0, KNAPPER_STRING, 0, nullptr};
  knapper_result_shape result;
  if (Status s = op->shapes(node, {&text, 1}, /*running=*/false, {&result, 1});
      !s)
    return n.fail(s.error().what, "use the syntax of RE2, which has no back "
                                  "references and no look-around");
  return n.out(host(n, "RegexFullMatch", {n[0]},
                    ts::withElement(n[0].getType(), n.b.getI1Type()),
                    parameters.getValue()));
}

constexpr OpRow rows[] = {
    {"", "RegexFullMatch", 20, 1, 1, importRegexFullMatch},
    {"", "StringConcat", 20, 2, 2, importStringConcat},
    {"", "StringNormalizer", 10, 1, 1, importStringNormalizer},
    {"", "StringSplit", 20, 1, 1, importStringSplit},
};

} // namespace

ArrayRef<OpRow> stringRows() { return rows; }

} // namespace knapper
