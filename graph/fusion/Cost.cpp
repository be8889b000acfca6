#include "graph/fusion/Cost.h"

#include "ir/tensor/Heroes.h"
#include "ir/tensor/ScaledDot.h"
#include "ir/tensor/Update.h"

#include "graph/fusion/Views.h"
#include <numeric>

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

/// Operations of the matmuls in a dot, conv or attention: twice the
/// multiply-adds.
Dim matmulOperations(Operation *op) {
  auto hero = dyn_cast<KernelHeroOpInterface>(op);
  return hero ? hero.matmulFlops() : Dim::constant(op->getContext(), 0);
}

/// An element that is loaded by itself, as operations: a CPU's figure, taken
/// for GPUs too.
constexpr int64_t scatteredLoad = 8;

/// An element that a CPU stores by itself, a multiple of `setStride` bytes from
/// the one before: where more lines share sets of the first-level cache than
/// the sets have ways, a line is lost before its next element comes. As
/// operations: 1.5 to 9.5 ns a store on a Zen 5.
constexpr int64_t conflictingStore = 350;
constexpr int64_t setStride = 1024;
/// Bytes that go once through all sets, and lines that a set holds: 64 sets of
/// 8 to 12 ways in x86 cores.
constexpr int64_t allSets = 4096;
constexpr int64_t ways = 8;

/// Operations a result element costs; an estimate for composites.
int64_t elementOperations(Operation *op) {
  if (auto elementwise = dyn_cast<ElementwiseOpInterface>(op))
    return elementwise.elementFlops();
  if (auto hero = dyn_cast<KernelHeroOpInterface>(op))
    return hero.resultFlops();
  return TypeSwitch<Operation *, int64_t>(op)
      .Case<RopeOp>([](auto) { return 3; })
      // Elements that do not lie side by side are loaded one by one.
      .Case<TransposeOp>(
          [](TransposeOp op) { return movesInnermost(op) ? scatteredLoad : 0; })
      .Case<SliceOp>([](SliceOp op) {
        ArrayRef<int64_t> steps = op.getSteps();
        return !steps.empty() && steps.back() != 1 ? scatteredLoad : 0;
      })
      .Case<GatherElementsOp, GatherNdOp>([](auto) { return scatteredLoad; })
      .Default([](auto) { return 0; });
}

} // namespace

OpSet::OpSet(ArrayRef<Operation *> all) : ops(all) {
  members.insert(ops.begin(), ops.end());
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!contains(operand.getDefiningOp()))
        inputs.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !contains(user); }))
        outputs.insert(result);
  }
}

SizeBinding fusion::representativeSizes(func::FuncOp function) {
  llvm::SmallSetVector<StringAttr, 4> leading;
  for (Type type : function.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (tensor.getRank() >= 2)
        if (std::optional<StringRef> name = dimsOf(tensor)[0].asSymbol())
          leading.insert(StringAttr::get(function.getContext(), *name));

  SizeBinding sizes;
  SmallVector<SymbolAttr> declared;
  auto module = function->getParentOfType<ModuleOp>();
  if (auto symbols =
          module ? module->getAttrOfType<ArrayAttr>("ts.symbols") : ArrayAttr())
    llvm::append_range(declared, symbols.getAsRange<SymbolAttr>());
  // Symbols without a declaration (hand-written IR) count as free ones.
  SetVector<StringAttr> used;
  auto collect = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (Dim dim : dimsOf(type))
        if (dim.isSymbolic())
          dim.collectSymbols(used);
  };
  llvm::for_each(function.getArgumentTypes(), collect);
  function.walk(
      [&](Operation *op) { llvm::for_each(op->getResultTypes(), collect); });
  for (StringAttr name : used) {
    SymbolAttr symbol = SymbolAttr::get(function.getContext(), name, 0, -1, 1);
    for (SymbolAttr candidate : declared)
      if (candidate.getName() == name)
        symbol = candidate;
    int64_t value = leading.contains(name) ? 4 : 128;
    value = std::max(value, symbol.getMin());
    int64_t divisor = std::max<int64_t>(symbol.getDivisor(), 1);
    value = (value + divisor - 1) / divisor * divisor;
    if (symbol.getMax() >= 0)
      value = std::min(value, symbol.getMax());
    sizes[name.getValue()] = value;
  }
  return sizes;
}

