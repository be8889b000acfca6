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
    (void)fail(*problem, "make the model's tensors smaller");
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
      (void)fail(*problem, "make the model's tensors smaller");
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

Value Node::constant(DenseElementsAttr data) {
  return makeAs<ts::ConstantOp>(data.getType(), ElementsAttr(data));
}

Value Node::scalar(double value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool lost = false;
    number.convert(floating.getFloatSemantics(),
                   APFloat::rmNearestTiesToEven, &lost);
    return constant(DenseElementsAttr::get(type, number));
  }
  // Outside the integers the cast has no meaning.
  double bounded = std::isnan(value) ? 0 : std::clamp(value, -9e18, 9e18);
  return integerScalar(static_cast<int64_t>(bounded), element);
}

Value Node::integerScalar(int64_t value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (isa<FloatType>(element))
    return scalar(static_cast<double>(value), element);
  if (element.isInteger(1))
    return constant(DenseElementsAttr::get(type, value != 0));
  return constant(DenseElementsAttr::get(
      type, APInt(element.getIntOrFloatBitWidth(),
                  static_cast<uint64_t>(value), /*isSigned=*/false,
                  /*implicitTrunc=*/true)));
}

Value Node::scalarFor(Value like, double value) {
  return like ? scalar(value, ts::elementTypeOf(like)) : Value();
}

Value Node::splatLike(double value, Value like) {
  if (!like)
    return {};
  return broadcastTo(scalarFor(like, value), ts::dimsOf(like));
}

Value Node::sizesTensor(ArrayRef<Dim> dims) {
  Type i64 = b.getI64Type();
  SmallVector<Value> parts;
  for (size_t i = 0; i < dims.size();) {
    if (dims[i].isSymbolic()) {
      Value size =
          makeAs<ts::SizeOp>(RankedTensorType::get({}, i64), dims[i++].attr());
      parts.push_back(reshape(size, {dim(1)}));
      continue;
    }
    SmallVector<int64_t> run;
    while (i < dims.size() && dims[i].asConstant())
      run.push_back(*dims[i++].asConstant());
    parts.push_back(constant(DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(run.size())}, i64),
        ArrayRef<int64_t>(run))));
  }
  if (parts.empty())
    return constant(DenseElementsAttr::get(RankedTensorType::get({0}, i64),
                                           ArrayRef<int64_t>()));
  if (parts.size() == 1)
    return parts[0];
  return make<ts::ConcatOp>(ValueRange(parts), int64_t(0));
}

Value Node::sizeScalar(Dim size, Type element) {
  if (std::optional<int64_t> number = size.asConstant())
    return integerScalar(*number, element);
  return convert(makeAs<ts::SizeOp>(RankedTensorType::get({}, b.getI64Type()),
                                    size.attr()),
                 element);
}

SmallVector<Dim> Node::broadcastDims(ArrayRef<SmallVector<Dim>> shapes) {
  size_t rank = 0;
  for (const SmallVector<Dim> &shape : shapes)
    rank = std::max(rank, shape.size());
  SmallVector<Dim> result;
  for (size_t i = 0; i < rank; ++i) {
    // A number decides; then a bare symbol; then whatever came first.
    Dim chosen = dim(1);
    for (const SmallVector<Dim> &shape : shapes) {
      if (shape.size() + i < rank)
        continue;
      Dim candidate = shape[shape.size() + i - rank];
      if (candidate.isConstant(1) || candidate == chosen)
        continue;
      if (chosen.isConstant(1)) {
        chosen = candidate;
      } else if (candidate.asConstant()) {
        if (chosen.asConstant()) {
          std::string text;
          for (const SmallVector<Dim> &other : shapes) {
            text += text.empty() ? "[" : ", [";
            llvm::interleave(
                other, [&](Dim d) { text += d.str(); }, [&] { text += ", "; });
            text += "]";
          }
          (void)fail("the shapes " + text + " do not broadcast",
                     "make the dims equal, or 1");
          return result;
        }
        chosen = candidate;
      } else if (chosen.isSymbolic() && !chosen.asSymbol() &&
                 candidate.asSymbol()) {
        chosen = candidate;
      }
    }
    result.push_back(chosen);
  }
  return result;
}

SmallVector<Value> Node::broadcastAll(ArrayRef<Value> values) {
  SmallVector<SmallVector<Dim>> shapes;
  for (Value value : values) {
    if (!value)
      return SmallVector<Value>(values.size());
    shapes.push_back(ts::dimsOf(value));
  }
  SmallVector<Dim> dims = broadcastDims(shapes);
  SmallVector<Value> result;
  for (Value value : values)
    result.push_back(failed() ? Value() : broadcastTo(value, dims));
  return result;
}

Value Node::broadcastTo(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  int64_t rank = ts::rankOf(value), offset = dims.size() - rank;
  if (offset < 0) {
    (void)fail(ts::shapeText(value.getType()) + " has more dims than " +
                   Twine(dims.size()),
               "drop the leading dims of size 1");
    return {};
  }
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(i + offset);
  return broadcastAt(value, at, dims);
}

