#include "runtime/testing/RemoteDevice.h"
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/null/NullDevice.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <limits>
#include <new>
#include <numeric>
#include <thread>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

#if !defined(__has_feature) ||                                                 \
    !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#define COUNT_ALLOCATIONS 1
static std::atomic<uint64_t> allocations{0};
void *operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void *memory = malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
#endif

namespace {

using ModulePtr = std::shared_ptr<Module>;

std::vector<float> rowResult(const std::vector<float> &x, int64_t rows,
                             int64_t cols) {
  std::vector<float> y;
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < cols; ++i)
      sum += x[r * cols + i] * 2 + 1;
    y.push_back(sum + 0.5f);
  }
  return y;
}

Status runRows(Module &m, int64_t rows, int64_t cols, RunResult &result,
               std::vector<float> &x) {
  x.resize(rows * cols);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i % 7) - 3;
  std::vector<int64_t> shape = {rows, cols};
  knapper_tensor input = tensor(x, shape);
  return m.run({&input, 1}, {}, result);
}

/// What the tests of programs run on: the CPU, and a device that does not
/// address host memory.
class Programs : public ::testing::TestWithParam<const char *> {
protected:
  std::shared_ptr<Device> device() const {
    return std::string(GetParam()) == "cpu" ? cpu::device() : remoteDevice();
  }
};

} // namespace

TEST_P(Programs, RunsOneProgramAtManySizes) {
  ModulePtr m = rowProgram().load({.threads = 2}, device());
  RunResult result;
  std::vector<float> x;
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                            {7, 33},
                            {64, 1000},
                            {3, 8},
                            {7, 33},
                            {0, 5}}) {
    Status s = runRows(*m, rows, cols, result, x);
    ASSERT_TRUE(s) << errorOf(s);
    ASSERT_EQ(result.outputs().size(), 1u);
    EXPECT_EQ(result.outputs()[0].rank, 1);
    EXPECT_EQ(result.outputs()[0].shape[0], rows);
    EXPECT_EQ(floats(result.outputs()[0]), rowResult(x, rows, cols));
  }
}

TEST_P(Programs, AGrainIsAtLeastOne) {
  for (int64_t below : {0, -1}) {
    TestArtefact a;
    uint32_t n = a.symbol("n"), x = a.input("x", DType::f32, {n}),
             y = a.output("y", DType::f32, {n});
    fb::LaunchT &launch = a.launch(a.region(), "scale", {x, y}, n);
    // A formula that a size of one takes below 1.
    launch.choices[0]->grain =
        a.op(fb::ScalarOp::add, n, a.constant(below - 1));
    ModulePtr m = a.load({.threads = 2}, device());
    std::vector<float> data(1, 1.0f);
    std::vector<int64_t> shape = {1};
    knapper_tensor input = tensor(data, shape);
    RunResult result;
    Status s = m->run({&input, 1}, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(3.0f));
  }
}

TEST_P(Programs, ConstantsOfAnotherProgramComeFirst) {
  TestArtefact a;
  a.constantBuffer(std::vector<float>(1000, 7.0f));
  a.program().buffers.clear(); // in the file, but not this program's
  ModulePtr m = rowProgram(std::move(a)).load({}, device());
  RunResult result;
  std::vector<float> x;
  Status s = runRows(*m, 7, 33, result, x);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(floats(result.outputs()[0]), rowResult(x, 7, 33));
}

