// The tile shapes of a GPU's matmul, and a model of the time that each takes.
// Caller: GpuMatmulChoose.cpp.
#pragma once

#include "ir/config/Machine.h"
#include <cstdint>
#include <optional>

namespace knapper {

/// How wgmma kernels tile the result: tiles of rows x columns, 64 elements of K
/// a step, `stages` steps in flight, `consumers` warpgroups that multiply. With
/// `pingpong` each of two consumers has a tile of its own, and one's epilogue
/// overlaps the other's matmuls.
struct GpuTileShape {
  int64_t rows, columns, stages, consumers, pingpong;
  int64_t split = 1;     ///< split-K: CTAs of a cluster that share K
  int64_t aRows = rows;  ///< rows of A that are copied to shared memory
  int64_t ctasPerSm = 1; ///< CTAs resident on an SM
  /// Tiles of a cluster along rows and columns; its CTAs load for each other by
  /// TMA multicast.
  int64_t clusterRows = 1, clusterColumns = 1;
  /// The operands are swapped: rows of a tile are columns of the result. A
  /// tile's columns are a multiple of 8, its rows of 64.
  bool swapAB = false;
  /// Epilogue chunks that a consumer has shared memory for. 0: the chunks reuse
  /// the operands' memory, and each CTA computes one tile.
  int64_t epilogueChunks = 2;
  /// Raster group: rows of clusters that are computed before the next column.
  int64_t group = rows >= 128 ? 12 : 16;

  int64_t cluster() const { return split * clusterRows * clusterColumns; }
  /// Columns for which a CTA of a split-K cluster runs the epilogue, and
  /// columns of one epilogue chunk (`swapAB`: rows).
  int64_t ownColumns() const;
  int64_t chunkColumns() const;
};

/// The input of the model: sizes, the machine, and how the operands lie. A
/// pitch is the number of elements from one row to the next (`transposed`: from
/// one element of K to the next).
struct GpuMatmulProblem {
  int64_t batch, m, n, k;
  config::Machine machine;
  int64_t aPitch, bPitch;
  bool aTransposed, bTransposed;
  bool stores; ///< results are stored through shared memory
  bool staged; ///< operands are loaded through registers, not by TMA
  /// The rows are known to be no more than this.
  std::optional<int64_t> mostRows;
  bool splits;           ///< K is a constant, so that split-K is possible
  bool swaps = false;    ///< the operands may be swapped
  bool grouped = false;  ///< grouped GEMM: CTAs of a cluster share rows only
  bool gathered = false; ///< a warpgroup loads A through a window
  /// Operations of the epilogue for each element of the result.
  int64_t operations = 0;

  int64_t sms() const { return machine.cores; }
};

/// The shape with the least modelled time.
GpuTileShape chooseTileShape(const GpuMatmulProblem &problem);

/// How mma.sync kernels tile the result: one tile for each CTA.
struct MmaSyncTileShape {
  int64_t rows, columns, warps;
  int64_t warpRows; ///< warps along the tile's rows
  int64_t stages;
};

/// The shape with the least modelled time. `elementBytes`: of an operand.
/// `sharedBytes`: shared memory of an SM. Reads of the problem the sizes,
/// `aTransposed`, `bTransposed` and `staged` (here: cp.async cannot copy a
/// side).
MmaSyncTileShape chooseMmaSyncTileShape(const GpuMatmulProblem &problem,
                                        int64_t elementBytes,
                                        int64_t sharedBytes);

/// The modelled time of the whole matmul in cycles of an SM.
double modelledCycles(const GpuTileShape &blocks,
                      const GpuMatmulProblem &problem);

} // namespace knapper
