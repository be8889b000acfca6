//===- Times.h - Measured kernels against the machine's peaks -------------===//
#pragma once

#include "compiler/report/Writer.h"

#include <vector>

namespace knapper::report {

/// What `profiles` (at least one, each the JSON of knapper_profile, runs on the
/// same inputs) say of the module of `description` (knapper_module_describe)
/// on a machine whose `devices` were measured (knapper_devices):
///   {"isa", "device", "runs", "sizes": {name: value},
///    "peak_gflops", "peak_gbps", "total_us", "kernels_us", "outside_us",
///    "advice": [...],                     of the module as a whole
///    "launches": [{"index", "kernel", "origin", "executions", "us", "flops",
///                  "bytes", "roofline_percent", "bound_by"}],  in order
///    "kernels": [{"kernel", "schedule", "origin", "launches", "indices", "us",
///                 "share_percent", "flops", "bytes", "gflops", "gbps",
///                 "roofline_percent", "bound_by", "advice": [...]}]}
/// Times are medians of the runs, in microseconds; kernels have those of all
/// their launches together, the longest first. "bound_by" is the peak that
/// decides: "memory" (bandwidth) or "arithmetic", or "" where no peak is known.
/// "advice" has objects {"kind", "text"} (Advice.h).
Json timesOf(const Json &description, const std::vector<Json> &profiles,
             const Json &devices);

/// The least time that the peaks of `times` allow, as a percentage of `us`.
double rooflinePercent(const Json &times, double flops, double bytes,
                       double us);

/// The entry of "unique_kernels" in the description's report that has the
/// function's signature in its name; null where there is none.
const Json &kernelOf(const Json &description, const std::string &function);

} // namespace knapper::report
