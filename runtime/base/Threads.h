// Work shared by threads that live as long as one step: the compiler's. Runs
// have a pool (runtime/drivers/cpu/ThreadPool.h).
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace knapper {

/// Calls `work` on the calling thread and on up to `threads - 1` others at the
/// same time, and returns when all calls have ended. The system may have fewer
/// threads to give, down to none: `work` takes tasks from a common counter
/// until there is none left. The first exception that leaves a call is thrown
/// again here.
template <typename Work> void runOnThreads(size_t threads, const Work &work) {
  std::mutex mutex;
  std::exception_ptr first;
  auto guarded = [&]() noexcept {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!first)
        first = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < threads; ++i)
      others.emplace_back(guarded);
  } catch (const std::exception &) {
    // No memory or no thread left: those that there are do it all.
  }
  guarded();
  for (std::thread &thread : others)
    thread.join();
  if (first)
    std::rethrow_exception(first);
}

} // namespace knapper
