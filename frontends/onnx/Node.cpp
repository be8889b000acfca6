#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"
#include "runtime/base/Checked.h"
#include "mlir/IR/Verifier.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

static Location locationOf(MLIRContext *context, const std::string &name,
                           const std::string &op) {
  return NameLoc::get(StringAttr::get(context, name),
                      NameLoc::get(StringAttr::get(context, op)));
}

Node::Node(Importer &importer, OnnxScope &scope, const onnx::NodeProto &proto,
           std::string nodeName, std::string domain, int64_t opset)
    : importer(importer), scope(scope), proto(proto), name(std::move(nodeName)),
      domain(std::move(domain)), opset(opset), b(importer.b),
      loc(locationOf(importer.context, name, proto.op_type())) {
  results.resize(proto.output_size());
}

std::string Node::where() const {
  return "node '" + name + "' (" + proto.op_type() + ")";
}

LogicalResult Node::fail(const Twine &what, const Twine &hint) {
  if (!error)
    error = userError(what.str(), where(), hint.str());
  return failure();
}

LogicalResult Node::unsupported(const Twine &reason) {
  if (!missing)
    missing = reason.str();
  return failure();
}

bool Node::wants(size_t index) const {
  return index < resultCount() &&
         !proto.output(static_cast<int>(index)).empty();
}

LogicalResult Node::out(Value value, size_t index) {
  if (!value || failed()) {
    if (!failed())
      error = internalError("a result could not be built", where());
    return failure();
  }
  if (index < results.size())
    results[index] = value;
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *
Node::attribute(StringRef name, onnx::AttributeProto::AttributeType type) {
  for (const onnx::AttributeProto &found : proto.attribute()) {
    if (found.name() != name)
      continue;
    const onnx::AttributeProto *attribute = &found;
    if (found.has_ref_attr_name()) {
      // Bound by the caller, who may leave it out.
      attribute = scope.attributes.lookup(found.ref_attr_name());
      if (!attribute)
        return nullptr;
    }
    if (type != onnx::AttributeProto::UNDEFINED && attribute->type() != type) {
      (void)fail("attribute '" + name + "' has the wrong kind",
                 "export the model again");
      return nullptr;
    }
    return attribute;
  }
  return nullptr;
}

bool Node::hasAttr(StringRef name) {
  return attribute(name, onnx::AttributeProto::UNDEFINED);
}
int64_t Node::integer(StringRef name, int64_t otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::INT);
  return found ? found->i() : otherwise;
}
bool Node::flag(StringRef name, bool otherwise) {
  int64_t value = integer(name, otherwise);
  if (value != 0 && value != 1)
    (void)fail(name + " is " + Twine(value), "set it to 0 or 1");
  return value != 0;
}
double Node::real(StringRef name, double otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::FLOAT);
  return found ? found->f() : otherwise;
}
std::string Node::text(StringRef name, StringRef otherwise) {
  const auto *found = attribute(name, onnx::AttributeProto::STRING);
  return found ? found->s() : otherwise.str();
}
SmallVector<std::string> Node::texts(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::STRINGS);
  if (!found)
    return {};
  return SmallVector<std::string>(found->strings().begin(),
                                  found->strings().end());
}
SmallVector<int64_t> Node::integers(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::INTS);
  if (!found)
    return {};
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}
SmallVector<double> Node::reals(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::FLOATS);
  if (!found)
    return {};
  return SmallVector<double>(found->floats().begin(), found->floats().end());
}
const onnx::TensorProto *Node::tensor(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::TENSOR);
  return found ? &found->t() : nullptr;
}
const onnx::GraphProto *Node::graph(StringRef name) {
  const auto *found = attribute(name, onnx::AttributeProto::GRAPH);
  return found ? &found->g() : nullptr;
}

int64_t Node::normalAxis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  (void)fail("axis " + Twine(axis) + " is outside rank " + Twine(rank),
             "correct the axis or the rank of the input");
  return 0;
}
int64_t Node::axis(StringRef name, int64_t otherwise, int64_t rank) {
  return normalAxis(integer(name, otherwise), rank);
}
SmallVector<int64_t> Node::axesOrAll(int64_t rank) {
  if (!hasAttr("axes"))
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  return llvm::map_to_vector(
      integers("axes"), [&](int64_t axis) { return normalAxis(axis, rank); });
}
Type Node::outputDatatype() {
  auto dtype = static_cast<int32_t>(
      integer("output_datatype", onnx::TensorProto::FLOAT));
  Type element = onnxElementType(importer.context, dtype);
  if (!element)
    (void)unsupported("element type " + onnxTypeName(dtype));
  return element;
}
SmallVector<int64_t> Node::normalAxes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes)
    result.push_back(normalAxis(axis, rank));
  llvm::sort(result);
  auto last = std::unique(result.begin(), result.end());
  if (last != result.end() && !failed())
    (void)fail("an axis is named twice", "name each axis once");
  result.erase(last, result.end());
  return result;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Type Node::placeholder() { return RankedTensorType::get({}, b.getF32Type()); }

