// Blocks of products in tile registers against three plain loops: by the
// processor, or in software where it has none.
#include "targets/cpu/KernelTest.h"

#include <bit>
#include <random>

using namespace knapper;

namespace {

constexpr std::string_view kIsa = "x86-64-v4-amx";

struct Case {
  int rows, columns, k;
  bool bytes, known; // K as a constant of the code
};

std::string text(const Case &c, const std::string &name) {
  auto n = [](int64_t x) { return std::to_string(x); };
  std::string in = c.bytes ? "!tile.buffer<i8>" : "!tile.buffer<bf16>";
  std::string out = c.bytes ? "!tile.buffer<i32>" : "!tile.buffer<f32>";
  return "tile.func @" + name + "(%a: " + in + ", %b: " + in + ", %c: " + out +
         ", %lda: index, %ldb: index, %size: index, %ldc: index, %valid: "
         "index) {\n%at = arith.constant 3 : index\n%step = arith.constant 64 "
         ": index\n%fixed = arith.constant " +
         n(c.k) +
         " : index\ntile.block A(%a[%at], row %lda) B(%b[%at], k %ldb) over " +
         (c.known ? "%fixed" : "%size") + " C(%c[%at], row %ldc) rows " +
         n(c.rows) + (c.rows == 16 ? " valid %valid" : "") + " columns " +
         n(c.columns) + " prefetch %b[%at] step %step : " + in + ", " + in +
         " -> " + out + "\ntile.return\n}\n";
}

// Not an element past what is named is touched.
TEST(Tiles, BlocksMatchThreeLoops) {
  if (!runsHere(kIsa))
    GTEST_SKIP() << "this machine does not run code around tiles (AVX-512)";
  std::vector<Case> cases;
  for (bool bytes : {false, true})
    for (bool known : {false, true})
      for (auto [rows, columns] :
           {std::pair(16, 16), {16, 48}, {32, 16}, {32, 32}, {32, 48}})
        for (int k : {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 128, 131})
          cases.push_back({rows, columns, k, bytes, known});
  std::string all;
  for (size_t i = 0; i < cases.size(); ++i)
    all += text(cases[i], "block" + std::to_string(i));
  auto kernels = compileText(all, "block0", kIsa);
  ASSERT_TRUE(kernels) << kernels.error().message();
  std::mt19937 random(11);
  for (size_t i = 0; i < cases.size(); ++i)
    for (int valid : {1, 7, 15, 16}) {
      const Case &c = cases[i];
      if (c.rows == 32 && valid != 16)
        continue;
      int rows = c.rows == 32 ? 32 : valid, group = c.bytes ? 4 : 2;
      int groups = (c.k + group - 1) / group, at = 3;
      int64_t lda = c.k + 5, ldb = group * (c.columns + 3), ldc = c.columns + 2;
      // What lies between the rows and past K must not come in.
      uint16_t nan = 0x7fc1;
      std::vector<uint8_t> a8(at + (rows - 1) * lda + c.k, 77);
      std::vector<int8_t> b8(at + std::max<int64_t>(0, groups - 1) * ldb +
                             (groups ? group * c.columns : 0));
      std::vector<uint16_t> a16(a8.size(), nan), b16(b8.size(), nan);
      auto small = [&] { return int(random() % 17) - 8; };
      auto bf16 = [](int x) {
        return uint16_t(std::bit_cast<uint32_t>(float(x)) >> 16);
      };
      std::vector<int> a(rows * c.k), b(c.k * c.columns);
      for (int r = 0; r < rows; ++r)
        for (int q = 0; q < c.k; ++q) {
          int x = c.bytes ? int(random() % 256) : small();
          a[r * c.k + q] = x;
          a8[at + r * lda + q] = x;
          a16[at + r * lda + q] = bf16(x);
        }
      for (int g = 0; g < groups; ++g)
        for (int j = 0; j < c.columns; ++j)
          for (int p = 0; p < group; ++p) {
            int q = g * group + p;
            int x = q >= c.k  ? 0
                    : c.bytes ? int(random() % 256) - 128
                              : small();
            if (q < c.k)
              b[q * c.columns + j] = x;
            b8[at + g * ldb + group * j + p] = x;
            b16[at + g * ldb + group * j + p] = bf16(x);
          }
      std::vector<int32_t> y(at + (c.rows - 1) * ldc + c.columns, -99);
      std::vector<float> z(y.size(), -99);
      (*kernels)->call("block" + std::to_string(i),
                       {c.bytes ? (void *)a8.data() : a16.data(),
                        c.bytes ? (void *)b8.data() : b16.data(),
                        c.bytes ? (void *)y.data() : z.data()},
                       {lda, ldb, c.k, ldc, valid}, 0, 1);
      ASSERT_FALSE(tiles::inUse());
      for (int64_t p = 0; p < int64_t(y.size()); ++p) {
        int64_t r = p < at ? -1 : (p - at) / ldc, j = (p - at) % ldc;
        int32_t sum = -99;
        if (r >= 0 && r < rows && j < c.columns) {
          sum = 0;
          for (int q = 0; q < c.k; ++q)
            sum += a[r * c.k + q] * b[q * c.columns + j];
        }
        ASSERT_EQ(c.bytes ? double(y[p]) : double(z[p]), sum)
            << "case " << i << " rows " << rows << " columns " << c.columns
            << " k " << c.k << " row " << r << " column " << j;
      }
    }
}

TEST(Tiles, AreGivenBackWhereNoProgramRuns) {
  if (!runsHere(kIsa))
    GTEST_SKIP() << "this machine does not run code around tiles (AVX-512)";
  auto kernels =
      compileText(text({32, 48, 64, false, true}, "block"), "block", kIsa);
  ASSERT_TRUE(kernels) << kernels.error().message();
  (*kernels)->call("block", {nullptr, nullptr, nullptr}, {0, 0, 0, 0, 0}, 2, 2);
  EXPECT_FALSE(tiles::inUse());
}

} // namespace
