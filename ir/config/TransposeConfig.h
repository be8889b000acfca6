//===- TransposeConfig.h - How transposes are computed --------------------===//
//
// The configurations of the schedules cpu_transpose and gpu_transpose
// (codegen/schedule/pointwise).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

struct TransposeCpuConfig {
  int64_t rows = 0, columns = 0; ///< of a program's block of the result
  bool stream = false;           ///< stores go past the caches
  bool fetch = false;            ///< the next tiles are asked for ahead
  bool stage = false;            ///< by scratch, along the operand's rows first

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("rows", c.rows, none, true);
    visit("columns", c.columns, none, true);
    visit("stream", c.stream, false, true);
    visit("fetch", c.fetch, false, true);
    visit("stage", c.stage, false, true);
  }
};

struct TransposeGpuConfig {
  int64_t rows = 0, columns = 0; ///< of a CTA's tile of the result
  int64_t threads = 0;           ///< of a CTA

  bool fits(const Limits &limits) const {
    return threads <= limits.threads &&
           rows * columns <= limits.sharedBytesPerCta();
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("rows", c.rows, none, true);
    visit("columns", c.columns, none, true);
    visit("threads", c.threads, none, true);
  }
};

} // namespace knapper::config