TEST_P(Programs, WritesIntoGivenOutputs) {
  ModulePtr m = rowProgram().load({}, device());
  std::vector<float> x(6, 1.0f), y(2);
  std::vector<int64_t> shape = {2, 3}, outShape = {2};
  knapper_tensor input = tensor(x, shape), output = tensor(y, outShape);
  RunResult result;
  Status s = m->run({&input, 1}, {&output, 1}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(result.outputs()[0].data, y.data());
  EXPECT_THAT(y, ElementsAre(9.5f, 9.5f));

  output.bytes = 4;
  EXPECT_THAT(errorOf(m->run({&input, 1}, {&output, 1}, result)),
              HasSubstr("output 'y': f32[2] takes 8 bytes, 4 were given"));
  // Memory of another shape is not the output's, however large it is.
  std::vector<float> wide(8, -7.0f);
  std::vector<int64_t> wrong[] = {{3}, {1}, {2, 1}, {}, {2, 4}};
  for (std::vector<int64_t> &dims : wrong) {
    knapper_tensor other = tensor(wide, dims);
    other.bytes = wide.size() * sizeof(float);
    EXPECT_THAT(errorOf(m->run({&input, 1}, {&other, 1}, result)),
                HasSubstr("output 'y': the output is f32[2], the memory given "
                          "for it is f32["));
  }
  EXPECT_THAT(wide, Each(-7.0f));
  knapper_tensor flat = {wide.data(), 32, KNAPPER_F32, KNAPPER_FLAT, nullptr};
  s = m->run({&input, 1}, {&flat, 1}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(wide, ElementsAre(9.5f, 9.5f, -7, -7, -7, -7, -7, -7));
  ASSERT_EQ(result.outputs()[0].rank, 1);
  EXPECT_EQ(result.outputs()[0].shape[0], 2);
  flat.rank = -2;
  EXPECT_THAT(errorOf(m->run({&input, 1}, {&flat, 1}, result)),
              HasSubstr("got a tensor of rank -2 without a shape"));
  output.dtype = KNAPPER_I32;
  EXPECT_THAT(errorOf(m->run({&input, 1}, {&output, 1}, result)),
              HasSubstr("output 'y': expected memory for f32[rows], got i32"));
}

/// y = x * 2 + 1 by a copy and a kernel over it; z = w.
TEST_P(Programs, OutputsInPlaceOfAnInput) {
  TestArtefact a;
  uint32_t n = a.symbol("n"), bytes = a.mul(n, a.constant(4));
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  uint32_t w = a.input("w", DType::f32, {n}, {"n"});
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  uint32_t z = a.output("z", DType::f32, {n}, {"n"});
  uint32_t main = a.region();
  a.copy(main, x, y, bytes);
  a.launch(main, "scale", {y, y}, n);
  a.copy(main, w, z, bytes);
  a.program().in_place.push_back(fb::InPlace(0, 0));
  ModulePtr m = a.load({.threads = 2}, device());
  EXPECT_TRUE(m->program().mayReplace(0, 0));
  EXPECT_FALSE(m->program().mayReplace(0, 1));
  EXPECT_FALSE(m->program().mayReplace(1, 0));

  std::vector<int64_t> shape = {3};
  std::vector<float> memory = {1, 2, 3, 0, 0, 0}, other = {4, 5, 6};
  knapper_tensor under = tensor(memory, shape);
  under.bytes = 12;
  auto at = [&](int64_t offset) {
    knapper_tensor t = under;
    t.data = memory.data() + offset;
    return t;
  };
  knapper_tensor second = tensor(other, shape), none = {};
  RunResult result;
  auto run = [&](knapper_tensor input, knapper_tensor y, knapper_tensor z) {
    knapper_tensor in[] = {input, second}, out[] = {y, z};
    return errorOf(m->run(in, out, result));
  };
  EXPECT_EQ(run(at(0), none, none), "no error");
  EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(3, 5, 7));
  EXPECT_THAT(memory, ElementsAre(1, 2, 3, 0, 0, 0));
  EXPECT_EQ(run(at(0), at(3), none), "no error");
  EXPECT_THAT(memory, ElementsAre(1, 2, 3, 3, 5, 7));
  for (int iteration = 0; iteration < 3;
       ++iteration) // recorded and replayed where possible
    EXPECT_EQ(run(at(0), at(0), none), "no error");
  EXPECT_THAT(memory, ElementsAre(15, 23, 31, 3, 5, 7));
  EXPECT_THAT(run(at(0), at(1), none),
              HasSubstr("output 'y': its memory is partly input 'x'"));
  EXPECT_THAT(run(at(1), at(0), none),
              HasSubstr("input 'x': its memory is partly output 'y'"));
  EXPECT_THAT(run(at(0), none, at(0)), HasSubstr("also"));
  EXPECT_THAT(run(at(0), second, none), HasSubstr("also"));
  EXPECT_THAT(run(at(0), at(0), at(0)), HasSubstr("also output"));
  EXPECT_THAT(run(at(0), at(0), at(2)), HasSubstr("also output"));
  EXPECT_THAT(memory, ElementsAre(15, 23, 31, 3, 5, 7));
}

TEST(Module, RefusesWrongInputsBeforeAKernelRuns) {
  ModulePtr m = rowProgram().load();
  std::vector<float> x(100);
  RunResult result;
  auto attempt = [&](std::vector<int64_t> shape, knapper_dtype dtype,
                     size_t bytes) {
    knapper_tensor t = {x.data(), bytes, dtype,
                        static_cast<int32_t>(shape.size()), shape.data()};
    Status s = m->run({&t, 1}, {}, result);
    EXPECT_TRUE(s || s.error().kind == ErrorKind::user);
    EXPECT_TRUE(result.outputs().empty());
    return errorOf(s);
  };
  EXPECT_THAT(attempt({4}, KNAPPER_F32, 400),
              HasSubstr("input 'x': expected f32[rows, cols], got f32[4]"));
  EXPECT_THAT(attempt({2, 2}, KNAPPER_I64, 400),
              HasSubstr("expected f32[rows, cols], got i64[2, 2]"));
  EXPECT_THAT(attempt({2, 2}, KNAPPER_F32, 15),
              HasSubstr("takes 16 bytes, 15 were given"));
  EXPECT_THAT(attempt({-2, 2}, KNAPPER_F32, 400), HasSubstr("not negative"));
  EXPECT_THAT(attempt({INT64_MAX, INT64_MAX}, KNAPPER_F32, 400),
              HasSubstr("fit in memory"));
  EXPECT_THAT(attempt({1, 0}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 0, it must be at least 1"));
  EXPECT_THAT(attempt({0, 5000}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 5000, it may be at most 4096"));
  EXPECT_THAT(attempt({0, 4097}, KNAPPER_F32, 400),
              HasSubstr("size 'cols' is 4097, it may be at most 4096"));
  EXPECT_THAT(attempt({100, 1}, KNAPPER_F32, 400),
              HasSubstr("node: too many rows"));
  EXPECT_THAT(errorOf(m->run({}, {}, result)),
              HasSubstr("the model has 1 inputs, 0 were given"));
}

TEST(Module, ChecksDimsThatAreExpressionsOrRepeat) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 1, -1, 2);
  uint32_t twice = a.mul(n, a.constant(2));
  uint32_t x = a.input("x", DType::f32, {n}, {"n"});
  a.input("unused", DType::f32, {twice, n}, {"2*n", "n"});
  uint32_t y = a.output("y", DType::f32, {n}, {"n"});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, y}, n);
  ModulePtr m = a.load();
  std::vector<float> data(64);
  std::vector<int64_t> one = {4}, two = {8, 4};
  knapper_tensor inputs[] = {tensor(data, one), tensor(data, two)};
  RunResult result;
  EXPECT_TRUE(m->run(inputs, {}, result));
  two = {7, 4};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("dim 0 must be 8"));
  two = {8, 2};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("dim 1 must be 4: that is 'n' in an earlier dim"));
  one = {3};
  EXPECT_THAT(errorOf(m->run(inputs, {}, result)),
              HasSubstr("size 'n' is 3, it must be a multiple of 2"));
}

