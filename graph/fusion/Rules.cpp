#include "graph/fusion/Rules.h"

#include "graph/fusion/Views.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/Heroes.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/ScaledDot.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

Verdict refuse(const llvm::Twine &reason) {
  return {std::nullopt, reason.str()};
}
Verdict admit(Hero hero) { return {hero, {}}; }

std::string nameOf(Operation *op) { return op->getName().stripDialect().str(); }

bool sameDims(Value a, Value b) { return dimsOf(a) == dimsOf(b); }

using Ops = llvm::SmallDenseSet<Operation *, 16>;

/// Ops of the set that depend on `root`, or that it depends on.
Ops dependents(const OpSet &set, Operation *root) {
  Ops found{root};
  for (Operation *op : set.ops)
    if (llvm::any_of(op->getOperands(), [&](Value operand) {
          return found.contains(operand.getDefiningOp());
        }))
      found.insert(op);
  found.erase(root);
  return found;
}
Ops ancestors(const OpSet &set, ValueRange roots) {
  Ops found;
  SmallVector<Value> work(roots);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (set.contains(op) && found.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
  return found;
}

bool isSideOp(Operation *op) {
  return isa<ElementwiseOpInterface, IotaOp, SizeOp, ConstantOp>(op) ||
         isReindex(op);
}

/// What follows a matmul: elementwise ops at its shape, then reshapes and
/// transposes; everything else in the set feeds these from the side.
/// `before`: ops that feed the hero, checked by the caller.
std::string checkEpilogue(const OpSet &set, Operation *hero,
                          const Ops &before) {
  Ops after = dependents(set, hero);
  llvm::SmallDenseSet<Value, 16> atShape;
  atShape.insert(hero->getResult(0));
  for (Operation *op : set.ops) {
    if (op == hero || before.contains(op))
      continue;
    if (!after.contains(op)) {
      if (!isSideOp(op))
        return "a side input of the epilogue may not come from " + nameOf(op);
      continue;
    }
    if (isa<ElementwiseOpInterface>(op)) {
      for (Value operand : op->getOperands())
        if (after.contains(operand.getDefiningOp()) &&
            !atShape.contains(operand))
          return nameOf(op) + " follows a change of shape of the " +
                 nameOf(hero) + "'s result";
      atShape.insert(op->getResult(0));
    } else if (isa<ReshapeOp, TransposeOp, DimCastOp>(op)) {
      if (isa<DimCastOp>(op) && sameDims(op->getOperand(0), op->getResult(0)))
        atShape.insert(op->getResult(0));
    } else {
      return "the epilogue of " + nameOf(hero) + " does not take " + nameOf(op);
    }
  }
  for (Value output : set.outputs)
    if (output.getDefiningOp() != hero &&
        !after.contains(output.getDefiningOp()))
      return "a side value of the " + nameOf(hero) + " is needed elsewhere";
  return {};
}

/// Schedules of matmuls read floats as they lie in memory; a matmul of
/// others is a loop nest, which converts as it reads. (A narrowing conversion
/// belongs to the kernel that makes the value.)
bool isReadConverted(Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  if (!convert)
    return true;
  Type to = elementTypeOf(convert.getResult());
  return (!isa<FloatType>(to) || to.isF64()) && !to.isInteger(8) &&
         elementBytes(to) >= elementBytes(elementTypeOf(convert.getInput()));
}

Verdict judgeMatmul(const OpSet &set, DotOp dot) {
  Ops before = ancestors(set, dot->getOperands());
  for (Operation *op : before)
    if (!isa<ReshapeOp, TransposeOp, SliceOp, ConvertOp, DimCastOp>(op) ||
        !isReadConverted(op))
      return refuse("operands of dot take views and widening conversions of "
                    "integers, not " +
                    nameOf(op));
  for (Value operand : dot->getOperands())
    if (!isStrided(operand, [&](Operation *op) { return set.contains(op); }))
      return refuse("an operand of dot would have no strides");
  std::string reason = checkEpilogue(set, dot, before);
  return reason.empty() ? admit(Hero::matmul) : refuse(reason);
}

Verdict judgeScaledDot(const OpSet &set, ScaledDotOp dot) {
  if (!ancestors(set, dot->getOperands().drop_front()).empty())
    return refuse("scaled_dot reads its weights as they are stored");
  Ops before = ancestors(set, dot.getInput());
  for (Operation *op : before)
    if (!isa<ReshapeOp, TransposeOp, SliceOp, DimCastOp>(op))
      return refuse("the input of scaled_dot takes views, not " + nameOf(op));
  if (!isStrided(dot.getInput(),
                 [&](Operation *op) { return set.contains(op); }))
    return refuse("the input of scaled_dot would have no strides");
  std::string reason = checkEpilogue(set, dot, before);
  return reason.empty() ? admit(Hero::matmul) : refuse(reason);
}

Verdict judgePackedDot(const OpSet &set, PackedDotOp dot) {
  if (!ancestors(set, dot->getOperands().drop_front()).empty())
    return refuse("packed_dot reads its weights as they are stored");
  // Rows of the input lie one behind the other.
  Ops before = ancestors(set, dot.getInput());
  for (Operation *op : before)
    if (!isa<ReshapeOp, DimCastOp>(op))
      return refuse("the input of packed_dot takes reshapes, not " +
                    nameOf(op));
  std::string reason = checkEpilogue(set, dot, before);
  return reason.empty() ? admit(Hero::matmul) : refuse(reason);
}

Verdict judgeGroupedMatmul(const OpSet &set, GroupedMatmulOp matmul) {
  if (set.contains(matmul.getEnds().getDefiningOp()))
    return refuse("grouped_matmul reads the ends of rows from memory");
  Ops before = ancestors(set, matmul->getOperands());
  for (Operation *op : before)
    if (!isReindex(op))
      return refuse("operands of grouped_matmul take views, not " + nameOf(op));
  for (Value operand : matmul->getOperands().take_front(2))
    if (!isStrided(operand, [&](Operation *op) { return set.contains(op); }))
      return refuse("an operand of grouped_matmul would have no strides");
  std::string reason = checkEpilogue(set, matmul, before);
  return reason.empty() ? admit(Hero::matmul) : refuse(reason);
}

/// The border of a convolution of bytes, which programs fill in as they copy
/// the rows around it.
bool isByteBorder(PadOp pad, Operation *conv) {
  return isa<ConvOp>(conv) && pad.getResult() == conv->getOperand(0) &&
         elementTypeOf(pad).isUnsignedInteger(8) && pad.getValue();
}

Verdict judgeWindow(const OpSet &set, Operation *op, Hero hero) {
  Ops before = ancestors(set, op->getOperands());
  auto pad = op->getOperand(0).getDefiningOp<PadOp>();
  for (Operation *each : before)
    if (!pad || !isByteBorder(pad, op) ||
        (each != pad &&
         !(isa<ConstantOp>(each) && each->getResult(0) == pad.getValue())))
      return refuse(nameOf(op) + " reads its operands as they lie in memory");
  // Neighbours of such a copy come from different programs, elements of one
  // from far apart: a kernel that moves blocks makes it.
  if (isa<ConvOp>(op) && set.outputs.size() > 1)
    for (Value output : set.outputs)
      if (auto transpose = output.getDefiningOp<TransposeOp>();
          transpose && movesInnermost(transpose))
        return refuse("a transposed copy beside the result of " + nameOf(op) +
                      " would be stored element by element");
  std::string reason = checkEpilogue(set, op, before);
  return reason.empty() ? admit(hero) : refuse(reason);
}

bool isWideningOfHalf(Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  if (!convert || !elementTypeOf(convert.getResult()).isF32())
    return false;
  Type from = elementTypeOf(convert.getInput());
  return from.isF16() || from.isBF16();
}

Verdict judgeAttention(const OpSet &set, AttentionOp attention) {
  auto inSet = [&](Operation *op) { return set.contains(op); };
  Ops known{attention.getOperation()};
  // Where the target reads what was widened (codegen/schedule/attention/
  // GpuWidenedAttention.h).
  bool widens = attention->hasAttr("ts.reads_widened");
  // A chain of reindexing that stays strided; ends at the base.
  auto follow = [&](Value value) -> std::optional<Value> {
    auto through = [&](Operation *op) {
      return inSet(op) && (isReindex(op) || (widens && isa<ConvertOp>(op)));
    };
    if (!isStrided(value, through))
      return std::nullopt;
    for (Operation *op = value.getDefiningOp(); op && through(op);
         op = value.getDefiningOp()) {
      known.insert(op);
      value = op->getOperand(0);
    }
    return value;
  };
  for (Value operand : attention->getOperands().take_front(3)) {
    std::optional<Value> base = follow(operand);
    if (!base)
      return refuse("an operand of attention would have no strides");
    auto rope = base->getDefiningOp<RopeOp>();
    if (!rope || !inSet(rope))
      continue;
    known.insert(rope);
    for (Value source : rope->getOperands())
      if (!follow(source))
        return refuse("the operand of rope would have no strides");
  }
  for (Operation *op : ancestors(set, attention->getOperands().take_front(3)))
    if (!known.contains(op) || (isa<ConvertOp>(op) && !isWideningOfHalf(op)))
      return refuse("query, key and value take views and rope, not " +
                    nameOf(op));
  if (attention.getMask())
    for (Operation *op : ancestors(set, attention.getMask())) {
      if (!isSideOp(op))
        return refuse("the mask of attention takes elementwise ops and views, "
                      "not " +
                      nameOf(op));
      known.insert(op);
    }
  Ops after = dependents(set, attention);
  for (Operation *op : after) {
    if (!isa<ReshapeOp, TransposeOp, DimCastOp>(op))
      return refuse("attention is followed by views, not " + nameOf(op));
    for (Value operand : op->getOperands())
      if (operand.getDefiningOp() != attention &&
          !after.contains(operand.getDefiningOp()))
        return refuse("attention takes no side input");
    known.insert(op);
  }
  for (Operation *op : set.ops)
    if (!known.contains(op))
      return refuse(nameOf(op) + " is no part of the attention");
  if (set.outputs.size() != 1)
    return refuse("an operand of the attention is needed elsewhere");
  if (set.outputs[0].getDefiningOp() != attention &&
      !after.contains(set.outputs[0].getDefiningOp()))
    return refuse("an operand of the attention is needed elsewhere");
  if (!placesIn(set.outputs[0], attention.getResult()))
    return refuse("the result of attention would have no strides");
  return admit(Hero::attention);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The rows that a reduction works on.
struct RowSpace {
  SmallVector<Dim> shape;
  SmallVector<int64_t> reduced; ///< sorted
  bool operator==(const RowSpace &other) const {
    return shape == other.shape && reduced == other.reduced;
  }
};

RowSpace rowSpaceOf(Operation *op) {
  Value input = op->getOperand(0);
  RowSpace space{dimsOf(input), {}};
  if (auto reduce = dyn_cast<ReduceOp>(op))
    llvm::append_range(space.reduced, reduce.getDims());
  else if (auto arg = dyn_cast<ArgReduceOp>(op))
    space.reduced.push_back(arg.getDim());
  else if (auto softmax = dyn_cast<SoftmaxOp>(op))
    space.reduced.push_back(softmax.getDim());
  else
    for (int64_t i = cast<LayerNormOp>(op).getDim(); i < rankOf(input); ++i)
      space.reduced.push_back(i);
  return space;
}

/// For a value that depends on a reduction: the dim of the row space that each
/// of its dims is, -1 for dims of size 1 that were added.
using Tags = SmallVector<int64_t>;

class RowTracker {
public:
  explicit RowTracker(const RowSpace &space) : space(space) {
    for (int64_t i = 0; i < static_cast<int64_t>(space.shape.size()); ++i) {
      whole.push_back(i);
      if (!llvm::is_contained(space.reduced, i)) {
        row.push_back(i);
        rowShape.push_back(space.shape[i]);
      }
    }
  }

  std::string visit(Operation *op) {
    SmallVector<Value> dependent;
    for (Value operand : op->getOperands())
      if (tags.contains(operand))
        dependent.push_back(operand);
    if (std::optional<Hero> hero = heroOf(op)) {
      if (!(rowSpaceOf(op) == space))
        return nameOf(op) + " works on other rows";
      for (Value operand : op->getOperands())
        if (tags.contains(operand) &&
            (operand != op->getOperand(0) || tags[operand] != whole))
          return nameOf(op) + " reads another row's result";
      tags[op->getResult(0)] = isa<ReduceOp, ArgReduceOp>(op) ? row : whole;
      return {};
    }
    if (!isPullable(op))
      return nameOf(op) + " cannot be pulled";
    if (dependent.empty())
      return {};
    Tags own;
    if (isa<ElementwiseOpInterface, DimCastOp>(op)) {
      own = tags[dependent.front()];
      for (Value operand : dependent)
        if (!merge(own, tags[operand]))
          return nameOf(op) + " mixes rows";
    } else if (isa<ReshapeOp>(op)) {
      if (!reshape(op, own))
        return "a reshape regroups rows after the reduction";
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      if (!expand(broadcast, own))
        return "a broadcast after the reduction does not lead back to its rows";
    } else {
      return nameOf(op) + " moves rows after the reduction";
    }
    tags[op->getResult(0)] = own;
    return {};
  }

  bool isWhole(Value value) const {
    auto it = tags.find(value);
    return dimsOf(value) == space.shape &&
           (it == tags.end() || it->second == whole);
  }
  bool isRow(Value value) const {
    auto it = tags.find(value);
    return dimsOf(value) == rowShape && (it == tags.end() || it->second == row);
  }

private:
  static bool merge(Tags &into, ArrayRef<int64_t> other) {
    for (auto [a, b] : llvm::zip_equal(into, other)) {
      if (a >= 0 && b >= 0 && a != b)
        return false;
      a = std::max(a, b);
    }
    return true;
  }

  /// Dims of size 1 come and go, the others stay.
  bool reshape(Operation *op, Tags &own) {
    SmallVector<Dim> from = dimsOf(op->getOperand(0)),
                     to = dimsOf(op->getResult(0));
    Tags old = tags[op->getOperand(0)];
    size_t i = 0;
    for (Dim dim : to) {
      if (dim.isConstant(1)) {
        own.push_back(-1);
        continue;
      }
      while (i < from.size() && from[i].isConstant(1))
        ++i;
      if (i == from.size() || !(from[i] == dim))
        return false;
      own.push_back(old[i++]);
    }
    // Equal shapes keep even the dims of size 1.
    if (from == to)
      own = old;
    else if (to == space.shape)
      restoreUnits(own, whole);
    else if (to == rowShape)
      restoreUnits(own, row);
    return true;
  }
  static void restoreUnits(Tags &own, ArrayRef<int64_t> expected) {
    for (auto [tag, wanted] : llvm::zip_equal(own, expected))
      if (tag < 0)
        tag = wanted;
  }

  bool expand(BroadcastOp broadcast, Tags &own) {
    SmallVector<Dim> from = dimsOf(broadcast.getInput()),
                     to = dimsOf(broadcast.getResult());
    ArrayRef<int64_t> old = tags[broadcast.getInput()];
    bool toWhole = to == space.shape;
    own.assign(to.size(), -1);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
      if (from[i] == to[dim])
        own[dim] = old[i];
    if (!toWhole) // new dims of size 1 only
      return llvm::all_of(llvm::enumerate(to), [&](auto entry) {
        return own[entry.index()] >= 0 || entry.value().isConstant(1);
      });
    for (auto [i, tag] : llvm::enumerate(own)) {
      bool unit = to[i].isConstant(1);
      if (tag >= 0 && tag != static_cast<int64_t>(i) && !unit)
        return false;
      if (tag < 0 && !unit &&
          !llvm::is_contained(space.reduced, static_cast<int64_t>(i)))
        return false; // one row's value for other rows
      tag = i;
    }
    return true;
  }

  const RowSpace &space;
  Tags whole, row;
  SmallVector<Dim> rowShape;
  llvm::SmallDenseMap<Value, Tags, 16> tags;
};

Verdict judgeReduce(const OpSet &set, Operation *first) {
  RowSpace space = rowSpaceOf(first);
  RowTracker tracker(space);
  for (Operation *op : set.ops) {
    std::string reason = tracker.visit(op);
    if (!reason.empty())
      return refuse(reason);
  }
  for (Value output : set.outputs)
    if (!tracker.isWhole(output) && !tracker.isRow(output))
      return refuse("a result of " + nameOf(output.getDefiningOp()) +
                    " has neither the rows' shape nor the reduced one");
  return admit(Hero::reduce);
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

Verdict judgePointwise(const OpSet &set) {
  for (Operation *op : set.ops)
    if (!isPullable(op))
      return refuse(nameOf(op) + " cannot be pulled");
  for (Value output : set.outputs)
    if (!sameDims(output, set.outputs[0]))
      return refuse("results have different shapes: " +
                    shapeText(set.outputs[0].getType()) + " and " +
                    shapeText(output.getType()));
  for (Operation *op : set.ops)
    if (isa<GatherOp>(op))
      return admit(Hero::gather);
  for (Operation *op : set.ops)
    if (auto transpose = dyn_cast<TransposeOp>(op))
      if (movesInnermost(transpose))
        return admit(Hero::transpose);
  return admit(Hero::pointwise);
}

/// What gives indices and updates is computed where it is needed; what is
/// updated lies in memory, and so does the result.
Verdict judgeScatter(const OpSet &set, Operation *scatter) {
  if (set.ops.size() == 1)
    return admit(Hero::scatter);
  Value updated = scatter->getOperand(0);
  if (set.contains(updated.getDefiningOp()))
    return refuse("what " + nameOf(scatter) + " updates lies in memory");
  if (set.outputs.size() != 1 || set.outputs[0] != scatter->getResult(0))
    return refuse("a kernel with " + nameOf(scatter) +
                  " gives its result alone");
  Ops before = ancestors(set, scatter->getOperands().drop_front());
  for (Operation *op : set.ops) {
    if (op == scatter)
      continue;
    if (!before.contains(op) || !isPullable(op))
      return refuse(nameOf(op) + " is no part of indices or updates");
    if (llvm::is_contained(op->getOperands(), updated))
      return refuse("what is updated is read by " + nameOf(op));
  }
  return admit(Hero::scatter);
}

} // namespace

std::optional<Hero> fusion::heroOf(Operation *op) {
  if (auto hero = dyn_cast<KernelHeroOpInterface>(op))
    return hero.hero();
  return std::nullopt;
}

bool fusion::isPullable(Operation *op) {
  return isa<ElementwiseOpInterface, PadOp, ConcatOp, GatherOp,
             GatherElementsOp, GatherNdOp, IotaOp, SizeOp, ConstantOp, RopeOp>(
             op) ||
         isReindex(op);
}

static Verdict judgeAlone(const OpSet &set, Operation *hero) {
  if (set.ops.size() > 1)
    return refuse(nameOf(hero) + " runs alone");
  return admit(*heroOf(hero));
}

static Verdict judgeKind(const OpSet &set) {
  SmallVector<Operation *> heroes;
  for (Operation *op : set.ops)
    if (heroOf(op))
      heroes.push_back(op);
  if (heroes.empty())
    return judgePointwise(set);
  Operation *first = heroes.front();
  for (Operation *op : llvm::drop_begin(heroes))
    if (heroOf(op) != Hero::reduce || heroOf(first) != Hero::reduce)
      return refuse("a kernel holds one of " + nameOf(first) + " and " +
                    nameOf(op));
  switch (*heroOf(first)) {
  case Hero::matmul:
    if (auto packed = dyn_cast<PackedDotOp>(first))
      return judgePackedDot(set, packed);
    if (auto scaled = dyn_cast<ScaledDotOp>(first))
      return judgeScaledDot(set, scaled);
    if (auto grouped = dyn_cast<GroupedMatmulOp>(first))
      return judgeGroupedMatmul(set, grouped);
    return judgeMatmul(set, cast<DotOp>(first));
  case Hero::conv:
    return judgeWindow(set, first, Hero::conv);
  case Hero::pool:
    return judgeWindow(set, first, Hero::pool);
  case Hero::attention:
    if (auto attention = dyn_cast<AttentionOp>(first))
      return judgeAttention(set, attention);
    return judgeAlone(set, first);
  case Hero::reduce:
    return judgeReduce(set, first);
  case Hero::scatter:
    return judgeScatter(set, first);
  default:
    return judgeAlone(set, first);
  }
}

/// Ops that pulling emits: once for each way of reading that differs.
static int64_t emittedOps(const OpSet &set) {
  struct Count {
    int64_t together = 0, apart = 0;
  };
  llvm::SmallDenseMap<Value, Count, 32> counts;
  for (Value output : set.outputs)
    counts[output].together = 1;
  int64_t total = 0;
  for (Operation *op : llvm::reverse(set.ops)) {
    int64_t instances = 0;
    for (Value result : op->getResults()) {
      const Count &count = counts[result];
      instances = std::max(instances, count.together + count.apart);
    }
    auto hero = dyn_cast<KernelHeroOpInterface>(op);
    if (hero)
      instances = std::max<int64_t>(hero.rowPasses(), 1);
    total = std::min<int64_t>(total + instances, 1 << 20);
    for (Value operand : op->getOperands()) {
      Count &count = counts[operand];
      if (isa<ElementwiseOpInterface, DimCastOp>(op))
        count.together = std::max(count.together, instances);
      else
        count.apart = std::min<int64_t>(count.apart + instances, 1 << 20);
    }
  }
  return total;
}

/// Wider concats are left to schedules that choose tiles by its boundaries.
constexpr size_t mostConcatOperands = 24;

Verdict fusion::judge(const OpSet &set) {
  Verdict verdict = judgeKind(set);
  if (verdict.hero && *verdict.hero != Hero::pointwise)
    for (Operation *op : set.ops)
      if (auto concat = dyn_cast<ConcatOp>(op);
          concat && concat.getInputs().size() > mostConcatOperands)
        return refuse("a concat of " + llvm::Twine(concat.getInputs().size()) +
                      " tensors is read by pointwise kernels only");
  // One op alone is always a kernel.
  if (verdict.hero && set.ops.size() > 1)
    if (int64_t emitted = emittedOps(set); emitted > maxEmittedOps)
      return refuse("the kernel's code would grow to " + llvm::Twine(emitted) +
                    " operations");
  return verdict;
}
