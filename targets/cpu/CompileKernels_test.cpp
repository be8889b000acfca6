// Tile programs compiled, mapped and called.
#include "targets/cpu/KernelTest.h"

#include <cmath>

using namespace knapper;

namespace {

class CompileKernels : public testing::TestWithParam<std::string_view> {
protected:
  void compile(const std::string &text, const std::string &first) {
    if (!runsHere(GetParam()))
      GTEST_SKIP() << "this machine does not run " << GetParam();
    auto result = compileText(text, first, GetParam());
    ASSERT_TRUE(result) << result.error().message();
    kernels = std::move(*result);
  }
  std::unique_ptr<TestKernels> kernels;
};

TEST_P(CompileKernels, PointwiseWithRaggedEdge) {
  compile(R"(
    tile.func @relu(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
      %p = tile.program_id
      %c64 = arith.constant 64 : index
      %off = arith.muli %p, %c64 : index
      %valid = arith.subi %n, %off : index
      %v = tile.load %x[%off] valid %valid : !tile.buffer<f32> -> vector<64xf32>
      %zero = arith.constant dense<0.0> : vector<64xf32>
      %half = arith.constant dense<0.5> : vector<64xf32>
      %r = arith.maxnumf %v, %zero : vector<64xf32>
      %m = arith.mulf %r, %half : vector<64xf32>
      tile.store %m, %y[%off] valid %valid : vector<64xf32>, !tile.buffer<f32>
      tile.return
    })",
          "relu");
  if (!kernels)
    return;
  for (int n : {0, 1, 63, 64, 65, 100, 1000}) {
    std::vector<float> x(n + 64), y(n + 64, -7);
    for (int i = 0; i < n; ++i)
      x[i] = i - n / 2;
    kernels->call("relu", {x.data(), y.data()}, {n}, 0, (n + 63) / 64);
    for (int i = 0; i < n; ++i)
      ASSERT_EQ(y[i], std::max(x[i], 0.0f) * 0.5f) << "n " << n << " i " << i;
    for (int i = n; i < n + 64; ++i)
      ASSERT_EQ(y[i], -7) << "written past the end, n " << n;
  }
}

// Every elementary function, scalar and in vectors: no call may be left.
TEST_P(CompileKernels, Mathematics) {
  const std::pair<const char *, double (*)(double)> functions[] = {
      {"exp", std::exp},     {"exp2", std::exp2},   {"expm1", std::expm1},
      {"log", std::log},     {"log2", std::log2},   {"log10", std::log10},
      {"log1p", std::log1p}, {"sin", std::sin},     {"cos", std::cos},
      {"tan", std::tan},     {"asin", std::asin},   {"acos", std::acos},
      {"atan", std::atan},   {"sinh", std::sinh},   {"cosh", std::cosh},
      {"tanh", std::tanh},   {"asinh", std::asinh}, {"atanh", std::atanh},
      {"erf", std::erf},     {"erfc", std::erfc},   {"sqrt", std::sqrt},
      {"cbrt", std::cbrt}};
  std::string text;
  for (auto [name, f] : functions)
    for (std::string type : {"f32", "vector<16xf32>", "vector<40xf32>"}) {
      std::string lanes = type == "f32" ? "1" : type.substr(7, 2);
      text += "tile.func @" + std::string(name) + lanes +
              "(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>) {\n"
              "%c0 = arith.constant 0 : index\n"
              "%v = tile.load %x[%c0] : !tile.buffer<f32> -> " +
              type + "\n%r = math." + name + " %v : " + type +
              "\ntile.store %r, %y[%c0] : " + type +
              ", !tile.buffer<f32>\ntile.return\n}\n";
    }
  compile(text, "exp1");
  if (!kernels)
    return;
  float x[40], y[40];
  for (int i = 0; i < 40; ++i)
    x[i] = 0.02f + 0.024f * i; // inside every domain
  for (auto [name, f] : functions)
    for (int lanes : {1, 16, 40}) {
      kernels->call(name + std::to_string(lanes), {x, y}, {}, 0, 1);
      for (int i = 0; i < lanes; ++i)
        ASSERT_NEAR(y[i], f(x[i]), 4e-7 * std::max(1.0, std::fabs(f(x[i]))))
            << name << " of " << x[i] << " in " << lanes;
    }
}

INSTANTIATE_TEST_SUITE_P(Isa, CompileKernels, testing::ValuesIn(cpuIsas()),
                         isaTestName);

} // namespace
