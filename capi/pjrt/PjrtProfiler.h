//===- PjrtProfiler.h - What runs while a client records ------------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"
#include <vector>

namespace knapper::pjrt {

/// Whether a client records now: a run then has a clock around every launch.
/// Thread-safe, and cheap.
bool isRecorded();
/// A run that began so many nanoseconds after 1970; `profile`: the JSON of
/// knapper_profile. For every client that records. Thread-safe.
void recordRun(int64_t start, std::string profile);
/// The launches of such a profile as an XSpace of OpenXLA's profiler.
struct RecordedRun {
  int64_t start;
  std::string profile;
};
std::string toXSpace(const std::vector<RecordedRun> &runs, int64_t start);

} // namespace knapper::pjrt
