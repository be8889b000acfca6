// Blocks of matmuls in tile registers against three plain loops: by the
// processor, or in software where it has none.
#include "targets/cpu/KernelTest.h"

#include <bit>
#include <random>

using namespace knapper;

namespace {

constexpr std::string_view kIsa = "x86-64-v4-amx";

struct TileCase {
  int rows, columns, k;
  bool bytes, known; // K as a constant of the code
};

std::string text(const TileCase &c, const std::string &name) {
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
  std::vector<TileCase> cases;
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
      const TileCase &c = cases[i];
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

/// Nearest bf16 of a number, as a number.
float nearestBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000);
}

// Numbers as sums of bf16, against float64; three parts no worse than a loop of
// fused multiply-adds in float32.
TEST(Tiles, BlocksOfPartsComeNearTheMatmul) {
  if (!runsHere(kIsa))
    GTEST_SKIP() << "this machine does not run code around tiles (AVX-512)";
  const int rows = 32, k = 256;
  for (int parts : {2, 3})
    for (int columns : {32, 48}) {
      std::string n = std::to_string(parts), name = "block";
      std::string text =
          "tile.func @block(%a: !tile.buffer<bf16>, %b: !tile.buffer<bf16>, "
          "%c: !tile.buffer<f32>, %lda: index, %ldb: index, %ap: index, %bp: "
          "index) {\n%o = arith.constant 0 : index\n%k = arith.constant 256 : "
          "index\n%ldc = arith.constant " +
          std::to_string(columns) +
          " : index\ntile.block A(%a[%o], row %lda) B(%b[%o], k %ldb) over %k "
          "parts " +
          n + " (%ap, %bp) C(%c[%o], row %ldc) rows 32 columns " +
          std::to_string(columns) +
          " : !tile.buffer<bf16>, !tile.buffer<bf16> -> "
          "!tile.buffer<f32>\ntile.return\n}\n";
      auto kernels = compileText(text, name, kIsa);
      ASSERT_TRUE(kernels) << kernels.error().message();
      std::mt19937 random(5);
      std::normal_distribution<float> normal;
      std::vector<float> a(rows * k), b(k * columns), c(rows * columns);
      for (float &x : a)
        x = normal(random);
      for (float &x : b)
        x = normal(random);
      // A: [row][part][K]; B: [K / 2][part][columns][2].
      std::vector<uint16_t> a16(rows * parts * k), b16(k * parts * columns);
      auto split = [&](float x, auto place) {
        for (int p = 0; p < parts; ++p) {
          float part = nearestBf16(x);
          place(p, uint16_t(std::bit_cast<uint32_t>(part) >> 16));
          x -= part;
        }
      };
      for (int r = 0; r < rows; ++r)
        for (int q = 0; q < k; ++q)
          split(a[r * k + q], [&](int p, uint16_t bits) {
            a16[(r * parts + p) * k + q] = bits;
          });
      for (int q = 0; q < k; ++q)
        for (int j = 0; j < columns; ++j)
          split(b[q * columns + j], [&](int p, uint16_t bits) {
            b16[((q / 2 * parts + p) * columns + j) * 2 + q % 2] = bits;
          });
      (*kernels)->call(name, {a16.data(), b16.data(), c.data()},
                       {parts * k, parts * columns * 2, k, columns * 2}, 0, 1);
      double worst = 0, worstLoop = 0;
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < columns; ++j) {
          double exact = 0, size = 0;
          float loop = 0;
          for (int q = 0; q < k; ++q) {
            float x = a[r * k + q], y = b[q * columns + j];
            exact += double(x) * y;
            size += std::fabs(double(x) * y);
            loop = std::fma(x, y, loop);
          }
          worst = std::max(worst, std::fabs(c[r * columns + j] - exact) / size);
          worstLoop = std::max(worstLoop, std::fabs(loop - exact) / size);
        }
      if (parts == 3)
        EXPECT_LE(worst, worstLoop) << columns << " columns";
      else
        EXPECT_LE(worst, 1e-5) << columns << " columns";
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
