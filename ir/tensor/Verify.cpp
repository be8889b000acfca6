// Verifiers: each message names the numbered constraint of the op's
// description.
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

LogicalResult SelectOp::verify() {
  if (dimsOf(getCondition()) != dimsOf(getOnTrue()))
    return emitOpError("(C1) condition is ")
           << shapeText(getCondition().getType()) << ", values are "
           << shapeText(getOnTrue().getType());
  return success();
}

LogicalResult ConvertOp::verify() {
  if (dimsOf(getInput()) != dimsOf(getResult()))
    return emitOpError("(C1) operand and result differ in shape");
  Type to = elementTypeOf(getResult());
  if (!getSaturate() && !(isa<FloatType>(to) && isStorage(to)))
    return emitOpError("(C2) a conversion to ")
           << to << " has no choice to saturate";
  if (getRounding() != Rounding::nearest && !isa<Float8E8M0FNUType>(to))
    return emitOpError("(C2) a conversion to ")
           << to << " has no choice of rounding";
  return success();
}

LogicalResult BitcastOp::verify() {
  if (dimsOf(getInput()) != dimsOf(getResult()))
    return emitOpError("(C1) operand and result differ in shape");
  auto bits = [](Value value) {
    unsigned width = elementTypeOf(value).getIntOrFloatBitWidth();
    return width == 1 ? 8 : width;
  };
  if (bits(getInput()) != bits(getResult()))
    return emitOpError("(C2) an element of ")
           << bits(getInput()) << " bits cannot be one of "
           << bits(getResult());
  return success();
}

LogicalResult WeightOp::verify() {
  std::optional<int64_t> bytes = byteCount(getType()).asConstant();
  if (!bytes || static_cast<uint64_t>(*bytes) != getReference().getBytes())
    return emitOpError("(C1) the result ")
           << shapeText(getType()) << " does not take "
           << getReference().getBytes() << " bytes";
  return success();
}

LogicalResult DimCastOp::verify() {
  if (rankOf(getInput()) != rankOf(getResult()) ||
      elementTypeOf(getInput()) != elementTypeOf(getResult()))
    return emitOpError("(C1) rank or element type changes");
  return success();
}

LogicalResult BroadcastOp::verify() {
  SmallVector<Dim> in = dimsOf(getInput()), out = dimsOf(getResult());
  if (elementTypeOf(getInput()) != elementTypeOf(getResult()))
    return emitOpError("element type changes");
  if (getDims().size() != in.size())
    return emitOpError("(C1) needs one entry an operand dim");
  int64_t last = -1;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dim <= last || dim >= static_cast<int64_t>(out.size()))
      return emitOpError("(C1) dims must be in range and strictly increasing");
    last = dim;
    if (!in[i].isConstant(1) && !(in[i] == out[dim]))
      return emitOpError("(C2) operand dim ")
             << i << " is " << in[i].str() << ", result dim " << dim << " is "
             << out[dim].str();
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  if (elementTypeOf(getInput()) != elementTypeOf(getResult()))
    return emitOpError("element type changes");
  Dim in = elementCount(getInput().getType()), out = elementCount(getType());
  if (!(in == out))
    return emitOpError("(C1) ") << in.str() << " elements become " << out.str();
  return success();
}

LogicalResult TransposeOp::verify() { return success(); } // inference checks

LogicalResult SliceOp::verify() {
  size_t rank = rankOf(getInput());
  if (rankOf(getResult()) != static_cast<int64_t>(rank) ||
      elementTypeOf(getInput()) != elementTypeOf(getResult()))
    return emitOpError("rank or element type changes");
  if (getStarts().size() != rank || getSteps().size() != rank ||
      llvm::is_contained(getSteps(), 0))
    return emitOpError("(C1) starts and steps need a non-zero entry a dim");
  return success();
}

LogicalResult PadOp::verify() {
  if (bool(getValue()) != (getMode() == PadMode::constant))
    return emitOpError("(C2) the value belongs to mode constant");
  if (getValue() && (rankOf(getValue()) != 0 ||
                     elementTypeOf(getValue()) != elementTypeOf(getInput())))
    return emitOpError("(C2) the value is a 0-d tensor of the element type");
  return success();
}