TEST_P(Programs, WhileLoopsUntilTheConditionIsFalse) {
  // counter = start; while (counter < limit) { counter += 3; x = x*2+1 }
  TestArtefact a;
  uint32_t one = a.constant(1), eight = a.constant(8), four = a.constant(4);
  uint32_t start = a.input("start", DType::i64, {});
  uint32_t limit = a.input("limit", DType::i64, {});
  uint32_t x = a.input("x", DType::f32, {one});
  uint32_t counter = a.output("counter", DType::i64, {});
  uint32_t y = a.output("y", DType::f32, {one});
  uint32_t flag = a.temp(one, 2, 6), next = a.temp(four, 5, 6);
  uint32_t main = a.region(), condition = a.region(), body = a.region();
  a.copy(main, start, counter, eight);                         // 0
  a.copy(main, x, y, four);                                    // 1
  a.whileLoop(main, flag, condition, body);                    // 2
  a.launch(condition, "less", {counter, limit, flag}, one);    // 3
  a.launch(body, "count_up", {counter}, one, {a.constant(3)}); // 4
  a.launch(body, "scale", {y, next}, one);                     // 5
  a.copy(body, next, y, four);                                 // 6
  ModulePtr m = a.load({}, device());
  for (int64_t limitValue : {0, 1, 10, 3000}) {
    std::vector<int64_t> startData = {0}, limitData = {limitValue};
    std::vector<float> xData = {-0.5f};
    std::vector<int64_t> scalar, vector1 = {1};
    knapper_tensor inputs[] = {tensor(startData, scalar, DType::i64),
                               tensor(limitData, scalar, DType::i64),
                               tensor(xData, vector1)};
    RunResult result;
    Status s = m->run(inputs, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    int64_t rounds = (limitValue + 2) / 3;
    EXPECT_EQ(*static_cast<int64_t *>(result.outputs()[0].data), rounds * 3);
    float expected = -0.5f;
    for (int64_t i = 0; i < rounds; ++i)
      expected = expected * 2 + 1;
    EXPECT_EQ(floats(result.outputs()[1])[0], expected);
  }
  // A loop that would never end can be cancelled.
  std::vector<int64_t> startData = {INT64_MIN}, limitData = {INT64_MAX};
  std::vector<float> xData = {0};
  std::vector<int64_t> scalar, vector1 = {1};
  knapper_tensor inputs[] = {tensor(startData, scalar, DType::i64),
                             tensor(limitData, scalar, DType::i64),
                             tensor(xData, vector1)};
  int32_t cancel = 0;
  std::thread timer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic_ref<int32_t>(cancel).store(1);
  });
  RunResult result;
  EXPECT_THAT(errorOf(m->run(inputs, {}, result, {.cancel = Cancel(&cancel)})),
              HasSubstr("cancelled"));
  timer.join();
}