double CostModel::value(Dim dim) {
  std::optional<int64_t> number =
      dim.evaluate([&](StringRef name) -> std::optional<int64_t> {
        auto it = sizes.find(name);
        return it == sizes.end() ? 128 : it->second;
      });
  return number ? static_cast<double>(std::max<int64_t>(*number, 0)) : 1;
}

double CostModel::elements(Type type) {
  auto [it, inserted] = counts.try_emplace(type, 0);
  if (inserted) {
    double count = 1;
    for (Dim dim : dimsOf(type))
      count *= value(dim);
    counts[type] = count;
    return count;
  }
  return it->second;
}

double CostModel::bytes(Type type) {
  return elements(type) *
         elementBytes(cast<RankedTensorType>(type).getElementType());
}

namespace {

/// How often the elements of a value are needed, summed over all of them.
/// `together`: by uses at the index at which the value is defined, which share
/// one evaluation; `apart`: by all other uses.
struct Need {
  double together = 0, apart = 0;
  double sum() const { return together + apart; }
  void share(double count) { together = std::max(together, count); }
};

struct Needs {
  Need evaluated; ///< computations
  Need fetched;   ///< reads, those of one row in several passes once
  Need distinct;  ///< different elements
  Need scattered; ///< of `evaluated`, those whose lanes do not lie side by side
};

/// Goes from the results back to the inputs, an operation at a time.
class NeedWalk {
public:
  NeedWalk(CostModel &model, const OpSet &set) : model(model) {
    for (Value output : set.outputs) {
      double all = model.elements(output.getType());
      needs[output] = {{all, 0}, {all, 0}, {all, 0}, {}};
    }
  }

  /// Adds what `op` computes to `cost`, and to the needs of its operands.
  void visit(Operation *op, Cost &cost);

  llvm::SmallDenseMap<Value, Needs, 32> needs;

private:
  /// An operand of which `factor` elements are needed an element of the result.
  void read(Value operand, double factor) {
    Needs &need = needs[operand];
    need.evaluated.apart += evaluated * factor;
    need.fetched.apart += fetched * factor;
    need.distinct.apart += distinct * std::min(factor, 1.0);
    need.scattered.apart += scattered * factor;
  }
  /// One of which runs of the result share an element each, `factor` an
  /// element: a scalar takes an instruction, as a register of elements does.
  void readShared(Value operand, double factor) {
    // Of f32 in the widest registers. The Machine does not say how many there
    // are: narrower ones, and threads of GPUs, are charged more than they pay.
    constexpr double lanes = 16;
    read(operand, factor);
    needs[operand].evaluated.apart +=
        evaluated * (std::max(factor, std::min(factor * lanes, 1.0)) - factor);
  }
  void readAll(Value operand, double times) {
    double all = model.elements(operand.getType());
    Needs &need = needs[operand];
    need.evaluated.apart += all * times;
    need.fetched.apart += all * times;
    need.distinct.apart += all;
  }
  /// A pass over rows: reductions of one kernel meet each row together.
  void readRows(Value operand, double passes) {
    double all = model.elements(operand.getType());
    Needs &need = needs[operand];
    need.evaluated.apart += all * passes;
    need.fetched.share(all);
    need.distinct.share(all);
  }
  double perElement(Value operand) {
    return model.elements(operand.getType()) / std::max(own, 1.0);
  }
  void shareOperands(Operation *op);
  void readBroadcast(BroadcastOp broadcast);
  void readHero(KernelHeroOpInterface hero, Cost &cost);
  void readOperands(Operation *op);

  CostModel &model;
  // Of the operation's results:
  double evaluated = 0, fetched = 0, distinct = 0, scattered = 0, own = 0;
};

} // namespace

/// An elementwise op needs its operands where it is needed itself.
void NeedWalk::shareOperands(Operation *op) {
  for (Value operand : op->getOperands()) {
    Needs &need = needs[operand];
    need.evaluated.share(evaluated);
    need.fetched.share(fetched);
    need.distinct.share(distinct);
    need.scattered.share(scattered);
  }
}

