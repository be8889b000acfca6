#include "ir/tensor/reference/Evaluate.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/reference/Call.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

using namespace mlir;

namespace knapper::ts {

using reference::Call;

std::string locationText(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName().str();
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return cat(file.getFilename().getValue(), ":", file.getLine(), ":",
               file.getColumn());
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (std::string text = locationText(part); !text.empty())
        return text;
    return {};
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return locationText(call.getCallee());
  return {};
}

Expected<int64_t> evaluateOffset(Dim size, const SymbolValues &symbols) {
  std::string missing;
  std::optional<int64_t> value =
      size.evaluate([&](StringRef name) -> std::optional<int64_t> {
        auto it = symbols.find(name);
        if (it != symbols.end())
          return it->second;
        if (missing.empty())
          missing = name.str();
        return std::nullopt;
      });
  if (value)
    return *value;
  if (!missing.empty())
    return userError(
        cat("size '", size.str(), "' needs a value for '", missing, "'"), {},
        "give it with --dim " + missing + "=...");
  return userError(cat("size '", size.str(),
                       "' divides by zero or overflows for these sizes"),
                   {}, "run with smaller inputs");
}

Expected<int64_t> evaluateSize(Dim size, const SymbolValues &symbols) {
  Expected<int64_t> value = evaluateOffset(size, symbols);
  if (value && *value < 0)
    return userError(
        cat("size '", size.str(), "' is ", *value, " for these inputs"), {},
        "check the input shapes");
  return value;
}

Expected<Shape> evaluateShape(Type type, const SymbolValues &symbols,
                              uint64_t maxBytes) {
  Shape shape;
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.hasStaticShape()) // touches no context: safe on any thread
    shape = Shape(tensor.getShape());
  else
    for (Dim dim : dimsOf(type)) {
      Expected<int64_t> size = evaluateSize(dim, symbols);
      if (!size)
        return size.takeError();
      shape.push_back(*size);
    }
  std::optional<int64_t> bytes = elementCountOf(shape);
  if (bytes)
    bytes = checkedMul(*bytes, elementBytes(tensor.getElementType()));
  if (!bytes || static_cast<uint64_t>(*bytes) > maxBytes)
    return userError(cat("a tensor ", shapeText(type), " takes ",
                         bytes ? std::to_string(*bytes) : "over 2^63",
                         " bytes here, the limit is ", maxBytes),
                     {}, "run with smaller inputs");
  return shape;
}

Status bindSymbols(TypeRange types, ArrayRef<HostTensor> values,
                   ArrayRef<std::string> names, SymbolValues &symbols) {
  if (types.size() != values.size())
    return userError(
        cat("expected ", types.size(), " inputs, got ", values.size()));
  for (auto [type, value, name] : llvm::zip(types, values, names)) {
    auto tensor = cast<RankedTensorType>(type);
    std::optional<DType> dtype = dtypeOf(tensor.getElementType());
    if (dtype != value.dtype() || tensor.getRank() != value.rank())
      return userError(
          cat("is ", value.typeText(), ", expected ", shapeText(type)), name);
  }
  // Bare symbols first; then sizes such as 2*s + 1 that have one unknown.
  auto forEachSize = [&](auto body) -> Status {
    for (auto [type, value, name] : llvm::zip(types, values, names))
      for (auto [i, dim] : llvm::enumerate(dimsOf(type)))
        if (Status status = body(dim, value.dim(i), name, i); !status)
          return status;
    return success();
  };
  (void)forEachSize([&](Dim dim, int64_t size, const std::string &, size_t) {
    if (std::optional<StringRef> symbol = dim.asSymbol())
      symbols.try_emplace(*symbol, size);
    return Status();
  });
  (void)forEachSize([&](Dim dim, int64_t size, const std::string &, size_t) {
    llvm::SetVector<StringAttr> inDim;
    dim.collectSymbols(inDim);
    StringAttr unknown;
    for (StringAttr symbol : inDim) {
      if (symbols.count(symbol))
        continue;
      if (unknown)
        return Status();
      unknown = symbol;
    }
    if (!unknown)
      return Status();
    // Linear in the unknown: two values give slope and offset; the check below
    // catches what is not linear.
    auto at = [&](int64_t value) {
      return dim.evaluate([&](StringRef name) -> std::optional<int64_t> {
        if (name == unknown)
          return value;
        return symbols.lookup(name);
      });
    };
    std::optional<int64_t> offset = at(0), one = at(1);
    if (!offset || !one || *one == *offset)
      return Status();
    symbols[unknown] = (size - *offset) / (*one - *offset);
    return Status();
  });
  return forEachSize([&](Dim dim, int64_t size, const std::string &name,
                         size_t index) -> Status {
    Expected<int64_t> expected = evaluateSize(dim, symbols);
    if (!expected) {
      Error error = expected.takeError();
      error.where = name;
      return error;
    }
    if (*expected == size)
      return success();
    std::string why =
        dim.isSymbolic() ? cat(" (", dim.str(), ")") : std::string();
    return userError(
        cat("dim ", index, " is ", size, ", expected ", *expected, why), name,
        "give inputs whose sizes agree");
  });
}

