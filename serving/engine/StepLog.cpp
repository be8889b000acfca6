#include "serving/engine/StepLog.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "serving/scheduler/StepRecord.h"

#include <cerrno>
#include <cstring>

namespace knapper::serving {

Expected<std::shared_ptr<StepLog>> StepLog::create(const std::string &path) {
  std::FILE *file = fopen(path.c_str(), "we");
  if (!file)
    return deviceError(cat("cannot be written: ", strerror(errno)), path);
  std::shared_ptr<StepLog> made(new StepLog(file, path));
  fprintf(file, "%s\n", std::string(kStepRecordHeader).c_str());
  return made;
}

StepLog::~StepLog() {
  if (file)
    fclose(file);
}

void StepLog::write(const SchedulerState &state, const StepDecision &decision) {
  if (!file)
    return;
  std::string line = toLine(state, decision) + "\n";
  if (fwrite(line.data(), 1, line.size(), file) == line.size())
    return;
  log(LogLevel::warning,
      cat(path, ": no more steps are recorded: ", strerror(errno)));
  fclose(file);
  file = nullptr;
}

} // namespace knapper::serving