/// Trailing new dims are inside the loop over which the operand is constant:
/// it is loaded once for all of them.
void NeedWalk::readBroadcast(BroadcastOp broadcast) {
  SmallVector<Dim> from = dimsOf(broadcast.getInput()),
                   to = dimsOf(broadcast.getResult());
  ArrayRef<int64_t> dims = broadcast.getDims();
  double inner = 1;
  for (size_t i = to.size(); i-- > 0;) {
    const auto *it = llvm::find(dims, static_cast<int64_t>(i));
    if (it != dims.end() && from[it - dims.begin()] == to[i] &&
        !to[i].isConstant(1))
      break;
    inner *= std::max(model.value(to[i]), 1.0);
  }
  readShared(broadcast.getInput(), 1 / inner);
  Need &different = needs[broadcast.getInput()].distinct;
  different.apart =
      std::min(different.apart, model.elements(broadcast.getInput().getType()));
}

void NeedWalk::readHero(KernelHeroOpInterface hero, Cost &cost) {
  cost.otherFlops +=
      model.value(hero.otherFlops()) + model.value(hero.hiddenFlops());
  if (int64_t passes = hero.rowPasses()) {
    readRows(hero->getOperand(0), passes);
    for (Value operand : hero->getOperands().drop_front())
      read(operand, 1);
    return;
  }
  for (auto [i, operand] : llvm::enumerate(hero->getOperands())) {
    std::optional<Dim> count = hero.elementsRead(i);
    readAll(operand, count
                         ? model.value(*count) /
                               std::max(model.elements(operand.getType()), 1.0)
                         : 1);
  }
}

void NeedWalk::readOperands(Operation *op) {
  auto pad = dyn_cast<PadOp>(op);
  // A border that repeats elements computes them again.
  if (pad && pad.getMode() != PadMode::constant) {
    read(pad.getInput(), 1);
  } else if (isa<ConcatOp, PadOp>(op)) {
    for (Value operand : op->getOperands())
      read(operand, std::min(1.0, perElement(operand)));
  } else if (isa<GatherOp, GatherNdOp>(op)) {
    auto gather = dyn_cast<GatherOp>(op);
    if (gather &&
        static_cast<int64_t>(gather.getDim()) == rankOf(gather.getInput()) - 1)
      scattered = evaluated;
    read(op->getOperand(0), 1);
    scattered = 0; // indices lie side by side
    readShared(op->getOperand(1), perElement(op->getOperand(1)));
  } else if (isa<RopeOp>(op)) {
    read(op->getOperand(0), 2);
    read(op->getOperand(1), 1);
    read(op->getOperand(2), 1);
  } else {
    for (Value operand : op->getOperands())
      read(operand, 1);
  }
}

void NeedWalk::visit(Operation *op, Cost &cost) {
  evaluated = fetched = distinct = scattered = 0;
  for (Value result : op->getResults()) {
    const Needs &need = needs[result];
    evaluated = std::max(evaluated, need.evaluated.sum());
    fetched = std::max(fetched, need.fetched.sum());
    distinct = std::max(distinct, need.distinct.sum());
    scattered = std::max(scattered, need.scattered.sum());
  }
  own = op->getNumResults() ? model.elements(op->getResult(0).getType()) : 0;
  // The kernel computes it once an element, whatever reads it.
  auto hero = dyn_cast<KernelHeroOpInterface>(op);
  if (hero) {
    evaluated = fetched = own;
    scattered = 0;
  }
  distinct = std::min(distinct, own);
  cost.matmulFlops += model.value(matmulOperations(op));
  cost.otherFlops += evaluated * elementOperations(op);
  if (isa<ElementwiseOpInterface, DimCastOp>(op))
    shareOperands(op);
  else if (auto broadcast = dyn_cast<BroadcastOp>(op))
    readBroadcast(broadcast);
  else if (hero)
    readHero(hero, cost);
  else
    readOperands(op);
}

/// Whether neighbours along the innermost dim of what is transposed are stored
/// so far apart that they push each other out of the cache. Only sizes that are
/// known say so.
static bool storesConflict(TransposeOp transpose) {
  if (!movesInnermost(transpose))
    return false;
  SmallVector<Dim> from = dimsOf(transpose.getInput()),
                   to = dimsOf(transpose.getResult());
  int64_t inner = from.size() - 1;
  while (inner > 0 && from[inner].isConstant(1))
    --inner;
  Dim apart = Dim::constant(transpose.getContext(),
                            elementBytes(elementTypeOf(transpose.getResult())));
  for (size_t i = to.size(); transpose.getPermutation()[--i] != inner;)
    apart = apart * to[i];
  std::optional<int64_t> bytes = apart.asConstant(),
                         neighbours = from[inner].asConstant();
  return bytes && neighbours && *bytes % setStride == 0 &&
         *neighbours > ways * (allSets / std::gcd(*bytes, allSets));
}

