#include "graph/fusion/FormKernels.h"
#include "graph/fusion/Clusters.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/FusionPasses.h"
#include "graph/fusion/Prepare.h"
#include "graph/fusion/ReturnedTwice.h"
#include "graph/fusion/Rules.h"
#include "graph/fusion/StoreNarrow.h"
#include "graph/fusion/Views.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/ScaledDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace knapper::fusion {
#define GEN_PASS_DEF_FORMKERNELS
#include "graph/fusion/FusionPasses.h.inc"
} // namespace knapper::fusion

namespace {

using Id = Clusters::Id;

/// May the op be part of a kernel?
bool isFusible(Operation *op) { return isPullable(op) || heroOf(op); }

std::string shortName(Operation *op) {
  return op->getName().stripDialect().str();
}

class Former {
public:
  Former(func::FuncOp function, const Machine &machine)
      : function(function), block(function.getBody().front()),
        model(machine, representativeSizes(function)) {}

  void run(FusionReport *report, bool remarks) {
    eraseDead();
    constants = prepare(function);
    collect();
    partition();
    uniteCopies();
    clusters->readEdges();
    if (report || remarks)
      describe(report, remarks);
    emit();
    uniteViews(block);
  }

private:
  struct Attempt {
    bool taken = false;
    std::string reason;
    double saved = 0, together = 0; ///< seconds
  };

  void eraseDead() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// Symbols that the ops of a body use.
  static void collectSymbolsIn(func::FuncOp body,
                               llvm::SetVector<StringAttr> &symbols) {
    for (func::FuncOp function : withBodies(body))
      function.walk([&](Operation *op) {
        for (Type type : op->getResultTypes())
          if (isa<RankedTensorType>(type))
            for (Dim dim : dimsOf(type))
              dim.collectSymbols(symbols);
        op->getAttrDictionary().walk([&](DimAttr dim) {
          Dim(dim).collectSymbols(symbols);
          return WalkResult::skip();
        });
      });
  }

  void collect() {
    SmallVector<Operation *> nodes;
    SmallVector<std::pair<Operation *, Operation *>> dependences;
    llvm::DenseMap<StringAttr, Operation *> binder;
    Operation *acted = nullptr;
    for (Operation &op : block.without_terminator()) {
      if (constants.contains(&op))
        continue;
      nodes.push_back(&op);
      // Ops whose types use a symbol come after the op that binds it.
      if (!binder.empty()) {
        llvm::SetVector<StringAttr> symbols;
        for (Value value :
             llvm::concat<Value>(SmallVector<Value>(op.getOperands()),
                                 SmallVector<Value>(op.getResults())))
          if (isa<RankedTensorType>(value.getType()))
            for (Dim dim : dimsOf(value))
              dim.collectSymbols(symbols);
        op.getAttrDictionary().walk([&](DimAttr dim) {
          Dim(dim).collectSymbols(symbols);
          return WalkResult::skip();
        });
        for (func::FuncOp body : bodiesOf(&op))
          if (body)
            collectSymbolsIn(body, symbols);
        for (StringAttr symbol : symbols)
          if (Operation *bind = binder.lookup(symbol))
            dependences.push_back({bind, &op});
      }
      for (StringAttr symbol : symbolsSetBy(&op))
        binder[symbol] = &op;
      if (keepsItsPlace(&op)) {
        if (acted)
          dependences.push_back({acted, &op});
        acted = &op;
      }
    }
    clusters.emplace(nodes, dependences);
  }

  //===--------------------------------------------------------------------===//
  // What a merge would give
  //===--------------------------------------------------------------------===//

  double seconds(const OpSet &set) {
    return llvm::all_of(set.ops, isView) ? 0 : model.cost(set).seconds;
  }
  double seconds(Id id) {
    auto [it, inserted] = secondsOf.try_emplace(id, 0);
    if (inserted) {
      double value = seconds(OpSet(clusters->ops(id)));
      secondsOf[id] = value;
      return value;
    }
    return it->second;
  }

