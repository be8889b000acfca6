#include "serving/kvcache/KvCache.h"

#include "gtest/gtest.h"
#include <numeric>
#include <random>

using namespace knapper::serving;

namespace {

std::vector<int32_t> line(int32_t count, int32_t from = 0) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(BlockLedger, CountsStates) {
  BlockLedger ledger(3);
  int32_t a = *ledger.take(), b = *ledger.take();
  EXPECT_TRUE(ledger.publish(a));
  EXPECT_TRUE(ledger.retain(a));
  EXPECT_TRUE(ledger.release(a));
  EXPECT_EQ(ledger.numOwned(), 2);
  EXPECT_TRUE(ledger.release(a));
  EXPECT_EQ(ledger.numCached(), 1);
  EXPECT_TRUE(ledger.release(b));
  EXPECT_TRUE(ledger.withdraw(a));
  EXPECT_EQ(ledger.numFree(), 3);
  EXPECT_TRUE(ledger.check().empty());
  EXPECT_EQ(ledger.faults(), 0u);
}

TEST(BlockLedger, MisuseIsQuarantinedAndCounted) {
  BlockLedger ledger(4);
  int32_t a = *ledger.take();
  EXPECT_TRUE(ledger.release(a));
  EXPECT_FALSE(ledger.release(a)) << "twice";
  EXPECT_EQ(ledger.numQuarantined(), 1);
  int32_t b = *ledger.take();
  EXPECT_NE(a, b);
  EXPECT_FALSE(ledger.withdraw(b)) << "never published";
  EXPECT_FALSE(ledger.retain(99));
  EXPECT_FALSE(ledger.release(-1));
  EXPECT_EQ(ledger.faults(), 4u);
  EXPECT_EQ(ledger.numFree(), 2);
  EXPECT_TRUE(ledger.take() && ledger.take());
  EXPECT_FALSE(ledger.take());
  EXPECT_TRUE(ledger.check().empty());
}

TEST(BlockLedger, NoBlockIsFreedWhileAStepRuns) {
  BlockLedger ledger(3);
  int32_t a = *ledger.take(), b = *ledger.take();
  EXPECT_TRUE(ledger.retain(a));
  ledger.beginStep();
  EXPECT_TRUE(ledger.take()) << "nobody writes to a free one";
  EXPECT_TRUE(ledger.release(a)) << "it has another owner";
  EXPECT_FALSE(ledger.release(b));
  ledger.endStep();
  EXPECT_EQ(ledger.numQuarantined(), 1);
  EXPECT_EQ(ledger.faults(), 1u);
  EXPECT_TRUE(ledger.release(a));
  EXPECT_EQ(ledger.numFree(), 1);
  EXPECT_TRUE(ledger.check().empty());
}

TEST(KvCache, SharesFullBlocksOfEqualTokens) {
  KvCache cache(8, 16, true);
  std::vector<int32_t> tokens = line(40);
  BlockList first;
  EXPECT_EQ(cache.adopt(tokens, first), 0);
  ASSERT_TRUE(cache.grow(first, 3));
  cache.publish(tokens, first);
  EXPECT_EQ(first.nodes.size(), 2u);

  BlockList second;
  EXPECT_EQ(cache.look(tokens).blocks, 2);
  EXPECT_EQ(cache.look(tokens).idle, 0);
  EXPECT_EQ(cache.adopt(tokens, second), 2);
  EXPECT_EQ(second.blocks[1], first.blocks[1]);
  EXPECT_EQ(cache.look(line(40, 1)).blocks, 0) << "tokens are compared";
  // The whole prompt is known: one token is still to be computed.
  EXPECT_EQ(cache.look(line(32)).blocks, 1);
  EXPECT_EQ(cache.look(line(33)).blocks, 2);

  cache.release(first);
  EXPECT_EQ(cache.look(tokens).idle, 0) << "second has them";
  cache.release(second);
  EXPECT_EQ(cache.look(tokens).idle, 2);
  EXPECT_EQ(cache.available(), 8);
  EXPECT_EQ(cache.blocks().numCached(), 2);
  EXPECT_TRUE(cache.check().empty());
}

TEST(KvCache, TwoThatComputeTheSameEndWithOneBlock) {
  KvCache cache(8, 16, true);
  std::vector<int32_t> tokens = line(17);
  BlockList first, second;
  ASSERT_TRUE(cache.grow(first, 2) && cache.grow(second, 2));
  EXPECT_EQ(cache.publish(tokens, first), KvCache::Published::unmoved);
  int32_t own = second.blocks[0];
  cache.beginStep();
  EXPECT_EQ(cache.publish(tokens, second), KvCache::Published::waits);
  EXPECT_EQ(second.blocks[0], own) << "the step may read it";
  cache.endStep();
  EXPECT_EQ(cache.publish(tokens, second), KvCache::Published::moved);
  EXPECT_EQ(first.blocks[0], second.blocks[0]);
  EXPECT_EQ(cache.available(), 8 - 3);
  cache.release(first);
  cache.release(second);
  EXPECT_EQ(cache.available(), 8);
  EXPECT_EQ(cache.blocks().faults(), 0u);
}

TEST(KvCache, WhatASubmittedStepMayWriteComesBackBehindIt) {
  KvCache cache(8, 16, true);
  cache.reserveReturns(4);
  BlockList first, second, third;
  ASSERT_TRUE(cache.grow(first, 2) && cache.grow(second, 3) &&
              cache.grow(third, 1));
  cache.publish(line(17), first);
  cache.beginStep();
  cache.beginStep(); // the device has two
  cache.release(first);
  EXPECT_TRUE(first.blocks.empty());
  cache.endStep();
  EXPECT_EQ(cache.available(), 2) << "the second may write them";
  cache.beginStep();
  cache.release(second);
  cache.endStep();
  EXPECT_EQ(cache.available(), 4) << "the third has none of the first's";
  EXPECT_EQ(cache.blocks().numCached(), 1);
  cache.endStep();
  EXPECT_EQ(cache.available(), 7);
  cache.release(third);
  EXPECT_EQ(cache.available(), 8);
  EXPECT_EQ(cache.look(line(17)).blocks, 1);
  EXPECT_EQ(cache.blocks().faults(), 0u);
  EXPECT_TRUE(cache.check().empty());
}

TEST(KvCache, EvictsWhatWasUsedLongestAgoAndItsEndFirst) {
  KvCache cache(4, 16, true);
  for (int32_t from : {0, 100}) {
    BlockList list;
    ASSERT_TRUE(cache.grow(list, 2));
    cache.publish(line(32, from), list);
    cache.release(list);
  }
  EXPECT_EQ(cache.blocks().numFree(), 0);
  BlockList list;
  ASSERT_TRUE(cache.grow(list, 1));
  EXPECT_EQ(cache.look(line(40)).blocks, 1) << "the second block went";
  EXPECT_EQ(cache.look(line(40, 100)).blocks, 2);
  ASSERT_TRUE(cache.grow(list, 4));
  EXPECT_EQ(cache.look(line(40, 100)).blocks, 0);
  EXPECT_FALSE(cache.grow(list, 5));
  EXPECT_EQ(list.blocks.size(), 4u) << "as before";
  EXPECT_TRUE(cache.check().empty());
}

TEST(KvCache, WhatIsUsedAgainStaysLonger) {
  KvCache cache(4, 16, true);
  for (int32_t from : {0, 100, 0}) {
    BlockList list;
    std::vector<int32_t> tokens = line(33, from); // two blocks and a token
    cache.adopt(tokens, list);
    ASSERT_TRUE(cache.grow(list, 2));
    cache.publish(tokens, list);
    cache.release(list);
  }
  BlockList list;
  ASSERT_TRUE(cache.grow(list, 1));
  EXPECT_EQ(cache.look(line(33)).blocks, 2);
  EXPECT_EQ(cache.look(line(33, 100)).blocks, 1);
}

TEST(KvCache, WhatHasAnotherSaltIsNotFound) {
  KvCache cache(8, 16, true);
  BlockList first, second, third;
  ASSERT_TRUE(cache.grow(first, 2));
  cache.publish(line(32), first, "a");
  EXPECT_EQ(cache.look(line(33), "a").blocks, 2);
  for (const char *other : {"", "b", "aa"})
    EXPECT_EQ(cache.look(line(33), other).blocks, 0) << other;
  // Tokens that a salt's bytes would be are no salt.
  auto longer = line(16);
  longer.push_back('a');
  EXPECT_EQ(cache.look(longer).blocks, 0);
  ASSERT_TRUE(cache.grow(second, 2));
  cache.publish(line(32), second, "b");
  EXPECT_NE(first.blocks, second.blocks);
  EXPECT_EQ(cache.adopt(line(33), third, "b"), 2);
  EXPECT_EQ(third.blocks, second.blocks);
}

TEST(KvCache, RandomUse) {
  std::mt19937 random(3);
  auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  KvCache cache(24, 16, true);
  struct User {
    BlockList list;
    std::vector<int32_t> tokens;
  };
  std::vector<User> users(6);
  for (int round = 0; round < 20000; ++round) {
    User &user = users[pick(0, 5)];
    if (!user.tokens.empty() && pick(0, 2) == 0) {
      cache.release(user.list);
      user.tokens.clear();
    } else if (user.tokens.empty()) {
      user.tokens = line(pick(1, 90), 50 * pick(0, 2));
      cache.adopt(user.tokens, user.list);
      if (cache.grow(user.list,
                     (static_cast<int32_t>(user.tokens.size()) + 15) / 16))
        cache.publish(user.tokens, user.list);
    }
    ASSERT_TRUE(cache.check().empty());
    ASSERT_EQ(cache.blocks().faults(), 0u);
  }
  for (User &user : users)
    cache.release(user.list);
  EXPECT_EQ(cache.available(), 24);
  EXPECT_EQ(cache.blocks().numOwned(), 0);
}

} // namespace