TEST_P(Programs, IfTakesOneBranchAndCallsShareARegion) {
  // y = flag ? scale(scale(x)) : x + x; scale is a region called twice.
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t bytes = a.mul(n, a.constant(4));
  uint32_t flag = a.input("flag", DType::i1, {});
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t t = a.temp(bytes, 1, 8);
  uint32_t main = a.region(), then = a.region(), otherwise = a.region(),
           twice = a.region();
  a.ifElse(main, flag, then, otherwise);    // 0
  a.copy(then, x, y, bytes);                // 1
  a.call(then, twice);                      // 2
  a.launch(twice, "scale", {y, t}, n);      // 3
  a.copy(twice, t, y, bytes);               // 4
  a.call(then, twice);                      // 5
  a.launch(otherwise, "add", {x, x, y}, n); // 6
  ModulePtr m = a.load({}, device());
  for (char flagValue : {1, 0}) {
    std::vector<char> flagData = {flagValue};
    std::vector<float> xData = {1, 2, 3};
    std::vector<int64_t> scalar, shape = {3};
    knapper_tensor inputs[] = {tensor(flagData, scalar, DType::i1),
                               tensor(xData, shape)};
    RunResult result;
    Status s = m->run(inputs, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    if (flagValue)
      EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(7, 11, 15));
    else
      EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(2, 4, 6));
  }
}

