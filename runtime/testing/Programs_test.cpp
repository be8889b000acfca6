// What programs do at run time (sizes, branches, loops, memory the caller
// gives), on every kind of device. Module_test has what is of a module.
#include "runtime/testing/RemoteDevice.h"
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

using ModulePtr = std::shared_ptr<Module>;

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
    VectorProgram p;
    // A formula that a size of one takes below 1.
    p.scale().choices[0]->grain =
        p.artefact.op(fb::ScalarOp::add, p.n, p.artefact.constant(below - 1));
    ModulePtr m = p.artefact.load({.threads = 2}, device());
    std::vector<float> data(1, 1.0f);
    RunResult result;
    Status s = runVector(*m, data, result);
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
    Status s = runVector(*m, data, result);
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
  EXPECT_THAT(errorOf(runVector(*m, data, result)),
              HasSubstr("size 'k' is 1500, it may be at most 1000"));
}

TEST_P(Programs, RepeatsABodyForEachRow) {
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
  a.setSymbols(main, {{count, a.constant(0)}});                           // 0
  a.repeat(main, iteration, n, -1, body);                                 // 1
  a.setSymbols(body, {{count, a.op(fb::ScalarOp::add, iteration, one)}}); // 2
  fb::LaunchT &row = a.launch(body, "scale", {x, y}, one);                // 3
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
    Status s = runVector(*m, data, result);
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
  std::vector<int64_t> indices = {2, 0, 3};
  RunResult result;
  std::string error = errorOf(runVector(*m, indices, result, DType::i64));
  EXPECT_THAT(error, HasSubstr("gather_node: an index is out of range"));
  indices[2] = 1; // the next run is not tainted
  Status s = runVector(*m, indices, result, DType::i64);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(floats(result.outputs()[0]), ElementsAre(3, 1, 2));
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

INSTANTIATE_TEST_SUITE_P(Devices, Programs, ::testing::Values("cpu", "remote"),
                         [](const auto &info) { return info.param; });
