#include "runtime/memory/BlockPool.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

using namespace knapper;

TEST(Block, IsAlignedAndWritable) {
  for (uint64_t bytes : {1ull, 100ull, 300000ull, 5ull << 20}) {
    Expected<Block> block = Block::allocate(bytes);
    ASSERT_TRUE(block);
    ASSERT_GE(block->bytes(), bytes);
    uint64_t alignment = bytes >= (2 << 20) ? 2 << 20 : 64;
    EXPECT_EQ(reinterpret_cast<uint64_t>(block->data()) % alignment, 0u);
    memset(block->data(), 1, block->bytes());
  }
}

TEST(Block, TouchingGivesItPagesOnce) {
  constexpr uint64_t page = 4096;
  Expected<Block> block = Block::allocate(70ull << 20);
  ASSERT_TRUE(block);
  auto here = [&] {
    std::vector<unsigned char> pages(block->bytes() / page);
    EXPECT_EQ(mincore(block->data(), block->bytes(), pages.data()), 0);
    size_t count = 0;
    for (unsigned char p : pages)
      count += p & 1;
    return count;
  };
  EXPECT_EQ(here(), 0u);
  block->touch();
  EXPECT_EQ(here(), block->bytes() / page);
  memset(block->data(), 1, block->bytes());
  Block moved = std::move(*block);
  moved.touch(); // what is in it stays
  EXPECT_EQ(static_cast<char *>(moved.data())[0], 1);
}

TEST(Block, TooMuchIsADeviceError) {
  for (uint64_t bytes : {uint64_t(1) << 46, ~uint64_t(0)}) {
    Expected<Block> block = Block::allocate(bytes);
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().kind, ErrorKind::device);
    EXPECT_NE(block.error().what.find("out of memory"), std::string::npos);
  }
}

TEST(BlockPool, GivesTheSameMemoryAgain) {
  BlockPool pool;
  Expected<Block> a = pool.take(1 << 20);
  void *address = a->data();
  pool.give(std::move(*a));
  EXPECT_GE(pool.freeBytes(), uint64_t(1) << 20);
  Expected<Block> b = pool.take((1 << 20) - 5000);
  EXPECT_EQ(b->data(), address);
  EXPECT_EQ(pool.freeBytes(), 0u);
  pool.give(std::move(*b));
  // A tiny request does not take a large block.
  Expected<Block> c = pool.take(64);
  EXPECT_NE(c->data(), address);
  pool.give(std::move(*c));
}

TEST(BlockPool, KeepsABoundedAmount) {
  BlockPool pool;
  for (uint64_t mb = 1; mb <= 64; ++mb) {
    Expected<Block> block = pool.take(mb << 20);
    pool.give(std::move(*block));
    EXPECT_LE(pool.freeBytes(), 2 * (mb << 20) + (mb << 20) / 4);
  }
}