TEST_P(Programs, SizesComputedByTheModelAreBoundDuringTheRun) {
  // k = number of positive x; t = the positive x; y = scale(t), y: [k]
  TestArtefact a;
  uint32_t n = a.symbol("n"), k = a.symbol("k", 0, 1000, 1, true);
  uint32_t one = a.constant(1), four = a.constant(4);
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t count = a.temp(a.constant(8), 0, 1);
  uint32_t t = a.temp(a.mul(k, four), 2, 3);
  uint32_t y = a.output("y", DType::f32, {k}, {"k"});
  uint32_t main = a.region();
  a.launch(main, "count_positive", {x, count}, one, {n}); // 0
  a.bindSymbol(main, count, k);                           // 1
  a.launch(main, "keep_positive", {x, t}, one, {n});      // 2
  a.launch(main, "scale", {t, y}, k);                     // 3
  ModulePtr m = a.load({}, device());
  RunResult result;
  for (int round = 0; round < 3; ++round) {
    std::vector<float> data = {1, -1, 2, -2, float(round), 0};
    data.resize(6 + round * 100, 1.0f);
    std::vector<int64_t> shape = {int64_t(data.size())};
    knapper_tensor input = tensor(data, shape);
    Status s = m->run({&input, 1}, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    std::vector<float> expected;
    for (float v : data)
      if (v > 0)
        expected.push_back(v * 2 + 1);
    EXPECT_EQ(result.outputs()[0].shape[0], int64_t(expected.size()));
    EXPECT_EQ(floats(result.outputs()[0]), expected);
  }
  // Memory that the caller gives must suffice for what comes out.
  std::vector<float> data = {1, 2, 3}, small(2);
  std::vector<int64_t> shape = {3}, smallShape = {2};
  knapper_tensor input = tensor(data, shape),
                 output = tensor(small, smallShape);
  EXPECT_THAT(errorOf(m->run({&input, 1}, {&output, 1}, result)),
              HasSubstr("the output is f32[3], the memory given for it is "
                        "f32[2]"));
  output.rank = KNAPPER_FLAT;
  EXPECT_THAT(errorOf(m->run({&input, 1}, {&output, 1}, result)),
              HasSubstr("output 'y': f32[3] takes 12 bytes, 8 were given"));
  std::vector<float> room(5, -1.0f);
  output = {room.data(), 20, KNAPPER_F32, KNAPPER_FLAT, nullptr};
  Status s = m->run({&input, 1}, {&output, 1}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(result.outputs()[0].shape[0], 3);
  EXPECT_THAT(room, ElementsAre(3, 5, 7, -1, -1));
  // What a run would say before it starts knows no such size.
  s = m->run({&input, 1}, {&output, 1}, result, {.checkOnly = true});
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(result.outputs()[0].shape[0], -1);
  data.assign(1500, 1.0f);
  shape = {1500};
  input = tensor(data, shape);
  EXPECT_THAT(errorOf(m->run({&input, 1}, {}, result)),
              HasSubstr("size 'k' is 1500, it may be at most 1000"));
}

TEST_P(Programs, RepeatsATurnForEachRow) {
  // y[iteration] = 2 * x[iteration] + 1, from the last iteration to the first;
  // then how many.
  TestArtefact a;
  uint32_t n = a.symbol("n", 0),
           iteration = a.symbol("iteration", 0, -1, 1, true),
           count = a.symbol("count", 0, -1, 1, true);
  uint32_t one = a.constant(1), four = a.constant(4);
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t grown = a.temp(a.mul(count, four), 0, 4);
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t z = a.output("z", DType::f32, {count}, {"count"});
  uint32_t main = a.region(), body = a.region();
  a.setSymbols(main, {{count, a.constant(0)}});                      // 0
  a.repeat(main, iteration, n, -1, body);                            // 1
  a.setSymbols(body, {{count, a.op(fb::ScalarOp::add, iteration, one)}}); // 2
  fb::LaunchT &row = a.launch(body, "scale", {x, y}, one);           // 3
  uint32_t last = a.op(fb::ScalarOp::sub, n, count);
  row.args = {fb::BufferRef(x, a.mul(iteration, four)),
              fb::BufferRef(y, a.mul(last, four))};
  fb::LaunchT &more = a.launch(body, "scale", {x, grown}, one); // 4
  more.args = {fb::BufferRef(x, a.mul(iteration, four)),
               fb::BufferRef(grown, a.mul(iteration, four))};
  a.copy(main, grown, z, a.mul(count, four)); // 5
  a.program().buffers[grown]->last = 5;
  ModulePtr m = a.load({}, device());
  RunResult result;
  for (int64_t size : {3, 0, 40, 3}) {
    std::vector<float> data;
    for (int64_t i = 0; i < size; ++i)
      data.push_back(float(i));
    data.reserve(1);
    std::vector<int64_t> shape = {size};
    knapper_tensor input = tensor(data, shape);
    Status s = m->run({&input, 1}, {}, result);
    ASSERT_TRUE(s) << errorOf(s);
    std::vector<float> expected;
    for (float v : data)
      expected.push_back(v * 2 + 1);
    EXPECT_EQ(floats(result.outputs()[1]), expected);
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(floats(result.outputs()[0]), expected);
  }
}

TEST_P(Programs, ABranchThatIsNotTakenMayHaveImpossibleSizes) {
  // yes: y = x[2 ..] scaled, for n >= 2 only; no: y = x.
  TestArtefact a;
  uint32_t n = a.symbol("n"), two = a.constant(2), four = a.constant(4);
  uint32_t rest = a.op(fb::ScalarOp::sub, n, two);
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t flag = a.input("flag", DType::i1, {});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t t = a.temp(a.mul(rest, four), 2, 3);
  uint32_t main = a.region(), yes = a.region(), no = a.region();
  a.ifElse(main, flag, yes, no);                                 // 0
  a.assertion(yes, a.op(fb::ScalarOp::le, two, n), "needs two"); // 1
  a.launch(yes, "scale", {x, t}, rest);                          // 2
  a.copy(yes, t, y, a.mul(rest, four));                          // 3
  a.copy(no, x, y, a.mul(n, four));                              // 4
  ModulePtr m = a.load({}, device());
  RunResult result;
  auto run = [&](std::vector<float> data, bool taken) -> std::string {
    std::vector<int64_t> shape = {int64_t(data.size())}, scalar;
    std::vector<char> condition = {char(taken)};
    knapper_tensor inputs[] = {tensor(data, shape),
                               tensor(condition, scalar, DType::i1)};
    Status s = m->run(inputs, {}, result);
    return s ? std::to_string(floats(result.outputs()[0])[0]) : errorOf(s);
  };
  EXPECT_EQ(run({5}, false), "5.000000");
  EXPECT_EQ(run({1, 2, 3}, true), "3.000000");
  EXPECT_THAT(run({5}, true), HasSubstr("needs two"));
  EXPECT_EQ(run({7}, false), "7.000000");
}

TEST_P(Programs, AKernelsStatusNamesItsLaunch) {
  TestArtefact a = gatherProgram();
  ModulePtr m = a.load({.threads = 2}, device());
  std::vector<int64_t> indices = {2, 0, 3}, shape = {3};
  knapper_tensor input = tensor(indices, shape, DType::i64);
  RunResult result;
  std::string error = errorOf(m->run({&input, 1}, {}, result));
  EXPECT_THAT(error, HasSubstr("gather_node: an index is out of range"));
  indices[2] = 1; // the next run is not tainted
  Status s = m->run({&input, 1}, {}, result);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(3, 1, 2));
}

TEST(Module, GuardsChooseAmongKernels) {
  // n < 4: y = x*2+1, else y = x + x.
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t main = a.region();
  a.launch(main, "add", {x, x, y}, n);
  // Same arguments for both choices: scale with a third, unused buffer.
  a.launch(main, "scale", {x, y}, n);
  auto &instructions = a.program().regions[0]->instructions;
  auto *add = instructions[0]->instruction.AsLaunch();
  auto *scale = instructions[1]->instruction.AsLaunch();
  scale->choices[0]->guard = a.op(fb::ScalarOp::lt, n, a.constant(4));
  a.header.kernels[scale->choices[0]->kernel]->num_buffers = 3;
  std::swap(add->args[1], add->args[2]); // in, out, in
  a.header.kernels[add->choices[0]->kernel]->codes[0]->entry =
      kernelEntry("x86-64-v3", "add");
  add->choices.insert(add->choices.begin(), std::move(scale->choices[0]));
  // add reads buffers 0 and 1, writes 2: give it (x, y, x)'s neighbour order.
  instructions.pop_back();
  ModulePtr m = a.load();
  auto run = [&](int64_t size) {
    std::vector<float> data(size, 5.0f);
    std::vector<float> out(size, 0.0f);
    std::vector<int64_t> shape = {size};
    knapper_tensor input = tensor(data, shape), output = tensor(out, shape);
    RunResult result;
    Status s = m->run({&input, 1}, {&output, 1}, result);
    EXPECT_TRUE(s) << errorOf(s);
    // add wrote x + y into x's place, y stays 0; scale wrote y.
    return std::pair(data[0], out[0]);
  };
  EXPECT_EQ(run(3), std::pair(5.0f, 11.0f));
  EXPECT_EQ(run(4), std::pair(5.0f, 0.0f));
}

TEST(Module, ManyThreadsRunOneModule) {
  ModulePtr m = rowProgram().load({.threads = 2});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      RunResult result;
      std::vector<float> x;
      for (int i = 0; i < 200; ++i) {
        int64_t rows = 1 + (i + t) % 9, cols = 16 + (i * 7 + t) % 50;
        Status s = runRows(*m, rows, cols, result, x);
        wrong += !s || floats(result.outputs()[0]) != rowResult(x, rows, cols);
      }
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Module, SpreadsALaunchOverAsManyThreadsAsTheGrainAllows) {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  a.input("size", DType::i1, {n});
  uint32_t y = a.output("y", DType::i32, {n});
  uint32_t main = a.region();
  fb::LaunchT &launch = a.launch(main, "workers", {y}, n);
  launch.choices[0]->grain = a.constant(4);
  ModulePtr m = a.load({.threads = 3});
  auto workers = [&](int64_t size) {
    std::vector<char> data(size);
    std::vector<int64_t> shape = {size};
    knapper_tensor input = tensor(data, shape, DType::i1);
    RunResult result;
    Status s = m->run({&input, 1}, {}, result);
    EXPECT_TRUE(s) << errorOf(s);
    auto *out = static_cast<int *>(result.outputs()[0].data);
    return std::vector<int>(out, out + size);
  };
  EXPECT_THAT(workers(10), Each(3));
  EXPECT_THAT(workers(5), Each(2)); // the grain
  EXPECT_THAT(workers(3), Each(1));
}

TEST(Module, ARepeatedRunAllocatesNothing) {
#ifndef COUNT_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer owns the allocator";
#else
  ModulePtr m = rowProgram().load({.threads = 2});
  std::vector<float> x(200);
  std::vector<int64_t> shape = {10, 20};
  knapper_tensor input = tensor(x, shape);
  RunResult result;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(m->run({&input, 1}, {}, result));
  void *memory = result.outputs()[0].data;
  uint64_t before = allocations.load();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(m->run({&input, 1}, {}, result));
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_EQ(result.outputs()[0].data, memory);
#endif
}

TEST(Module, BitsDoNotDependOnTheCallersFloatMode) {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t main = a.region();
  a.launch(main, "add", {x, x, y}, n);
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040); // flush denormals to zero, read them as zero
  ModulePtr m = a.load({.threads = 2});
  float denormal = std::numeric_limits<float>::denorm_min();
  std::vector<float> data(1000, denormal);
  std::vector<int64_t> shape = {1000};
  knapper_tensor input = tensor(data, shape);
  RunResult result;
  Status s = m->run({&input, 1}, {}, result);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(after, before | 0x8040);
  EXPECT_EQ(floats(result.outputs()[0]),
            std::vector<float>(1000, 2 * denormal));
}

