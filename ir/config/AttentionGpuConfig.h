//===- AttentionGpuConfig.h - How a GPU computes an attention -------------===//
//
// The configuration of a `tile.attention`. The schedule chooses it
// (codegen/schedule/attention/GpuFlashAttention.cpp), the op carries it as its
// `shape`, the lowerings read it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/Fields.h"

namespace knapper::config {

/// The instructions that multiply.
enum class AttentionPath : int64_t {
  simt = 0,  ///< fused FMAs of f32
  wgmma = 1, ///< sm_90a: warpgroups, operands by TMA
};
constexpr AttentionPath largest(AttentionPath) { return AttentionPath::wgmma; }

/// What a row of the result is that sees no key.
enum class EmptyRow : int64_t {
  zero = 0,
  nan = 1,
  mean = 2, ///< of all values
};
constexpr EmptyRow largest(EmptyRow) { return EmptyRow::mean; }

struct AttentionGpuConfig {
  AttentionPath path = AttentionPath::simt;
  EmptyRow emptyRow = EmptyRow::zero;
  int64_t tileM = 0; ///< query rows of a CTA
  int64_t tileN = 0; ///< keys of a step
  /// Elements of a head, padded to 64 or 128; simt: result columns of a CTA.
  int64_t headDim = 0;
  int64_t stages = 0;    ///< of keys or values, in shared memory
  int64_t consumers = 0; ///< warpgroups that multiply, 64 rows each; simt: 0
  /// MiB of keys and values whose heads are walked together; 0: in their order.
  int64_t headGroupMiB = 0;

  /// Of an op that has been verified.
  static AttentionGpuConfig of(mlir::DictionaryAttr shape) {
    AttentionGpuConfig config;
    (void)parse(shape, config);
    return config;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("path", c.path, AttentionPath::simt, true);
    visit("empty_row", c.emptyRow, EmptyRow::zero, true);
    visit("tile_m", c.tileM, none, true);
    visit("tile_n", c.tileN, none, true);
    visit("head_dim", c.headDim, none, true);
    visit("stages", c.stages, none, true);
    visit("consumers", c.consumers, none, true);
    visit("head_group_mib", c.headGroupMiB, none, true);
  }
};

/// What the schedule decides beside: how the region gets the scores.
struct AttentionGpuSchedule : AttentionGpuConfig {
  int64_t scoreKeys = 1; ///< of one row, that the region gets at once

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    AttentionGpuConfig::fields(c, visit);
    constexpr int64_t one = 1;
    visit("run", c.scoreKeys, one, true);
  }
};

} // namespace knapper::config
