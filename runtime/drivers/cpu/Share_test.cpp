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
  EXPECT_EQ(share.takeFront(), (Share::Chunks{3, 4}));
  EXPECT_EQ(share.takeBack(), (Share::Chunks{6, 7}));
  EXPECT_EQ(share.takeBack(), (Share::Chunks{5, 6}));
  EXPECT_EQ(share.takeFront(), (Share::Chunks{4, 5}));
  EXPECT_FALSE(share.takeFront());
  EXPECT_FALSE(share.takeBack());
}

TEST(Share, ItsOwnerTakesAQuarterOfWhatIsLeft) {
  Share share;
  share.set(0, 20);
  EXPECT_EQ(share.takeFront(), (Share::Chunks{0, 5}));
  EXPECT_EQ(share.takeBack(), (Share::Chunks{19, 20}));
  EXPECT_EQ(share.takeFront(), (Share::Chunks{5, 9}));
  uint32_t at = 9;
  while (auto chunks = share.takeFront()) {
    EXPECT_EQ(chunks->begin, at);
    EXPECT_EQ(chunks->end - at, (19 - at + 3) / 4);
    at = chunks->end;
  }
  EXPECT_EQ(at, 19u);
}

TEST(Share, GivesEachChunkOnceHoweverManyTake) {
  constexpr uint32_t chunks = 100000;
  Share share;
  share.set(0, chunks);
  std::array<std::vector<uint32_t>, 4> taken;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < taken.size(); ++t)
    threads.emplace_back([&, t] {
      while (auto chunks = t == 0 ? share.takeFront() : share.takeBack())
        for (uint32_t chunk = chunks->begin; chunk < chunks->end; ++chunk)
          taken[t].push_back(chunk);
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
