//===- CpuMatmul.h - What choosing and building matmuls share ------------===//
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/matmul/AmxSplitFloat.h"
#include "codegen/schedule/matmul/MatmulProblem.h"
#include "ir/config/MatmulCpuConfig.h"

namespace knapper {

using config::MatmulCpuConfig;

/// Scratch for the accumulators of a register tile: at most 12 x 64 f32, in
/// tile registers 32 x 64.
constexpr int64_t accumulatorBytes(bool inTiles) {
  return inTiles ? 8192 : 4096;
}

/// Elements of K that one step takes. They are contiguous in a packed panel,
/// and on targets with dot instructions for pairs also in a gathered panel.
int64_t dotGroup(const MatmulProblem &matmul);

/// Rows of a gathered panel beyond K, at most: it is transposed in blocks.
constexpr int64_t kRowsPastPanel = 16;

/// Whether programs read a right side that is no constant in place, without
/// gathering panels. Its columns must be consecutive, and either there are too
/// few rows for a copy to pay, or the copy would not be laid out better. In a
/// wide matrix each row of a panel is one cache line, at a distance that maps
/// to few cache sets.
bool readsInPlace(const MatmulProblem &matmul, const TargetDesc &target,
                  int64_t panel);

/// Whether the panel that a program takes next is fetched while this one is
/// used, though it is no constant: its columns lie one after the other
/// ([N, K]), and the whole does not stay in the second-level cache, which has
/// room for the next one.
bool fetchesUnpacked(const MatmulProblem &matmul, const TargetDesc &target,
                     int64_t panel);

/// Whether programs copy their rows of a left side whose rows are consecutive
/// in memory (the gradient of a weight): each element of K is then a cache
/// line, at distances as above. The copy is [K][rowPitch] in scratch, behind
/// panelBytes.
bool copiesRows(const MatmulProblem &matmul, const TargetDesc &target);
/// Elements from one element of K to the next in that copy: an odd number of
/// cache lines, so that they spread over all cache sets.
constexpr int64_t rowPitch(int64_t blockRows) {
  return ((blockRows + 31) / 16 | 1) * 16;
}
/// Bytes of scratch for a gathered panel of a right side that is no constant.
constexpr int64_t panelBytes(int64_t depth, int64_t panel) {
  return (depth + kRowsPastPanel) * panel * 4 + 64;
}

/// How the rows of a matmul are divided among programs. Programs are numbered
/// by block, then by panel, then by part of the block's rows.
struct RowSplit {
  ts::Dim blocks, parts;
};

/// The division that a configuration says.
RowSplit splitOf(const MatmulProblem &matmul, const MatmulCpuConfig &config);

/// A program's matmul in parts of bf16, where this target has those and the
/// configuration takes them.
std::optional<SplitShape> splitShape(const MatmulCpuConfig &config,
                                     const TargetDesc &target,
                                     const MatmulProblem &matmul);

} // namespace knapper
