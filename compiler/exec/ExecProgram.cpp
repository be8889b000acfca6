#include "compiler/exec/ExecProgram.h"
#include "compiler/exec/ExecBuilder.h"
#include "compiler/exec/Origin.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/Cost.h"
#include "graph/memory/InPlace.h"
#include "ir/config/LaunchConfig.h"
#include "ir/tensor/IndexLimit.h"
#include "ir/tensor/SignatureMarks.h"
#include "ir/tensor/Update.h"
#include "ir/tensor/reference/HostTensor.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

static_assert(static_cast<unsigned>(fb::DType::MAX) + 1 == kNumDTypes);
fb::DType ExecBuilder::dtypeOf(Type element) {
  return static_cast<fb::DType>(*ts::dtypeOf(element));
}

void ExecBuilder::declareSymbols() {
  llvm::SetVector<StringAttr> used;
  auto collect = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (Dim dim : ts::dimsOf(type))
        dim.collectSymbols(used);
  };
  for (BlockArgument argument : function.getArguments())
    collect(argument.getType());
  for (func::FuncOp body : ts::withBodies(function))
    body.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        collect(type);
      if (!isa<ts::KernelOp>(op)) // its schedules are in symbols of their own
        op->getAttrDictionary().walk([&](ts::DimAttr dim) {
          Dim(dim).collectSymbols(used);
          return WalkResult::skip();
        });
      for (StringAttr symbol : ts::symbolsSetBy(op)) {
        used.insert(symbol);
        lateSymbols.insert(symbol.getValue());
      }
    });
  // Declared ones first, then any other that occurs. One that was declared for
  // what is gone is not part of the program.
  auto isLate = [&](StringRef name) { return lateSymbols.contains(name); };
  if (auto module = function->getParentOfType<ModuleOp>())
    if (auto list = module->getAttrOfType<ArrayAttr>("ts.symbols"))
      for (auto symbol : list.getAsRange<ts::SymbolAttr>())
        if (used.contains(symbol.getName()))
          scalars.declare(symbol.getName(), symbol.getMin(), symbol.getMax(),
                          symbol.getDivisor(), isLate(symbol.getName()));
  for (StringAttr symbol : used)
    scalars.declare(symbol, 0, -1, 1, isLate(symbol));
}

bool ExecBuilder::isLate(const Guard &guard) const {
  llvm::SetVector<StringAttr> symbols;
  for (const Guard::Term &term : guard.terms) {
    term.lhs.collectSymbols(symbols);
    term.rhs.collectSymbols(symbols);
  }
  return llvm::any_of(
      symbols, [&](StringAttr name) { return lateSymbols.contains(name); });
}

void ExecBuilder::addSignature(
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

uint32_t ExecBuilder::addBuffer(fb::BufferKind kind, uint32_t index, Dim bytes,
                                const std::string &name) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->kind = kind;
  buffer->index = index;
  buffer->bytes = scalars.get(bytes);
  buffer->name = name;
  if (kind == fb::BufferKind::temp) {
    buffer->first = ~uint32_t(0); // until something uses it
    buffer->last = 0;
  }
  program.buffers.push_back(std::move(buffer));
  return program.buffers.size() - 1;
}

ExecBuilder::Place ExecBuilder::addTemp(Dim bytes, Location origin) {
  return {addBuffer(fb::BufferKind::temp, 0, bytes, originText(origin)), zero};
}

void ExecBuilder::touch(uint32_t index, uint32_t instruction) {
  fb::BufferT &buffer = *program.buffers[index];
  if (buffer.kind != fb::BufferKind::temp)
    return;
  buffer.first = std::min(buffer.first, instruction);
  buffer.last = std::max(buffer.last, instruction);
}

fb::BufferRef ExecBuilder::refer(const Place &place) {
  touch(place.buffer, next);
  memoryUses.read(place.buffer, entryNumber());
  return fb::BufferRef(place.buffer, scalars.get(place.offset));
}

