#include "ir/config/AttentionGpuConfig.h"
#include "ir/config/MatmulGpuConfig.h"
#include "ir/tile/TileDialect.h"

#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace knapper::tile;

//===-- func --------------------------------------------------------------===//

static constexpr llvm::StringLiteral kMayAlias = "tile.may_alias";

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   ArrayRef<Type> bufferElements, unsigned symbols) {
  SmallVector<Type> types;
  for (Type element : bufferElements)
    types.push_back(BufferType::get(element));
  types.append(symbols, builder.getIndexType());
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name),
                     TypeAttr::get(builder.getFunctionType(types, {})));
  Block &entry = state.addRegion()->emplaceBlock();
  entry.addArguments(types,
                     SmallVector<Location>(types.size(), state.location));
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto type = [](Builder &builder, ArrayRef<Type> arguments,
                 ArrayRef<Type> results, function_interface_impl::VariadicFlag,
                 std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), type,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

unsigned FuncOp::getNumBuffers() {
  unsigned count = 0;
  for (Type type : getArgumentTypes())
    count += isa<BufferType>(type);
  return count;
}

void FuncOp::setMayAlias(unsigned buffer, unsigned other) {
  setArgAttr(buffer, kMayAlias, Builder(getContext()).getI64IntegerAttr(other));
}

std::optional<unsigned> FuncOp::getMayAlias(unsigned buffer) {
  if (auto attr = getArgAttrOfType<IntegerAttr>(buffer, kMayAlias))
    return attr.getInt();
  return std::nullopt;
}

LogicalResult FuncOp::verify() {
  if (!getResultTypes().empty())
    return emitOpError("has no results: kernels write to buffers");
  if (getBody().empty())
    return emitOpError("needs a body");
  bool symbols = false;
  for (auto [i, type] : llvm::enumerate(getArgumentTypes())) {
    if (isa<IndexType>(type))
      symbols = true;
    else if (!isa<BufferType>(type))
      return emitOpError("argument ")
             << i << " is " << type
             << ": arguments are buffers, then symbols of type index";
    else if (symbols)
      return emitOpError("argument ")
             << i << " is a buffer after a symbol: buffers come first";
    if (auto other = getMayAlias(i); other && *other >= getNumBuffers())
      return emitOpError("argument ")
             << i << " may alias argument " << *other << ", which is no buffer";
  }
  if (!llvm::hasSingleElement(getBody()))
    return emitOpError("has one block: control flow is scf");
  for (auto [name, what] : {std::pair("tile.cluster", "programs"),
                            std::pair("tile.ctas_per_sm", "CTAs")})
    if (Attribute given = (*this)->getAttr(name)) {
      auto number = dyn_cast<IntegerAttr>(given);
      if (!number || number.getInt() < 1)
        return emitOpError("has '")
               << name << "' = " << given << ", which is no number of " << what;
    }
  return success();
}

//===-- Memory ------------------------------------------------------------===//

static LogicalResult verifyAlignment(Operation *op,
                                     std::optional<int64_t> alignment) {
  if (alignment && (*alignment <= 0 || !llvm::isPowerOf2_64(*alignment)))
    return op->emitOpError("alignment must be a power of two, not ")
           << *alignment;
  return success();
}

static LogicalResult verifyPad(Operation *op, Value pad, Value guard,
                               Type element) {
  if (!pad)
    return success();
  if (!guard)
    return op->emitOpError("has a pad but nothing that leaves lanes out");
  if (pad.getType() != element)
    return op->emitOpError("pad is ")
           << pad.getType() << ", the elements are " << element;
  return success();
}

static LogicalResult verifyLanes(Operation *op, Value lanes, Type tile,
                                 StringRef what) {
  if (lanes && cast<VectorType>(lanes.getType()).getShape() !=
                   cast<VectorType>(tile).getShape())
    return op->emitOpError()
           << what << " has " << cast<VectorType>(lanes.getType()).getDimSize(0)
           << " lanes, the value has " << cast<VectorType>(tile).getDimSize(0);
  return success();
}

