#include "frontends/torch/AtenNode.h"
#include "frontends/torch/AtenImporter.h"
#include "runtime/operators/HostDomain.h"
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

AtenNode::AtenNode(AtenImporter &importer, const llvm::json::Object &node,
                   std::string name, std::string overload, Location loc)
    : NodeBuilder(importer, loc), importer(importer), name(std::move(name)),
      overload(std::move(overload)), node(node),
      arguments(node.getObject("args")) {
  const llvm::json::Array *given = node.getArray("results");
  for (const llvm::json::Value &value : given ? *given : llvm::json::Array()) {
    Claim claim;
    if (const llvm::json::Object *result = value.getAsObject()) {
      StringRef dtype = result->getString("dtype").value_or("");
      claim.element = importer.elementType(dtype);
      claim.used = result->getBoolean("used").value_or(true);
      if (!claim.element && claim.used)
        (void)unsupported("dtype " + dtype);
      if (const llvm::json::Array *shape = result->getArray("shape"))
        for (const llvm::json::Value &size : *shape) {
          claim.dims.push_back(importer.size(size));
          if (!claim.dims.back()) {
            claim.dims.back() = dim(0);
            (void)unsupported("a size that is no expression of whole numbers");
          }
        }
    }
    claims.push_back(std::move(claim));
  }
  results.resize(claims.size());
}