/// For a type with a problem: what makes its sizes numbers, if they are not.
static std::string remedyFor(Type type) {
  llvm::SetVector<StringAttr> symbols;
  if (isa<RankedTensorType>(type))
    for (Dim dim : ts::dimsOf(type))
      dim.collectSymbols(symbols);
  if (symbols.empty())
    return "make the model's tensors smaller";
  std::string text = "make the sizes numbers:";
  for (StringAttr symbol : symbols)
    text += " --dim " + symbol.str() + "=NUMBER";
  return text;
}

/// What is wrong with a result type, or nothing. Bounds every size so that
/// products of a few of them stay inside 64 bits.
static std::optional<std::string> typeProblem(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return "the result is no tensor";
  if (tensor.getRank() > 32)
    return "rank " + std::to_string(tensor.getRank()) + " is above 32";
  double terms = 1, magnitude = 1;
  for (Dim dim : ts::dimsOf(type)) {
    if (std::optional<int64_t> number = dim.asConstant()) {
      if (*number < 0)
        return "a dim of " + ts::shapeText(type) + " is negative";
      magnitude *= std::max<double>(1, static_cast<double>(*number));
      continue;
    }
    if (!ts::isModest(dim))
      return "a dim is too long an expression of the model's sizes";
    terms *= static_cast<double>(dim.attr().getMonomials().size());
    double largest = 0;
    for (int64_t c : dim.attr().getCoefficients())
      largest = std::max(largest, std::abs(static_cast<double>(c)));
    magnitude *= std::max(1.0, largest);
  }
  if (terms > 4096)
    return "its dims are too long expressions of the model's sizes";
  if (magnitude > 1e14)
    return "a tensor of " + ts::shapeText(type) + " elements is too large";
  return std::nullopt;
}

RankedTensorType Node::type(ArrayRef<Dim> dims, Type element) {
  if (failed())
    return {};
  for (Dim dim : dims)
    if (std::optional<int64_t> number = dim.asConstant();
        number && *number < 0) {
      (void)fail("a result dim is " + Twine(*number),
                 "correct the shapes of the inputs");
      return {};
    }
  RankedTensorType type = ts::tensorType(importer.context, dims, element);
  if (std::optional<std::string> problem = typeProblem(type)) {
    (void)fail(*problem, remedyFor(type));
    return {};
  }
  return type;
}

Operation *Node::create(OperationState &state, bool infer) {
  if (failed())
    return nullptr;
  importer.diagnostic.clear();
  auto invalid = [&]() {
    std::string text = importer.diagnostic.empty() ? "its inputs do not fit"
                                                   : importer.diagnostic;
    StringRef body = text;
    body.consume_front("'" + state.name.getStringRef().str() + "' op ");
    std::string shapes;
    for (Value operand : state.operands)
      if (isa<RankedTensorType>(operand.getType()))
        shapes += (shapes.empty() ? "" : ", ") +
                  ts::shapeText(operand.getType());
    (void)fail(body + " (operands " + shapes + ")",
               "correct the shapes or element types that reach this node");
    return nullptr;
  };
  if (infer) {
    auto *interface = state.name.getInterface<InferTypeOpInterface>();
    state.types.clear();
    if (!interface ||
        llvm::failed(interface->inferReturnTypes(
            importer.context, loc, state.operands,
            state.attributes.getDictionary(importer.context),
            state.getRawProperties(), RegionRange(state.regions),
            state.types)))
      return invalid();
  }
  for (Type type : state.types)
    if (std::optional<std::string> problem = typeProblem(type)) {
      (void)fail(*problem, remedyFor(type));
      return nullptr;
    }
  Operation *op = b.create(state);
  if (llvm::failed(mlir::verify(op, /*verifyRecursively=*/false))) {
    op->erase();
    return invalid();
  }
  // In order of creation, so that the analysis never recurses deeply.
  for (Value result : op->getResults())
    (void)importer.sizes(result);
  return op;
}

