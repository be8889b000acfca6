#include "codegen/schedule/core/RegisterTiles.h"
#include "codegen/schedule/core/LaneLoops.h"
#include <limits>

using namespace mlir;

namespace knapper {

RegisterTile registerTile(const TargetDesc &target, int64_t panel) {
  int64_t lanes = target.lanes(DType::f32), registers = target.vectorRegisters;
  // With few registers the panel is taken two vectors at a time.
  int64_t width = panel;
  if (registers < 32)
    width = std::min(panel, 2 * lanes);
  // Accumulators in three quarters of the registers: 8x48, 6x64, 12x32, 6x16.
  // More are slower (9x48 reaches 91 % of the peak, 8x48 99 %).
  int64_t vectors = std::max<int64_t>(1, width / lanes);
  return {std::clamp<int64_t>(registers * 3 / 4 / vectors, 1, 12), width};
}

RegisterTile groupTile(const TargetDesc &target, int64_t panel, int64_t group) {
  RegisterTile tile = registerTile(target, panel);
  if (group == 1 || (group == 4 ? target.byteDots : target.pairDots))
    return tile;
  int64_t vectors = std::max<int64_t>(1, tile.width / target.lanes(DType::f32));
  int64_t others = 2 * vectors + 4; // B, A, two products
  tile.rows =
      std::clamp<int64_t>((target.vectorRegisters - others) / vectors, 1, 12);
  return tile;
}

/// Tiles of `large` rows, then of one less.
static LogicalResult forEqualTiles(
    ElementEmitter &e, int64_t rows, int64_t tileRows,
    llvm::function_ref<LogicalResult(Value, Value, int64_t, Value)> body,
    llvm::function_ref<LogicalResult(Value, Value)> finish) {
  OpBuilder &b = e.builder;
  int64_t tiles = (rows + tileRows - 1) / tileRows;
  int64_t large = (rows + tiles - 1) / tiles,
          manyLarge = rows - tiles * (large - 1);
  return forEach(
      e, e.constant(0), e.constant(tiles), [&](Value number) -> LogicalResult {
        auto tile = [&](int64_t size, Value row) {
          return e.scoped(
              [&] { return body(row, e.constant(size), size, number); });
        };
        Value row = e.mul(number, e.constant(large)), valid = e.constant(large);
        if (manyLarge == tiles) {
          if (failed(tile(large, row)))
            return failure();
        } else {
          Value isLarge = e.less(number, e.constant(manyLarge));
          row = e.sub(
              row, e.max(e.sub(number, e.constant(manyLarge)), e.constant(0)));
          valid = arith::SelectOp::create(b, e.location, isLarge, valid,
                                          e.constant(large - 1));
          auto branch = scf::IfOp::create(b, e.location, isLarge,
                                          /*withElseRegion=*/true);
          for (int64_t i : {0, 1}) {
            OpBuilder::InsertionGuard guard(b);
            Region &region =
                i ? branch.getElseRegion() : branch.getThenRegion();
            b.setInsertionPoint(region.front().getTerminator());
            if (failed(tile(large - i, row)))
              return failure();
          }
        }
        return finish ? finish(row, valid) : success();
      });
}

SmallVector<int64_t> sizesOfTiles(int64_t tileRows, ArrayRef<int64_t> counts) {
  if (counts.size() == 1)
    return {counts[0]};
  SmallVector<int64_t> sizes;
  int64_t below = 0;
  for (int64_t size : {int64_t(1), (tileRows + 1) / 2, tileRows}) {
    bool taken = counts.empty() || llvm::any_of(counts, [&](int64_t count) {
                   return below < count && count <= size;
                 });
    if (size > below && taken)
      sizes.push_back(size);
    below = size;
  }
  return sizes;
}

SmallVector<int64_t> countsOfTiles(int64_t rows, int64_t tileRows,
                                   int64_t block) {
  SmallVector<int64_t> counts;
  for (int64_t each : {std::min(rows, block), rows % block})
    for (int64_t count : {each >= tileRows ? tileRows : 0, each % tileRows})
      if (count && !llvm::is_contained(counts, count))
        counts.push_back(count);
  return counts;
}

LogicalResult forRowTiles(
    ElementEmitter &e, Value rows, int64_t tileRows,
    llvm::function_ref<LogicalResult(Value, Value, int64_t, Value)> body,
    llvm::function_ref<LogicalResult(Value, Value)> finish,
    std::optional<int64_t> known, ArrayRef<int64_t> counts) {
  if (known && *known > 0)
    return forEqualTiles(e, *known, tileRows, body, finish);
  OpBuilder &b = e.builder;
  Value tiles =
      e.div(e.add(rows, e.constant(tileRows - 1)), e.constant(tileRows));
  SmallVector<int64_t> sizes = sizesOfTiles(tileRows, counts);
  return forEach(e, e.constant(0), tiles, [&](Value number) -> LogicalResult {
    Value row = e.mul(number, e.constant(tileRows));
    Value left = counts.size() == 1
                     ? e.constant(counts[0])
                     : e.min(e.sub(rows, row), e.constant(tileRows));
    if (sizes.size() == 1) {
      if (failed(e.scoped([&] { return body(row, left, sizes[0], number); })))
        return failure();
      return finish ? finish(row, left) : success();
    }
    int64_t below = 0;
    for (int64_t size : sizes) {
      Value fits = e.less(e.constant(below), left);
      if (size != sizes.back())
        fits = arith::AndIOp::create(b, e.location, fits,
                                     e.less(left, e.constant(size + 1)));
      auto branch =
          scf::IfOp::create(b, e.location, fits, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
      if (failed(e.scoped([&] { return body(row, left, size, number); })))
        return failure();
      below = size;
    }
    return finish ? finish(row, left) : success();
  });
}

LogicalResult forParts(ElementEmitter &emitter, const RegisterTile &shape,
                       int64_t panel,
                       llvm::function_ref<LogicalResult(Value part)> body) {
  if (panel == shape.width)
    return body(emitter.constant(0));
  return forEach(emitter, emitter.constant(0), emitter.constant(panel), body,
                 shape.width);
}

int64_t cheapestPanel(ArrayRef<PanelCost> panels, int64_t runDivisor,
                      llvm::function_ref<int64_t(int64_t)> count) {
  int64_t best = 16;
  double leastTime = std::numeric_limits<double>::infinity();
  for (auto [panel, cost] : panels) {
    if (!keepsRuns(panel, runDivisor))
      continue;
    double time = cost * count(panel) * panel;
    if (time < leastTime) {
      leastTime = time;
      best = panel;
    }
  }
  return best;
}

} // namespace knapper
