//===- LaunchConfig.h - What a launch takes from any configuration --------===//
//
// Several configurations have these fields under the same keys. A tile program
// and the launch of its kernel read them without knowing whose they are:
// codegen/schedule/core/Schedule.cpp, compiler/exec/ExecProgram.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/Fields.h"

namespace knapper::config {

struct LaunchConfig {
  int64_t threads = 0; ///< of a CTA; 0: as its tiles have it
  int64_t access = 0;  ///< elements that a thread reads at once; 0: as above
  int64_t clusterSize = 0; ///< programs of a cluster; 0: no clusters
  /// CTAs that an SM is to hold at once, which bounds the registers of a
  /// thread; 0: the lowering's default.
  int64_t ctasPerSm = 0;
  bool tf32 = false; ///< operands of float32 are rounded to tf32

  template <class Config, class Visit>
  static void fields(Config &c, Visit &&visit) {
    constexpr int64_t none = 0;
    visit("threads", c.threads, none, false);
    visit("access", c.access, none, false);
    visit("cluster_size", c.clusterSize, none, false);
    visit("ctas_per_sm", c.ctasPerSm, none, false);
    visit("tf32", c.tf32, false, false);
  }
  /// Of a configuration's text form, whatever else it holds.
  static LaunchConfig of(const Parameters &parameters) {
    LaunchConfig launch;
    Parameters own;
    fields(launch, [&](const char *name, auto, auto, bool) {
      if (auto entry = parameters.find(name); entry != parameters.end())
        own.insert(*entry);
    });
    (void)parse(own, launch);
    return launch;
  }
};

} // namespace knapper::config
