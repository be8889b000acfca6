//===- PjrtProfiler.h - What runs while a client records ------------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <vector>

namespace knapper::pjrt {

/// Whether a client records now: a run then has a clock around every launch.
/// Thread-safe, and cheap.
bool isRecorded();
struct RecordedRun {
  int device;
  int64_t start;       ///< nanoseconds after 1970
  std::string profile; ///< the JSON of knapper_profile
};
/// For every client that records. Thread-safe.
void recordRun(const RecordedRun &run);
/// The launches of runs as an XSpace of OpenXLA's profiler, a plane a device;
/// times count from `start`.
std::string toXSpace(const std::vector<RecordedRun> &runs, int64_t start);

} // namespace knapper::pjrt