/// What a hero's kernel spends on storing transposed results. Kernels that only
/// move elements do so in blocks.
static double operationsOfStores(CostModel &model, const OpSet &set) {
  double operations = 0;
  llvm::SmallDenseSet<Operation *, 16> after;
  for (Operation *op : set.ops) {
    bool follows = llvm::any_of(op->getOperands(), [&](Value operand) {
      return after.contains(operand.getDefiningOp());
    });
    if (!follows && !isa<KernelHeroOpInterface>(op))
      continue;
    after.insert(op);
    if (auto transpose = dyn_cast<TransposeOp>(op);
        transpose && storesConflict(transpose))
      operations +=
          conflictingStore * model.elements(transpose.getResult().getType());
  }
  return operations;
}

Cost CostModel::cost(const OpSet &set) {
  NeedWalk walk(*this, set);
  Cost cost;
  for (Operation *op : llvm::reverse(set.ops))
    walk.visit(op, cost);
  // Other threads of a GPU run meanwhile.
  if (machine.readSeconds == 0)
    cost.otherFlops += operationsOfStores(*this, set);

  // Each tensor moves at the rate of where it fits: what a kernel adds to its
  // traffic never makes the rest slower.
  double memory = 0;
  auto move = [&](double bytes) {
    memory += bytes / (bytes <= machine.keptBytes ? machine.cacheBandwidth
                                                  : machine.copyBandwidth);
  };
  for (Value output : set.outputs) {
    double size = bytes(output.getType());
    cost.bytesWritten += size;
    move(size);
  }
  for (Value input : set.inputs) {
    double size = elementBytes(elementTypeOf(input));
    const Needs &need = walk.needs[input];
    cost.otherFlops += need.scattered.sum() * scatteredLoad;
    double distinct =
        std::min(need.distinct.sum(), elements(input.getType())) * size;
    // What is read again comes from cache when it fits there.
    double read = distinct <= machine.keptBytes
                      ? distinct
                      : std::max(distinct, need.fetched.sum() * size);
    cost.bytesRead += read;
    move(read);
  }
  double arithmetic = cost.matmulFlops / machine.fmaFlops +
                      cost.otherFlops / (machine.fmaFlops / 2);
  cost.seconds = std::max(arithmetic, memory) + machine.launchSeconds;
  return cost;
}

Cost CostModel::cost(KernelOp kernel) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front().without_terminator())
    ops.push_back(&op);
  return cost(OpSet(ops));
}

Dim fusion::kernelFlops(KernelOp kernel) {
  Dim flops = Dim::constant(kernel.getContext(), 0);
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    flops = flops + matmulOperations(&op);
    if (auto hero = dyn_cast<KernelHeroOpInterface>(op))
      flops = flops + hero.otherFlops();
    if (int64_t each = elementOperations(&op))
      flops = flops + elementCount(op.getResult(0).getType()) * each;
  }
  return flops;
}

/// What a kernel reads of one input: what slices and gathers take, if nothing
/// else uses it, else all of it.
static Dim bytesOfInput(BlockArgument input) {
  Dim taken = Dim::constant(input.getContext(), 0);
  for (Operation *user : input.getUsers())
    if (isa<ScaledDotOp>(user) && elementTypeOf(input).isInteger(4)) {
      Dim count = elementCount(input.getType());
      return count.ceilDiv(count.like(2));
    }
  for (OpOperand &use : input.getUses()) {
    if (!isa<SliceOp, GatherOp, GatherNdOp>(use.getOwner()) ||
        use.getOperandNumber() != 0)
      return byteCount(input.getType());
    taken = taken + byteCount(use.getOwner()->getResult(0).getType());
  }
  return taken;
}

Dim fusion::kernelBytes(KernelOp kernel) {
  Dim bytes = Dim::constant(kernel.getContext(), 0);
  std::optional<unsigned> updated = updatedInput(kernel);
  for (BlockArgument input : kernel.getBody().getArguments())
    if (input.getArgNumber() != updated)
      bytes = bytes + bytesOfInput(input);
  if (updated)
    return bytes + byteCount(scatterOf(kernel)->getOperand(2).getType());
  for (Value result : kernel.getResults())
    bytes = bytes + byteCount(result.getType());
  return bytes;
}
