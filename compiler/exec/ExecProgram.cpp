#include "compiler/exec/ExecProgram.h"
#include "compiler/exec/Origin.h"
#include "compiler/exec/Scalars.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/Cost.h"
#include "graph/memory/InPlace.h"
#include "ir/tensor/reference/HostTensor.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

fb::DType dtypeOf(Type element) {
  return static_cast<fb::DType>(*ts::dtypeOf(element));
}
static_assert(static_cast<unsigned>(fb::DType::MAX) + 1 == kNumDTypes);

/// Where a value lives: a buffer and a byte offset in it.
struct Place {
  uint32_t buffer;
  Dim offset;
};

class Builder {
public:
  Builder(func::FuncOp function, const KernelSet &kernels,
          const DenseMap<Operation *, KernelUse> &uses)
      : function(function), kernels(kernels), uses(uses),
        result{std::make_unique<fb::ProgramT>(), {}, {}},
        program(*result.program), scalars(program),
        zero(Dim::constant(function.getContext(), 0)), liveness(function),
        inPlace(memory::inPlace(function, liveness)) {}

  LogicalResult run();
  ExecProgram take() { return std::move(result); }

private:
  void declareSymbols();
  void addSignature(Value value, Attribute name, StringRef fallback,
                    std::vector<std::unique_ptr<fb::TensorSignatureT>> &list);
  uint32_t addBuffer(fb::BufferKind kind, uint32_t index, Dim bytes,
                     const std::string &name);
  FailureOr<Place> placeOf(Value value);
  FailureOr<Place> placeOfConstant(Value value,
                                   std::optional<PackedOperand> packing);
  /// Where a kernel's result is written.
  Place placeOfResult(OpResult result);
  fb::BufferRef refer(const Place &place) {
    return fb::BufferRef(place.buffer, scalars.get(place.offset));
  }
  LogicalResult addLaunch(ts::KernelOp kernel);
  void addCheck(ts::DimCastOp op);
  LogicalResult addOutputs(func::ReturnOp op);
  void append(fb::InstructionUnion instruction);

  func::FuncOp function;
  const KernelSet &kernels;
  const DenseMap<Operation *, KernelUse> &uses;
  ExecProgram result;
  fb::ProgramT &program;
  ScalarTable scalars;
  Dim zero;
  /// Positions are the numbers of instructions.
  memory::Liveness liveness;
  DenseMap<Value, Value> inPlace;
  fb::RegionT *region = nullptr;
  DenseMap<Value, Place> places;      ///< roots
  DenseMap<Value, unsigned> returned; ///< roots that are an output's own memory
};

void Builder::declareSymbols() {
  // Declared ones first, then any other that occurs.
  if (auto module = function->getParentOfType<ModuleOp>())
    if (auto list = module->getAttrOfType<ArrayAttr>("ts.symbols"))
      for (auto symbol : list.getAsRange<ts::SymbolAttr>())
        scalars.declare(symbol.getName(), symbol.getMin(), symbol.getMax(),
                        symbol.getDivisor(), false);
  llvm::SetVector<StringAttr> used;
  auto collect = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (Dim dim : ts::dimsOf(type))
        dim.collectSymbols(used);
  };
  for (BlockArgument argument : function.getArguments())
    collect(argument.getType());
  function.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      collect(type);
  });
  for (StringAttr symbol : used)
    scalars.declare(symbol, 0, -1, 1, false);
  function.walk([&](ts::BindSizeOp op) {
    if (scalars.isDeclared(op.getSymbol()))
      program.symbols[scalars.symbolIndex(op.getSymbol())]->from_buffer = true;
  });
}

void Builder::addSignature(
    Value value, Attribute name, StringRef fallback,
    std::vector<std::unique_ptr<fb::TensorSignatureT>> &list) {
  auto signature = std::make_unique<fb::TensorSignatureT>();
  auto text = dyn_cast_if_present<StringAttr>(name);
  signature->name = text ? text.str() : (fallback + Twine(list.size())).str();
  signature->dtype = dtypeOf(ts::elementTypeOf(value));
  for (Dim dim : ts::dimsOf(value)) {
    signature->dims.push_back(scalars.get(dim));
    signature->dim_text.push_back(dim.str());
  }
  list.push_back(std::move(signature));
}

uint32_t Builder::addBuffer(fb::BufferKind kind, uint32_t index, Dim bytes,
                            const std::string &name) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->kind = kind;
  buffer->index = index;
  buffer->bytes = scalars.get(bytes);
  buffer->name = name;
  program.buffers.push_back(std::move(buffer));
  return program.buffers.size() - 1;
}

