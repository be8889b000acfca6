#include "frontends/common/NodeBuilder.h"
#include "ir/tensor/KnownReals.h"
#include "mlir/IR/Verifier.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

//===----------------------------------------------------------------------===//
// One import
//===----------------------------------------------------------------------===//

Dim GraphBuilder::freshSymbol(StringRef hint) {
  std::string name = hint.str();
  for (unsigned i = 1; symbols.contains(StringAttr::get(context, name)) ||
                       reservedNames.contains(name);
       ++i)
    name = (hint + "_" + Twine(i)).str();
  symbols.insert({StringAttr::get(context, name), 0});
  return Dim::symbol(context, name);
}

void GraphBuilder::mayBeOne(Dim symbol) { maybeOnes.insert(symbol.str()); }

bool GraphBuilder::isMaybeOne(Dim dim) const {
  return dim.asSymbol() && maybeOnes.contains(dim.str());
}

std::optional<SmallVector<Dim>> GraphBuilder::sizes(Value value) {
  if (ts::elementCount(value.getType()).isConstant(0))
    return SmallVector<Dim>(); // whatever computes them
  return ts::symbolicValue(value, valueCache);
}

ArrayAttr GraphBuilder::symbolsAttr() const {
  SmallVector<Attribute> attrs;
  for (auto [name, minimum] : symbols)
    attrs.push_back(ts::SymbolAttr::get(context, name, minimum, -1, 1));
  return ArrayAttr::get(context, attrs);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

LogicalResult NodeBuilder::fail(const Twine &what, const Twine &hint) {
  if (!error)
    error = userError(what.str(), where(), hint.str());
  return failure();
}

LogicalResult NodeBuilder::unsupported(const Twine &reason) {
  if (!missing)
    missing = reason.str();
  return failure();
}

int64_t NodeBuilder::normalAxis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axis < 0 ? axis + rank : axis;
  (void)fail("axis " + Twine(axis) + " is outside rank " + Twine(rank),
             "correct the axis or the rank of the input");
  return 0;
}
SmallVector<int64_t> NodeBuilder::normalAxes(ArrayRef<int64_t> axes,
                                             int64_t rank) {
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

Type NodeBuilder::placeholder() {
  return RankedTensorType::get({}, b.getF32Type());
}

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

RankedTensorType NodeBuilder::type(ArrayRef<Dim> dims, Type element) {
  if (failed())
    return {};
  for (Dim dim : dims)
    if (std::optional<int64_t> number = dim.asConstant();
        number && *number < 0) {
      (void)fail("a result dim is " + Twine(*number),
                 "correct the shapes of the inputs");
      return {};
    }
  RankedTensorType type = ts::tensorType(shared.context, dims, element);
  if (std::optional<std::string> problem = typeProblem(type)) {
    (void)fail(*problem, remedyFor(type));
    return {};
  }
  return type;
}

Operation *NodeBuilder::create(OperationState &state, bool infer) {
  if (failed())
    return nullptr;
  shared.diagnostic.clear();
  auto invalid = [&]() {
    std::string text =
        shared.diagnostic.empty() ? "its inputs do not fit" : shared.diagnostic;
    StringRef body = text;
    body.consume_front("'" + state.name.getStringRef().str() + "' op ");
    std::string shapes;
    for (Value operand : state.operands)
      if (isa<RankedTensorType>(operand.getType()))
        shapes +=
            (shapes.empty() ? "" : ", ") + ts::shapeText(operand.getType());
    (void)fail(body + " (operands " + shapes + ")",
               "correct the shapes or element types that reach this node");
    return nullptr;
  };
  if (infer) {
    auto *interface = state.name.getInterface<InferTypeOpInterface>();
    state.types.clear();
    if (!interface ||
        llvm::failed(interface->inferReturnTypes(
            shared.context, loc, state.operands,
            state.attributes.getDictionary(shared.context),
            state.getRawProperties(), RegionRange(state.regions), state.types)))
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
    (void)shared.sizes(result);
  return op;
}

//===----------------------------------------------------------------------===//
// Known values
//===----------------------------------------------------------------------===//

/// Where sizes that `value` is made of, and of nothing else, can no longer be
/// followed: the reason, or nothing if data takes part.
static std::optional<std::string> lostSizes(Value value, GraphBuilder &shared) {
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
    computesReals |= isa<ts::ElementwiseOpInterface>(op) &&
                     isa<FloatType>(ts::elementTypeOf(op->getResult(0))) &&
                     !ts::isRealArithmetic(op);
    auto isLost = [&](Value each) {
      return isa<IntegerType>(ts::elementTypeOf(each)) && !shared.sizes(each);
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

std::optional<SmallVector<Dim>> NodeBuilder::sizes(Value value,
                                                   StringRef what) {
  if (!value)
    return std::nullopt;
  std::optional<SmallVector<Dim>> known = shared.sizes(value);
  if (!known)
    (void)unsupported(
        what + " " +
        lostSizes(value, shared)
            .value_or("depends on data, not on the sizes of the inputs"));
  return known;
}

Dim NodeBuilder::bindSize(Value value, StringRef hint) {
  Dim symbol = shared.freshSymbol(hint);
  if (!value)
    return symbol;
  OperationState state(loc, ts::BindSizeOp::getOperationName());
  ts::BindSizeOp::build(b, state, value, symbol.str());
  (void)create(state, /*infer=*/false);
  return symbol;
}

std::optional<SmallVector<int64_t>> NodeBuilder::numbers(Value value,
                                                         StringRef what) {
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

std::optional<SmallVector<double>> NodeBuilder::realNumbers(Value value,
                                                            StringRef what) {
  if (!value)
    return std::nullopt;
  auto op = value.getDefiningOp<ts::ConstantOp>();
  auto data =
      op ? dyn_cast<DenseElementsAttr>(op.getValue()) : DenseElementsAttr();
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

Operation *NodeBuilder::external(StringRef domain, StringRef op,
                                 int64_t version, DictionaryAttr parameters,
                                 ArrayRef<bool> present, ValueRange inputs,
                                 ArrayRef<StringRef> symbols, TypeRange types) {
  if (failed())
    return nullptr;
  OperationState state(loc, ts::ExternalOp::getOperationName());
  ts::ExternalOp::build(b, state, types, domain, op, version, parameters,
                        present, b.getStrArrayAttr(symbols), inputs);
  return create(state, /*infer=*/false);
}

} // namespace knapper