  Attempt attempt(Id a, Id b) {
    SmallVector<Operation *> ops = clusters->ops(a, b);
    for (Operation *op : ops)
      if (!isFusible(op))
        return {false, shortName(op) + " is no part of a kernel"};
    OpSet set(ops);
    Attempt result;
    Verdict verdict = judge(set);
    if (!verdict.hero) {
      result.reason = std::move(verdict.reason);
      return result;
    }
    result.together = seconds(set);
    result.saved = seconds(a) + seconds(b) - result.together;
    if (!clusters->mayMerge(a, b)) {
      result.reason = "another kernel stands between them";
      return result;
    }
    if (result.saved < 0) {
      result.reason = llvm::formatv("the modelled time would rise by {0:f2} us",
                                    result.saved * -1e6)
                          .str();
      return result;
    }
    result.taken = true;
    return result;
  }

  /// Every op is emitted at least once, so the rules would refuse them.
  bool tooLarge(Id a, Id b) {
    return clusters->size(a) + clusters->size(b) > size_t(maxEmittedOps);
  }

  bool tryMerge(Id a, Id b) {
    // Two heroes that cannot share are most of all tries.
    std::optional<Hero> heroA = heroOfCluster(a), heroB = heroOfCluster(b);
    if (heroA && heroB && (heroA != Hero::reduce || heroB != Hero::reduce))
      return false;
    if (tooLarge(a, b))
      return false;
    // Clusters only grow, so (id, size) names one set of ops.
    auto key = std::make_pair(std::make_pair(a, clusters->size(a)),
                              std::make_pair(b, clusters->size(b)));
    if (refused.contains(key))
      return false;
    // Most pairs of a large block have another kernel between them, which is
    // found sooner than what both would cost.
    Attempt result;
    if (clusters->mayMerge(a, b))
      result = attempt(a, b);
    if (!result.taken) {
      refused.insert(key);
      return false;
    }
    Id id = clusters->merge(a, b);
    ++merges;
    secondsOf.erase(a);
    secondsOf.erase(b);
    secondsOf[id] = result.together;
    heroOfId[id] = heroA ? heroA : heroB;
    return true;
  }

  //===--------------------------------------------------------------------===//
  // The order in which merges are tried
  //===--------------------------------------------------------------------===//

  std::optional<Hero> heroOfCluster(Id id) {
    auto [it, inserted] = heroOfId.try_emplace(id);
    if (inserted)
      it->second = heroOf(clusters->ops(id).front());
    return it->second;
  }

  SmallVector<Operation *> heroesOf(llvm::ArrayRef<Hero> kinds) {
    SmallVector<Operation *> found;
    for (Id id : clusters->inOrder())
      for (Operation *op : clusters->ops(id))
        if (std::optional<Hero> hero = heroOf(op))
          if (llvm::is_contained(kinds, *hero))
            found.push_back(op);
    return found;
  }

  /// Takes neighbours of the op's cluster as long as there is one to take.
  void grow(Operation *op, bool upwards, bool withHeroes = false) {
    bool changed = true;
    while (changed) {
      changed = false;
      Id own = *clusters->of(op);
      for (Id other :
           upwards ? clusters->producers(own) : clusters->consumers(own)) {
        if (!withHeroes && heroOfCluster(other))
          continue;
        if (tryMerge(own, other)) {
          changed = true;
          break;
        }
      }
    }
  }

  void partition() {
    // Attention first: it reads through more views than anything else.
    for (Operation *op : heroesOf({Hero::attention})) {
      grow(op, /*upwards=*/true);
      grow(op, /*upwards=*/false);
    }
    for (Operation *op : heroesOf({Hero::matmul}))
      grow(op, /*upwards=*/true);
    // Broadcasts go with what uses them, so that an elementwise op can follow
    // its other operand.
    for (Id id : clusters->inOrder())
      if (clusters->alive(id) && isa<BroadcastOp>(clusters->ops(id).front()))
        for (Id consumer : clusters->consumers(id))
          if (!heroOfCluster(consumer))
            tryMerge(id, consumer);
    for (Operation *op :
         heroesOf({Hero::matmul, Hero::conv, Hero::pool, Hero::attention}))
      grow(op, /*upwards=*/false);
    for (Operation *op : heroesOf({Hero::reduce})) {
      grow(op, /*upwards=*/false, /*withHeroes=*/true);
      grow(op, /*upwards=*/true, /*withHeroes=*/true);
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (Id id : clusters->inOrder())
        if (clusters->alive(id))
          for (Id consumer : clusters->consumers(id))
            if (clusters->alive(id) && clusters->alive(consumer) &&
                consumer != id && tryMerge(id, consumer))
              changed = true;
      changed |= mergeSiblings();
    }
  }

