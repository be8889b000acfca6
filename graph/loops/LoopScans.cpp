// What a loop carries: captures and scans in its place.
#include "graph/loops/LoopParts.h"
#include "graph/simplify/Match.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

bool knapper::captureUnchanged(LoopParts &parts) {
  size_t before = parts.carried.size();
  llvm::erase_if(parts.carried, [&](LoopParts::Carried &each) {
    if (each.next != each.inside ||
        each.initial.getType() != each.inside.getType())
      return false;
    each.result.replaceAllUsesWith(each.initial);
    parts.captures.push_back({each.initial, each.inside});
    return true;
  });
  return parts.carried.size() != before;
}

/// The only element of an integer tensor, by the sizes of the body.
static std::optional<Dim> onlyElement(Value value, SymbolicValueCache &cache) {
  for (Dim dim : dimsOf(value))
    if (!dim.isConstant(1))
      return std::nullopt;
  // Answers are of ranks 0 and 1.
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (rankOf(value) <= 1)
      break;
    value = reshape.getInput();
  }
  std::optional<SmallVector<Dim>> elements = symbolicValue(value, cache);
  return elements && elements->size() == 1 ? std::optional((*elements)[0])
                                           : std::nullopt;
}

bool knapper::sliceInOrder(LoopParts &parts) {
  llvm::DenseSet<Value> captured;
  for (const LoopParts::Capture &each : parts.captures)
    captured.insert(each.inside);
  SymbolicValueCache cache;
  SmallVector<std::pair<GatherOp, StepOrder>> found;
  for (auto gather : parts.body->getOps<GatherOp>()) {
    if (gather.getDim() != 0 || !captured.contains(gather.getInput()) ||
        !(dimOf(gather.getInput(), 0) == parts.trips))
      continue;
    std::optional<Dim> index = onlyElement(gather.getIndices(), cache);
    if (std::optional<StepOrder> order =
            index ? parts.orderOf(*index) : std::nullopt)
      found.push_back({gather, *order});
  }
  llvm::DenseMap<Value, Value> rows;
  for (auto [gather, order] : found) {
    OpBuilder b(gather);
    Value row = parts.readRow(b, gather.getLoc(), gather.getInput(), order);
    rows[gather] =
        makeReshape(b, gather.getLoc(), row, dimsOf(gather.getResult()));
  }
  parts.replace(rows);
  return !found.empty();
}

bool knapper::stackRows(LoopParts &parts) {
  size_t before = parts.carried.size();
  SymbolicValueCache cache;
  llvm::erase_if(parts.carried, [&](const LoopParts::Carried &each) {
    // Each step overwrites a row that no step reads: what was there first
    // reaches no result.
    auto scatter = each.next.getDefiningOp<ScatterNdOp>();
    if (!scatter || scatter.getInput() != each.inside ||
        scatter.getReduction() || !each.inside.hasOneUse() ||
        !scatter->hasOneUse())
      return false;
    SmallVector<Dim> rows = dimsOf(each.inside),
                     update = dimsOf(scatter.getUpdates());
    SmallVector<Dim> row(llvm::drop_begin(rows));
    if (rows.empty() || !(rows[0] == parts.trips) ||
        !(product(parts.loop.getContext(), update) ==
          product(parts.loop.getContext(), row)) ||
        update.size() < row.size() ||
        ArrayRef<Dim>(update).take_back(row.size()) != ArrayRef<Dim>(row))
      return false;
    std::optional<Dim> index = onlyElement(scatter.getIndices(), cache);
    std::optional<StepOrder> order =
        index ? parts.orderOf(*index) : std::nullopt;
    if (!order)
      return false;
    OpBuilder b(scatter);
    Value value = makeReshape(b, scatter.getLoc(), scatter.getUpdates(), row);
    parts.scans.push_back({value, *order, each.result});
    return true;
  });
  return parts.carried.size() != before;
}

bool knapper::dropUnused(LoopParts &parts) {
  llvm::DenseSet<Value> read;
  SmallVector<Value> open;
  auto want = [&](Value value) {
    if (read.insert(value).second)
      open.push_back(value);
  };
  auto wanted = [](Value result) { return !result || !result.use_empty(); };
  for (const LoopParts::Scan &each : parts.scans)
    if (wanted(each.result))
      want(each.value);
  for (const LoopParts::Carried &each : parts.carried)
    if (wanted(each.result))
      want(each.inside), want(each.next);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (Operation *op = value.getDefiningOp()) {
      llvm::for_each(op->getOperands(), want);
      continue;
    }
    for (const LoopParts::Carried &each : parts.carried)
      if (each.inside == value)
        want(each.next);
  }
  size_t before =
      parts.carried.size() + parts.captures.size() + parts.scans.size();
  llvm::erase_if(parts.carried, [&](const LoopParts::Carried &each) {
    return !read.contains(each.inside) && !wanted(each.result);
  });
  llvm::erase_if(parts.captures, [&](const LoopParts::Capture &each) {
    return !read.contains(each.inside);
  });
  llvm::erase_if(parts.scans, [&](const LoopParts::Scan &each) {
    return !wanted(each.result);
  });
  return before !=
         parts.carried.size() + parts.captures.size() + parts.scans.size();
}
