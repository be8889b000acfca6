// The workers that share a CPU launch. One pool a process serves all modules,
// so that modules together do not start more threads than there are cores.
#pragma once

#include "runtime/memory/Block.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace knapper::cpu {

/// How kernels compute: round to nearest, denormals kept, no traps (MXCSR).
inline constexpr unsigned kFloatMode = 0x1F80;

/// Workers wait for a job by spinning for a while, then sleep; they wake up on
/// other cores than the caller's where there are enough. The caller of `run`
/// takes part as worker 0. At most one thread holds the pool; one that
/// finds it taken works alone.
class ThreadPool {
public:
  ThreadPool();
  /// No thread may hold the pool. Ends and joins the workers.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Takes the pool for the calling thread without waiting. Returns how many
  /// may take part in jobs, the caller included: `threads`, fewer if workers
  /// cannot be started, 1 if the pool is taken (then it is not held). Starts
  /// missing workers and gives each at least `scratchBytes`.
  int tryAcquire(int threads, uint64_t scratchBytes, int spinMicroseconds);
  /// Gives the pool back; only after tryAcquire returned more than 1.
  void release();

  using Job = void (*)(void *argument, int worker, void *scratch);
  /// Calls job(argument, w, scratch) once for every w in 0..workers-1, w = 0
  /// with `ownScratch` on the calling thread; returns when all are done. What a
  /// worker has not begun when the caller is through with its own, the caller
  /// does too, with `ownScratch`: nobody waits for a sleeping thread. The
  /// caller holds the pool with at least as many.
  void run(int workers, Job job, void *argument, void *ownScratch) {
    hand(workers, job, argument, nullptr, ownScratch);
  }
  /// The same, the argument of each worker being a copy of `task`, to be read
  /// only. It lies beside the news of the job: one line comes from the caller's
  /// core, where a pointer into the caller's memory would cost a second one.
  template <typename Task>
  void runCopies(int workers, Job job, Task task, void *ownScratch) {
    static_assert(std::is_trivially_copyable_v<Task>);
    static_assert(sizeof(Task) <= sizeof(Copy) &&
                  alignof(Task) <= alignof(Copy));
    Copy copy;
    memcpy(copy.bytes, &task, sizeof(Task));
    hand(workers, job, &task, &copy, ownScratch);
  }

  /// Runs in progress, alone or with workers: each has a thread of its own, so
  /// that who holds the pool leaves a core to each of the others.
  void beginRun() { runs.fetch_add(1, std::memory_order_relaxed); }
  void endRun() { runs.fetch_sub(1, std::memory_order_relaxed); }
  int otherRuns() const { return runs.load(std::memory_order_relaxed) - 1; }

  /// Workers running now, the callers not counted.
  int size() const { return started.load(std::memory_order_relaxed); }

private:
  struct Worker;
  /// Of a task. What a mailbox's line has room for.
  struct Copy {
    alignas(8) std::byte bytes[32] = {};
  };
  /// `copy`: null, or what the workers get in place of `argument`.
  void hand(int workers, Job job, void *argument, const Copy *copy,
            void *ownScratch);
  void work(Worker &worker);
  bool start(int count);
  void keepApart(Worker &worker);

  std::vector<std::unique_ptr<Worker>> workers; // guarded by `taken`
  bool refused = false;                         // likewise
  std::atomic<int> started{0};
  unsigned generation; // of forks: a child has no workers
  // What every run writes lies on other lines than what workers read for each
  // job.
  alignas(128) std::atomic<bool> taken{false};
  std::atomic<int> runs{0};
  alignas(128) std::atomic<bool> stopping{false};
  std::atomic<int> spin{0}; // microseconds
};

} // namespace knapper::cpu