fb::BufferRef ExecBuilder::referWritten(const Place &place) {
  touch(place.buffer, next);
  memoryUses.write(place.buffer, entryNumber());
  return fb::BufferRef(place.buffer, scalars.get(place.offset));
}

FailureOr<ExecBuilder::Place> ExecBuilder::placeOf(Value value) {
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

FailureOr<ExecBuilder::Place>
ExecBuilder::placeOfConstant(Value value,
                             std::optional<PackedOperand> packing) {
  if (packing)
    packing->operand =
        0; // which operand reads it does not tell constants apart
  for (const ConstantRequest &request : result.constants)
    if (request.value == value && request.packing == packing)
      return Place{request.buffer, zero};
  Dim bytes = ts::byteCount(value.getType());
  if (packing) {
    int64_t panels = (packing->columns + packing->panel - 1) / packing->panel;
    bytes = zero + panels * packing->panel * packing->groups() *
                       (packing->nibbles
                            ? 1
                            : packing->group *
                                  ts::elementBytes(ts::elementTypeOf(value)));
  }
  if (!bytes.asConstant())
    return emitError(value.getLoc(), "a constant has a symbolic size");
  uint32_t buffer =
      addBuffer(fb::BufferKind::constant, 0, bytes, originText(value.getLoc()));
  program.buffers[buffer]->constant_bytes = *bytes.asConstant();
  result.constants.push_back({value, packing, buffer});
  return Place{buffer, zero};
}

FailureOr<ExecBuilder::Place> ExecBuilder::placeOfZeros() {
  if (!zeros) {
    int64_t bytes = 0;
    for (const UniqueKernel &kernel : kernels.kernels)
      bytes = std::max(bytes, kernel.schedules.front().state);
    OpBuilder b = OpBuilder::atBlockBegin(&function.getBody().front());
    Type word = b.getI64Type();
    auto type = RankedTensorType::get({bytes / int64_t(sizeof(int64_t))}, word);
    zeros = ts::ConstantOp::create(
        b, function.getLoc(), type,
        DenseElementsAttr::get(type, b.getI64IntegerAttr(0)));
  }
  return placeOfConstant(zeros, std::nullopt);
}

ExecBuilder::Place ExecBuilder::placeOfResult(OpResult result) {
  if (auto it = wanted.find(result); it != wanted.end())
    return it->second;
  if (Value under = inPlace.lookup(result))
    return places.find(under)->second;
  return addTemp(ts::byteCount(result.getType()), result.getLoc());
}

uint32_t ExecBuilder::addRegion() {
  program.regions.push_back(std::make_unique<fb::RegionT>());
  return program.regions.size() - 1;
}

void ExecBuilder::addCopy(const Place &from, const Place &to, Dim bytes) {
  fb::CopyT copy;
  copy.source = std::make_unique<fb::BufferRef>(refer(from));
  copy.target = std::make_unique<fb::BufferRef>(referWritten(to));
  copy.bytes = scalars.get(bytes);
  if (inEntry && from.offset.isConstant(0) && to.offset.isConstant(0))
    memoryUses.inPlace(from.buffer, to.buffer, next);
  append(std::move(copy));
}

void ExecBuilder::noteInPlace(ts::KernelOp kernel) {
  if (!inEntry)
    return;
  SmallVector<unsigned> allowed = memory::inPlaceInputs(kernel);
  if (allowed.empty())
    return;
  const Place &to = places.find(kernel.getResult(0))->second;
  if (!to.offset.isConstant(0))
    return;
  SmallVector<uint32_t> read; // constants are no input's memory
  for (Value input : kernel.getInputs()) {
    auto it = places.find(memory::rootOf(input));
    read.push_back(it == places.end() ? ~uint32_t(0) : it->second.buffer);
  }
  for (unsigned i : allowed) {
    Dim offset = zero;
    memory::rootOf(kernel.getInputs()[i], &offset);
    // Another operand in that memory may be read elsewhere.
    if (offset.isConstant(0) && llvm::count(read, read[i]) == 1)
      memoryUses.inPlace(read[i], to.buffer, next);
  }
}

/// What a launch writes, in elements.
static Dim elementsWritten(ts::KernelOp kernel) {
  if (ts::updatedInput(kernel))
    return ts::elementCount(ts::scatterOf(kernel)->getOperand(2).getType());
  Dim count = Dim::constant(kernel.getContext(), 0);
  for (Value result : kernel.getResults())
    count = count + ts::elementCount(result.getType());
  return count;
}

/// The grid, none where nothing is written: some schedules count what they
/// read.
static Dim gridOf(Dim grid, Dim written) {
  if (written.asConstant())
    return written.isConstant(0) ? written : grid;
  llvm::SetVector<StringAttr> symbols;
  written.collectSymbols(symbols);
  for (StringAttr absent : symbols) {
    auto without = [&](StringRef name) -> std::optional<int64_t> {
      constexpr int64_t any = 1000;
      return name == absent ? 0 : any;
    };
    if (written.evaluate(without) == 0 && grid.evaluate(without) != 0)
      return grid * written.min(written.like(1));
  }
  return grid;
}

std::unique_ptr<fb::ChoiceT>
ExecBuilder::vendorChoice(ts::KernelOp kernel, const UniqueKernel &unique,
                          const KernelUse &use, Dim written) {
  const VendorCandidate &from = *unique.vendor;
  auto value = [&](Dim dim) { return scalars.get(bind(dim, unique, use)); };
  auto inputs = kernel.getInputs();
  auto matrix = [&](const VendorOperand &operand) {
    auto made = std::make_unique<fb::VendorMatrixT>();
    made->arg = operand.argument;
    made->dtype = dtypeOf(ts::elementTypeOf(
        operand.argument < inputs.size()
            ? inputs[operand.argument]
            : Value(kernel->getResult(operand.argument - inputs.size()))));
    made->offset = value(operand.offset);
    made->row_stride = value(operand.rowStride);
    made->column_stride = value(operand.columnStride);
    for (Dim stride : operand.batchStrides)
      made->batch_strides.push_back(value(stride));
    return made;
  };
  auto matmul = std::make_unique<fb::VendorMatmulT>();
  for (Dim size : from.batch)
    matmul->batch.push_back(value(size));
  matmul->rows = value(from.rows);
  matmul->columns = value(from.columns);
  matmul->depth = value(from.depth);
  matmul->lhs = matrix(from.lhs);
  matmul->rhs = matrix(from.rhs);
  matmul->result = matrix(from.result);
  if (from.bias)
    matmul->bias = matrix(*from.bias);
  matmul->activation = static_cast<fb::VendorActivation>(from.activation);
  matmul->tf32 = from.tf32;
  auto choice = std::make_unique<fb::ChoiceT>();
  choice->guard = scalars.get(Guard());
  choice->kernel = result.vendorIndex[use.kernel];
  choice->grid = scalars.get(gridOf(zero + 1, written));
  choice->grain = scalars.get(zero + 1);
  choice->scratch = scalars.get(zero);
  for (Dim dim : use.bindings)
    choice->symbols.push_back(scalars.get(dim));
  choice->label = "vendor{" + std::string(name(from.library)) + "}";
  choice->matmul = std::move(matmul);
  return choice;
}

LogicalResult ExecBuilder::addLaunch(ts::KernelOp kernel) {
  const KernelUse &use = uses.find(kernel)->second;
  const UniqueKernel &unique = kernels.kernels[use.kernel];
  fb::LaunchT launch;
  std::optional<unsigned> updated = ts::updatedInput(kernel);
  if (updated) {
    // The kernel writes over what lies there, or over a copy of it.
    FailureOr<Place> from = placeOf(kernel.getInputs()[*updated]);
    if (failed(from))
      return failure();
    OpResult value = kernel->getResult(0);
    const Place &to = places[value] = placeOfResult(value);
    if (from->buffer != to.buffer || !(from->offset == to.offset))
      addCopy(*from, to, ts::byteCount(value.getType()));
  }
  std::optional<Place> state;
  if (int64_t bytes = unique.schedules.front().state) {
    state = addTemp(zero + bytes, kernel.getLoc());
    FailureOr<Place> zeros = placeOfZeros();
    if (failed(zeros))
      return failure();
    addCopy(*zeros, *state, zero + bytes);
  }
  ArrayRef<PackedOperand> packed = unique.schedules.front().packed;
  for (auto [i, input] : llvm::enumerate(kernel.getInputs())) {
    const PackedOperand *packing = llvm::find_if(
        packed, [&](const PackedOperand &p) { return p.operand == i; });
    FailureOr<Place> place = i == updated ? places[kernel->getResult(0)]
                             : packing != packed.end()
                                 ? placeOfConstant(input, *packing)
                                 : placeOf(input);
    if (failed(place))
      return failure();
    launch.args.push_back(refer(*place));
  }
  for (OpResult result : kernel->getResults()) {
    if (!updated)
      places[result] = placeOfResult(result);
    launch.args.push_back(referWritten(places[result]));
  }
  noteInPlace(kernel);
  Dim written = elementsWritten(kernel);
  if (state) {
    launch.args.push_back(refer(*state));
    referWritten(*state);
  }
  if (unique.vendor)
    launch.choices.push_back(vendorChoice(kernel, unique, use, written));
  for (auto [i, schedule] : llvm::enumerate(unique.schedules)) {
    auto choice = std::make_unique<fb::ChoiceT>();
    Guard guard = schedule.guard;
    for (Guard::Term &term : guard.terms) {
      term.lhs = bind(term.lhs, unique, use);
      term.rhs = bind(term.rhs, unique, use);
    }
    choice->guard = scalars.get(guard);
    choice->kernel = result.kernelIndex[use.kernel][i];
    choice->grid =
        scalars.get(gridOf(bind(schedule.grid, unique, use), written));
    choice->grain = scalars.get(bind(schedule.grain, unique, use));
    choice->scratch = scalars.get(bind(schedule.scratch, unique, use));
    for (Dim dim : use.bindings)
      choice->symbols.push_back(scalars.get(dim));
    choice->label = unique.label(i);
    for (const OperandMap &from : schedule.maps) {
      auto map = std::make_unique<fb::TmaDescriptorT>();
      map->arg = from.argument;
      auto inputs = kernel.getInputs();
      map->dtype = dtypeOf(ts::elementTypeOf(
          from.argument < inputs.size()
              ? inputs[from.argument]
              : Value(kernel->getResult(from.argument - inputs.size()))));
      map->offset = scalars.get(bind(from.offset, unique, use));
      for (Dim dim : from.sizes)
        map->sizes.push_back(scalars.get(bind(dim, unique, use)));
      for (Dim dim : from.strides)
        map->strides.push_back(scalars.get(bind(dim, unique, use)));
      for (int64_t size : from.box)
        map->box.push_back(static_cast<uint32_t>(size));
      map->swizzle = static_cast<uint32_t>(from.swizzle);
      map->tf32 = map->dtype == fb::DType::f32 &&
                  config::LaunchConfig::of(schedule.parameters).tf32;
      choice->maps.push_back(std::move(map));
    }
    launch.choices.push_back(std::move(choice));
  }
  launch.flops = scalars.get(fusion::kernelFlops(kernel));
  launch.bytes = scalars.get(fusion::kernelBytes(kernel));
  launch.origin = kernelOrigin(kernel);
  append(std::move(launch));
  return mlir::success();
}

std::unique_ptr<fb::CheckT> ExecBuilder::makeCheck(const Guard &guard,
                                                   std::string message,
                                                   Location location,
                                                   std::string hint) {
  auto check = std::make_unique<fb::CheckT>();
  check->value = scalars.get(guard);
  check->message = std::move(message);
  check->where = originText(location);
  check->hint = std::move(hint);
  return check;
}

/// The program's own checks are made when sizes are bound; those of a body when
/// it runs.
void ExecBuilder::addCheck(const Guard &guard, std::string message,
                           Location location, std::string hint) {
  if (inEntry) {
    program.checks.push_back(
        makeCheck(guard, std::move(message), location, std::move(hint)));
    return;
  }
  if (!asserted.insert(scalars.get(guard)).second && !isLate(guard))
    return;
  fb::AssertT instruction;
  instruction.check =
      makeCheck(guard, std::move(message), location, std::move(hint));
  append(std::move(instruction));
}

/// The checks of an op and those inside it (a fused cast still asserts): where
/// they depend on symbols set during the run, or where they do not.
void ExecBuilder::addChecks(Operation *root, bool late) {
  root->walk([&](Operation *op) {
    if (auto check = dyn_cast<ts::CheckOp>(op)) {
      Guard guard{{{check.getLhs(), check.getPredicate(), check.getRhs()}}};
      if (isLate(guard) == late)
        addCheck(guard, check.getMessage().str(), op->getLoc(),
                 "give inputs of other sizes");
      return;
    }
    auto cast = dyn_cast<ts::DimCastOp>(op);
    if (!cast)
      return;
    for (auto [from, to] :
         llvm::zip(ts::dimsOf(cast.getInput()), ts::dimsOf(cast.getResult()))) {
      Guard guard{{{from, ts::ComparePredicate::eq, to}}};
      if (!(from == to) && isLate(guard) == late)
        addCheck(guard,
                 "sizes " + from.str() + " and " + to.str() +
                     " must be equal for this model",
                 op->getLoc(), "pass inputs whose sizes agree");
    }
  });
}

LogicalResult ExecBuilder::addBind(ts::BindSizeOp op) {
  FailureOr<Place> place = placeOf(op.getValue());
  if (failed(place))
    return failure();
  fb::BindSymbolT instruction;
  instruction.source = std::make_unique<fb::BufferRef>(refer(*place));
  instruction.symbol = scalars.symbolIndex(op.getSymbol());
  append(std::move(instruction));
  return mlir::success();
}

LogicalResult ExecBuilder::addOps(func::FuncOp body) {
  memory::Liveness liveness(body);
  for (auto [value, under] : memory::inPlace(body, liveness))
    inPlace[value] = under;
  addChecks(body, /*late=*/false);
  for (Operation &op : body.getBody().front()) {
    if (!isa<func::ReturnOp>(op))
      addChecks(&op, /*late=*/true);
    LogicalResult added =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](ts::KernelOp kernel) { return addLaunch(kernel); })
            .Case([&](ts::BindSizeOp bind) { return addBind(bind); })
            .Case(
                [&](ts::ExternalOp external) { return addExternal(external); })
            .Case([&](ts::IfOp branch) { return addIf(branch); })
            .Case([&](ts::LoopOp loop) { return addLoop(loop); })
            .Default([](Operation *) { return mlir::success(); });
    if (failed(added))
      return failure();
  }
  return mlir::success();
}

