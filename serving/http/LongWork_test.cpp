#include "serving/http/LongWork.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <gtest/gtest.h>
#include <string>

namespace knapper::serving {
namespace {

using namespace std::chrono_literals;

/// A job that says when it runs, and ends when it is let.
struct HeldJob {
  std::promise<void> began, mayEnd;
  LongWork::Job job() {
    return [this, end = mayEnd.get_future().share()](bool ending) {
      began.set_value();
      if (!ending)
        end.wait();
    };
  }
};

TEST(LongWork, LargeOnesLeaveAThreadToSmallOnes) {
  LongWork work({.threads = 2, .waiting = 8, .small = 100});
  HeldJob first, second, small;
  ASSERT_TRUE(work.add(1000, first.job()));
  first.began.get_future().wait();
  ASSERT_TRUE(work.add(1000, second.job()));
  ASSERT_TRUE(work.add(10, small.job()));
  small.began.get_future().wait(); // though the second large one came before
  auto began = second.began.get_future();
  EXPECT_EQ(began.wait_for(20ms), std::future_status::timeout);
  first.mayEnd.set_value();
  began.wait();
  second.mayEnd.set_value();
  small.mayEnd.set_value();
}

TEST(LongWork, RefusesWhatIsTooMuch) {
  LongWork work({.threads = 1, .waiting = 2});
  HeldJob running;
  ASSERT_TRUE(work.add(1, running.job()));
  running.began.get_future().wait();
  std::atomic<int> ran = 0;
  auto count = [&](bool ending) { ran += ending ? 100 : 1; };
  EXPECT_TRUE(work.add(1, count));
  EXPECT_TRUE(work.add(1, count));
  EXPECT_FALSE(work.add(1, count));
  running.mayEnd.set_value();
  while (ran < 2)
    std::this_thread::yield();
  EXPECT_TRUE(work.add(1, [](bool) {}));
  work.stop();
  EXPECT_EQ(ran, 2);
}

TEST(LongWork, AnswersAreNotRefusedAndTakeTurnsWithTexts) {
  LongWork work({.threads = 1, .waiting = 1});
  HeldJob running;
  ASSERT_TRUE(work.add(1, running.job()));
  running.began.get_future().wait();
  std::string order; // of one thread
  ASSERT_TRUE(work.add(1, [&](bool) { order += 't'; }));
  ASSERT_FALSE(work.add(1, [&](bool) { order += 'x'; }));
  EXPECT_TRUE(work.addAnswer([&](bool) { order += 'a'; }));
  EXPECT_TRUE(work.addAnswer([&](bool) { order += 'b'; }));
  HeldJob last;
  LongWork::Job job = last.job();
  running.mayEnd.set_value();
  while (!work.add(1, job))
    std::this_thread::yield();
  last.mayEnd.set_value();
  last.began.get_future().wait();
  EXPECT_EQ(order, "atb");
}

TEST(LongWork, AnswersThatWaitRefuseNoText) {
  LongWork work({.threads = 1, .waiting = 1});
  HeldJob running;
  ASSERT_TRUE(work.add(1, running.job()));
  running.began.get_future().wait();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(work.addAnswer([](bool) {}));
  EXPECT_TRUE(work.add(1, [](bool) {}));
  EXPECT_FALSE(work.add(1, [](bool) {}));
  running.mayEnd.set_value();
}

TEST(LongWork, StopsTellsWhoWaits) {
  // As many wait as like: `add` is false for the stop alone.
  LongWork work({.threads = 1, .waiting = SIZE_MAX});
  HeldJob running;
  ASSERT_TRUE(work.add(1, running.job()));
  running.began.get_future().wait();
  std::atomic<int> told = 0;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(work.add(1, [&](bool ending) { told += ending; }));
  std::thread stops([&] { work.stop(); });
  while (work.add(1, [&](bool ending) { told += ending; }))
    std::this_thread::yield();
  int waited = told;
  EXPECT_EQ(waited, 0); // the one that runs has not ended
  running.mayEnd.set_value();
  stops.join();
  EXPECT_GE(told, 3);
  EXPECT_FALSE(work.add(1, [](bool) {}));
}

} // namespace
} // namespace knapper::serving
