#include "runtime/base/ForkMutex.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

struct Guarded {};

TEST(ForkMutex, IsFreeInAChildMadeWhileAnotherThreadHoldsIt) {
  std::atomic<bool> held = false, changing = false;
  std::thread other([&] {
    std::lock_guard lock(knapper::forkMutex<Guarded>());
    changing = true;
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    changing = false;
  });
  while (!held)
    std::this_thread::yield();
  pid_t child = fork();
  if (child == 0) {
    alarm(10); // a hang is a failure
    std::lock_guard lock(knapper::forkMutex<Guarded>());
    _exit(changing ? 1 : 0);
  }
  EXPECT_TRUE(knapper::forkMutex<Guarded>().try_lock());
  knapper::forkMutex<Guarded>().unlock();
  other.join();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
