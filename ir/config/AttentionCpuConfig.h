//===- AttentionCpuConfig.h - How a CPU computes an attention -------------===//
//
// The configurations of the schedules cpu_attention and cpu_paged_attention.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// codegen/schedule/attention/CpuAttention.cpp.
struct AttentionCpuConfig {
  int64_t rows = 0;  ///< queries of a program
  int64_t panel = 0; ///< keys, or columns of values, that are packed together

  bool fits(const Limits &limits) const {
    return rows >= 1 && panel >= 1 && panel * 4 <= limits.registerBytes;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("rows", c.rows, none, true);
    visit("panel", c.panel, none, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.rows, {64, 96, 192, 32});
    visit(c.panel, {64, 16});
  }
};

/// codegen/schedule/attention/CpuPagedAttention.cpp.
struct PagedAttentionCpuConfig {
  int64_t tokens = 0; ///< of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("tokens", c.tokens, none, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.tokens, {c.tokens / 2, 1});
  }
};

} // namespace knapper::config
