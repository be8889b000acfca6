// Files of releases stay loadable. tests/compat holds one artefact a release;
// each must load and run, or be refused with both format versions named.
// KNAPPER_COMPAT_WRITE=PATH writes the file of this version.
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper;
using namespace knapper::testing;

namespace {

/// y[rows] = sum over columns of x * 2 + 1, counted up to `limit` times by a
/// loop; k = positive entries of x, z = those.
TestArtefact sample() {
  TestArtefact a({"x86-64-v3", "x86-64-v4"});
  uint32_t rows = a.symbol("rows"), columns = a.symbol("columns"),
           k = a.symbol("k", 0, -1, 1, true);
  uint32_t one = a.constant(1), four = a.constant(4), eight = a.constant(8);
  uint32_t elements = a.mul(rows, columns);
  uint32_t x = a.input("x", DType::f32, {rows, columns}, {"rows", "columns"});
  uint32_t limit = a.input("limit", DType::i64, {});
  uint32_t scaled = a.temp(a.mul(elements, four), 0, 1);
  uint32_t more = a.temp(one, 3, 5), count = a.temp(eight, 6, 7);
  uint32_t y = a.output("y", DType::f32, {rows}, {"rows"});
  uint32_t counter = a.output("counter", DType::i64, {});
  uint32_t z = a.output("z", DType::f32, {k}, {"k"});
  uint32_t main = a.region(), condition = a.region(), body = a.region();
  a.launch(main, "scale", {x, scaled}, elements);                // 0
  a.launch(main, "row_sum", {scaled, y}, rows, {columns});       // 1
  a.copy(main, a.constantBuffer({0, 0}), counter, eight);        // 2
  a.whileLoop(main, more, condition, body);                      // 3
  a.launch(condition, "less", {counter, limit, more}, one);      // 4
  a.launch(body, "count_up", {counter}, one, {four});            // 5
  a.launch(main, "count_positive", {x, count}, one, {elements}); // 6
  a.bindSymbol(main, count, k);                                  // 7
  a.launch(main, "keep_positive", {x, z}, one, {elements});      // 8
  return a;
}

void expectRuns(Module &m) {
  std::vector<float> x = {1, -1, 2, -2, 3, 0};
  std::vector<int64_t> limit = {10}, shape = {2, 3}, scalar;
  knapper_tensor inputs[] = {tensor(x, shape),
                             tensor(limit, scalar, DType::i64)};
  RunResult result;
  Status s = m.run(inputs, {}, result);
  ASSERT_TRUE(s) << s.error().message();
  auto *y = static_cast<float *>(result.outputs()[0].data);
  EXPECT_EQ(y[0], 7);
  EXPECT_EQ(y[1], 5);
  EXPECT_EQ(*static_cast<int64_t *>(result.outputs()[1].data), 12);
  ASSERT_EQ(result.outputs()[2].shape[0], 3);
  EXPECT_EQ(static_cast<float *>(result.outputs()[2].data)[2], 3);
}

} // namespace

TEST(Compat, FilesOfReleasesLoadAndRun) {
  if (const char *path = getenv("KNAPPER_COMPAT_WRITE")) {
    std::vector<std::byte> bytes = sample().bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<char *>(bytes.data()), bytes.size());
  }
  int files = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(KNAPPER_COMPAT_FILES)) {
    if (entry.path().extension() != ".knap")
      continue;
    SCOPED_TRACE(entry.path().filename());
    ++files;
    auto artefact = Artefact::load(entry.path(), {ConstantChecks::atLoad});
    if (!artefact) {
      EXPECT_THAT(artefact.error().what,
                  ::testing::MatchesRegex("the artefact has format [0-9]+ .*, "
                                          "this runtime reads format [0-9]+"));
      EXPECT_NE(artefact.error().hint, "");
      continue;
    }
    auto m = Module::load(*artefact, cpu::device(), {});
    ASSERT_TRUE(m) << m.error().message();
    expectRuns(**m);
  }
  EXPECT_GT(files, 0);
}

TEST(Compat, ThisVersionWritesWhatItReads) {
  auto m = sample().load();
  expectRuns(*m);
}