Expected<Shape> Call::sizes(ArrayAttr dims) const {
  Shape numbers;
  for (Dim dim : dimsOf(dims)) {
    Expected<int64_t> number = evaluateOffset(dim, context.symbols);
    if (!number)
      return number.takeError();
    numbers.push_back(*number);
  }
  return numbers;
}

namespace {

/// The declared bound of a symbol in the enclosing module; -1 when unbounded.
int64_t declaredMaximum(Operation *op, StringRef symbol) {
  for (; op; op = op->getParentOp()) {
    auto symbols = op->getAttrOfType<ArrayAttr>("ts.symbols");
    if (!symbols)
      continue;
    for (auto declared : symbols.getAsRange<SymbolAttr>())
      if (declared.getName() == symbol)
        return declared.getMax();
  }
  return -1;
}

reference::Results bindSize(BindSizeOp op, const Call &call) {
  int64_t value = call.in[0].load<int64_t>()[0];
  int64_t maximum = declaredMaximum(op, op.getSymbol());
  if (value < 0 || (maximum >= 0 && value > maximum))
    return call.userError(cat("size '", op.getSymbol(), "' became ", value,
                              ", allowed are 0 to ",
                              maximum < 0 ? "any" : std::to_string(maximum)));
  call.context.symbols[op.getSymbol()] = value;
  return SmallVector<HostTensor>();
}

reference::Results runKernel(KernelOp op, const Call &call) {
  return evaluateBlock(op.getBody().front(), call.in, call.context);
}

reference::Results check(CheckOp op, const Call &call) {
  Expected<int64_t> lhs = evaluateOffset(op.getLhs(), call.context.symbols),
                    rhs = evaluateOffset(op.getRhs(), call.context.symbols);
  if (!lhs)
    return lhs.takeError();
  if (!rhs)
    return rhs.takeError();
  bool holds = false;
  switch (op.getPredicate()) {
  case ComparePredicate::eq:
    holds = *lhs == *rhs;
    break;
  case ComparePredicate::ne:
    holds = *lhs != *rhs;
    break;
  case ComparePredicate::lt:
    holds = *lhs < *rhs;
    break;
  case ComparePredicate::le:
    holds = *lhs <= *rhs;
    break;
  case ComparePredicate::gt:
    holds = *lhs > *rhs;
    break;
  case ComparePredicate::ge:
    holds = *lhs >= *rhs;
    break;
  }
  if (!holds)
    return knapper::userError(op.getMessage().str(), locationText(op.getLoc()),
                              "run with other sizes");
  return SmallVector<HostTensor>();
}

/// Sets the symbols of `types` that `symbols` names to the sizes of `values`.
void setSymbols(TypeRange types, ArrayRef<HostTensor> values, ArrayAttr symbols,
                EvaluateContext &context) {
  for (auto [type, value] : llvm::zip(types, values))
    for (auto [i, dim] : llvm::enumerate(dimsOf(type)))
      if (isNamed(symbols, dim))
        context.symbols[*dim.asSymbol()] = value.dim(i);
}

reference::Results runIf(IfOp op, ArrayRef<HostTensor> operands,
                         EvaluateContext &context) {
  bool taken = operands[0].data()[0] != 0;
  size_t then = op.getThenInputs().size();
  func::FuncOp body =
      bodyOf(op, taken ? op.getThenBodyAttr() : op.getElseBodyAttr());
  reference::Results results = evaluateBlock(
      body.getBody().front(),
      taken ? operands.slice(1, then) : operands.drop_front(1 + then), context);
  if (results)
    setSymbols(op.getResultTypes(), *results, op.getSymbols(), context);
  return results;
}

reference::Results runLoop(LoopOp op, ArrayRef<HostTensor> operands,
                           EvaluateContext &context) {
  func::FuncOp body = bodyOf(op, op.getBodyAttr());
  size_t first = op.getCondition() ? 1 : 0, carried = op.getCarried().size();
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (op.getTrips()) {
    Expected<int64_t> number = evaluateOffset(*op.getTrips(), context.symbols);
    if (!number)
      return number.takeError();
    trips = *number;
  }
  bool more = !first || operands[0].data()[0] != 0;
  SmallVector<HostTensor> state(operands.slice(first, carried));
  ArrayRef<HostTensor> captures = operands.drop_front(first + carried);
  TypeRange inside = body.getArgumentTypes().take_front(carried);
  std::vector<SmallVector<HostTensor>> scans(op.numScans());
  setSymbols(inside, state, op.getSymbols(), context);
  int64_t count = 0;
  for (; more && count < trips; ++count) {
    context.symbols[op.getCounter()] = count;
    SmallVector<HostTensor> arguments(state);
    llvm::append_range(arguments, captures);
    reference::Results results =
        evaluateBlock(body.getBody().front(), arguments, context);
    if (!results)
      return results;
    if (first)
      more = (*results)[0].data()[0] != 0;
    for (size_t i = 0; i < carried; ++i)
      state[i] = (*results)[first + i];
    for (size_t i = 0; i < scans.size(); ++i)
      scans[i].push_back((*results)[first + carried + i]);
    setSymbols(inside, state, op.getSymbols(), context);
  }
  if (op.getCount())
    context.symbols[*op.getCount()] = count;
  for (auto [i, rows] : llvm::enumerate(scans)) {
    Type type = op.getResult(carried + i).getType();
    Expected<Shape> shape =
        evaluateShape(type, context.symbols, context.maxBytes);
    if (!shape)
      return shape.takeError();
    HostTensor joined = HostTensor::allocate(
        *dtypeOf(cast<RankedTensorType>(type).getElementType()), *shape);
    uint8_t *out = joined.mutableData();
    if (op.getReversed()[i])
      std::reverse(rows.begin(), rows.end());
    for (const HostTensor &row : rows) {
      std::memcpy(out, row.data(), row.bytes());
      out += row.bytes();
    }
    state.push_back(joined);
  }
  return state;
}

} // namespace