Value Node::broadcastAt(Value value, ArrayRef<int64_t> at,
                        ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  for (size_t i = 0; i < own.size() && i < at.size(); ++i)
    if (!own[i].isConstant(1) && at[i] < static_cast<int64_t>(dims.size()))
      own[i] = dims[at[i]];
  value = castDims(value, own);
  if (!value || own == dims)
    return value;
  return makeAs<ts::BroadcastOp>(type(dims, ts::elementTypeOf(value)), value,
                                 at);
}

Value Node::castDims(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  if (ArrayRef<Dim>(own) == dims)
    return value;
  for (auto [a, b] : llvm::zip(own, dims))
    if (a.asConstant() && b.asConstant() && !(a == b)) {
      (void)fail("a dim of " + ts::shapeText(value.getType()) + " should be " +
                     b.str(),
                 "correct the shapes that reach this node");
      return {};
    }
  return makeAs<ts::DimCastOp>(type(dims, ts::elementTypeOf(value)), value);
}

Value Node::reshape(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  if (ArrayRef<Dim>(own) == dims)
    return value;
  Type element = ts::elementTypeOf(value);
  RankedTensorType to = type(dims, element);
  if (!to)
    return {};
  Dim from = ts::elementCount(value.getType()), count = ts::elementCount(to);
  if (from == count)
    return makeAs<ts::ReshapeOp>(to, value);
  if (from.asConstant() && count.asConstant()) {
    (void)fail(ts::shapeText(value.getType()) + " of " + from.str() +
                   " elements cannot become " + ts::shapeText(to) + " of " +
                   count.str(),
               "correct the requested shape");
    return {};
  }
  Value flat = makeAs<ts::ReshapeOp>(type({from}, element), value);
  return makeAs<ts::ReshapeOp>(to, castDims(flat, {count}));
}

Value Node::transpose(Value value, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, dim] : llvm::enumerate(permutation))
    identity &= dim == static_cast<int64_t>(i);
  if (value && identity &&
      static_cast<int64_t>(permutation.size()) == ts::rankOf(value))
    return value;
  return make<ts::TransposeOp>(value, permutation);
}

Value Node::convert(Value value, Type element) {
  if (!value || ts::elementTypeOf(value) == element)
    return value;
  return makeAs<ts::ConvertOp>(ts::withElement(value.getType(), element),
                               value);
}

Value Node::sliceDim(Value value, int64_t dim, Dim start, Dim count,
                     int64_t step) {
  if (!value)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(value),
                   starts(dims.size(), this->dim(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  if (start.isConstant(0) && step == 1 && dims[dim] == count)
    return value;
  dims[dim] = count;
  starts[dim] = start;
  steps[dim] = step;
  return makeAs<ts::SliceOp>(type(dims, ts::elementTypeOf(value)), value,
                             ts::dimArray(importer.context, starts), steps);
}

Value Node::reduce(ts::ReduceKind kind, Value value, ArrayRef<int64_t> dims,
                   bool keep) {
  if (!value)
    return {};
  SmallVector<Dim> kept = ts::dimsOf(value);
  Value result = make<ts::ReduceOp>(kind, value, dims);
  if (!keep)
    return result;
  for (int64_t d : dims)
    kept[d] = dim(1);
  return reshape(result, kept);
}

/// Whether the type has the number.
static bool isExact(std::optional<int64_t> number, FloatType type) {
  if (!number)
    return false;
  llvm::APFloat made(type.getFloatSemantics());
  return made.convertFromAPInt(llvm::APInt(64, *number, true), true,
                               llvm::APFloat::rmNearestTiesToEven) ==
         llvm::APFloat::opOK;
}

Value Node::mean(Value value, ArrayRef<int64_t> dims, bool keep) {
  if (!value)
    return {};
  Dim count = dim(1);
  for (int64_t d : dims)
    count = count * ts::dimOf(value, d);
  // 70000 is infinite in f16, 425 is 424 in bf16.
  Type element = ts::elementTypeOf(value);
  bool wide = isa<Float16Type, BFloat16Type>(element) &&
              !isExact(count.asConstant(), cast<FloatType>(element));
  Value sum = reduce(ts::ReduceKind::add,
                     wide ? convert(value, b.getF32Type()) : value, dims, keep);
  if (!sum)
    return {};
  Value result = div(sum, sizeScalar(count, ts::elementTypeOf(sum)));
  return wide ? convert(result, element) : result;
}

Value Node::compare(ts::ComparePredicate predicate, Value x, Value y) {
  SmallVector<Value> v = broadcastAll({x, y});
  return make<ts::CompareOp>(predicate, v[0], v[1]);
}

Value Node::select(Value condition, Value x, Value y) {
  SmallVector<Value> v = broadcastAll({condition, x, y});
  return make<ts::SelectOp>(v[0], v[1], v[2]);
}

//===----------------------------------------------------------------------===//
// Known values
//===----------------------------------------------------------------------===//

std::optional<SmallVector<Dim>> Node::sizes(Value value, StringRef what) {
  if (!value)
    return std::nullopt;
  std::optional<SmallVector<Dim>> known = importer.sizes(value);
  if (!known)
    (void)unsupported(what + " depends on data, not on the sizes of the inputs");
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