LogicalResult CombineOp::verify() {
  auto function = (*this)->getParentOfType<FuncOp>();
  if (!function || !function->hasAttr("tile.cluster"))
    return emitOpError("C1: 'tile.cluster' of its function is missing");
  Type element = getTile().getType().getElementType();
  if (element.isInteger(1) || element.isF16() || element.isBF16())
    return emitOpError("C2: elements are ") << element;
  return success();
}

LogicalResult LoadOp::verify() {
  if (getValid() && !isa<VectorType>(getType()))
    return emitOpError("takes 'valid' for vectors only");
  if (failed(verifyPad(*this, getPad(), getValid(),
                       getBuffer().getType().getElementType())))
    return failure();
  return verifyAlignment(*this, getAlignment());
}

LogicalResult LoadStridedOp::verify() {
  return verifyPad(*this, getPad(), getValid(),
                   getBuffer().getType().getElementType());
}

/// C1 of the ops on blocks of rows.
static LogicalResult verifyColumns(Operation *op, VectorType tile,
                                   int64_t columns) {
  if (columns < 1 || !llvm::isPowerOf2_64(columns) ||
      tile.getNumElements() % columns)
    return op->emitOpError("C1: ")
           << columns << " columns are no power of two that divides the lanes";
  return success();
}

LogicalResult LoadRowsOp::verify() {
  return verifyColumns(*this, getType(), getColumns());
}

LogicalResult StoreRowsOp::verify() {
  return verifyColumns(*this, getValue().getType(), getColumns());
}

LogicalResult TransposeOp::verify() {
  int64_t columns = getColumns();
  if (columns < 1 || getType().getNumElements() % columns)
    return emitOpError("C1: ") << columns << " columns do not divide the lanes";
  return success();
}

LogicalResult LookupOp::verify() {
  if (!llvm::isPowerOf2_64(getTable().size()))
    return emitOpError("C1: the table has a power of two of words");
  if (!getIndex().getType().getElementType().isInteger(32))
    return emitOpError("C2: indices are i32");
  return success();
}

LogicalResult ScaleByPowerOp::verify() {
  if (!getValue().getType().getElementType().isF32())
    return emitOpError("C1: elements are f32");
  return success();
}

/// Aligned groups of lanes.
static LogicalResult verifyGroups(Operation *op, int64_t size, Type tile) {
  int64_t lanes = cast<VectorType>(tile).getDimSize(0);
  if (size < 1 || !llvm::isPowerOf2_64(size) || lanes % size)
    return op->emitOpError("has groups of ")
           << size << " lanes, which is no power of two that divides " << lanes;
  return success();
}

LogicalResult LaneGroupsOp::verify() {
  return verifyGroups(*this, getSize(), getType());
}

LogicalResult GatherOp::verify() {
  if (getRun() && failed(verifyGroups(*this, *getRun(), getType())))
    return failure();
  if (failed(verifyLanes(*this, getOffsets(), getType(), "offsets")) ||
      failed(verifyLanes(*this, getMask(), getType(), "mask")))
    return failure();
  return verifyPad(*this, getPad(),
                   getValid() ? Value(getValid()) : Value(getMask()),
                   getBuffer().getType().getElementType());
}

LogicalResult StoreOp::verify() {
  if (getValid() && !isa<VectorType>(getValue().getType()))
    return emitOpError("takes 'valid' for vectors only");
  return verifyAlignment(*this, getAlignment());
}

LogicalResult ScatterOp::verify() {
  if (failed(verifyLanes(*this, getOffsets(), getValue().getType(), "offsets")))
    return failure();
  return verifyLanes(*this, getMask(), getValue().getType(), "mask");
}

//===-- Matmul ------------------------------------------------------------===//