Expected<SmallVector<HostTensor>> evaluate(Operation *op,
                                           ArrayRef<HostTensor> operands,
                                           EvaluateContext &context) {
  // These set symbols that their own result types use.
  if (isa<IfOp, LoopOp>(op)) {
    auto results = isa<IfOp>(op) ? runIf(cast<IfOp>(op), operands, context)
                                 : runLoop(cast<LoopOp>(op), operands, context);
    if (results && context.observe)
      context.observe(op, operands, *results);
    return results;
  }
  Call call{op, operands, {}, {}, context};
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    std::optional<DType> dtype;
    if (tensor)
      dtype = dtypeOf(tensor.getElementType());
    if (!dtype)
      return internalError("the reference has no results of this type",
                           locationText(op->getLoc()));
    Expected<Shape> shape =
        evaluateShape(type, context.symbols, context.maxBytes);
    if (!shape) {
      Error error = shape.takeError();
      error.where = locationText(op->getLoc());
      return error;
    }
    call.shapes.push_back(*shape);
    call.dtypes.push_back(*dtype);
  }
  std::optional<reference::Results> results;
  if (auto bind = dyn_cast<BindSizeOp>(op))
    results = bindSize(bind, call);
  else if (auto kernel = dyn_cast<KernelOp>(op))
    results = runKernel(kernel, call);
  else if (auto checked = dyn_cast<CheckOp>(op))
    results = check(checked, call);
  for (auto family : {reference::evaluateElementwise, reference::evaluateShape,
                      reference::evaluateIndexed, reference::evaluateReduction,
                      reference::evaluateWindow, reference::evaluateComposite,
                      reference::evaluateSelection, reference::evaluateFourier})
    if (!results)
      results = family(call);
  if (!results)
    return internalError(
        cat("no reference evaluation of ", op->getName().getStringRef()),
        locationText(op->getLoc()));
  if (*results && context.observe)
    context.observe(op, operands, **results);
  return std::move(*results);
}