  /// Kernels that read one tensor and could write their results together.
  bool mergeSiblings() {
    bool any = false;
    auto visit = [&](Value value) {
      llvm::SmallSetVector<Operation *, 8> users;
      for (Operation *user : value.getUsers())
        if (clusters->of(user))
          users.insert(user);
      if (users.size() < 2)
        return;
      // Users of one cluster try the same pairs, until another merge succeeds.
      llvm::SmallDenseMap<Id, size_t> triedAt;
      for (size_t i = 0; i < users.size(); ++i) {
        size_t begun = merges;
        auto [tried, isNew] =
            triedAt.try_emplace(*clusters->of(users[i]), begun);
        if (!isNew && tried->second == begun)
          continue;
        tried->second = begun;
        for (size_t j = i + 1; j < users.size(); ++j) {
          Id a = *clusters->of(users[i]), b = *clusters->of(users[j]);
          if (a == b || clusters->all(a, isView) || clusters->all(b, isView))
            continue;
          any |= tryMerge(a, b);
        }
      }
    };
    for (Value argument : block.getArguments())
      visit(argument);
    for (Operation &op : block.without_terminator())
      if (!constants.contains(&op))
        for (Value result : op.getResults())
          visit(result);
    return any;
  }

  //===--------------------------------------------------------------------===//
  // Report
  //===--------------------------------------------------------------------===//

  static void collectOrigins(Location location,
                             std::vector<std::string> &origins) {
    location->walk([&](Location inner) {
      if (auto name = dyn_cast<NameLoc>(inner)) {
        std::string text = name.getName().str();
        if (!llvm::is_contained(origins, text))
          origins.push_back(text);
      }
      return WalkResult::advance();
    });
  }

  static bool isKernel(ArrayRef<Operation *> ops) {
    return !llvm::all_of(ops, isView) && llvm::all_of(ops, isFusible) &&
           !llvm::all_of(ops, isOpTriviallyDead); // a copy that was united
  }
  bool isKernel(Id id) { return isKernel(clusters->ops(id)); }

  void describe(FusionReport *report, bool remarks) {
    llvm::DenseMap<Id, unsigned> number;
    for (Id id : clusters->inOrder()) {
      if (!isKernel(id))
        continue;
      if (!report) {
        number[id] = 0;
        continue;
      }
      number[id] = report->kernels.size();
      FusionReport::Kernel &kernel = report->kernels.emplace_back();
      kernel.function = function.getName().str();
      kernel.hero = stringifyHero(*judge(OpSet(clusters->ops(id))).hero).str();
      kernel.seconds = seconds(id);
      for (Operation *op : clusters->ops(id)) {
        kernel.ops.push_back(shortName(op));
        collectOrigins(op->getLoc(), kernel.origins);
      }
    }
    for (Id id : clusters->inOrder()) {
      if (!isKernel(id))
        continue;
      for (Id consumer : clusters->consumers(id)) {
        if (!isKernel(consumer))
          continue;
        // Large kernels have many neighbours: a cost of each pair would be most
        // of a compile.
        bool large = tooLarge(id, consumer);
        Attempt result =
            large ? Attempt{.reason = "the kernel would have more than " +
                                      std::to_string(maxEmittedOps) +
                                      " operations"}
                  : attempt(id, consumer);
        if (!large && result.saved == 0) // by a rule: what it costs to keep it
          result.saved = seconds(id) + seconds(consumer) -
                         seconds(OpSet(clusters->ops(id, consumer)));
        if (report)
          report->boundaries.push_back(
              {number[id], number[consumer], result.reason, result.saved});
        if (remarks)
          mainOp(consumer)->emitRemark()
              << "not fused with the kernel of " << shortName(mainOp(id))
              << ": " << result.reason;
      }
    }
  }

