// What the GPU's schedules of matmuls share: matmuls of matrices, and
// convolutions as implicit GEMM, whose left side is read through a window.
#pragma once

#include "codegen/schedule/core/Conditions.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/matmul/GpuMatmulCost.h"
#include "codegen/schedule/matmul/MatmulProblem.h"
#include "ir/config/MatmulGpuConfig.h"

namespace knapper {

using config::MatmulAlgorithm;
using config::MatmulGpuSchedule;

/// The dims that a tile does not have: batch dims, and row dims that are not
/// contiguous with the others. Dims of size 1 are left out. Strides in
/// elements.
struct Outer {
  llvm::SmallVector<ts::Dim> sizes, aStrides, bStrides;
};
Outer outerOf(const MatmulProblem &matmul);

/// CTAs of the launch with tiles of rows x columns, without the factor of
/// clusters.
ts::Dim programsOf(const MatmulProblem &matmul, const Outer &outer,
                   int64_t rows, int64_t columns);

/// The input of the cost model (GpuMatmulCost.h), with a representative value
/// for each symbol.
GpuMatmulProblem problemOf(const MatmulProblem &matmul, const Outer &outer,
                           int64_t rows, const TargetDesc &target);

/// A side as the tensor of a TMA descriptor.
struct MappedSide {
  OperandMap map;
  bool depthFirst = true; ///< the contracting dim is the innermost
  int64_t batch = 0;      ///< bit i: outer dim i is a dim of the map
};
/// Nothing if TMA cannot read the side: no stride is 1. Requirements on
/// symbolic sizes and strides are added to `conditions`.
std::optional<MappedSide> mapSide(const MatmulOperand &side,
                                  llvm::ArrayRef<ts::Dim> outerSizes,
                                  llvm::ArrayRef<ts::Dim> outerStrides,
                                  Conditions &conditions);
/// The kernel's result as the tensor of a TMA descriptor: a dense matrix for
/// each batch index.
OperandMap mapResult(ts::KernelOp kernel, const MatmulProblem &matmul,
                     const Outer &outer, const GpuTileShape &blocks);

/// Neighbouring columns, at most `most`, that the epilogue's region computes at
/// once.
int64_t runOf(const MatmulProblem &matmul, const Epilogue &epilogue,
              int64_t most);

/// Whether tiles of the result are stored through shared memory (TMA): one
/// dense result of 16-bit elements in the matmul's own layout.
bool leavesByBlocks(ts::KernelOp kernel, const Epilogue &epilogue);

/// The configuration with the fields that the tile shape decides; the others
/// have their defaults.
MatmulGpuSchedule configOf(MatmulAlgorithm algorithm,
                           const GpuTileShape &blocks, int64_t tileK);
/// The schedule "gpu_matmul" without guard and descriptors.
Schedule scheduleOf(const MatmulProblem &matmul, const Outer &outer,
                    const MatmulGpuSchedule &config);

/// Sizes up to `most` (none: any), and one of them that a schedule is chosen
/// for.
struct SizeRange {
  std::optional<int64_t> most;
  int64_t typical;
};
/// Ranges of a symbolic size, in ascending order: those of `cuts` that `size`
/// may have, then all others, `last` for example. Of a constant its only value.
llvm::SmallVector<SizeRange>
rangesOf(ts::Dim size, llvm::ArrayRef<SizeRange> cuts, int64_t last);
/// Requires that `size` is in the range.
void require(Guard &guard, ts::Dim size, const SizeRange &range);

/// Appends the schedules by FMAs of f32, which take every size. `run`: as of
/// runOf; `window`: the left side is read through a window.
void chooseSimt(const MatmulProblem &matmul, int64_t run,
                const TargetDesc &target, bool window,
                llvm::SmallVectorImpl<Schedule> &schedules);

} // namespace knapper
