//===- ReduceConfig.h - How rows and columns are reduced ------------------===//
//
// The configurations of the schedules reduce and short_rows
// (codegen/schedule/reduce).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper::config {

/// ReduceChoose.cpp.
struct ReduceConfig {
  int64_t lanes = 0;    ///< elements of a tile
  bool rowForm = false; ///< tiles run along the reduced dim
  int64_t rows = 1;     ///< of a program
  bool stream = false;  ///< stores go past the caches
  int64_t threads = 0;  ///< of a CTA; 0: as its tiles have it
  int64_t group = 1;    ///< rows that are in work at once
  /// Programs of a cluster that share out a row (each a CTA) or a column (each
  /// a warp or more of a CTA).
  int64_t clusterSize = 1;
  bool across = false; ///< columns of several kept dims are one run
  int64_t access = 0;  ///< elements that a thread reads at once; 0: any

  // Columns whose rows the threads of a CTA share out (ReduceShared.cpp).
  int64_t columns = 0;       ///< beside each other in a tile; 0: not so
  int64_t columnThreads = 0; ///< that share out each of them
  int64_t tiles = 1;         ///< of a program
  int64_t ctasPerSm = 0;     ///< as in LaunchConfig

  bool fits(const Limits &limits) const {
    return threads <= limits.threads &&
           (columns == 0 ||
            (lanes == threads && columnThreads > 0 && tiles > 0 &&
             columns <= lanes && columnThreads <= lanes && tiles <= lanes &&
             columns * columnThreads * tiles <= lanes));
  }

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0, one = 1;
    visit("lanes", c.lanes, none, true);
    visit("row", c.rowForm, false, true);
    visit("rows", c.rows, one, true);
    visit("stream", c.stream, false, true);
    visit("threads", c.threads, none, false);
    visit("group", c.group, one, false);
    visit("cluster_size", c.clusterSize, one, false);
    visit("across", c.across, false, false);
    visit("access", c.access, none, false);
    visit("columns", c.columns, none, false);
    visit("column_threads", c.columnThreads, none, c.columns > 0);
    visit("tiles", c.tiles, one, false);
    visit("ctas_per_sm", c.ctasPerSm, none, false);
  }
  template <class Config, class Visit>
  static void space(Config &c, Visit &&visit) {
    visit(c.lanes, {c.lanes / 2, 2 * c.lanes});
  }
};

/// ShortRows.cpp.
struct ShortRowsConfig {
  int64_t rows = 0; ///< of a program

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("rows", c.rows, none, true);
  }
};

} // namespace knapper::config
