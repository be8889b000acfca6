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

/// How many of K a step takes: what lies together in a packed panel, and on
/// targets with products of pairs in a gathered one.
int64_t dotGroup(const MatmulProblem &matmul);

/// Rows of a gathered panel beyond K, at most: it is transposed in blocks.
constexpr int64_t kRowsPastPanel = 16;

/// Whether programs read panels of a right side that is no constant where they
/// lie: the columns are consecutive, and there are too few rows to be worth a
/// copy, or the copy would lie no better. Rows of a wide matrix are a line each
/// of a panel, at distances that often fall into a few sets of the caches.
bool readsInPlace(const MatmulProblem &matmul, const TargetDesc &target,
                  int64_t panel);

/// Whether programs copy their rows of a left side whose columns are
/// consecutive (the gradient of a weight): an element of K is then a line, at
/// distances as above. `[K][rowPitch]` in scratch, behind what `panelBytes`
/// counts.
bool copiesRows(const MatmulProblem &matmul, const TargetDesc &target);
/// Elements of K lie an odd number of lines apart.
constexpr int64_t rowPitch(int64_t blockRows) {
  return ((blockRows + 31) / 16 | 1) * 16;
}
/// Scratch for a panel of a right side that is no constant.
constexpr int64_t panelBytes(int64_t depth, int64_t panel) {
  return (depth + kRowsPastPanel) * panel * 4 + 64;
}

/// How the rows of a matmul are cut. Programs are numbered block by block,
/// within a block panel by panel, of a panel part by part.
struct RowSplit {
  ts::Dim blocks, parts;
};

/// As a configuration has it.
RowSplit splitOf(const MatmulProblem &matmul, const MatmulCpuConfig &config);

/// A program's matmul in parts of bf16, where this target has those and the
/// configuration takes them.
std::optional<SplitShape> splitShape(const MatmulCpuConfig &config,
                                     const TargetDesc &target,
                                     const MatmulProblem &matmul);

} // namespace knapper