LogicalResult MainloopOp::verify() {
  Type acc = getAcc().getType().getElementType();
  bool bytes = acc.isInteger(32);
  if (!acc.isF32() && !acc.isF64() && !bytes)
    return emitOpError("accumulates in f32, f64 or i32, not ") << acc;
  bool grouped = bytes || getPairs();
  if (grouped && getAcc().getType().getDimSize(1) % 16)
    return emitOpError("has ")
           << getAcc().getType().getDimSize(1) << " columns of "
           << (bytes ? "bytes" : "pairs") << ", no multiple of 16";
  if (bytes && !getConstantIntValue(getK()))
    return emitOpError("K of matmuls of bytes is no constant");
  bool scaled = bool(getScale());
  if (scaled != bool(getScaleOffset()) || scaled != bool(getScaleStep()) ||
      (!scaled && (getZero() || getNibbles())))
    return emitOpError("'scale' needs an offset and a step, 'zero' and "
                       "'nibbles' need a scale");
  if (scaled && !acc.isF32())
    return emitOpError("scaled integers accumulate in f32, not ") << acc;
  if (getNibbles() && !getConstantIntValue(getK()))
    return emitOpError("K of nibbles is no constant");
  for (Value parameter : {getScale(), getZero()})
    if (parameter &&
        !cast<BufferType>(parameter.getType()).getElementType().isF32())
      return emitOpError("scale and zero are f32");
  for (auto [name, buffer] : {std::pair("A", getA()), {"B", getB()}}) {
    Type element = cast<BufferType>(buffer.getType()).getElementType();
    if (getPairs() && (!element.isBF16() || !acc.isF32()))
      return emitOpError("takes pairs of bf16 to f32, not of ")
             << element << " to " << acc;
    bool fits = bytes || (scaled && buffer == getB()) ? element.isInteger(8)
                : acc.isF64()
                    ? element.isF64()
                    : element.isF32() || element.isF16() || element.isBF16();
    if (!fits)
      return emitOpError("operand ")
             << name << " of " << element << " does not widen to " << acc;
  }
  if (bool(getOuter()) != bool(getAOuter()) ||
      bool(getOuter()) != bool(getBOuter()))
    return emitOpError("'outer' needs both strides");
  if (bool(getPrefetch()) != bool(getPrefetchOffset()) ||
      bool(getPrefetch()) != bool(getPrefetchStep()))
    return emitOpError("'prefetch' needs an offset and a step");
  if (getInit() && getInit().getType() != getAcc().getType())
    return emitOpError("init is ")
           << getInit().getType() << ", the result is " << getAcc().getType();
  return verifyAlignment(*this, getBAlignment());
}

LogicalResult BlockOp::verify() {
  int64_t rows = getRows(), columns = getColumns();
  if ((rows != 16 && rows != 32) || columns % 16 || columns < 16 ||
      columns > 48)
    return emitOpError("C1: ")
           << rows << " rows and " << columns << " columns are no block";
  if (bool(getValid()) != (rows == 16))
    return emitOpError("C2: 'valid' belongs to 16 rows");
  auto element = [](Value buffer) {
    return cast<BufferType>(buffer.getType()).getElementType();
  };
  Type a = element(getA()), b = element(getB()), c = element(getC());
  if (!(a.isBF16() && b.isBF16() && c.isF32()) &&
      !(a.isInteger(8) && b.isInteger(8) && c.isInteger(32)))
    return emitOpError("C3: matmuls of ")
           << a << " and " << b << " are not summed in " << c;
  int64_t parts = getParts();
  if (parts < 1 || parts > 3 || (parts > 1 && !a.isBF16()))
    return emitOpError("C4: ") << parts << " parts of " << a;
  if (bool(getAPart()) != (parts > 1) || bool(getBPart()) != (parts > 1))
    return emitOpError("'parts' need two strides");
  if (bool(getPrefetch()) != bool(getPrefetchOffset()) ||
      bool(getPrefetch()) != bool(getPrefetchStep()))
    return emitOpError("'prefetch' needs an offset and a step");
  return success();
}

