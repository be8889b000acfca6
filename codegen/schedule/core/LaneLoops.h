//===- LaneLoops.h - Runs of elements by steps of lanes, and reductions ---===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace knapper {

/// How many lanes a step over a run takes: at most `most`, and no more than a
/// short run needs. A number that divides the run is preferred, so that no step
/// is cut.
int64_t lanesOver(ts::Dim run, int64_t most);

/// Emits `for (i = begin; i < end; i += lanes) body(i, valid)`: whole steps in
/// a loop with `valid` null, then once the rest with `valid` = end - i, if any.
/// Tiles in `carried` go from step to step; the body returns their successors.
/// begin <= end; `divides`: the distance is known to be a multiple of lanes.
llvm::SmallVector<mlir::Value>
forLanes(ElementEmitter &emitter, mlir::Value begin, mlir::Value end,
         int64_t lanes, bool divides, mlir::ValueRange carried,
         llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(
             mlir::Value i, mlir::Value valid, mlir::ValueRange carried)>
             body,
         llvm::LogicalResult &status);

/// The same without carried values.
llvm::LogicalResult forLanes(
    ElementEmitter &emitter, mlir::Value begin, mlir::Value end, int64_t lanes,
    bool divides,
    llvm::function_ref<llvm::LogicalResult(mlir::Value i, mlir::Value valid)>
        body);

/// A loop by `step` with carried values.
llvm::SmallVector<mlir::Value>
forEach(ElementEmitter &emitter, mlir::Value begin, mlir::Value end,
        mlir::ValueRange carried,
        llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(
            mlir::Value i, mlir::ValueRange carried)>
            body,
        llvm::LogicalResult &status, int64_t step = 1);

/// The same without carried values.
llvm::LogicalResult
forEach(ElementEmitter &emitter, mlir::Value begin, mlir::Value end,
        llvm::function_ref<llvm::LogicalResult(mlir::Value i)> body,
        int64_t step = 1);

/// A loop that runs while `condition` of the carried values holds.
llvm::SmallVector<mlir::Value>
repeatWhile(ElementEmitter &emitter, mlir::ValueRange carried,
            llvm::function_ref<mlir::Value(mlir::ValueRange carried)> condition,
            llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(
                mlir::ValueRange carried)>
                body,
            llvm::LogicalResult &status);

/// Transposes a square block in registers: `size` runs of `size` elements, the
/// first at `at`, the next `stride` further on. Row r of the transpose is
/// stored at `place(r)` of `to`. Of the runs, and of a run's elements, `runs`
/// and `elements` are read.
void transposeBlock(ElementEmitter &emitter, int64_t size, mlir::Value from,
                    mlir::Value at, mlir::Value stride, mlir::Value runs,
                    mlir::Value elements, mlir::Value to,
                    llvm::function_ref<mlir::Value(int64_t r)> place);

/// The identity of a reduction: 0 of a sum, 1 of a product, the least value of a
/// maximum. A tile of `lanes` elements of a compute type; 0 lanes: a scalar.
/// `isUnsigned`: its integers have no sign.
mlir::Value neutralElement(ElementEmitter &emitter, ts::ReduceKind kind,
                           mlir::Type element, bool isUnsigned, int64_t lanes);
/// The kind as operations of the tile dialect name it, for a compute type.
mlir::vector::CombiningKind combiningKind(ts::ReduceKind kind,
                                          mlir::Type element, bool isUnsigned);
/// `a` and `x` reduced with each other element by element; both are tiles, or
/// both scalars. A NaN in either stays.
mlir::Value combineElements(ElementEmitter &emitter, ts::ReduceKind kind,
                            mlir::Value a, mlir::Value x, bool isUnsigned);

} // namespace knapper
