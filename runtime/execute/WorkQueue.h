// Runs that nobody waits for yet.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace knapper {

/// One thread that does what is submitted, in order. Thread-safe. Destruction
/// finishes what was submitted.
class WorkQueue {
public:
  WorkQueue() : thread([this] { work(); }) {}
  ~WorkQueue();
  /// `task` must not throw.
  void submit(std::function<void()> task);

private:
  void work();
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool closing = false;
  std::thread thread; // last: it uses the others
};

} // namespace knapper
