#include "runtime/drivers/cpu/Share.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using knapper::cpu::Share;

TEST(Share, GivesItsOwnerTheFrontAndOthersTheBack) {
  Share share;
  EXPECT_FALSE(share.takeFront());
  share.set(3, 7);
  EXPECT_EQ(share.takeFront(), 3u);
  EXPECT_EQ(share.takeBack(), 6u);
  EXPECT_EQ(share.takeBack(), 5u);
  EXPECT_EQ(share.takeFront(), 4u);
  EXPECT_FALSE(share.takeFront());
  EXPECT_FALSE(share.takeBack());
}

TEST(Share, GivesEachChunkOnceHoweverManyTake) {
  constexpr uint32_t chunks = 100000;
  Share share;
  share.set(0, chunks);
  std::array<std::vector<uint32_t>, 4> taken;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < taken.size(); ++t)
    threads.emplace_back([&, t] {
      while (auto chunk = t == 0 ? share.takeFront() : share.takeBack())
        taken[t].push_back(*chunk);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<int> count(chunks);
  for (const auto &mine : taken)
    for (uint32_t chunk : mine)
      ++count[chunk];
  EXPECT_EQ(count, std::vector<int>(chunks, 1));
  EXPECT_TRUE(std::is_sorted(taken[0].begin(), taken[0].end()));
}