Expected<SmallVector<HostTensor>> evaluate(Operation *op,
                                           ArrayRef<HostTensor> operands) {
  EvaluateContext context;
  std::vector<std::string> names;
  for (size_t i = 0; i < operands.size(); ++i)
    names.push_back(cat("operand ", i));
  if (Status bound =
          bindSymbols(op->getOperandTypes(), operands, names, context.symbols);
      !bound)
    return bound.takeError();
  return evaluate(op, operands, context);
}

Expected<SmallVector<HostTensor>> evaluateBlock(Block &block,
                                                ArrayRef<HostTensor> arguments,
                                                EvaluateContext &context) {
  llvm::DenseMap<Value, HostTensor> values;
  llvm::DenseMap<Value, size_t> uses;
  if (block.getNumArguments() != arguments.size())
    return internalError(cat("a block of ", block.getNumArguments(),
                             " arguments got ", arguments.size()));
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  // Values are dropped after their last use: a whole model fits.
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      ++uses[operand];
  for (Operation &op : block) {
    SmallVector<HostTensor> operands;
    for (Value operand : op.getOperands()) {
      auto it = values.find(operand);
      if (it == values.end())
        return internalError("an op uses a value from outside its block",
                             locationText(op.getLoc()));
      operands.push_back(it->second);
    }
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    for (Value operand : op.getOperands())
      if (--uses[operand] == 0)
        values.erase(operand);
    Expected<SmallVector<HostTensor>> results =
        evaluate(&op, operands, context);
    if (!results)
      return results.takeError();
    for (auto [result, value] : llvm::zip(op.getResults(), *results))
      if (!result.use_empty())
        values[result] = value;
  }
  return internalError("a block without terminator");
}

Expected<SmallVector<HostTensor>> evaluateFunction(func::FuncOp function,
                                                   ArrayRef<HostTensor> inputs,
                                                   EvaluateContext &context) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto given = function.getArgAttrOfType<StringAttr>(i, "ts.name");
    names.push_back(given ? cat("input '", given.getValue(), "'")
                          : cat("input ", i));
  }
  if (Status bound = bindSymbols(function.getArgumentTypes(), inputs, names,
                                 context.symbols);
      !bound)
    return bound.takeError();
  if (function.getBody().getBlocks().size() != 1)
    return internalError("a function needs one block",
                         locationText(function.getLoc()));
  return evaluateBlock(function.getBody().front(), inputs, context);
}

} // namespace knapper::ts
