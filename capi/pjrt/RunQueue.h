//===- RunQueue.h - Runs that go on after their call ----------------------===//
//
// A device runs programs one after the other, in the order in which they were
// asked for, on a thread of its own that starts with the first of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace knapper::pjrt {

/// Thread-safe.
class RunQueue {
public:
  RunQueue() = default;
  RunQueue(const RunQueue &) = delete;
  RunQueue &operator=(const RunQueue &) = delete;
  /// Ends when all runs have ended.
  ~RunQueue();

  /// A run that throws ends the process. Waits while `most` runs wait: each of
  /// them holds memory for its results.
  void add(std::function<void()> run);
  /// Whether all runs that were added have ended.
  bool isIdle() const { return open == 0; }

private:
  static constexpr size_t most = 32;

  void work();

  std::mutex mutex;
  std::condition_variable added, taken;
  std::deque<std::function<void()>> waiting;
  bool ends = false;
  std::atomic<size_t> open = 0; ///< runs that have not ended
  std::thread thread;
};

} // namespace knapper::pjrt
