#include "graph/layout/GateDots.h"

#include "graph/layout/Gates.h"
#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_GATEDOTS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// A loop that runs instead of `op` where `few` is 1, and not where it is 0;
/// `op` runs where it is 0. Returns its body, a copy.
static func::FuncOp splitLoop(LoopOp op, func::FuncOp body, Dim few) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  func::FuncOp copy = body.clone();
  copy.setName((body.getName() + "_few").str());
  SymbolTable(body->getParentOfType<ModuleOp>())
      .insert(copy, body->getIterator());

  Dim trips(*op.getTrips());
  size_t carried = op.getCarried().size();
  auto withTrips = [&](LoopOp loop, Dim count) {
    loop.setTripsAttr(count.attr());
    for (OpResult scan : loop->getResults().drop_front(carried)) {
      SmallVector<Dim> dims = dimsOf(scan);
      dims[0] = count;
      scan.setType(tensorType(b.getContext(), dims, elementTypeOf(scan)));
    }
  };
  SmallVector<Type> types(op.getResultTypes());
  auto first = cast<LoopOp>(b.clone(*op));
  first.setBodyAttr(FlatSymbolRefAttr::get(copy));
  withTrips(first, trips * few);
  auto last = cast<LoopOp>(b.clone(*op));
  last.getCarriedMutable().assign(first.getResults().take_front(carried));
  withTrips(last, trips - trips * few);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value value = last->getResult(i);
    if (i >= carried) {
      // The parts are in any order: one of them is empty.
      SmallVector<Value> both{first->getResult(i), value};
      value = makeReshape(b, loc, ConcatOp::create(b, loc, ValueRange(both), 0),
                          dimsOf(types[i]));
    }
    result.replaceAllUsesWith(value);
  }
  op.erase();
  return copy;
}

void knapper::reduceGateDots(func::FuncOp function, int64_t mostBytes) {
  SmallVector<LoopOp> loops(function.getBody().getOps<LoopOp>());
  for (LoopOp op : loops) {
    func::FuncOp body = bodyOf(op, op.getBodyAttr());
    Dim rows;
    int64_t bytes = 0, known = 0;
    bool alike = true; ///< all rows that only a run knows are as many
    for (Gates &gates : gatesIn(body, Gates::Form::reduction)) {
      if (std::optional<int64_t> count = gates.rows().asConstant()) {
        known += *count * gates.matrixBytes();
        continue;
      }
      alike &= !rows || rows == gates.rows();
      rows = gates.rows();
      bytes += gates.matrixBytes();
    }
    if (!alike || known > mostBytes)
      continue;
    if (rows) {
      int64_t mostRows = (mostBytes - known) / bytes;
      if (mostRows == 0 || !op.getTrips() || op.getCondition() ||
          !op.getSymbols().empty())
        continue;
      Dim one = rows.like(1);
      body = splitLoop(op, body,
                       rows.like(mostRows).floorDiv(rows.max(one)).min(one));
    }
    for (Gates &gates : gatesIn(body, Gates::Form::reduction))
      gates.rewrite();
  }
}

namespace {
struct GateDotsPass : knapper::impl::GateDotsBase<GateDotsPass> {
  using Base = knapper::impl::GateDotsBase<GateDotsPass>;
  using Base::Base;
  void runOnOperation() override {
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      reduceGateDots(function, mostBytes);
  }
};
} // namespace
