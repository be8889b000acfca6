#include "codegen/schedule/RowTiles.h"
#include "codegen/schedule/Lanes.h"

using namespace mlir;

namespace knapper {

RegisterTile registerTile(const TargetDesc &target, int64_t panel) {
  int64_t lanes = target.lanes(DType::f32), registers = target.vectorRegisters;
  // With few registers the panel is taken two vectors at a time.
  int64_t width = panel;
  if (registers < 32)
    width = 2 * lanes;
  int64_t vectors = width / lanes;
  return {std::clamp<int64_t>((registers - vectors - 1) / vectors, 1, 12), width};
}

LogicalResult forRowTiles(
    Emitter &e, Value rows, int64_t tileRows,
    llvm::function_ref<LogicalResult(Value, Value, int64_t, Value)> body) {
  OpBuilder &b = e.builder;
  Value tiles = e.div(rows, e.constant(tileRows));
  Value whole = e.mul(tiles, e.constant(tileRows));
  LogicalResult status = success();
  forEach(
      e, e.constant(0), tiles, {},
      [&](Value number, ValueRange) -> FailureOr<SmallVector<Value>> {
        if (failed(body(e.mul(number, e.constant(tileRows)),
                        e.constant(tileRows), tileRows, number)))
          return failure();
        return SmallVector<Value>();
      },
      status);
  if (failed(status) || tileRows == 1)
    return status;
  Value left = e.sub(rows, whole);
  SmallVector<int64_t> sizes{1};
  if (tileRows > 6)
    sizes.push_back(4);
  if (sizes.back() < tileRows - 1)
    sizes.push_back(tileRows - 1);
  int64_t below = 0;
  for (int64_t size : sizes) {
    Value fits = arith::AndIOp::create(b, e.location,
                                       e.less(e.constant(below), left),
                                       e.less(left, e.constant(size + 1)));
    auto branch =
        scf::IfOp::create(b, e.location, fits, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    if (failed(e.scoped([&] { return body(whole, left, size, tiles); })))
      return failure();
    below = size;
  }
  return success();
}

} // namespace knapper
