// Copies between any strides against one element at a time.
#include "compiler/constants/StridedCopy.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

using namespace knapper;

namespace {

using Sizes = std::vector<int64_t>;

/// Strides of a tensor whose dims lie in the order `order`, the last fastest,
/// with `gap` elements of room for each; some dims backwards.
Sizes stridesOf(const Sizes &dims, const std::vector<size_t> &order,
                int64_t gap, unsigned backwards) {
  Sizes strides(dims.size());
  int64_t stride = gap;
  for (size_t i = order.size(); i-- > 0;) {
    size_t dim = order[i];
    strides[dim] = backwards >> dim & 1 ? -stride : stride;
    stride = stride * dims[dim] + (gap - 1);
  }
  return strides;
}

/// The least and the greatest offset of an element.
std::pair<int64_t, int64_t> rangeOf(const Sizes &dims, const Sizes &strides) {
  int64_t least = 0, most = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    (strides[i] < 0 ? least : most) += (dims[i] - 1) * strides[i];
  return {least, most};
}

/// Copies random bytes and compares all of the output, also what lies between
/// and around its elements.
void check(const Sizes &dims, const Sizes &inStrides, const Sizes &outStrides,
           size_t bytes, unsigned threads, std::mt19937 &random) {
  auto [inLeast, inMost] = rangeOf(dims, inStrides);
  auto [outLeast, outMost] = rangeOf(dims, outStrides);
  constexpr int64_t around = 64; // elements
  std::vector<uint8_t> in((inMost - inLeast + 1) * bytes + 1);
  // One word of random bits for four bytes.
  for (size_t i = 0; i < in.size(); i += 4) {
    uint32_t word = random();
    std::memcpy(&in[i], &word, std::min<size_t>(4, in.size() - i));
  }
  std::vector<uint8_t> out((outMost - outLeast + 1 + 2 * around) * bytes + 1,
                           0xa5);
  std::vector<uint8_t> expected = out;
  // An odd address.
  const uint8_t *from = in.data() + 1 - inLeast * int64_t(bytes);
  int64_t origin = 1 + (around - outLeast) * int64_t(bytes);
  // The last dim is walked in a loop of its own: the tensors are large.
  int64_t rows = 1, last = dims.empty() ? 1 : dims.back();
  for (size_t dim = 0; dim + 1 < dims.size(); ++dim)
    rows *= dims[dim];
  int64_t inStep = dims.empty() ? 0 : inStrides.back() * int64_t(bytes);
  int64_t outStep = dims.empty() ? 0 : outStrides.back() * int64_t(bytes);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, a = 0, b = 0;
    for (size_t dim = dims.size(); dim-- > 1;) {
      a += rest % dims[dim - 1] * inStrides[dim - 1];
      b += rest % dims[dim - 1] * outStrides[dim - 1];
      rest /= dims[dim - 1];
    }
    const uint8_t *source = from + a * int64_t(bytes);
    uint8_t *target = expected.data() + origin + b * int64_t(bytes);
    for (int64_t i = 0; i < last; ++i)
      std::memcpy(target + i * outStep, source + i * inStep, bytes);
  }
  stridedCopy(dims, from, inStrides, out.data() + origin, outStrides, bytes,
              threads);
  ASSERT_TRUE(out == expected)
      << "dims " << testing::PrintToString(dims) << ", strides "
      << testing::PrintToString(inStrides) << " to "
      << testing::PrintToString(outStrides) << ", " << bytes << " bytes, "
      << threads << " threads";
}

TEST(StridedCopy, AnyStridesOfSmallTensors) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    Sizes dims(random() % 5);
    for (int64_t &size : dims)
      size = 1 + random() % (dims.size() > 3 ? 7 : 40);
    std::vector<size_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    Sizes outStrides = stridesOf(dims, order, 1 + random() % 3 / 2,
                                 random() % 4 ? 0 : random());
    std::shuffle(order.begin(), order.end(), random);
    Sizes inStrides = stridesOf(dims, order, 1 + random() % 3 / 2,
                                random() % 4 ? 0 : random());
    for (int64_t &stride : inStrides)
      if (random() % 5 == 0)
        stride = 0; // broadcast
    check(dims, inStrides, outStrides, size_t(1) << random() % 4,
          1 + random() % 3, random);
  }
}

// Threads share planes of a megabyte and more, and 16 megabytes of rows or of
// one run. The copies are into a part of a wider tensor, so that the sides have
// different strides.
TEST(StridedCopy, ThreadsShareLargeTensors) {
  std::mt19937 random(2);
  struct {
    Sizes dims, in, out;
    size_t bytes;
  } cases[] = {
      {{5, 500, 601}, {500 * 601, 601, 1}, {501 * 611, 611, 1}, 4},
      {{5, 500, 601}, {500 * 601, 1, 500}, {501 * 611, 611, 1}, 4},
      {{36000, 517}, {1, 36000}, {519, 1}, 1},
      {{36000, 517}, {517, 1}, {519, 1}, 1},
      {{17000003}, {2}, {1}, 1},
  };
  for (const auto &c : cases)
    for (unsigned threads : {1, 3})
      check(c.dims, c.in, c.out, c.bytes, threads, random);
}

TEST(StridedCopy, NothingOfAnEmptyTensor) {
  uint32_t in = 1, out = 2;
  stridedCopy(Sizes{3, 0, 2}, &in, Sizes{0, 2, 1}, &out, Sizes{0, 2, 1}, 4, 2);
  EXPECT_EQ(out, 2u);
}

TEST(SplitRange, CoversEachNumberOnce) {
  for (int64_t count : {0, 1, 2, 7, 64, 1000, 4097})
    for (int64_t grain : {0, 1, 3, 16, 5000})
      for (unsigned threads : {1, 2, 3, 7}) {
        std::vector<std::atomic<int>> seen(count);
        splitRange(count, grain, threads, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end, count);
          EXPECT_EQ(begin % std::max<int64_t>(grain, 1), 0);
          for (int64_t i = begin; i < std::min(end, count); ++i)
            ++seen[i];
        });
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(seen[i], 1) << i << " of " << count << ", grain " << grain;
      }
}

} // namespace
