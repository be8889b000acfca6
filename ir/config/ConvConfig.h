//===- ConvConfig.h - How convolutions are computed -----------------------===//
//
// The configurations of the schedules in codegen/schedule/conv. (Implicit GEMM
// on GPUs has that of a matmul.)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// What the schedules on CPUs share: a program computes a block of the output's
/// pixels, for one group of the panels of features.
struct ConvCpuBlock {
  int64_t panel = 0;   ///< features that are packed side by side
  int64_t rows = 0;    ///< of a block
  int64_t columns = 0; ///< of a block; 0: whole rows
  int64_t groups = 1;  ///< of panels, each a program

  bool fits(const Limits &limits) const {
    return rows >= 1 && groups >= 1 && panel >= 1 &&
           panel * 4 <= limits.registerBytes;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("panel", c.panel, none, true);
    visit("rows", c.rows, none, true);
    visit("columns", c.columns, none, true);
    visit("groups", c.groups, one, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.panel, {32, 48, 64, 16});
    visit(c.groups, {2 * c.groups, c.groups / 2, 1});
  }
};

/// What is decided of a convolution on CPUs before its block is: what tuning
/// tries, and no parameter of a schedule.
struct ConvCpuPlan {
  int64_t share = 4;     ///< a block may take 4 / share of what it does else
  bool winograd = false; ///< CpuWinograd.cpp takes it

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t four = 4;
    visit("share", c.share, four, true);
    visit("winograd", c.winograd, false, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.share, {2, 8, 1});
  }
};

/// CpuConv.cpp.
struct ConvCpuConfig : ConvCpuBlock {
  /// A filter row at a time, over the whole block; its sums are in scratch.
  bool split = false;
  /// Channels whose taps of a panel a program transposes at a time, of a filter
  /// that it reads in place; 0: the filter is packed.
  int64_t chunk = 0;

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    ConvCpuBlock::fields(c, visit);
    visit("split", c.split, false, true);
    visit("chunk", c.chunk, none, false);
  }
};

/// CpuWinograd.cpp; `rows` and `columns` count tiles of 2 x 2 outputs.
struct WinogradCpuConfig : ConvCpuBlock {};

/// CpuGroupedConv.cpp.
struct GroupedConvCpuConfig {
  int64_t lanes = 0;  ///< features of a register
  int64_t pixels = 0; ///< most side by side, each a register of sums
  int64_t rows = 0;   ///< of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
    visit("pixels", c.pixels, none, true);
    visit("rows", c.rows, none, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.pixels, {(c.pixels + 1) / 2, c.pixels * 3 / 4});
    visit(c.rows, {(c.rows + 1) / 2, 2 * c.rows});
  }
};

/// CpuPlaneConv.cpp, CpuPlaneDepthwise.cpp and CpuPlanePool.cpp.
struct PlaneCpuConfig {
  int64_t rows = 0; ///< output rows of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("rows", c.rows, none, true);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.rows, {(c.rows + 1) / 2, 2 * c.rows});
  }
};

/// GpuDepthwise.cpp.
struct DepthwiseGpuConfig {
  int64_t lanes = 0;  ///< channels of a CTA
  int64_t pixels = 0; ///< of a row, that a CTA computes

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
    visit("pixels", c.pixels, none, true);
  }
};

/// GpuDepthwiseRows.cpp.
struct DepthwiseRowsGpuConfig {
  int64_t rows = 0;    ///< results of a thread, one below the other
  int64_t threads = 1; ///< of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("rows", c.rows, none, true);
    visit("threads", c.threads, one, true);
  }
};

/// GpuDirectConv.cpp.
struct DirectConvGpuConfig {
  int64_t features = 0; ///< of a thread
  int64_t rows = 0;     ///< results of each feature, one below the other
  int64_t threads = 1;  ///< of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("features", c.features, none, true);
    visit("rows", c.rows, none, true);
    visit("threads", c.threads, one, true);
  }
};

/// GpuWindow.cpp.
struct WindowGpuConfig {
  int64_t lanes = 0;   ///< channels, or columns, of a thread; 0: one
  int64_t threads = 1; ///< of a program

  bool fits(const Limits &limits) const { return threads <= limits.threads; }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("lanes", c.lanes, none, true);
    visit("threads", c.threads, one, true);
  }
};

} // namespace knapper::config
