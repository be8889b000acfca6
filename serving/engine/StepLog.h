// The file of `--record`.
#pragma once

#include "runtime/base/Error.h"
#include "serving/scheduler/Scheduler.h"

#include <cstdio>
#include <memory>
#include <string>

namespace knapper::serving {

/// Used by the engine's thread.
class StepLog {
public:
  /// DeviceError where the file cannot be made.
  static Expected<std::shared_ptr<StepLog>> create(const std::string &path);
  ~StepLog();
  /// A line. The first failure is logged, and ends the file.
  void write(const SchedulerState &state, const StepDecision &decision);

private:
  StepLog(std::FILE *file, std::string path)
      : file(file), path(std::move(path)) {}
  std::FILE *file; ///< null after a failure
  std::string path;
};

} // namespace knapper::serving
