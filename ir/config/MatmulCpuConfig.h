//===- MatmulCpuConfig.h - How a CPU computes a matmul --------------------===//
//
// The configuration of the schedule cpu_matmul
// (codegen/schedule/matmul/CpuMatmulChoose.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

struct MatmulCpuConfig {
  /// The target computes no matmuls of f32 in parts of bf16.
  static constexpr int64_t kNoFloatParts = -1;

  int64_t panel = 0;  ///< columns of B that lie side by side
  int64_t rows = 0;   ///< of a block of A
  int64_t blocks = 1; ///< of rows, at least, where rows are cut
  int64_t parts = 1;  ///< of rows that share a panel, at least
  /// Parts of bf16 that an f32 is split into; 0: none.
  int64_t floatParts = kNoFloatParts;

  bool fits(const Limits &limits) const {
    return rows >= 1 && panel >= 1 && panel * 4 <= limits.registerBytes;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1, absent = kNoFloatParts;
    visit("panel", c.panel, none, true);
    visit("rows", c.rows, none, true);
    visit("blocks", c.blocks, one, true);
    visit("parts", c.parts, one, true);
    visit("split", c.floatParts, absent, false);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.panel, {48, 64, 32, 16});
    visit(c.rows, {96, 192, 384, 768});
    visit(c.blocks, {1, 4, 8, 16});
    visit(c.parts, {1, 2, 4});
  }
};

} // namespace knapper::config
