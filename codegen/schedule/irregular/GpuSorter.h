// What the sorts of GPUs share: tiles of 32-bit integers, and the words in
// which keys and places stand together (SortKeys.h). Integers whose places
// nobody asks for are words by themselves.
#pragma once

#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/irregular/SortKeys.h"
#include "ir/config/IrregularConfig.h"

namespace knapper {

/// Whether equal elements can be told apart: by their places, or by bits that
/// keys do not have.
inline bool needsPlaces(ts::KernelOp kernel, ts::TopKOp op) {
  return !llvm::isa<mlir::IntegerType>(ts::elementTypeOf(op.getInput())) ||
         llvm::is_contained(kernel.yield().getValues(), op.getIndices());
}

/// One line of a sort as the builders of GPUs see it (GpuTopK, GpuBitonicSort,
/// GpuMergeSort). Tiles have `lanes` elements; counts and places are i32.
struct GpuSorter {
  BuildContext &context;
  int64_t lanes;
  ElementEmitter &e = context.emitter;
  mlir::OpBuilder &b = e.builder;
  mlir::Location loc = e.location;
  ts::TopKOp op = firstOp<ts::TopKOp>(context.kernel);
  SortKeys keys{e, op};
  unsigned axis = op.getDim();
  bool placed = needsPlaces(context.kernel, op);
  Coord line = {};
  mlir::Type i32 = b.getI32Type();
  mlir::Type counts = mlir::VectorType::get(lanes, i32);

  //===- Tiles of i32 -----------------------------------------------------===//
  mlir::Value number(int64_t n) { return e.splat(i32, lanes, n); }
  mlir::Value spread(mlir::Value index) {
    return e.widen(mlir::arith::IndexCastOp::create(b, loc, i32, index), lanes);
  }
  mlir::Value laneIds() {
    return mlir::arith::IndexCastOp::create(
        b, loc, counts, e.lanePositions({e.constant(0), 1, {}, 1}, lanes));
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, loc, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, loc, x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) {
    return mlir::arith::AndIOp::create(b, loc, x, y);
  }
  mlir::Value either(mlir::Value x, mlir::Value y) {
    return mlir::arith::OrIOp::create(b, loc, x, y);
  }
  mlir::Value shiftRight(mlir::Value x, int64_t by) {
    return mlir::arith::ShRUIOp::create(b, loc, x, number(by));
  }
  mlir::Value shiftLeft(mlir::Value x, int64_t by) {
    return mlir::arith::ShLIOp::create(b, loc, x, number(by));
  }
  mlir::Value least(mlir::Value x, mlir::Value y) {
    return mlir::arith::MinSIOp::create(b, loc, x, y);
  }
  mlir::Value pick(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, loc, condition, x, y);
  }
  mlir::Value is(mlir::arith::CmpIPredicate p, mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, loc, p, x, y);
  }
  mlir::Value toIndices(mlir::Value tile) {
    return mlir::arith::IndexCastOp::create(
        b, loc, mlir::VectorType::get(lanes, b.getIndexType()), tile);
  }

  //===- The line ---------------------------------------------------------===//
  /// Sets `line`; gives what is left of the program's number.
  mlir::Value takeLine(llvm::ArrayRef<ts::Dim> grid) {
    mlir::Value id = tile::ProgramIdOp::create(b, loc);
    llvm::SmallVector<mlir::Value> outer = e.delinearize(id, grid);
    unsigned next = 0;
    for (int64_t i = 0; i < ts::rankOf(op.getInput()); ++i)
      line.dims.push_back({i == int64_t(axis) ? mlir::Value() : outer[next++]});
    line.lanes = lanes;
    return next < outer.size() ? outer[next] : mlir::Value();
  }
  /// The elements at places (i32) of the line.
  mlir::Value elementsAt(mlir::Value places, mlir::Value valid) {
    Coord at = line;
    at.valid = valid;
    at.dims[axis] = {{}, 0, toIndices(places)};
    mlir::Value x = e.emit(op.getInput(), at);
    return x ? e.widen(x, lanes) : x;
  }
  /// Stores at `to` what the kernel yields: the sort's values, and its indices
  /// where there are `places`. `values` makes the tile of values; null after a
  /// diagnostic.
  mlir::LogicalResult store(const Coord &to, mlir::Value places,
                            llvm::function_ref<mlir::Value()> values) {
    for (auto [r, value] :
         llvm::enumerate(context.kernel.yield().getValues())) {
      mlir::Value x;
      if (value == op.getValues())
        x = values();
      else if (value == op.getIndices() && places)
        x = mlir::arith::ExtUIOp::create(
            b, loc, mlir::VectorType::get(lanes, b.getI64Type()), places);
      else
        return context.kernel.emitOpError(
            "stores something else than the sort's results");
      if (!x)
        return mlir::failure();
      e.store(x, e.outputBuffer(r), value.getType(), to);
    }
    return mlir::success();
  }
};

} // namespace knapper
