// What schedules of matmuls on GPUs share: those of matrices and those of
// convolutions, whose left side is read through a window.
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

/// Batch dims and rows that do not follow the others in memory; sizes of one
/// left out.
struct Outer {
  llvm::SmallVector<ts::Dim> sizes, aStrides, bStrides;
};
Outer outerOf(const MatmulProblem &matmul);

/// CTAs of tiles of this size, clusters apart.
ts::Dim programsOf(const MatmulProblem &matmul, const Outer &outer,
                   int64_t rows, int64_t columns);

/// What the blocks of this matmul depend on, in representative sizes.
GpuMatmulProblem problemOf(const MatmulProblem &matmul, const Outer &outer,
                           int64_t rows, const TargetDesc &target);

/// A side as a tensor for copies of boxes; nothing if its elements lie too far
/// apart. `depthFirst`: the contracting dim is the innermost.
struct MappedSide {
  OperandMap map;
  bool depthFirst = true;
  int64_t batch = 0; ///< bit i: outer dim i is a dim of the map
};
std::optional<MappedSide> mapSide(const MatmulOperand &side,
                                  llvm::ArrayRef<ts::Dim> outerSizes,
                                  llvm::ArrayRef<ts::Dim> outerStrides,
                                  Conditions &conditions);
/// The kernel's result as a dense matrix a batch index, stored by boxes.
OperandMap mapResult(ts::KernelOp kernel, const MatmulProblem &matmul,
                     const Outer &outer, const GpuTileShape &blocks);

/// Columns, at most `most`, that the region gets at once.
int64_t runOf(const MatmulProblem &matmul, const Epilogue &epilogue,
              int64_t most);

/// Whether the result is one dense tensor of 16-bit elements whose places are
/// the matmul's: blocks then leave through shared memory.
bool leavesByBlocks(ts::KernelOp kernel, const Epilogue &epilogue);

/// What the blocks decide; the rest as it is by default.
MatmulGpuSchedule configOf(MatmulAlgorithm algorithm,
                           const GpuTileShape &blocks, int64_t tileK);
/// A schedule "gpu_matmul" but for guard and maps.
Schedule scheduleOf(const MatmulProblem &matmul, const Outer &outer,
                    const MatmulGpuSchedule &config);
/// By FMAs of f32, for every size. `run`: columns a region gets;
/// `window`: the left side is read through one.
Schedule simtSchedule(const MatmulProblem &matmul, int64_t run,
                      const TargetDesc &target, bool window);

} // namespace knapper
