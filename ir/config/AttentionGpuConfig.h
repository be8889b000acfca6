//===- AttentionGpuConfig.h - How a GPU computes an attention -------------===//
//
// The configurations of a `tile.attention` and a `tile.paged_attention`. The
// schedules choose them (codegen/schedule/attention/GpuFlashAttention.cpp,
// GpuPagedAttention.cpp), the ops carry them as `shape`, the lowerings read
// them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// The instructions that multiply.
enum class AttentionAlgorithm : int64_t {
  simt = 0,  ///< fused FMAs of f32
  wgmma = 1, ///< sm_90a: warpgroups, operands by TMA
};
constexpr AttentionAlgorithm largest(AttentionAlgorithm) {
  return AttentionAlgorithm::wgmma;
}

/// What a row of the result is that sees no key.
enum class EmptyRowValue : int64_t {
  zero = 0,
  nan = 1,
  mean = 2, ///< of all values
};
constexpr EmptyRowValue largest(EmptyRowValue) { return EmptyRowValue::mean; }

struct AttentionGpuConfig {
  AttentionAlgorithm algorithm = AttentionAlgorithm::simt;
  EmptyRowValue emptyRow = EmptyRowValue::zero;
  int64_t tileM = 0; ///< query rows of a CTA
  int64_t tileN = 0; ///< keys of a step
  /// Elements of a head, padded to 64, 128, 192 or 256; simt: result columns of a CTA.
  int64_t headDim = 0;
  int64_t stages = 0;    ///< of keys or values, in shared memory
  int64_t consumers = 0; ///< warpgroups that multiply, 64 rows each; simt: 0
  /// MiB of keys and values whose heads are walked together; 0: in their order.
  int64_t headGroupMiB = 0;

  static constexpr int64_t kSimtThreads = 128;
  /// Of a CTA.
  int64_t threads() const {
    return algorithm == AttentionAlgorithm::simt ? kSimtThreads
                                                 : 128 * (consumers + 1);
  }
  /// wgmma: two blocks of queries and the stages, 16-bit elements; barriers
  /// come on top.
  int64_t blockBytes() const {
    return (2 * tileM + stages * tileN) * headDim * 2;
  }
  bool fits(const Limits &limits) const {
    return threads() <= limits.threads &&
           (algorithm == AttentionAlgorithm::simt ||
            blockBytes() <= limits.sharedBytesPerCta());
  }

  /// Of an op that has been verified.
  static AttentionGpuConfig of(mlir::DictionaryAttr shape) {
    AttentionGpuConfig config;
    (void)parse(shape, config);
    return config;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("algorithm", c.algorithm, AttentionAlgorithm::simt, true);
    visit("empty_row", c.emptyRow, EmptyRowValue::zero, true);
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

/// The instructions that multiply queries with keys in blocks.
enum class PagedAttentionAlgorithm : int64_t {
  simt = 0,    ///< fused FMAs of f32: a warp a token and head
  mmaSync = 1, ///< from sm_80 on, f16 and bf16: keys by cp.async
};
constexpr PagedAttentionAlgorithm largest(PagedAttentionAlgorithm) {
  return PagedAttentionAlgorithm::mmaSync;
}

struct PagedAttentionGpuConfig {
  PagedAttentionAlgorithm algorithm = PagedAttentionAlgorithm::simt;
  int64_t heads = 0, keyHeads = 0;
  int64_t positions = 0; ///< of a block
  int64_t depth = 0;     ///< elements of a query and a key
  int64_t columns = 0;   ///< elements of a value
  int64_t warps = 0;
  /// mmaSync: neighbouring tokens of a CTA, whose rows the warps share out. 0:
  /// one token, whose keys they share out.
  int64_t tokens = 0;
  int64_t keys = 0;     ///< mmaSync: of a step
  int64_t stages = 0;   ///< mmaSync: steps in shared memory
  int64_t keySplit = 1; ///< CTAs of a cluster that share a token's keys

  bool fits(const Limits &limits) const {
    return 32 * warps <= limits.threads && keySplit <= limits.clusterCtas;
  }

  /// Of an op that has been verified.
  static PagedAttentionGpuConfig of(mlir::DictionaryAttr shape) {
    PagedAttentionGpuConfig config;
    (void)parse(shape, config);
    return config;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("algorithm", c.algorithm, PagedAttentionAlgorithm::simt, true);
    bool mmaSync = c.algorithm == PagedAttentionAlgorithm::mmaSync;
    visit("heads", c.heads, none, true);
    visit("key_heads", c.keyHeads, none, true);
    visit("positions", c.positions, none, true);
    visit("depth", c.depth, none, true);
    visit("columns", c.columns, none, true);
    visit("warps", c.warps, none, true);
    visit("tokens", c.tokens, none, mmaSync);
    visit("keys", c.keys, none, mmaSync);
    visit("stages", c.stages, none, mmaSync);
    visit("key_split", c.keySplit, one, false);
  }
};

} // namespace knapper::config