  /// The op that names a kernel for people.
  Operation *mainOp(Id id) {
    SmallVector<Operation *> ops = clusters->ops(id);
    for (Operation *op : ops)
      if (heroOf(op))
        return op;
    return ops.back();
  }

  //===--------------------------------------------------------------------===//
  // Emission
  //===--------------------------------------------------------------------===//

  /// Views at a kernel's edge stay outside, where they cost nothing and the
  /// kernel's operands and results keep simple shapes.
  void peelViews(Id id) {
    bool changed = true;
    while (changed) {
      changed = false;
      SmallVector<Operation *> ops = clusters->ops(id);
      if (ops.size() < 2 || llvm::none_of(ops, isView))
        return;
      OpSet set(ops);
      for (Operation *op : ops) {
        if (!isView(op))
          continue;
        Value source = op->getOperand(0);
        bool leading = !set.contains(source.getDefiningOp());
        // A slice behind would make the kernel compute what nobody reads.
        bool trailing = !isa<SliceOp>(op) &&
                        llvm::none_of(op->getUsers(), [&](Operation *user) {
                          return set.contains(user);
                        });
        if (!leading && !trailing)
          continue;
        SmallVector<Operation *> rest;
        llvm::copy_if(ops, std::back_inserter(rest),
                      [&](Operation *other) { return other != op; });
        if (!judge(OpSet(rest)).hero)
          continue;
        clusters->split(op, leading);
        changed = true;
        break;
      }
    }
  }

  /// Copies of one op that ended up as equal kernels of their own.
  void uniteCopies() {
    llvm::DenseMap<Value, SmallVector<Operation *, 2>> alone;
    for (Id id : clusters->inOrder()) {
      SmallVector<Operation *> ops = clusters->ops(id);
      if (ops.size() != 1 || !isReindex(ops[0]) || isView(ops[0]))
        continue;
      auto &list = alone[ops[0]->getOperand(0)];
      auto *same = llvm::find_if(list, [&](Operation *other) {
        return OperationEquivalence::isEquivalentTo(
            ops[0], other, OperationEquivalence::IgnoreLocations);
      });
      if (same == list.end())
        list.push_back(ops[0]);
      else
        ops[0]->replaceAllUsesWith(*same);
    }
  }

  /// Copies that met again in one kernel.
  static void uniteInside(ArrayRef<Operation *> ops) {
    for (auto [i, op] : llvm::enumerate(ops)) {
      if (!isReindex(op))
        continue;
      for (Operation *earlier : ops.take_front(i))
        if (!op->use_empty() &&
            OperationEquivalence::isEquivalentTo(
                op, earlier, OperationEquivalence::IgnoreLocations)) {
          op->replaceAllUsesWith(earlier);
          break;
        }
    }
  }

  void emit() {
    for (Id id : clusters->inOrder())
      if (isKernel(id))
        peelViews(id);
    for (Id id : clusters->inOrder())
      uniteInside(clusters->ops(id));
    // Copies that were united are gone before results are counted.
    SmallVector<SmallVector<Operation *>> order;
    for (Id id : clusters->inOrder())
      order.push_back(clusters->ops(id));
    for (SmallVector<Operation *> &ops : llvm::reverse(order))
      for (size_t i = ops.size(); i-- > 0;)
        if (isOpTriviallyDead(ops[i])) {
          ops[i]->erase();
          ops.erase(ops.begin() + i);
        }
    Operation *terminator = block.getTerminator();
    auto emitOne = [&](ArrayRef<Operation *> ops) {
      if (isKernel(ops))
        emitKernel(ops, terminator);
      else
        for (Operation *op : ops)
          op->moveBefore(terminator);
    };
    for (ArrayRef<Operation *> ops : order) {
      // Copies that were united may read what they did not when they were
      // judged: what a scatter updates, above all.
      if (!isKernel(ops) || judge(OpSet(ops)).hero)
        emitOne(ops);
      else
        for (Operation *op : ops)
          emitOne(op);
    }
    eraseDead();
  }

