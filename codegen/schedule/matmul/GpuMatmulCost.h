// How a matmul on a GPU's warpgroups is cut into blocks: what there is to
// choose from, and a model of the time each choice takes.
#pragma once

#include "ir/config/Machine.h"
#include <cstdint>
#include <optional>

namespace knapper {

/// One way to cut the result into blocks. Depth 64 a step; with ping-pong each
/// of the two warpgroups has a block of its own and one's epilogue runs under
/// the other's matmuls.
struct GpuTileShape {
  int64_t rows, columns, stages, consumers, pingpong;
  int64_t split = 1;     ///< blocks of a cluster that share a depth
  int64_t aRows = rows;  ///< rows of A that are copied
  int64_t ctasPerSm = 1; ///< blocks that an SM holds at once
  /// Tiles of a cluster side by side, which copy for each other.
  int64_t clusterRows = 1, clusterColumns = 1;
  /// Sides change places: rows of blocks are columns of the result. Columns of
  /// blocks go in steps of 8, rows in steps of 64.
  bool swapAB = false;
  /// Chunks of the result a consumer has memory for; 0: they take the place of
  /// the operands, and each program has one block.
  int64_t epilogueChunks = 2;
  /// Rows of clusters that follow one another before their columns do.
  int64_t group = rows >= 128 ? 12 : 16;

  int64_t cluster() const { return split * clusterRows * clusterColumns; }
  /// Columns that a block of a cluster ends, and those of a box of the result
  /// (swapAB: its rows).
  int64_t ownColumns() const;
  int64_t chunkColumns() const;
};

/// What a choice depends on. Pitches: elements from line to line (row, or depth
/// where `transposed`) of an operand.
struct GpuMatmulProblem {
  int64_t batch, m, n, k;
  config::Machine machine;
  int64_t aPitch, bPitch;
  bool aTransposed, bTransposed;
  bool stores; ///< results leave through shared memory
  bool staged; ///< by warpgroups, not by copies
  /// Not more rows than this: other rows need not be copied.
  std::optional<int64_t> mostRows;
  bool splits;           ///< the depth is known
  bool swaps = false;    ///< the sides may change places
  bool grouped = false;  ///< CTAs of a cluster share rows alone
  bool gathered = false; ///< A by a warpgroup's accesses, through a window
  /// What the kernel computes of each element after the matmul.
  int64_t operations = 0;

  int64_t sms() const { return machine.cores; }
};

/// The blocks with the least modelled time.
GpuTileShape chooseTileShape(const GpuMatmulProblem &problem);

/// One way to cut a matmul that warps multiply (mma.sync), a block a program.
struct MmaSyncTileShape {
  int64_t rows, columns, warps;
  int64_t warpRows; ///< warps that share a block's rows
  int64_t stages;
};

/// The blocks with the least modelled time. `elementBytes` of an operand;
/// `sharedBytes` of an SM; `staged`: a side that cp.async does not copy.
/// Uses sizes and `aTransposed`, `bTransposed`, `staged` of the problem.
MmaSyncTileShape chooseMmaSyncTileShape(const GpuMatmulProblem &problem,
                                        int64_t elementBytes,
                                        int64_t sharedBytes);

/// The modelled time, in cycles of an SM.
double modelledCycles(const GpuTileShape &blocks,
                      const GpuMatmulProblem &problem);

} // namespace knapper