int64_t MatmulOp::run() {
  auto type = dyn_cast<VectorType>(getBody().getArgument(0).getType());
  return type ? type.getDimSize(0) : 1;
}

LogicalResult MatmulOp::verify() {
  size_t batch = getOuter().size();
  if (getAOuter().size() != batch || getBOuter().size() != batch)
    return emitOpError("C1: ")
           << batch << " batch sizes, but strides of A for "
           << getAOuter().size() << " and of B for " << getBOuter().size();
  Block &block = getBody().front();
  if (block.getNumArguments() != batch + 3 ||
      !getElementTypeOrSelf(block.getArgument(0).getType()).isF32() ||
      !llvm::all_of(llvm::drop_begin(block.getArgumentTypes()),
                    [](Type type) { return type.isIndex(); }))
    return emitOpError("C2: the region takes values of f32 and ")
           << batch + 2 << " indices";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || bool(yield.getValue()) != bool(getC()) ||
      (getC() && yield.getValue().getType() != block.getArgument(0).getType()))
    return emitOpError("C3: the region yields ")
           << (getC() ? "the elements of 'to'" : "nothing without 'to'");
  config::MatmulGpuConfig config;
  if (std::string problem = config::parse(getShape(), config); !problem.empty())
    return emitOpError("C4: shape ") << problem;
  size_t dims = getSteps() ? getSteps()->size() / 3 : 0;
  if (dims
          ? getSteps()->size() != 3 * dims || getWindow().size() != 5 * dims + 1
          : getSteps() || !getWindow().empty())
    return emitOpError("C5: window has ")
           << getWindow().size() << " sizes, steps "
           << (getSteps() ? getSteps()->size() : 0);
  bool wgmma = config.algorithm == config::MatmulAlgorithm::wgmma;
  if (getEnds() &&
      (!getEnds().getType().getElementType().isInteger(32) || batch > 1 ||
       !getWindow().empty() || config.swapAB || config.unaligned ||
       config.splitK != 1 || config.clusterM != 1 || config.stagingWarpgroups ||
       !(wgmma || config.algorithm == config::MatmulAlgorithm::simt)))
    return emitOpError("C6: 'ends' are i32, of a matmul whose CTAs have rows "
                       "of their own");
  return success();
}

int64_t AttentionOp::run() {
  auto type = dyn_cast<VectorType>(getBody().getArgument(0).getType());
  return type ? type.getDimSize(0) : 1;
}

bool AttentionOp::keepsScores() {
  return cast<YieldOp>(getBody().front().back()).getValue() ==
         getBody().getArgument(0);
}

LogicalResult AttentionOp::verify() {
  for (OperandRange strides :
       {getQStrides(), getKStrides(), getVStrides(), getOStrides()})
    if (strides.size() != 4)
      return emitOpError("C1: four strides a buffer, not ") << strides.size();
  if (getSizes().size() != 7)
    return emitOpError("C1: seven sizes, not ") << getSizes().size();
  Block &block = getBody().front();
  if (block.getNumArguments() != 5 ||
      !getElementTypeOrSelf(block.getArgument(0).getType()).isF32() ||
      !llvm::all_of(llvm::drop_begin(block.getArgumentTypes()),
                    [](Type type) { return type.isIndex(); }))
    return emitOpError("C2: the region takes values of f32 and 4 indices");
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || !yield.getValue() ||
      yield.getValue().getType() != block.getArgument(0).getType())
    return emitOpError("C3: the region yields scores of the type it takes");
  config::AttentionGpuConfig config;
  if (std::string problem = config::parse(getShape(), config); !problem.empty())
    return emitOpError("C4: shape ") << problem;
  if (getMask() ? getMaskAt().size() != 4 : !getMaskAt().empty())
    return emitOpError("C5: a mask has four places, not ")
           << getMaskAt().size();
  return success();
}