  void emitKernel(ArrayRef<Operation *> ops, Operation *terminator) {
    OpSet set(ops);
    SmallVector<Value> inputs;
    SmallVector<Operation *> immediates;
    // These read all that they are given from memory.
    auto isRead = [&](Value input) {
      return llvm::any_of(input.getUsers(), [&](Operation *user) {
        return isa<ScaledDotOp, PackedDotOp, GroupedMatmulOp, PagedAttentionOp>(
                   user) &&
               set.contains(user);
      });
    };
    for (Value input : set.inputs)
      if (isSplatConstant(input) && !isRead(input))
        immediates.push_back(input.getDefiningOp());
      else
        inputs.push_back(input);
    SmallVector<Location> locations;
    for (Operation *op : ops)
      locations.push_back(op->getLoc());
    Location location = FusedLoc::get(function.getContext(), locations);

    OpBuilder builder(terminator);
    SmallVector<Value> outputs(set.outputs.begin(), set.outputs.end());
    auto kernel =
        KernelOp::create(builder, location, TypeRange(ValueRange(outputs)),
                         inputs, *judge(set).hero, ArrayAttr(), StringAttr());
    Block *body = builder.createBlock(&kernel.getBody());
    IRMapping inside;
    for (Value input : inputs)
      inside.map(input, body->addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToStart(body);
    for (Operation *constant : immediates)
      inside.map(constant->getResult(0),
                 builder.clone(*constant)->getResult(0));
    for (auto [output, result] : llvm::zip(outputs, kernel.getResults()))
      output.replaceUsesWithIf(result, [&](OpOperand &use) {
        return !set.contains(use.getOwner());
      });
    for (Operation *op : ops) {
      op->moveBefore(body, body->end());
      for (OpOperand &operand : op->getOpOperands())
        operand.set(inside.lookupOrDefault(operand.get()));
    }
    builder.setInsertionPointToEnd(body);
    YieldOp::create(builder, location, outputs);
    // Only attention reads through rope; elsewhere it is elementwise work.
    if (kernel.getHero() != Hero::attention)
      decomposeAll(kernel.getBody(),
                   [](Operation *op) { return isa<RopeOp>(op); });
  }

  func::FuncOp function;
  Block &block;
  CostModel model;
  llvm::DenseSet<Operation *> constants;
  std::optional<Clusters> clusters;
  size_t merges = 0; ///< so far
  llvm::DenseMap<Id, double> secondsOf;
  llvm::DenseMap<Id, std::optional<Hero>> heroOfId;
  llvm::DenseSet<std::pair<std::pair<Id, size_t>, std::pair<Id, size_t>>>
      refused;
};

class FormKernelsPass : public fusion::impl::FormKernelsBase<FormKernelsPass> {
public:
  using Base = fusion::impl::FormKernelsBase<FormKernelsPass>;
  using Base::Base;

  void runOnOperation() override {
    Machine machine;
    machine.fmaFlops = flops;
    machine.copyBandwidth = bandwidth;
    machine.cacheBandwidth = cacheBandwidth;
    machine.launchSeconds = launchSeconds;
    machine.keptBytes = cacheBytes;
    machine.roundsStored = roundsStored;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(formKernels(function, machine, nullptr, remarks)))
        return signalPassFailure();
  }
};

} // namespace

LogicalResult fusion::formKernels(func::FuncOp function, const Machine &machine,
                                  FusionReport *report, bool remarks) {
  if (function.isDeclaration())
    return success();
  if (!function.getBody().hasOneBlock())
    return function.emitError("kernels are formed in functions of one block");
  Former(function, machine).run(report, remarks);
  storeNarrow(function, machine.roundsStored);
  writeReturnedTwice(function);
  return success();
}