//===----------------------------------------------------------------------===//
// Known values
//===----------------------------------------------------------------------===//

/// Where sizes that `value` is made of, and of nothing else, can no longer be
/// followed: the reason, or nothing if data takes part.
static std::optional<std::string> lostSizes(Value value, Importer &importer) {
  llvm::SetVector<Operation *> seen;
  SmallVector<Value> work{value};
  llvm::SetVector<StringAttr> symbols;
  Operation *first = nullptr;
  bool computesReals = false; // roots and their kind, of numbers neither
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || seen.size() > 1000 || isa<ts::BindSizeOp>(op))
      return std::nullopt;
    if (!seen.insert(op))
      continue;
    if (auto size = dyn_cast<ts::SizeOp>(op))
      Dim(size.getSize()).collectSymbols(symbols);
    else if (op->getNumOperands() == 0 && !isa<ts::ConstantOp, ts::IotaOp>(op))
      return std::nullopt;
    llvm::append_range(work, op->getOperands());
    computesReals |=
        isa<ts::ElementwiseOpInterface>(op) &&
        isa<FloatType>(ts::elementTypeOf(op->getResult(0))) &&
        !isa<ts::ConvertOp, ts::AddOp, ts::SubOp, ts::MulOp, ts::DivOp,
             ts::FloorOp, ts::CeilOp, ts::MinOp, ts::MaxOp>(op);
    auto isLost = [&](Value each) {
      return isa<IntegerType>(ts::elementTypeOf(each)) && !importer.sizes(each);
    };
    if (llvm::any_of(op->getResults(), isLost) &&
        llvm::none_of(op->getOperands(), isLost) &&
        (!first || op->isBeforeInBlock(first)))
      first = op;
  }
  if (!first || symbols.empty())
    return std::nullopt;
  std::string text = "is computed from the sizes of the inputs in a way that "
                     "is not followed (";
  text += first->getName().stripDialect();
  if (auto name = dyn_cast<NameLoc>(first->getLoc()))
    text += " of '" + name.getName().str() + "'";
  if (computesReals)
    return text + "); compute them with integers";
  text += "); make the sizes numbers:";
  for (StringAttr symbol : symbols)
    text += " --dim " + symbol.str() + "=NUMBER";
  return text;
}

std::optional<SmallVector<Dim>> Node::sizes(Value value, StringRef what) {
  if (!value)
    return std::nullopt;
  std::optional<SmallVector<Dim>> known = importer.sizes(value);
  if (!known)
    (void)unsupported(
        what + " " +
        lostSizes(value, importer)
            .value_or("depends on data, not on the sizes of the inputs"));
  return known;
}

Dim Node::bindSize(Value value, StringRef hint) {
  Dim symbol = importer.freshSymbol(hint);
  if (!value)
    return symbol;
  OperationState state(loc, ts::BindSizeOp::getOperationName());
  ts::BindSizeOp::build(b, state, value, symbol.str());
  (void)create(state, /*infer=*/false);
  return symbol;
}

std::optional<SmallVector<int64_t>> Node::numbers(Value value, StringRef what) {
  std::optional<SmallVector<Dim>> known = sizes(value, what);
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> result;
  for (Dim dim : *known) {
    std::optional<int64_t> number = dim.asConstant();
    if (!number) {
      (void)unsupported(what + " is not a constant");
      return std::nullopt;
    }
    result.push_back(*number);
  }
  return result;
}

std::optional<SmallVector<double>> Node::realNumbers(Value value,
                                                     StringRef what) {
  if (!value)
    return std::nullopt;
  auto op = value.getDefiningOp<ts::ConstantOp>();
  auto data = op ? dyn_cast<DenseElementsAttr>(op.getValue())
                 : DenseElementsAttr();
  if (!data || data.getNumElements() > 1024) {
    (void)unsupported(what + " is not a constant");
    return std::nullopt;
  }
  SmallVector<double> result;
  if (isa<FloatType>(data.getElementType())) {
    for (APFloat element : data.getValues<APFloat>()) {
      bool lost = false;
      element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                      &lost);
      result.push_back(element.convertToDouble());
    }
  } else {
    bool isSigned = !data.getElementType().isUnsignedInteger();
    for (const APInt &element : data.getValues<APInt>())
      result.push_back(isSigned ? static_cast<double>(element.getSExtValue())
                                : static_cast<double>(element.getZExtValue()));
  }
  return result;
}

} // namespace knapper