LogicalResult ConcatOp::verify() { return success(); }
LogicalResult GatherOp::verify() { return success(); }
LogicalResult GatherElementsOp::verify() { return success(); }
LogicalResult GatherNdOp::verify() { return success(); }

LogicalResult IotaOp::verify() {
  if (getDim() >= static_cast<uint64_t>(rankOf(getResult())))
    return emitOpError("(C1) dim is out of range");
  return success();
}

static LogicalResult verifyReduction(Operation *op, Type element,
                                     std::optional<ReduceKind> reduction) {
  if (reduction && isStorage(element))
    return op->emitOpError("elements of ") << element << " cannot be combined";
  return success();
}

LogicalResult ScatterElementsOp::verify() {
  if (elementTypeOf(getInput()) != elementTypeOf(getUpdates()))
    return emitOpError("updates have another element type");
  return verifyReduction(*this, elementTypeOf(getInput()), getReduction());
}

LogicalResult ScatterNdOp::verify() {
  if (failed(verifyReduction(*this, elementTypeOf(getInput()), getReduction())))
    return failure();
  SmallVector<Dim> in = dimsOf(getInput()), index = dimsOf(getIndices()),
                   updates = dimsOf(getUpdates());
  std::optional<int64_t> depth;
  if (!index.empty())
    depth = index.back().asConstant();
  if (!depth || *depth < 0 || *depth > static_cast<int64_t>(in.size()))
    return emitOpError("(C1) the last dim of the indices must be a number, at "
                       "most the input's rank");
  SmallVector<Dim> expected(index.begin(), index.end() - 1);
  expected.append(in.begin() + *depth, in.end());
  if (updates != expected ||
      elementTypeOf(getInput()) != elementTypeOf(getUpdates()))
    return emitOpError("updates are ") << shapeText(getUpdates().getType())
                                       << ", which the indices do not give";
  return success();
}

LogicalResult ReduceOp::verify() {
  bool logical = getKind() == ReduceKind::logical_and ||
                 getKind() == ReduceKind::logical_or;
  if (logical != elementTypeOf(getInput()).isInteger(1))
    return emitOpError("(C2) and/or take i1, the others numbers");
  return success();
}

static bool isMinOrMax(ReduceKind kind) {
  return kind == ReduceKind::max || kind == ReduceKind::min;
}

LogicalResult ArgReduceOp::verify() {
  if (!isMinOrMax(getKind()))
    return emitOpError("(C1) kind must be max or min");
  return success();
}

/// Whether matmuls of such elements are defined: of equal ones, and of signed
/// and unsigned bytes.
static bool canMultiply(Type a, Type b) {
  return a == b || (a.isInteger(8) && b.isInteger(8));
}

LogicalResult DotOp::verify() {
  auto distinct = [](ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
    llvm::SmallDenseSet<int64_t> seen;
    for (ArrayRef<int64_t> dims : {a, b})
      for (int64_t dim : dims)
        if (!seen.insert(dim).second)
          return false;
    return true;
  };
  if (!distinct(getLhsBatch(), getLhsContract()) ||
      !distinct(getRhsBatch(), getRhsContract()))
    return emitOpError("(C2) a dim is named twice");
  Type lhs = elementTypeOf(getLhs()), rhs = elementTypeOf(getRhs());
  if (!canMultiply(lhs, rhs))
    return emitOpError("(C3) operands have different element types");
  // What a target may do, not what the op means: no constraint of its own.
  if ((*this)->hasAttr("ts.tf32") && !lhs.isF32())
    return emitOpError("ts.tf32 is of matmuls of f32");
  return success();
}

LogicalResult ConvOp::verify() {
  if (!canMultiply(elementTypeOf(getInput()), elementTypeOf(getFilter())))
    return emitOpError("(C5) operands have different element types");
  return success();
}
LogicalResult PoolOp::verify() {
  if (getKind() == PoolKind::average &&
      !isa<FloatType>(elementTypeOf(getInput())))
    return emitOpError("(C2) averages are of floats, not of ")
           << elementTypeOf(getInput());
  return success();
}

