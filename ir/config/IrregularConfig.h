//===- IrregularConfig.h - How scans, sorts and scatters are computed -----===//
//
// The configurations of the schedules in codegen/schedule/irregular.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// CpuScan.cpp.
struct ScanCpuConfig {
  int64_t lanes = 0; ///< lines side by side; 0: one, element by element

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
  }
};

/// What a CTA's tile of a scan is.
enum class ScanForm : int64_t {
  row = 0,       ///< of one line
  shortRows = 1, ///< several lines
  columns = 2,   ///< an element of each of the lines beside each other
  lookBack = 3,  ///< of one line, whose CTAs look back at the tiles before
  lines = 4,     ///< an element of each of many lines, wherever they lie
  narrow = 5, ///< of few lines beside each other, all of them; CTAs look back,
              ///< or have whole lines
};
constexpr ScanForm largest(ScanForm) { return ScanForm::narrow; }

/// GpuScan.cpp.
struct ScanGpuConfig {
  ScanForm form = ScanForm::row;
  int64_t lanes = 0;       ///< elements of a tile
  int64_t threads = 0;     ///< of a CTA; 0: as its tiles have it
  int64_t rowLength = 0;   ///< shortRows: of a line, padded
  int64_t clusterSize = 1; ///< CTAs of a cluster that share out a line
  int64_t steps = 0;       ///< narrow: elements of a line that a thread has
  int64_t access = 0;      ///< narrow: elements that a thread reads at once
  int64_t tiles = 0;       ///< narrow: of whole lines; 0: CTAs look back
  int64_t ctasPerSm = 0;   ///< as in LaunchConfig

  bool fits(const Limits &limits) const {
    return threads <= limits.threads && clusterSize <= limits.clusterCtas;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("form", c.form, ScanForm::row, true);
    visit("lanes", c.lanes, none, true);
    visit("threads", c.threads, none, false);
    visit("columns", c.rowLength, none, c.form == ScanForm::shortRows);
    visit("cluster_size", c.clusterSize, one, false);
    visit("steps", c.steps, none, c.form == ScanForm::narrow);
    visit("access", c.access, none, c.form == ScanForm::narrow);
    visit("tiles", c.tiles, none, false);
    visit("ctas_per_sm", c.ctasPerSm, none, false);
  }
};

/// Sort.cpp.
struct SortConfig {
  int64_t lanes = 0; ///< GPUs: elements of a CTA, whose ranks it finds; CPUs: 0
  bool radix = false; ///< CPUs: by bits of keys; else by merging runs

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
    visit("radix", c.radix, false, true);
  }
};

/// CpuTopK.cpp.
struct TopKCpuConfig {
  int64_t lanes = 0; ///< that keep their best; 0: all elements are listed
  int64_t held = 0;  ///< of them at once

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
    visit("held", c.held, none, true);
  }
};

/// CpuTruePlaces.cpp.
struct TruePlacesCpuConfig {
  int64_t lanes = 0; ///< of the mask that are looked at at once

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
  }
};

/// CpuSuppression.cpp.
struct SuppressionCpuConfig {
  int64_t lanes = 0; ///< scores of a group, and taken boxes compared at once

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("lanes", c.lanes, none, true);
  }
};

/// What the sorts of GPUs share.
struct SortTileGpuConfig {
  int64_t lanes = 0;   ///< elements of a tile
  int64_t threads = 0; ///< of a CTA
  int64_t access = 1;  ///< elements that a thread reads at once

  bool fits(const Limits &limits) const { return threads <= limits.threads; }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("lanes", c.lanes, none, true);
    visit("threads", c.threads, none, true);
    visit("access", c.access, one, true);
  }
};

/// GpuTopK.cpp.
struct TopKGpuConfig : SortTileGpuConfig {
  int64_t tiles = 0;       ///< that are read at once
  int64_t places = 0;      ///< of the list in shared memory
  int64_t clusterSize = 1; ///< CTAs of a cluster that share out a line
  int64_t ctasPerSm = 0;   ///< as in LaunchConfig

  bool fits(const Limits &limits) const {
    return SortTileGpuConfig::fits(limits) && clusterSize <= limits.clusterCtas;
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    SortTileGpuConfig::fields(c, visit);
    constexpr int64_t none = 0, one = 1;
    visit("tiles", c.tiles, none, true);
    visit("places", c.places, none, true);
    visit("cluster_size", c.clusterSize, one, false);
    visit("ctas_per_sm", c.ctasPerSm, none, false);
  }
};

/// GpuLineSort.cpp.
struct LineSortGpuConfig : SortTileGpuConfig {
  bool staged = false; ///< lines go through shared memory

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    SortTileGpuConfig::fields(c, visit);
    visit("staged", c.staged, false, true);
  }
};

/// GpuRadixSort.cpp.
struct RadixSortGpuConfig {
  int64_t threads = 0;   ///< of a CTA
  int64_t items = 0;     ///< words of a thread
  int64_t ctasPerSm = 0; ///< as in LaunchConfig

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("threads", c.threads, none, true);
    visit("items", c.items, none, true);
    visit("ctas_per_sm", c.ctasPerSm, none, false);
  }
};

/// GpuMergeSort.cpp.
struct MergeSortGpuConfig : SortTileGpuConfig {
  int64_t steps = 0; ///< elements of a thread

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    SortTileGpuConfig::fields(c, visit);
    constexpr int64_t none = 0;
    visit("steps", c.steps, none, true);
  }
};

/// GpuBitonicSort.cpp.
struct BitonicSortGpuConfig : SortTileGpuConfig {
  int64_t size = 0; ///< of a line, padded

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    SortTileGpuConfig::fields(c, visit);
    constexpr int64_t none = 0;
    visit("size", c.size, none, true);
  }
};

/// Scatter.cpp.
struct ScatterConfig {
  int64_t lanes = 0;  ///< updates side by side; 0: one
  int64_t ranges = 1; ///< of the indexed dim, each a program's
  int64_t ahead = 0;  ///< CPUs: places and updates computed side by side before
                      ///< they are combined one after the other; 0: one
  bool atomic = false; ///< GPUs: updates meet in memory
  bool apart = false;  ///< GPUs: no two updates meet
  int64_t threads = 0; ///< atomic, apart: of a program

  bool fits(const Limits &limits) const { return threads <= limits.threads; }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("lanes", c.lanes, none, true);
    visit("ranges", c.ranges, one, true);
    visit("ahead", c.ahead, none, false);
    visit("atomic", c.atomic, false, false);
    visit("apart", c.apart, false, false);
    visit("threads", c.threads, none, c.atomic || c.apart);
  }
};

} // namespace knapper::config
