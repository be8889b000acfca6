#include "runtime/base/ForkMutex.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

/// A child whose exit code is that of `work`.
template <typename Work> pid_t forkFor(Work work) {
  pid_t child = fork();
  if (child == 0) {
    alarm(120); // a hang is a failure
    _exit(work());
  }
  return child;
}

void expectSuccess(pid_t child) {
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

struct Guarded {};

TEST(ForkMutex, IsFreeInAChildMadeWhileAnotherThreadHoldsIt) {
  // The thread outlives the fork: a child with a finished one that nobody
  // joined has leaked it, says the thread sanitizer.
  std::atomic<bool> held = false, changing = false, forked = false;
  std::thread other([&] {
    std::unique_lock lock(knapper::forkMutex<Guarded>());
    changing = true;
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    changing = false;
    lock.unlock();
    while (!forked)
      std::this_thread::yield();
  });
  while (!held)
    std::this_thread::yield();
  pid_t child = forkFor([&] {
    std::lock_guard lock(knapper::forkMutex<Guarded>());
    return changing ? 1 : 0;
  });
  forked = true;
  EXPECT_TRUE(knapper::forkMutex<Guarded>().try_lock());
  knapper::forkMutex<Guarded>().unlock();
  other.join();
  expectSuccess(child);
}

struct DoneOnce {};

/// How often it was done, when this call has returned.
int doOnce(std::atomic<bool> &within) {
  static int times = 0;
  knapper::forkOnce<DoneOnce>([&] {
    within = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++times;
  });
  return times;
}

TEST(ForkOnce, IsDoneInAChildMadeWhileAnotherThreadDoesIt) {
  std::atomic<bool> within = false, forked = false;
  std::thread other([&] {
    doOnce(within);
    while (!forked)
      std::this_thread::yield();
  });
  while (!within)
    std::this_thread::yield();
  pid_t child = forkFor([&] { return doOnce(within) == 1 ? 0 : 1; });
  forked = true;
  other.join();
  EXPECT_EQ(doOnce(within), 1);
  expectSuccess(child);
}

TEST(ForkOnce, IsDoneAgainWhereItThrew) {
  struct Throws {};
  int times = 0;
  auto call = [&] {
    knapper::forkOnce<Throws>([&] {
      if (++times == 1)
        throw 1;
    });
  };
  EXPECT_THROW(call(), int);
  call();
  call();
  EXPECT_EQ(times, 2);
}

} // namespace