FailureOr<Place> Builder::placeOf(Value value) {
  if (fusion::isConstantExpression(value))
    return placeOfConstant(value, std::nullopt);
  Dim offset = zero;
  Value root = memory::rootOf(value, &offset);
  if (fusion::isConstantExpression(root)) {
    FailureOr<Place> place = placeOfConstant(root, std::nullopt);
    if (failed(place))
      return failure();
    return Place{place->buffer, place->offset + offset};
  }
  auto it = places.find(root);
  if (it == places.end())
    return emitError(value.getLoc(), "value is computed outside any kernel");
  return Place{it->second.buffer, it->second.offset + offset};
}

FailureOr<Place>
Builder::placeOfConstant(Value value, std::optional<PackedOperand> packing) {
  if (packing)
    packing->operand =
        0; // which operand reads it does not tell constants apart
  for (const ConstantRequest &request : result.constants)
    if (request.value == value && request.packing == packing)
      return Place{request.buffer, zero};
  Dim bytes = ts::byteCount(value.getType());
  if (packing) {
    int64_t panels = (packing->columns + packing->panel - 1) / packing->panel;
    bytes = zero + panels * packing->panel * packing->rows *
                       ts::elementBytes(ts::elementTypeOf(value));
  }
  if (!bytes.asConstant())
    return emitError(value.getLoc(), "a constant has a symbolic size");
  uint32_t buffer =
      addBuffer(fb::BufferKind::constant, 0, bytes, originText(value.getLoc()));
  program.buffers[buffer]->constant_bytes = *bytes.asConstant();
  result.constants.push_back({value, packing, buffer});
  return Place{buffer, zero};
}

Place Builder::placeOfResult(OpResult result) {
  if (auto it = returned.find(result); it != returned.end())
    return {addBuffer(fb::BufferKind::output, it->second,
                      ts::byteCount(result.getType()), ""),
            zero};
  const memory::LiveRange &range = liveness.ranges.find(result)->second;
  if (Value under = inPlace.lookup(result)) {
    Place place = places.find(under)->second;
    program.buffers[place.buffer]->last = range.last;
    return place;
  }
  uint32_t buffer =
      addBuffer(fb::BufferKind::temp, 0, ts::byteCount(result.getType()),
                originText(result.getLoc()));
  program.buffers[buffer]->first = range.first;
  program.buffers[buffer]->last = range.last;
  return {buffer, zero};
}

void Builder::append(fb::InstructionUnion instruction) {
  auto box = std::make_unique<fb::InstructionBoxT>();
  box->instruction = std::move(instruction);
  region->instructions.push_back(std::move(box));
}

LogicalResult Builder::addLaunch(ts::KernelOp kernel) {
  const KernelUse &use = uses.find(kernel)->second;
  const UniqueKernel &unique = kernels.kernels[use.kernel];
  fb::LaunchT launch;
  ArrayRef<PackedOperand> packed = unique.schedules.front().packed;
  for (auto [i, input] : llvm::enumerate(kernel.getInputs())) {
    const PackedOperand *packing = llvm::find_if(
        packed, [&](const PackedOperand &p) { return p.operand == i; });
    FailureOr<Place> place = packing != packed.end()
                                 ? placeOfConstant(input, *packing)
                                 : placeOf(input);
    if (failed(place))
      return failure();
    launch.args.push_back(refer(*place));
  }
  for (OpResult result : kernel->getResults())
    launch.args.push_back(refer(places[result] = placeOfResult(result)));
  for (auto [i, schedule] : llvm::enumerate(unique.schedules)) {
    auto choice = std::make_unique<fb::ChoiceT>();
    Guard guard = schedule.guard;
    for (Guard::Term &term : guard.terms) {
      term.lhs = bind(term.lhs, unique, use);
      term.rhs = bind(term.rhs, unique, use);
    }
    choice->guard = scalars.get(guard);
    choice->kernel = result.kernelIndex[use.kernel][i];
    choice->grid = scalars.get(bind(schedule.grid, unique, use));
    choice->grain = scalars.get(bind(schedule.grain, unique, use));
    choice->scratch = scalars.get(bind(schedule.scratch, unique, use));
    for (Dim dim : use.bindings)
      choice->symbols.push_back(scalars.get(dim));
    choice->label = schedule.label();
    launch.choices.push_back(std::move(choice));
  }
  launch.flops = scalars.get(fusion::kernelFlops(kernel));
  launch.bytes = scalars.get(fusion::kernelBytes(kernel));
  launch.origin = kernelOrigin(kernel);
  fb::InstructionUnion instruction;
  instruction.Set(std::move(launch));
  append(std::move(instruction));
  return mlir::success();
}

