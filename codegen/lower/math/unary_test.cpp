// Functions of one argument against the C library's of twice the precision.
//
// Every 257th float32 by default; all of them with KNAPPER_EXHAUSTIVE=1 (the
// slow ctest). Prints the table of docs/performance/math.md.

#include "codegen/lower/math/testing/Unary.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

using namespace knapper::vecmath::testing;

namespace {

const char *const kCpus[] = {"x86-64-v3", "x86-64-v4"};

class UnaryTest : public ::testing::TestWithParam<size_t> {
public:
  static void SetUpTestSuite() {
    std::string error;
    for (const char *cpu : kCpus) {
      if (!hostRuns(cpu))
        continue;
      for (const char *element : {"f32", "f64"}) {
        std::string object =
            compile(functionsOf(unaryFunctions()), element, 16, cpu, error);
        ASSERT_FALSE(object.empty()) << error;
        auto loaded = Loaded::load(object, error);
        ASSERT_TRUE(loaded) << error;
        (element == std::string("f32") ? singles : doubles)
            .push_back(std::move(loaded));
      }
    }
  }
  static void TearDownTestSuite() {
    singles.clear();
    doubles.clear();
  }

  static std::vector<Kernel>
  kernels(std::vector<std::unique_ptr<Loaded>> &loaded,
          const std::string &name) {
    std::vector<Kernel> found;
    std::string error;
    for (auto &l : loaded) {
      Kernel kernel = l->find(name, error);
      EXPECT_TRUE(kernel) << error;
      found.push_back(kernel);
    }
    return found;
  }

  static std::vector<std::unique_ptr<Loaded>> singles, doubles;
};
std::vector<std::unique_ptr<Loaded>> UnaryTest::singles, UnaryTest::doubles;

TEST_P(UnaryTest, F32) {
  const Unary &unary = unaryFunctions()[GetParam()];
  auto all = kernels(singles, unary.function.name);
  ASSERT_FALSE(HasFailure());
  Report r = check(unary, all, std::getenv("KNAPPER_EXHAUSTIVE") ? 1 : 257);
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
  if (!unary.precise)
    return;
  auto all = kernels(doubles, unary.function.name);
  ASSERT_FALSE(HasFailure());
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
  all[0](x.data(), nullptr, out.data(), kCount);
  double worst = 0, at = 0;
  for (unsigned i = 0; i < kCount; ++i) {
    double error = ulpsF64(out[i], unary.precise(x[i]), unary.smallest);
    if (error > worst) {
      worst = error;
      at = x[i];
    }
  }
  std::printf("| %s | f64 | %.3f | %a |\n", unary.function.name.c_str(), worst,
              at);
  EXPECT_LE(worst, unary.boundF64) << "at " << at;
  for (Kernel kernel : llvm::ArrayRef(all).drop_front()) {
    kernel(x.data(), nullptr, other.data(), kCount);
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
