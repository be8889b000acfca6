#include "runtime/drivers/cpu/ThreadPool.h"

#include "runtime/base/Log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace knapper::cpu {
namespace {

// Waiting for the others gives the core away after this many pauses: they may
// need it.
constexpr int kPausesBeforeYield = 4000;
// A worker that waits asks for the line of its claim so often: seldom enough to
// leave it to a caller who waits for `done`, often enough for short gaps.
constexpr unsigned kPausesBeforeFetch = 8;

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE,
          expected, nullptr, nullptr, 0);
}
void futexWake(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE, 1,
          nullptr, nullptr, 0);
}

/// Counts forks that this process descends from.
std::atomic<unsigned> forks{0};

unsigned forkGeneration() {
  static int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  (void)registered;
  return forks.load(std::memory_order_relaxed);
}

} // namespace

/// A worker's mailbox. What the caller writes and what the worker writes lie
/// on lines of their own.
struct alignas(128) ThreadPool::Worker {
  std::atomic<uint32_t> ticket{0}; // raised by the caller: there is a job
  int index = 0;
  Job job = nullptr;
  void *argument = nullptr;
  Copy copy; // the last of the ticket's line
  Block scratch;
  int avoided = -1; // the core it must not wake up on
  // Last ticket that somebody took on: the worker, or the caller when the
  // worker was late.
  alignas(128) std::atomic<uint32_t> claimed{0};
  std::atomic<uint32_t> done{0}; // last ticket finished
  alignas(128) std::atomic<bool> parked{false};
  std::thread thread;

  /// True for exactly one of worker and caller. The job stays as it is until
  /// whoever got true has finished.
  bool claim(uint32_t number) {
    uint32_t previous = number - 1;
    return claimed.compare_exchange_strong(previous, number,
                                           std::memory_order_acq_rel);
  }
  /// Brings the line that `claim` writes back to the worker's core, where the
  /// caller has looked at it since. (Without PREFETCHW it does nothing.)
  void fetchClaimed() { asm volatile("prefetchw %0" : : "m"(claimed)); }
};

/// The system may wake a worker on the core of the caller, which is about to be
/// busy: they would take turns there until the load is balanced, milliseconds
/// later. So a sleeping worker is kept off that core, where each thread can
/// have one of its own. Hints only: whatever fails, the worker runs where it
/// can.
void ThreadPool::keepApart(Worker &worker) {
  int core = sched_getcpu();
  if (core < 0 || core == worker.avoided)
    return;
  worker.avoided = core;
  cpu_set_t cores;
  // What the caller may use today, of which it may have told the system since.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0 ||
      CPU_COUNT(&cores) <= static_cast<int>(workers.size()))
    return;
  CPU_CLR(core, &cores);
  pthread_setaffinity_np(worker.thread.native_handle(), sizeof(cores), &cores);
}

ThreadPool::ThreadPool() : generation(forkGeneration()) {}

ThreadPool::~ThreadPool() {
  if (generation != forkGeneration()) {
    // The threads stayed in the parent; their handles must not be joined.
    for (auto &worker : workers)
      (void)worker.release();
    return;
  }
  stopping.store(true);
  for (auto &worker : workers) {
    worker->ticket.fetch_add(1);
    futexWake(worker->ticket);
  }
  for (auto &worker : workers)
    worker->thread.join();
}

void ThreadPool::work(Worker &worker) {
  _mm_setcsr(kFloatMode); // threads inherit their creator's
  uint32_t seen = 0;
  for (;;) {
    // Spin, then sleep.
    auto give = std::chrono::steady_clock::now() +
                std::chrono::microseconds(spin.load(std::memory_order_relaxed));
    for (unsigned i = 1; worker.ticket.load(std::memory_order_acquire) == seen;
         ++i) {
      _mm_pause();
      if (i % kPausesBeforeFetch == 0)
        worker.fetchClaimed();
      if (i % 64 != 0 || std::chrono::steady_clock::now() < give)
        continue;
      worker.parked.store(true);
      // Either the caller sees `parked`, or this thread sees the new ticket.
      while (worker.ticket.load() == seen)
        futexWait(worker.ticket, seen);
      worker.parked.store(false, std::memory_order_relaxed);
    }
    seen = worker.ticket.load(std::memory_order_acquire);
    if (stopping.load())
      return;
    if (!worker.claim(seen))
      continue;
    worker.job(worker.argument, worker.index, worker.scratch.data());
    worker.done.store(seen, std::memory_order_release);
  }
}