LogicalResult ExecBuilder::addOutputs(func::ReturnOp op) {
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    Value root = memory::rootOf(value);
    if (auto it = wanted.find(root); it != wanted.end())
      if (const fb::BufferT &buffer = *program.buffers[it->second.buffer];
          buffer.index == i)
        continue; // what computed it wrote the output itself
    // An input, a constant, a part of something, or a value returned twice.
    FailureOr<Place> from = placeOf(value);
    if (failed(from))
      return failure();
    Dim bytes = ts::byteCount(value.getType());
    Place to{addBuffer(fb::BufferKind::output, i, bytes, ""), zero};
    addCopy(*from, to, bytes);
  }
  return mlir::success();
}

/// What is updated again and again on its way to an output is there from the
/// first time on.
void ExecBuilder::wantUpdated() {
  memory::Liveness liveness(function);
  for (Operation &op :
       llvm::reverse(function.getBody().front().without_terminator())) {
    auto kernel = dyn_cast<ts::KernelOp>(op);
    std::optional<unsigned> updated =
        kernel ? ts::updatedInput(kernel) : std::nullopt;
    auto to = updated ? wanted.find(kernel.getResult(0)) : wanted.end();
    if (to == wanted.end())
      continue;
    Value root = memory::rootOf(kernel.getInputs()[*updated]);
    auto before = root.getDefiningOp<ts::KernelOp>();
    if (!before || !ts::updatedInput(before) || wanted.contains(root) ||
        !(ts::byteCount(root.getType()) ==
          ts::byteCount(kernel.getResult(0).getType())))
      continue;
    const memory::LiveRange &range = liveness.ranges.find(root)->second;
    auto isRoot = [&](Value input) { return memory::rootOf(input) == root; };
    Place place = to->second;
    if (!range.returned && range.last == liveness.position.lookup(kernel) &&
        llvm::count_if(kernel.getInputs(), isRoot) == 1)
      wanted[root] = place;
  }
}

