//===- PointwiseConfig.h - How elementwise kernels are computed -----------===//
//
// The configurations of the schedules pointwise
// (codegen/schedule/pointwise/Pointwise.cpp) and loop_nest
// (codegen/schedule/core/LoopNest.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

struct PointwiseConfig {
  int64_t lanes = 0;   ///< elements of a tile
  int64_t block = 0;   ///< elements of a program, along `dim`
  bool flat = false;   ///< all tensors are seen as one run
  int64_t dim = 0;     ///< that tiles run along
  int64_t rows = 1;    ///< of the dim before, of a program
  bool stream = false; ///< stores go past the caches

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("lanes", c.lanes, none, true);
    visit("block", c.block, none, true);
    visit("flat", c.flat, false, true);
    visit("dim", c.dim, none, true);
    visit("rows", c.rows, one, true);
    visit("stream", c.stream, false, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.lanes, {c.lanes / 2, 2 * c.lanes});
    visit(c.block, {8192, 2048, 16384, 1024});
  }
};

struct PointwiseCpuConfig : PointwiseConfig {
  /// Rows of the dim two before that are read side by side (a transpose's).
  int64_t beside = 1;
  bool across = false; ///< a tile runs over several short rows
  int64_t repeat = 1;  ///< times that a row's elements are stored side by side

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    PointwiseConfig::fields(c, visit);
    constexpr int64_t one = 1;
    visit("beside", c.beside, one, true);
    visit("across", c.across, false, false);
    visit("repeat", c.repeat, one, false);
  }
};

struct PointwiseGpuConfig : PointwiseConfig {
  bool across = false; ///< a tile runs over several short rows
  int64_t threads = 0; ///< of a CTA; 0: as its tiles have it
  int64_t access = 0;  ///< elements of a thread's access; 0: of 16 bytes

  bool fits(const Limits &limits) const { return threads <= limits.threads; }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    PointwiseConfig::fields(c, visit);
    constexpr int64_t none = 0;
    visit("across", c.across, false, true);
    visit("threads", c.threads, none, false);
    visit("access", c.access, none, false);
  }
};

struct LoopNestConfig {
  int64_t lanes = 0;   ///< elements of the result that a program computes
  bool across = false; ///< over several rows

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
    visit("across", c.across, false, true);
  }
};

} // namespace knapper::config