void Builder::addCheck(ts::DimCastOp op) {
  for (auto [from, to] :
       llvm::zip(ts::dimsOf(op.getInput()), ts::dimsOf(op.getResult()))) {
    if (from == to)
      continue;
    auto check = std::make_unique<fb::CheckT>();
    check->value = scalars.get(Guard{{{from, ts::ComparePredicate::eq, to}}});
    check->message = "sizes " + from.str() + " and " + to.str() +
                     " must be equal for this model";
    check->where = originText(op.getLoc());
    check->hint = "pass inputs whose sizes agree";
    program.checks.push_back(std::move(check));
  }
}

LogicalResult Builder::addOutputs(func::ReturnOp op) {
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    Value root = memory::rootOf(value);
    if (auto it = returned.find(root); it != returned.end() && it->second == i)
      continue; // the kernel wrote the output itself
    // An input, a constant, a part of something, or a value returned twice.
    FailureOr<Place> from = placeOf(value);
    if (failed(from))
      return failure();
    Dim bytes = ts::byteCount(value.getType());
    Place to{addBuffer(fb::BufferKind::output, i, bytes, ""), zero};
    fb::CopyT copy;
    copy.source = std::make_unique<fb::BufferRef>(refer(*from));
    copy.target = std::make_unique<fb::BufferRef>(refer(to));
    copy.bytes = scalars.get(bytes);
    fb::InstructionUnion instruction;
    instruction.Set(std::move(copy));
    append(std::move(instruction));
  }
  return mlir::success();
}

LogicalResult Builder::run() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has control flow between blocks");
  uint32_t next = 0;
  for (const UniqueKernel &kernel : kernels.kernels) {
    result.kernelIndex.emplace_back();
    for (size_t i = 0; i < kernel.schedules.size(); ++i)
      result.kernelIndex.back().push_back(next++);
  }
  program.name = function.getName().str();
  declareSymbols();
  program.regions.push_back(std::make_unique<fb::RegionT>());
  region = program.regions.back().get();
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    addSignature(argument, function.getArgAttr(i, "ts.name"), "input",
                 program.inputs);
    places[argument] = {addBuffer(fb::BufferKind::input, i,
                                  ts::byteCount(argument.getType()), ""),
                        zero};
  }
  auto ret = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    addSignature(value, function.getResultAttr(i, "ts.name"), "output",
                 program.outputs);
    Dim offset = zero;
    Value root = memory::rootOf(value, &offset);
    if (root.getDefiningOp<ts::KernelOp>() && offset.isConstant(0) &&
        ts::byteCount(root.getType()) == ts::byteCount(value.getType()))
      returned.try_emplace(root, i);
  }
  for (Operation &op : function.getBody().front()) {
    if (auto kernel = dyn_cast<ts::KernelOp>(op)) {
      if (failed(addLaunch(kernel)))
        return failure();
    } else if (auto cast = dyn_cast<ts::DimCastOp>(op)) {
      addCheck(cast);
    } else if (auto bindSize = dyn_cast<ts::BindSizeOp>(op)) {
      FailureOr<Place> place = placeOf(bindSize.getValue());
      if (failed(place))
        return failure();
      fb::BindSymbolT instruction;
      instruction.source = std::make_unique<fb::BufferRef>(refer(*place));
      instruction.symbol = scalars.symbolIndex(bindSize.getSymbol());
      fb::InstructionUnion boxed;
      boxed.Set(std::move(instruction));
      append(std::move(boxed));
    }
  }
  // Checks inside kernels too: a fused cast still asserts.
  function.walk([&](ts::DimCastOp op) {
    if (op->getParentOp() != function)
      addCheck(op);
  });
  if (failed(addOutputs(ret)))
    return failure();
  // What is returned from memory of the arena is needed until it is copied.
  for (const auto &[value, range] : liveness.ranges)
    if (range.returned)
      if (fb::BufferT &buffer =
              *program.buffers[places.find(value)->second.buffer];
          buffer.kind == fb::BufferKind::temp)
        buffer.last = region->instructions.size() - 1;
  return mlir::success();
}

} // namespace

FailureOr<ExecProgram>
buildExecProgram(func::FuncOp function, const KernelSet &kernels,
                 const DenseMap<Operation *, KernelUse> &uses) {
  Builder builder(function, kernels, uses);
  if (failed(builder.run()))
    return failure();
  return builder.take();
}

} // namespace knapper