LogicalResult ScanOp::verify() {
  if (!isMinOrMax(getKind()) && getKind() != ReduceKind::add &&
      getKind() != ReduceKind::mul)
    return emitOpError("(C2) kind must be add, mul, max or min");
  return success();
}

LogicalResult TopKOp::verify() {
  Dim size = dimsOf(getInput())[getDim()];
  std::optional<int64_t> left = (size - Dim(getK())).asConstant();
  if (left && *left < 0)
    return emitOpError("(C2) k is ")
           << Dim(getK()).str() << " of " << size.str();
  if (Attribute runs = (*this)->getAttr("ts.runs"))
    if (auto run = dyn_cast<IntegerAttr>(runs);
        !run || !size.isConstant(2 * run.getInt()))
      return emitOpError("ts.runs is half of the dim, not ") << runs;
  if (Attribute digit = (*this)->getAttr("ts.digit")) {
    constexpr int64_t most = 56;
    auto bit = dyn_cast<IntegerAttr>(digit);
    if (!bit || bit.getInt() < 0 || bit.getInt() > most ||
        !elementTypeOf(getInput()).isUnsignedInteger(64) || getLargest() ||
        !(size == Dim(getK())))
      return emitOpError("ts.digit is of whole lines of ui64, the smallest "
                         "first, and not ")
             << digit;
  }
  return success();
}

LogicalResult SoftmaxOp::verify() {
  if (getDim() >= static_cast<uint64_t>(rankOf(getInput())))
    return emitOpError("(C1) dim is out of range");
  return success();
}

LogicalResult LayerNormOp::verify() { return success(); }
LogicalResult AttentionOp::verify() {
  if (Attribute row = (*this)->getAttr("ts.empty_row"))
    if (auto text = dyn_cast<StringAttr>(row);
        !text || (text != "nan" && text != "mean"))
      return emitOpError("C4: ts.empty_row is \"nan\" or \"mean\", not ")
             << row;
  if (Value mask = getMask()) {
    Type element = elementTypeOf(mask);
    bool isNumber =
        element.isF32() || element.isF16() || element.isBF16() ||
        element.isF64() || element.isInteger(1) ||
        (element.isInteger() && element.getIntOrFloatBitWidth() >= 8);
    if (!isNumber)
      return emitOpError("C5: the mask is of numbers or i1, not of ")
             << element;
  }
  return success();
}
LogicalResult RopeOp::verify() { return success(); }

LogicalResult KernelOp::verify() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != TypeRange(getInputs()))
    return emitOpError("(C1) block arguments differ from the operands");
  if (TypeRange(yield().getValues()) != getResultTypes())
    return emitOpError("(C2) yielded values differ from the results");
  return success();
}

/// A kernel that yields nothing, as the implicit terminator.
void YieldOp::build(OpBuilder &, OperationState &) {}

YieldOp KernelOp::yield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

//===----------------------------------------------------------------------===//
// ts.kernel pointwise (%a = %x : type, ...) attributes {..} -> (types) { body }
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  StringRef hero;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&hero))
    return failure();
  std::optional<Hero> kind = symbolizeHero(hero);
  if (!kind)
    return parser.emitError(location, "unknown hero '") << hero << "'";
  result.addAttribute(getHeroAttrName(result.name),
                      HeroAttr::get(parser.getContext(), *kind));
  auto parseOne = [&]() -> ParseResult {
    if (parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()) ||
        parser.parseColonType(arguments.back().type))
      return failure();
    return success();
  };
  SmallVector<Type> types;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseArrowTypeList(types))
    return failure();
  result.addTypes(types);
  for (auto [operand, argument] : llvm::zip(operands, arguments))
    if (parser.resolveOperand(operand, argument.type, result.operands))
      return failure();
  return parser.parseRegion(*result.addRegion(), arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ' << stringifyHero(getHero()) << " (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          auto [argument, operand] = pair;
                          printer << argument << " = " << operand << " : "
                                  << operand.getType();
                        });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {getHeroAttrName()});
  printer.printArrowTypeList(getResultTypes());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}
