// Tile programs compiled, mapped and called.
#include "targets/cpu/KernelTest.h"

using namespace knapper;

namespace {

class Kernels : public testing::TestWithParam<std::string_view> {
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

TEST_P(Kernels, PointwiseWithRaggedEdge) {
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

INSTANTIATE_TEST_SUITE_P(Isa, Kernels, testing::ValuesIn(cpuIsas()),
                         [](const auto &info) {
                           return std::string(info.param.substr(7));
                         });

} // namespace