LogicalResult ExecBuilder::run() {
  for (func::FuncOp body : ts::withBodies(function))
    if (!body.getBody().hasOneBlock())
      return body.emitOpError("has control flow between blocks");
  uint32_t number = 0;
  for (const UniqueKernel &kernel : kernels.kernels) {
    result.kernelIndex.emplace_back();
    for (size_t i = 0; i < kernel.schedules.size(); ++i)
      result.kernelIndex.back().push_back(number++);
  }
  for (const UniqueKernel &kernel : kernels.kernels)
    result.vendorIndex.push_back(kernel.vendor ? number++ : 0);
  program.name = function.getName().str();
  declareSymbols();
  region = program.regions[addRegion()].get();
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    addSignature(argument, function.getArgAttr(i, "ts.name"), "input",
                 program.inputs);
    if (auto limit = function.getArgAttrOfType<IntegerAttr>(i, ts::kIndexLimit))
      program.inputs.back()->index_limit = limit.getInt();
    if (function.getArgAttr(i, ts::kDonated))
      program.donated.push_back(i);
    if (function.getArgAttr(i, ts::kComplex))
      program.complex_inputs.push_back(i);
    places[argument] = {addBuffer(fb::BufferKind::input, i,
                                  ts::byteCount(argument.getType()), ""),
                        zero};
  }
  auto ret = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    addSignature(value, function.getResultAttr(i, "ts.name"), "output",
                 program.outputs);
    if (function.getResultAttr(i, ts::kComplex))
      program.complex_outputs.push_back(i);
    Value root = memory::rootOf(value);
    if (wanted.contains(root) || !canWrite(value))
      continue;
    wanted[root] = {
        addBuffer(fb::BufferKind::output, i, ts::byteCount(root.getType()), ""),
        zero};
  }
  wantUpdated();
  if (failed(addOps(function)) || failed(addOutputs(ret)))
    return failure();
  for (auto &buffer : program.buffers)
    if (buffer->kind == fb::BufferKind::temp && buffer->first > buffer->last)
      buffer->first = buffer->last = 0; // nothing uses it
  program.in_place = memoryUses.pairs(program);
  return mlir::success();
}

FailureOr<ExecProgram>
buildExecProgram(func::FuncOp function, const KernelSet &kernels,
                 const DenseMap<Operation *, KernelUse> &uses) {
  ExecBuilder builder(function, kernels, uses);
  if (failed(builder.run()))
    return failure();
  return builder.take();
}

} // namespace knapper