TEST(Module, ALaunchCostsLittle) {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t main = a.region();
  for (int i = 0; i < 1000; ++i)
    a.launch(main, "scale", {x, y}, n);
  for (int threads : {1, 2}) {
    ModulePtr m = a.load({.threads = threads});
    std::vector<float> data(2);
    std::vector<int64_t> shape = {2};
    knapper_tensor input = tensor(data, shape);
    RunResult result;
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(m->run({&input, 1}, {}, result));
      times.push_back(std::chrono::duration<double, std::micro>(
                          std::chrono::steady_clock::now() - start)
                          .count() /
                      1000);
    }
    std::sort(times.begin(), times.end());
    printf("%d threads: %.3f us a launch, best %.3f us\n", threads,
           times[times.size() / 2], times[0]);
    EXPECT_LT(times[0], 5.0);
  }
}

TEST(Module, TheNullDriverRunsEverythingButKernels) {
  ModulePtr m = rowProgram().load({}, null::device());
  RunResult result;
  std::vector<float> x;
  Status s = runRows(*m, 5, 7, result, x);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(result.outputs()[0].shape[0], 5);
}

TEST_P(Programs, SizesTooLargeForTheMachineAreAnError) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0);
  uint32_t x = a.input("x", DType::f32, {n, a.constant(0)});
  uint32_t bytes = a.mul(n, a.constant(1 << 20));
  uint32_t t = a.temp(bytes, 0, 1);
  uint32_t y = a.output("y", DType::f32, {a.constant(0)});
  uint32_t main = a.region();
  a.launch(main, "scale", {x, t}, a.constant(0));
  a.launch(main, "scale", {t, y}, a.constant(0));
  ModulePtr m = a.load({}, device());
  RunResult result;
  auto run = [&](int64_t size) {
    std::vector<float> none;
    std::vector<int64_t> shape = {size, 0};
    knapper_tensor input = tensor(none, shape);
    return m->run({&input, 1}, {}, result);
  };
  EXPECT_TRUE(run(1));
  Status s = run(int64_t(1) << 30);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().kind, ErrorKind::device);
  EXPECT_THAT(errorOf(run(int64_t(1) << 50)), HasSubstr("overflows 64 bits"));
  EXPECT_TRUE(run(2)); // and the module still works
}

TEST(Module, BadThreadsIsRefusedAtLoad) {
  TestArtefact a = rowProgram();
  auto m = loadBytes(a.bytes(), {.threads = -3});
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(),
              HasSubstr("option threads: threads is -3, it must be 0"));
}

TEST(Binding, PlansAndExplains) {
  TestArtefact a = rowProgram();
  ModulePtr m = a.load();
  std::vector<int64_t> symbols = {8, 100};
  auto b = m->binding(symbols);
  ASSERT_TRUE(b);
  EXPECT_EQ((*b)->arenaBytes, 8 * 100 * 4 + 64u);
  EXPECT_EQ((*b)->scratch, 256u);
  EXPECT_EQ(expressionText(m->program(), 2), "rows*cols");
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs, ::testing::Values("cpu", "remote"),
                         [](const auto &info) { return info.param; });
