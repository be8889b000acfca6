// Threads that fill masks while the device computes the logits they apply to,
// and that draw from those.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace knapper::serving {

/// Thread-safe.
class MaskWorkers {
public:
  class Job {
  public:
    explicit Job(std::function<void()> work) : work(std::move(work)) {}

  private:
    friend class MaskWorkers;
    enum class State : uint8_t { waiting, running, done };
    std::function<void()> work;
    State state = State::waiting; ///< under the workers' mutex
  };

  /// Starts the threads with the first job. None: `finish` does all.
  explicit MaskWorkers(int threads) : most(threads) {}
  /// Drops jobs that wait.
  ~MaskWorkers();

  /// That may run; whoever calls `finish` is not among them.
  int count() const { return most; }
  void add(const std::shared_ptr<Job> &job);
  /// Returns when the job is done; one that has not begun runs here.
  void finish(Job &job);

private:
  void work();

  const int most;
  std::mutex mutex; ///< guards what follows
  std::condition_variable changed, ended;
  std::deque<std::shared_ptr<Job>> jobs;
  bool ending = false;
  std::vector<std::thread> threads;
};

/// As many as leave a core for the engine, and at most four.
int maskThreads();

} // namespace knapper::serving
