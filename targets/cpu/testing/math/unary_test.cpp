// Functions of one argument against the C library's of twice the precision.
//
// Every 257th float32 by default; all of them with KNAPPER_EXHAUSTIVE=1 (the
// slow ctest). Prints the table of docs/performance/math.md.

#include "targets/cpu/testing/math/Unary.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

using namespace knapper::vecmath::testing;

namespace {

class UnaryTest : public ::testing::TestWithParam<size_t> {
public:
  static void SetUpTestSuite() {
    for (std::string_view isa : isasHere())
      for (auto *kernels : {&singles, &doubles}) {
        auto compiled =
            Kernels::compile(functionsOf(unaryFunctions()),
                             kernels == &singles ? "f32" : "f64", 16, isa);
        ASSERT_TRUE(compiled) << compiled.error().message();
        kernels->push_back(std::move(*compiled));
      }
  }
  static void TearDownTestSuite() {
    singles.clear();
    doubles.clear();
  }
  void SetUp() override {
    if (singles.empty() || doubles.empty())
      GTEST_SKIP() << "this machine runs none of the instruction sets";
  }

  static std::vector<std::unique_ptr<Kernels>> singles, doubles;
};
std::vector<std::unique_ptr<Kernels>> UnaryTest::singles, UnaryTest::doubles;

TEST_P(UnaryTest, F32) {
  const Unary &unary = unaryFunctions()[GetParam()];
  Report r = check(unary, singles, std::getenv("KNAPPER_EXHAUSTIVE") ? 1 : 257);
  std::printf("| %s | f32 | %.3f | %a |\n", unary.function.name.c_str(),
              r.worst, r.at);
  EXPECT_LE(r.worst, unary.boundF32)
      << "at " << r.at << " got " << r.got << " want " << unary.reference(r.at);
  EXPECT_EQ(r.differing, 0u)
      << "instruction sets differ, for example at " << r.differsAt;
  EXPECT_GT(r.checked, 16'000'000u);
}

TEST_P(UnaryTest, F64) {
  const Unary &unary = unaryFunctions()[GetParam()];
  const std::string &name = unary.function.name;
  constexpr unsigned kCount = 1 << 19;
  std::mt19937_64 random(7);
  std::vector<double> x = {0.0,
                           -0.0,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           1,
                           -1,
                           0x1p-1074,
                           -0x1p-1074,
                           0x1.fffffffffffffp+1023,
                           709.78,
                           -745.2,
                           0.5,
                           -0.5,
                           1.5,
                           2.5,
                           0x1.fffffffffffffp-2};
  // Everywhere, and densely where most functions have something to show.
  while (x.size() < kCount) {
    uint64_t bits = random();
    x.push_back(std::bit_cast<double>(bits));
    double unit = double(bits >> 11) * 0x1p-53;
    x.push_back((unit - 0.5) * 2.2);
    x.push_back((unit - 0.5) * 64);
    x.push_back((unit - 0.5) * 1500);
    x.push_back(1 + (unit - 0.5) * 0x1p-20);
  }
  x.resize(kCount);
  std::vector<double> out(kCount), other(kCount);
  doubles[0]->call(name, {x.data(), out.data()}, kCount);
  double worst = 0, at = 0;
  for (unsigned i = 0; i < kCount; ++i) {
    double error = ulpsF64(out[i], unary.precise(x[i]), unary.smallest);
    if (error > worst) {
      worst = error;
      at = x[i];
    }
  }
  std::printf("| %s | f64 | %.3f | %a |\n", name.c_str(), worst, at);
  EXPECT_LE(worst, unary.boundF64) << "at " << at;
  for (const auto &kernels : llvm::ArrayRef(doubles).drop_front()) {
    kernels->call(name, {x.data(), other.data()}, kCount);
    for (unsigned i = 0; i < kCount; ++i)
      ASSERT_TRUE(std::isnan(out[i]) ? std::isnan(other[i])
                                     : out[i] == other[i])
          << "instruction sets differ at " << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Math, UnaryTest,
                         ::testing::Range<size_t>(0, unaryFunctions().size()),
                         [](const auto &info) {
                           return unaryFunctions()[info.param].function.name;
                         });

} // namespace