bool ThreadPool::start(int count) {
  // Workers leave signals to the program that we are part of, but for those of
  // faults: one that comes while it is blocked ends the process past the
  // program's handlers.
  sigset_t all, before;
  sigfillset(&all);
  for (int fault : {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV})
    sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = true;
  try {
    workers.reserve(static_cast<size_t>(count)); // a thread that runs is kept
    while (static_cast<int>(workers.size()) < count) {
      auto worker = std::make_unique<Worker>();
      worker->index = static_cast<int>(workers.size()) + 1;
      worker->thread = std::thread([this, w = worker.get()] { work(*w); });
      char name[16]; // what the system takes
      snprintf(name, sizeof name, "knapper-%d", worker->index);
      pthread_setname_np(worker->thread.native_handle(), name);
      workers.push_back(std::move(worker));
      started.fetch_add(1);
    }
  } catch (const std::exception &error) { // no thread, or no memory for it
    good = false;
    try {
      log(LogLevel::warning,
          std::string("cannot start a worker thread, going on with fewer: ") +
              error.what());
    } catch (const std::exception &) { // nor for the message
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return good;
}

int ThreadPool::tryAcquire(int threads, uint64_t scratchBytes,
                           int spinMicroseconds) {
  if (threads <= 1)
    return 1;
  if (generation != forkGeneration()) {
    // First use in a forked child: whoever held the pool is not here.
    for (auto &worker : workers)
      (void)worker.release();
    workers.clear();
    started.store(0);
    refused = false;
    runs.store(1); // the caller's
    taken.store(false);
    generation = forkGeneration();
  }
  if (taken.load(std::memory_order_relaxed) || taken.exchange(true))
    return 1;
  if (spin.load(std::memory_order_relaxed) != spinMicroseconds)
    spin.store(spinMicroseconds, std::memory_order_relaxed);
  // The system refused a thread once: asking at every run would only be slow.
  if (static_cast<int>(workers.size()) < threads - 1 && !refused)
    refused = !start(threads - 1);
  int usable = std::min<int>(threads, workers.size() + 1);
  for (int w = 0; w + 1 < usable; ++w) {
    Worker &worker = *workers[w];
    if (worker.scratch.bytes() >= scratchBytes)
      continue;
    Expected<Block> block = Block::allocate(scratchBytes);
    if (!block) {
      usable = w + 1;
      break;
    }
    worker.scratch = std::move(*block);
  }
  if (usable == 1)
    release();
  return usable;
}

void ThreadPool::release() { taken.store(false, std::memory_order_release); }

void ThreadPool::hand(int count, Job job, void *argument, const Copy *copy,
                      void *ownScratch) {
  static_assert(offsetof(Worker, scratch) <= 64, "news of a job is one line");
  for (int w = 0; w + 1 < count; ++w) {
    Worker &worker = *workers[w];
    worker.job = job;
    worker.argument = argument;
    if (copy) {
      worker.copy = *copy;
      worker.argument = worker.copy.bytes;
    }
    worker.ticket.fetch_add(1); // orders the job before, `parked` after
    if (worker.parked.load()) {
      keepApart(worker);
      futexWake(worker.ticket);
    }
  }
  job(argument, 0, ownScratch);
  for (int w = 0; w + 1 < count; ++w) {
    Worker &worker = *workers[w];
    uint32_t ticket = worker.ticket.load(std::memory_order_relaxed);
    // Not begun yet: asleep, or its core is busy with something else. (Asked
    // before it is claimed, which takes the line away from a worker that is.)
    if (worker.claimed.load(std::memory_order_relaxed) != ticket &&
        worker.claim(ticket)) {
      job(argument, w + 1, ownScratch);
      worker.done.store(ticket, std::memory_order_relaxed);
      continue;
    }
    for (int i = 0; worker.done.load(std::memory_order_acquire) != ticket; ++i)
      if (i < kPausesBeforeYield)
        _mm_pause();
      else
        sched_yield();
  }
}

} // namespace knapper::cpu