std::string AtenNode::where() const {
  std::string text = "node '" + name + "' (" + overload + ")";
  if (std::optional<StringRef> line = node.getString("line");
      line && !line->empty())
    text += ", " + line->str();
  return text;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const llvm::json::Value *AtenNode::argument(StringRef name) const {
  const llvm::json::Value *value = arguments ? arguments->get(name) : nullptr;
  return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
}

bool AtenNode::has(StringRef name) const { return argument(name); }

/// {"f": "0.5"} or a JSON number.
static std::optional<double> realOf(const llvm::json::Value &value) {
  if (const llvm::json::Object *object = value.getAsObject()) {
    std::optional<StringRef> text = object->getString("f");
    if (!text)
      return std::nullopt;
    return std::strtod(text->str().c_str(), nullptr);
  }
  if (std::optional<bool> flag = value.getAsBoolean())
    return *flag ? 1 : 0;
  if (std::optional<int64_t> whole = value.getAsInteger())
    return static_cast<double>(*whole);
  return value.getAsNumber();
}

Value AtenNode::number(const llvm::json::Value &value, Type element) {
  if (!element)
    return {};
  if (const llvm::json::Object *object = value.getAsObject())
    if (object->get("s"))
      return sizeScalar(sizeOf(value, "a number"), element);
  if (std::optional<int64_t> whole = value.getAsInteger();
      whole && !value.getAsObject())
    return integerScalar(*whole, element);
  if (std::optional<double> real = realOf(value)) {
    if (element.isInteger(1)) // NaN is true
      return integerScalar(*real != 0, element);
    return scalar(*real, element);
  }
  (void)unsupported("an argument that is no number");
  return {};
}

static std::optional<StringRef> referenceOf(const llvm::json::Value &value) {
  const llvm::json::Object *object = value.getAsObject();
  return object ? object->getString("%") : std::nullopt;
}

bool AtenNode::isTensor(StringRef name) const {
  const llvm::json::Value *value = argument(name);
  return value && referenceOf(*value);
}

Value AtenNode::tensor(StringRef name) {
  const llvm::json::Value *value = argument(name);
  if (!value)
    return {};
  if (std::optional<StringRef> reference = referenceOf(*value))
    return importer.lookup(*reference);
  (void)unsupported("argument '" + name + "' is no tensor");
  return {};
}

Value AtenNode::converted(Value value, Type element) {
  // torch rounds twice: to float32, then to 16 bits.
  if (value && element && (element.isF16() || element.isBF16()) &&
      ts::elementTypeOf(value).isF64())
    value = convert(value, b.getF32Type());
  if (!ts::isStorage(element) || importer.saturating.contains(element) ||
      ts::elementTypeOf(value) == element)
    return convert(value, element);
  return makeAs<ts::ConvertOp>(ts::withElement(value.getType(), element), value,
                               /*saturate=*/false, ts::Rounding::nearest);
}

Value AtenNode::operand(StringRef name, Type element) {
  const llvm::json::Value *value = argument(name);
  if (!value || !element)
    return {};
  if (referenceOf(*value)) {
    Value x = tensor(name);
    return x ? converted(x, element) : Value();
  }
  return number(*value, element);
}

Value AtenNode::factor(StringRef name, Type element, double otherwise) {
  if (!element)
    return {};
  return has(name) ? operand(name, element) : scalar(otherwise, element);
}

SmallVector<Value> AtenNode::tensors(StringRef name) {
  SmallVector<Value> values;
  const llvm::json::Value *value = argument(name);
  const llvm::json::Array *list = value ? value->getAsArray() : nullptr;
  for (const llvm::json::Value &entry : list ? *list : llvm::json::Array()) {
    std::optional<StringRef> reference = referenceOf(entry);
    values.push_back(reference ? importer.lookup(*reference) : Value());
  }
  return values;
}

int64_t AtenNode::integer(StringRef name, int64_t otherwise) {
  const llvm::json::Value *value = argument(name);
  if (!value)
    return otherwise;
  if (std::optional<bool> flag = value->getAsBoolean())
    return *flag;
  if (std::optional<int64_t> whole = value->getAsInteger())
    return *whole;
  if (std::optional<int64_t> known = sizeOf(*value, name).asConstant())
    return *known;
  (void)unsupported("argument '" + name + "' is not a constant");
  return otherwise;
}

double AtenNode::real(StringRef name, double otherwise) {
  const llvm::json::Value *value = argument(name);
  if (!value)
    return otherwise;
  if (std::optional<double> number = realOf(*value))
    return *number;
  (void)unsupported("argument '" + name + "' is not a constant");
  return otherwise;
}

std::optional<double> AtenNode::known(StringRef name) const {
  const llvm::json::Value *value = argument(name);
  return value ? realOf(*value) : std::nullopt;
}

bool AtenNode::flag(StringRef name) { return integer(name, 0) != 0; }

StringRef AtenNode::text(StringRef name) {
  const llvm::json::Value *value = argument(name);
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  return object ? object->getString("text").value_or("") : "";
}

Dim AtenNode::sizeOf(const llvm::json::Value &value, StringRef name) {
  if (Dim size = importer.size(value))
    return size;
  (void)unsupported("'" + name + "' is no expression of whole numbers");
  return dim(0);
}

Dim AtenNode::size(StringRef name) {
  const llvm::json::Value *value = argument(name);
  if (value)
    return sizeOf(*value, name);
  (void)unsupported("argument '" + name + "' is missing");
  return dim(0);
}

SmallVector<Dim> AtenNode::sizes(StringRef name) {
  SmallVector<Dim> sizes;
  const llvm::json::Value *value = argument(name);
  if (const llvm::json::Array *list = value ? value->getAsArray() : nullptr)
    for (const llvm::json::Value &entry : *list)
      sizes.push_back(sizeOf(entry, name));
  else if (value)
    sizes.push_back(sizeOf(*value, name));
  return sizes;
}

SmallVector<int64_t> AtenNode::integers(StringRef name) {
  SmallVector<int64_t> numbers;
  for (Dim size : sizes(name)) {
    if (!size.asConstant())
      (void)unsupported("argument '" + name + "' is not a constant");
    numbers.push_back(size.asConstant().value_or(0));
  }
  return numbers;
}

SmallVector<int64_t> AtenNode::spread(StringRef name, size_t count,
                                      int64_t otherwise) {
  SmallVector<int64_t> given = integers(name);
  if (given.empty())
    given.push_back(otherwise);
  if (given.size() == 1)
    given.resize(count, given[0]);
  if (given.size() != count)
    (void)unsupported("argument '" + name + "' has " + Twine(given.size()) +
                      " entries for " + Twine(count) + " dims");
  return given;
}

int64_t AtenNode::dimension(StringRef name, int64_t rank) {
  return normalAxis(integer(name), std::max<int64_t>(rank, 1));
}

SmallVector<int64_t> AtenNode::dimensions(StringRef name, int64_t rank) {
  SmallVector<int64_t> given;
  const llvm::json::Value *value = argument(name);
  if (value)
    given = integers(name);
  if (given.empty())
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (rank == 0)
    return {};
  return normalAxes(given, rank);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Type AtenNode::element(size_t index) const {
  return index < claims.size() ? claims[index].element : Type();
}

ArrayRef<Dim> AtenNode::dims(size_t index) const {
  return index < claims.size() ? ArrayRef<Dim>(claims[index].dims)
                               : ArrayRef<Dim>();
}

Type AtenNode::wideOf(Type element) {
  if (isa_and_nonnull<Float16Type, BFloat16Type>(element))
    return Float32Type::get(element.getContext());
  return element;
}

Type AtenNode::wide(size_t index) { return wideOf(element(index)); }

bool AtenNode::wants(size_t index) const {
  return index < claims.size() && claims[index].element && claims[index].used;
}

Type AtenNode::commonElement() {
  Type type = importer.elementType(node.getString("common").value_or(""));
  if (!type)
    (void)unsupported("operands of dtype " +
                      node.getString("common").value_or("unknown"));
  return type;
}

const llvm::json::Object *AtenNode::graph(size_t index) {
  const llvm::json::Array *graphs = node.getArray("graphs");
  const llvm::json::Object *graph = graphs && index < graphs->size()
                                        ? (*graphs)[index].getAsObject()
                                        : nullptr;
  if (!graph && !error)
    error = internalError("the description of the graph is damaged: no graph " +
                              std::to_string(index),
                          where());
  return graph;
}

Operation *AtenNode::host(StringRef op, ValueRange inputs, ArrayRef<Type> types,
                          ArrayRef<NamedAttribute> parameters) {
  if (llvm::any_of(inputs, [](Value input) { return !input; }) ||
      llvm::any_of(types, [](Type type) { return !type; }))
    return nullptr;
  return external(kHostDomain, op, 1, b.getDictionaryAttr(parameters),
                  SmallVector<bool>(inputs.size(), true), inputs, {}, types);
}

Dim AtenNode::bindClaimed(Value value, size_t index, size_t at) {
  ArrayRef<Dim> claimed = dims(index);
  std::optional<StringRef> symbol =
      at < claimed.size() ? claimed[at].asSymbol() : std::nullopt;
  if (!value || failed() || !symbol)
    return bindSize(value, name);
  return importer.bind(value, *symbol, loc) ? claimed[at]
                                            : bindSize(value, name);
}

Value AtenNode::fromFront(Value index) {
  auto type =
      index ? dyn_cast<IntegerType>(ts::elementTypeOf(index)) : IntegerType();
  if (!type || type.isUnsigned() || type.getWidth() < 32)
    return index;
  Value largest = integerScalar(llvm::maxIntN(type.getWidth()), type);
  return select(
      compare(ts::ComparePredicate::lt, index, integerScalar(0, type)), largest,
      index);
}

LogicalResult AtenNode::out(Value value, size_t index) {
  if (!value || failed()) {
    if (!failed())
      error = internalError("a result could not be built", where());
    return failure();
  }
  if (index >= results.size())
    return mlir::success();
  Type wanted = element(index), given = ts::elementTypeOf(value);
  if (wanted && given != wanted && given == wide(index))
    value = converted(value, wanted);
  results[index] = value;
  return mlir::success();
}

} // namespace knapper
