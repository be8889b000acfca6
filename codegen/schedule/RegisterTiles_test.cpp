// The numbers of rows that register tiles may have, and the sizes emitted.
#include "codegen/schedule/core/RegisterTiles.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <set>

using namespace knapper;

namespace {

using Counts = std::vector<int64_t>;

Counts counts(int64_t rows, int64_t tileRows, int64_t block) {
  auto found = countsOfTiles(rows, tileRows, block);
  return {found.begin(), found.end()};
}
Counts sizes(int64_t tileRows, const Counts &counts) {
  auto found = sizesOfTiles(tileRows, counts);
  return {found.begin(), found.end()};
}

TEST(CountsOfTiles, NoMoreRowsThanATileHas) {
  EXPECT_EQ(counts(0, 8, 8), Counts{});
  EXPECT_EQ(counts(1, 8, 8), Counts{1});
  EXPECT_EQ(counts(7, 8, 8), Counts{7});
  EXPECT_EQ(counts(8, 8, 8), Counts{8});
  EXPECT_EQ(counts(1, 1, 1), Counts{1});
}

TEST(CountsOfTiles, BlocksEndInTilesOfTheirOwn) {
  EXPECT_EQ(counts(49, 8, 49), (Counts{8, 1}));
  // 20 = 8 + 8 + 4, then 9 = 8 + 1
  EXPECT_EQ(counts(49, 8, 20), (Counts{8, 4, 1}));
  EXPECT_EQ(counts(40, 8, 20), (Counts{8, 4}));
  EXPECT_EQ(counts(13, 8, 5), (Counts{5, 3}));
}

// Of all rows cut in blocks, by going through them.
std::set<int64_t> walked(int64_t rows, int64_t tileRows, int64_t block) {
  std::set<int64_t> found;
  for (int64_t start = 0; start < rows; start += block)
    for (int64_t end = std::min(start + block, rows), row = start; row < end;
         row += tileRows)
      found.insert(std::min(tileRows, end - row));
  return found;
}

TEST(CountsOfTiles, AreThoseOfAWalk) {
  for (int64_t tileRows : {1, 2, 3, 6, 8, 12})
    for (int64_t rows = 0; rows < 60; ++rows)
      for (int64_t block = 1; block < 30; ++block) {
        Counts found = counts(rows, tileRows, block);
        EXPECT_EQ(std::set<int64_t>(found.begin(), found.end()),
                  walked(rows, tileRows, block))
            << rows << " rows by " << tileRows << " in blocks of " << block;
      }
}

TEST(SizesOfTiles, OfAnyNumberOfRows) {
  EXPECT_EQ(sizes(1, {}), Counts{1});
  EXPECT_EQ(sizes(2, {}), (Counts{1, 2}));
  EXPECT_EQ(sizes(8, {}), (Counts{1, 4, 8}));
  EXPECT_EQ(sizes(3, {}), (Counts{1, 2, 3}));
}

TEST(SizesOfTiles, OnlyThoseThatCountsTake) {
  EXPECT_EQ(sizes(8, {7}), Counts{7}); // exactly, without an unused row
  EXPECT_EQ(sizes(8, {8, 1}), (Counts{1, 8}));
  EXPECT_EQ(sizes(8, {8, 3}), (Counts{4, 8}));
  EXPECT_EQ(sizes(8, {8, 5}), Counts{8});
  EXPECT_EQ(sizes(8, {3, 2}), Counts{4});
}

// Winograd's blocks are shares of the tiles of an image: floor and ceil.
TEST(SizesOfTiles, HoldTheSharesOfBlocks) {
  for (int64_t tileRows : {2, 6, 8, 12})
    for (int64_t all = 1; all < 40; ++all)
      for (int64_t blocks = 1; blocks <= all; ++blocks) {
        Counts valid;
        for (int64_t share : {all / blocks, (all + blocks - 1) / blocks})
          for (int64_t count : counts(share, tileRows, share))
            if (std::find(valid.begin(), valid.end(), count) == valid.end())
              valid.push_back(count);
        Counts emitted = sizes(tileRows, valid);
        EXPECT_TRUE(std::is_sorted(emitted.begin(), emitted.end()));
        for (int64_t count : valid)
          EXPECT_TRUE(std::any_of(
              emitted.begin(), emitted.end(),
              [&](int64_t size) { return size >= count && size <= tileRows; }))
              << count << " of tiles of " << tileRows;
      }
}

} // namespace
