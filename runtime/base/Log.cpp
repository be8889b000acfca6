#include "runtime/base/Log.h"

#include "runtime/base/ForkMutex.h"

#include <atomic>
#include <condition_variable>
#include <string>
#include <unistd.h>

namespace knapper {
namespace {

/// The one process-wide setting of the C API.
struct Sink {
  std::atomic<LogLevel> level{LogLevel::off};
  LogCallback callback = nullptr;
  void *user = nullptr;
  // Callbacks that run, counted by the parity of the epoch they began in. Who
  // sets another one begins an epoch and waits for the former's to end; the
  // next setter waits its turn.
  unsigned epoch = 0, running[2] = {};
  bool ending = false;
  std::condition_variable changed;
  pid_t process = 0;
};

Sink &sink() {
  // Never destroyed: a worker may log while the process ends.
  static Sink *instance = new Sink;
  return *instance;
}

/// This thread runs a callback: one that set another and waited would wait for
/// itself.
thread_local unsigned callbacksOfThread = 0;

std::unique_lock<std::mutex> lockSink() {
  std::unique_lock lock(forkMutex<Sink>());
  // A child of fork has none of the threads whose callbacks ran.
  if (sink().process != getpid()) {
    sink().process = getpid();
    sink().running[0] = sink().running[1] = 0;
    sink().ending = false;
  }
  return lock;
}

} // namespace

void setLogCallback(LogCallback callback, void *user, LogLevel level) {
  std::unique_lock lock = lockSink();
  bool waits = callbacksOfThread == 0;
  if (waits)
    sink().changed.wait(lock, [] { return !sink().ending; });
  sink().callback = callback;
  sink().user = user;
  sink().level = callback ? level : LogLevel::off;
  if (!waits)
    return;
  unsigned former = sink().epoch++ % 2;
  sink().ending = true;
  sink().changed.wait(lock, [&] { return sink().running[former] == 0; });
  sink().ending = false;
  sink().changed.notify_all();
}

bool logEnabled(LogLevel level) {
  return level != LogLevel::off &&
         level <= sink().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view text) {
  if (!logEnabled(level))
    return;
  std::string copy(text);
  std::unique_lock lock = lockSink();
  LogCallback callback = sink().callback;
  void *user = sink().user;
  if (!callback)
    return;
  unsigned epoch = sink().epoch % 2;
  ++sink().running[epoch];
  lock.unlock();
  ++callbacksOfThread;
  callback(user, static_cast<knapper_log_level>(level), copy.c_str());
  --callbacksOfThread;
  lock = lockSink();
  if (sink().running[epoch] > 0 && --sink().running[epoch] == 0)
    sink().changed.notify_all();
}

} // namespace knapper
