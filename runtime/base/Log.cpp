#include "runtime/base/Log.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace knapper {
namespace {

/// The one process-wide setting of the C API.
struct Sink {
  std::shared_mutex mutex;
  std::atomic<LogLevel> level{LogLevel::off};
  LogCallback callback = nullptr;
  void *user = nullptr;
};

Sink &sink() {
  // Never destroyed: a worker may log while the process ends.
  static Sink *instance = new Sink;
  return *instance;
}

} // namespace

void setLogCallback(LogCallback callback, void *user, LogLevel level) {
  std::unique_lock lock(sink().mutex);
  sink().callback = callback;
  sink().user = user;
  sink().level = callback ? level : LogLevel::off;
}

bool logEnabled(LogLevel level) {
  return level != LogLevel::off &&
         level <= sink().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view text) {
  if (!logEnabled(level))
    return;
  std::string copy(text);
  std::shared_lock lock(sink().mutex);
  if (sink().callback)
    sink().callback(sink().user, static_cast<knapper_log_level>(level),
                    copy.c_str());
}

} // namespace knapper
