#include "codegen/schedule/matmul/AmxMatmul.h"
#include "codegen/schedule/core/LaneLoops.h"

using namespace mlir;

namespace knapper {

static constexpr int64_t kBlockRows = 32, kTileRows = 16;
/// Fewer rows of A are bound by reading B, which vectors do as well.
static constexpr int64_t kLeastRows = 4;
/// Elements that fill a row of a tile, of groups of four bytes.
static constexpr int64_t kTileGroups = 16;

RegisterTile blockTile(int64_t panel) {
  // Two by three tiles of sums leave a register each for A and B.
  return {kBlockRows, panel % 48 == 0 ? 48 : std::min<int64_t>(panel, 32)};
}

bool fitsTiles(const TargetDesc &target, int64_t group, bool inRows,
               std::optional<int64_t> rows, std::optional<int64_t> depth) {
  return target.tileMatmuls && group > 1 && inRows &&
         (!rows || *rows >= kLeastRows) &&
         (!depth || *depth >= kTileGroups * group);
}

LogicalResult multiplyBlock(ElementEmitter &e, const AmxMatmul &matmul,
                            Value valid, int64_t columns) {
  OpBuilder &b = e.builder;
  auto block = [&](Value row, int64_t rows, Value valid) {
    Value aOffset = e.add(matmul.aOffset, e.mul(row, matmul.lda));
    Value cOffset = e.add(matmul.cOffset, e.mul(row, matmul.ldc));
    tile::BlockOp::create(
        b, e.location, matmul.a, aOffset, matmul.lda, matmul.b, matmul.bOffset,
        matmul.ldb, matmul.k, matmul.c, cOffset, matmul.ldc, valid,
        matmul.prefetch, matmul.prefetchOffset, matmul.prefetchStep,
        matmul.aPart, matmul.bPart, rows, columns, matmul.parts);
  };
  Value whole = e.less(e.constant(kBlockRows - 1), valid);
  auto branch =
      scf::IfOp::create(b, e.location, whole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  (void)e.scoped([&] {
    block(e.constant(0), kBlockRows, Value());
    return success();
  });
  b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
  return e.scoped([&] {
    return forEach(
        e, e.constant(0), valid,
        [&](Value row) {
          Value left = e.min(e.sub(valid, row), e.constant(kTileRows));
          block(row, kTileRows, left);
          return success();
        },
        kTileRows);
  });
}

LogicalResult
forBlocks(ElementEmitter &e, Value rows,
          llvm::function_ref<LogicalResult(Value, Value, Value)> body) {
  Value blocks =
      e.div(e.add(rows, e.constant(kBlockRows - 1)), e.constant(kBlockRows));
  return forEach(e, e.constant(0), blocks, [&](Value number) {
    Value row = e.mul(number, e.constant(kBlockRows));
    Value left = e.min(e.sub(rows, row), e.constant(kBlockRows));
    return body(row, left, number);
  });
}

} // namespace knapper
