//===- RecurrenceConfig.h - How the steps of a cell are computed ----------===//
//
// The configuration of codegen/schedule/irregular/GpuRecurrence.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

#include <algorithm>

namespace knapper::config {

/// Of a CTA: `slices` neighbouring threads of a warp share a unit, each of
/// which keeps a part of its weights in registers.
struct RecurrenceGpuConfig {
  int64_t rows = 1;    ///< of a CTA; a power of two, at most `slices`
  int64_t slices = 1;  ///< threads a unit; a power of two, at most a warp
  int64_t clusterSize = 1; ///< CTAs of a cluster that share out the units
  int64_t threads = 0; ///< of a CTA
  bool packed = false; ///< registers hold two weights of 16 bits each

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("rows", c.rows, one, true);
    visit("slices", c.slices, one, true);
    visit("cluster_size", c.clusterSize, one, false);
    visit("threads", c.threads, none, true);
    visit("packed", c.packed, false, false);
  }
  bool fits(const Limits &limits) const {
    return threads <= limits.threads && clusterSize <= limits.clusterCtas;
  }
  /// Runs of `run` weights that a thread has of each matmul.
  int64_t runsOf(int64_t units, int64_t run) const {
    return (units + run * slices - 1) / (run * slices);
  }
  /// Elements from one row of a state in shared memory to the next: all units,
  /// as far as threads read and the cluster's CTAs write.
  int64_t pitchOf(int64_t units, int64_t run) const {
    return std::max(runsOf(units, run) * run * slices,
                    unitsOf(units) * clusterSize);
  }
  /// Bytes of shared memory of `states` states that are multiplied, twice each:
  /// f32.
  int64_t sharedBytes(int64_t states, int64_t units, int64_t run) const {
    return 2 * states * rows * pitchOf(units, run) * 4;
  }
  /// Units of a CTA, of so many in all: of a cluster's, runs of 16 bytes.
  int64_t unitsOf(int64_t all) const {
    int64_t each = (all + clusterSize - 1) / clusterSize;
    return clusterSize > 1 ? (each + 3) / 4 * 4 : each;
  }
  static RecurrenceGpuConfig of(mlir::DictionaryAttr shape) {
    RecurrenceGpuConfig config;
    (void)parse(shape, config);
    return config;
  }
};

} // namespace knapper::config
