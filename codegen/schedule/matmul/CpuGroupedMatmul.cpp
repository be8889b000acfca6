// Matmuls whose rows are sorted by the matrix they are multiplied with
// (ts.grouped_matmul): programs as those of CpuMatmul.cpp.
//
//   program = a block of at most `rows` rows of one expert, times one panel of
//   its matrix
//
// Blocks are numbered expert by expert. How many an expert has is read from the
// ends of its rows, so a program counts up to its block; there are as many
// programs as there can be blocks, and those without one end at once.
//
// Programs are numbered block by block within a panel: threads take consecutive
// ones, and have equal work however the rows are spread over the experts.
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/matmul/CpuMatmulBuilder.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

LogicalResult MatmulBuilder::buildGrouped() {
  Location loc = e.location;
  Dim columns = matmul.rhs.free, panels = columns.ceilDiv(columns.like(panel));
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> place = e.delinearize(id, {panels, split.blocks});
  Value panelIndex = place[0], block = place[1];
  Value all = e.size(matmul.lhs.free), height = e.constant(blockRows),
        experts = e.size(matmul.batch[0]), none = e.constant(0);
  Value endsBuffer = e.inputBuffer(matmul.ends);

  // Carried: where the rows of the experts before end, in rows and in blocks;
  // the block's expert, its first row and where it ends.
  LogicalResult status = success();
  SmallVector<Value> found = forEach(
      e, none, experts, SmallVector<Value>{none, none, none, none, none},
      [&](Value expert, ValueRange carried) -> FailureOr<SmallVector<Value>> {
        Value begin = carried[0], before = carried[1];
        Value word =
            tile::LoadOp::create(b, loc, b.getI32Type(), endsBuffer, expert);
        Value end = arith::IndexCastOp::create(b, loc, b.getIndexType(), word);
        end = e.min(e.max(end, begin), all);
        // What is left is of the last expert, and made zero in the end.
        Value isLast = e.less(e.sub(experts, e.constant(2)), expert);
        Value own = arith::SelectOp::create(b, loc, isLast, all, end);
        Value count =
            e.div(e.add(e.sub(own, begin), e.constant(blockRows - 1)), height);
        Value after = e.add(before, count);
        Value mine = arith::AndIOp::create(
            b, loc, e.less(e.sub(before, e.constant(1)), block),
            e.less(block, after));
        Value first = e.add(begin, e.mul(e.sub(block, before), height));
        auto pick = [&](Value here, Value otherwise) -> Value {
          return arith::SelectOp::create(b, loc, mine, here, otherwise);
        };
        return SmallVector<Value>{
            end, after, pick(expert, carried[2]), pick(first, carried[3]),
            pick(e.min(e.add(first, height), own), carried[4])};
      },
      status);
  if (failed(status))
    return failure();
  endOfAll = found[0];
  batchIndex = {found[2]};
  firstRow = found[3];
  Value rows = e.sub(found[4], firstRow);
  auto branch = scf::IfOp::create(b, loc, e.less(none, rows),
                                  /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  return e.scoped([&]() -> LogicalResult {
    column = e.mul(panelIndex, e.constant(panel));
    int64_t known = columns.knownDivisor();
    if (!known || known % panel)
      validColumns = e.sub(e.size(columns), column);
    return multiplyPanel(rows, panelIndex, none, none, [&] { return block; });
  });
}

} // namespace knapper
