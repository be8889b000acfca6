// Threads for texts that take long to read or to write: megabytes hold up no
// connection.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace knapper::serving {

/// Thread-safe. The threads start with the first job.
class LongWork {
public:
  /// Called once, on a thread of these, or on `stop`'s: true. Throws nothing.
  using Job = std::function<void(bool ending)>;

  struct Limits {
    int threads = 2; ///< at least one
    size_t waiting = 64;
    /// All threads but one take no larger ones: a few of many megabytes do not
    /// hold up the rest.
    size_t small = 1 << 20;
  };

  /// Bytes of text that a connection's thread reads or writes itself: some
  /// milliseconds.
  static constexpr size_t brief = 32 << 10;

  explicit LongWork(const Limits &limits) : limits(limits) {}
  ~LongWork() { stop(); }

  /// False where too many wait, or no thread is to be had.
  bool add(size_t bytes, Job job);
  /// The same for the answer of a request that was admitted: however many wait,
  /// and on any thread, since a text is written many times faster than it
  /// becomes tokens. A thread takes answers and texts in turns.
  bool addAnswer(Job job);
  /// Returns when no job runs; those that wait are called with true. None is
  /// added later.
  void stop();

private:
  struct Waiting {
    size_t bytes;
    Job job;
  };
  /// Under `mutex`.
  bool push(std::deque<Waiting> &queue, Waiting waiting);
  void work(bool onlySmall);
  /// One more, while there are fewer than wanted; under `mutex`.
  void startThread();

  const Limits limits;
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::deque<Waiting> texts, answers;
  bool ending = false;
  std::vector<std::thread> threads;
};

} // namespace knapper::serving
