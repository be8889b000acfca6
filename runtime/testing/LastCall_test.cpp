// Runs between the same tensors as the run before.
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// y = x * 2 + 1, of any number of elements.
std::shared_ptr<Module> scaled(int threads = 2) {
  VectorProgram p;
  p.scale();
  return p.artefact.load({.threads = threads});
}

} // namespace

TEST(LastCall, KnowsTheSameTensorsAlone) {
  std::vector<float> x(6), y(6);
  std::vector<int64_t> shape = {2, 3}, other = {3, 2};
  knapper_tensor in = tensor(x, shape), out = tensor(y, shape), made = out;
  LastCall last;
  TensorList list;
  ShapeList dims;
  auto repeats = [&](knapper_tensor i, knapper_tensor o) {
    return last.repeats({&i, 1}, {&o, 1}, list, dims);
  };
  EXPECT_FALSE(repeats(in, out));
  EXPECT_FALSE(last.repeats({}, {}, list, dims));
  last.note({&in, 1}, {&out, 1}, {&made, 1});
  ASSERT_TRUE(repeats(in, out));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].data, y.data());
  EXPECT_EQ(list[0].bytes, 24u);
  EXPECT_EQ(list[0].rank, 2);
  EXPECT_EQ(list[0].shape, dims.data());
  EXPECT_THAT(std::vector<int64_t>(dims.begin(), dims.end()),
              ElementsAre(2, 3));

  auto differs = [&](auto change) {
    knapper_tensor i = in, o = out;
    change(i, o);
    return !repeats(i, o);
  };
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.data = x.data() + 1; }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.bytes = 20; }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.dtype = KNAPPER_I32; }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.rank = 1; }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.rank = -2; }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.shape = other.data(); }));
  EXPECT_TRUE(differs([&](auto &i, auto &) { i.shape = nullptr; }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.data = x.data(); }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.data = nullptr; }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.bytes = 28; }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.dtype = KNAPPER_I32; }));
  EXPECT_FALSE(last.repeats({&in, 1}, {}, list, dims));
  EXPECT_FALSE(last.repeats({}, {&out, 1}, list, dims));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.shape = other.data(); }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.shape = nullptr; }));
  EXPECT_TRUE(differs([&](auto &, auto &o) { o.rank = KNAPPER_FLAT; }));
  // Memory without a shape is looked at for no shape.
  out.rank = KNAPPER_FLAT, out.shape = nullptr;
  last.note({&in, 1}, {&out, 1}, {&made, 1});
  ASSERT_TRUE(repeats(in, out));
  EXPECT_EQ(list[0].rank, 2);
  last.forget();
  EXPECT_FALSE(repeats(in, out));
}

TEST(LastCall, ListsOfAnyLength) {
  std::vector<float> memory(1);
  std::vector<int64_t> shape(5, 1);
  std::vector<knapper_tensor> out(9, tensor(memory, shape));
  LastCall last;
  last.note({}, out, out);
  TensorList list;
  ShapeList dims;
  for (int iteration = 0; iteration < 2; ++iteration) {
    ASSERT_TRUE(last.repeats({}, out, list, dims));
    ASSERT_EQ(list.size(), 9u);
    ASSERT_EQ(dims.size(), 45u);
    EXPECT_THAT(std::vector<int64_t>(dims.begin(), dims.end()), Each(1));
    EXPECT_EQ(list[8].shape, dims.data() + 40);
  }
}

TEST(LastCall, ARepeatedRunComputesAndChecksAnew) {
  std::shared_ptr<Module> m = scaled();
  std::vector<float> x = {1, 2, 3}, y(3), z(3);
  std::vector<int64_t> shape = {3}, shorter = {2};
  RunResult result;
  auto run = [&](std::vector<float> &from, std::vector<int64_t> &dims,
                 std::vector<float> &to, RunOptions options = {}) {
    knapper_tensor in = tensor(from, dims), out = tensor(to, dims);
    out.bytes = to.size() * sizeof(float);
    return errorOf(m->run({&in, 1}, {&out, 1}, result, options));
  };
  for (float first : {1, 5, 7}) {
    x[0] = first;
    EXPECT_EQ(run(x, shape, y), "no error");
    EXPECT_THAT(y, ElementsAre(2 * first + 1, 5, 7));
    ASSERT_EQ(result.outputs().size(), 1u);
    EXPECT_EQ(result.outputs()[0].data, y.data());
    EXPECT_EQ(result.outputs()[0].shape[0], 3);
  }
  // Other memory, other sizes, and back.
  EXPECT_EQ(run(x, shape, z), "no error");
  EXPECT_THAT(z, ElementsAre(15, 5, 7));
  y = {0, 0, 0};
  EXPECT_EQ(run(x, shorter, y), "no error");
  EXPECT_THAT(y, ElementsAre(15, 5, 0));
  EXPECT_EQ(result.outputs()[0].shape[0], 2);
  EXPECT_EQ(run(x, shape, y), "no error");
  EXPECT_THAT(y, ElementsAre(15, 5, 7));
  // The same memory by another shape, or by none.
  std::vector<int64_t> column = {3, 1};
  knapper_tensor in = tensor(x, shape), out = tensor(y, column);
  for (int iteration = 0; iteration < 2; ++iteration)
    EXPECT_THAT(errorOf(m->run({&in, 1}, {&out, 1}, result)),
                HasSubstr("the memory given for it is f32[3, 1]"));
  EXPECT_EQ(run(x, shape, y), "no error");
  EXPECT_THAT(errorOf(m->run({&in, 1}, {&out, 1}, result)),
              HasSubstr("the memory given for it is f32[3, 1]"));
  out.rank = KNAPPER_FLAT;
  for (int iteration = 0; iteration < 3; ++iteration) {
    y = {0, 0, 0};
    EXPECT_EQ(errorOf(m->run({&in, 1}, {&out, 1}, result)), "no error");
    EXPECT_THAT(y, ElementsAre(15, 5, 7));
    EXPECT_EQ(result.outputs()[0].rank, 1);
    EXPECT_EQ(result.outputs()[0].shape[0], 3);
  }
  // A call that is refused leaves nothing to repeat by mistake.
  EXPECT_THAT(run(x, shape, x), HasSubstr("its memory is also"));
  EXPECT_THAT(run(x, shape, x), HasSubstr("its memory is also"));
  y = {0, 0, 0};
  EXPECT_EQ(run(x, shape, y), "no error");
  EXPECT_THAT(y, ElementsAre(15, 5, 7));
  // A profile of a run like the last one, and a wish to end it.
  std::vector<LaunchTime> times;
  EXPECT_EQ(run(x, shape, y, {.profile = &times}), "no error");
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].executions, 1u);
  EXPECT_EQ(run(x, shape, y), "no error");
  int32_t wish = 1;
  EXPECT_THAT(run(x, shape, y, {.cancel = Cancel(&wish)}),
              HasSubstr("cancelled"));
  EXPECT_TRUE(result.outputs().empty());
  EXPECT_EQ(run(x, shape, y), "no error");
  EXPECT_THAT(y, ElementsAre(15, 5, 7));
}

TEST(LastCall, ARepeatedRunReportsItsOwnStatus) {
  TestArtefact a = gatherProgram();
  std::shared_ptr<Module> m = a.load({.threads = 2});
  std::vector<int64_t> indices = {2, 0, 1}, shape = {3};
  std::vector<float> got(3);
  knapper_tensor in = tensor(indices, shape, DType::i64),
                 out = tensor(got, shape);
  RunResult result;
  for (int iteration = 0; iteration < 6; ++iteration) {
    bool wrong = iteration % 3 == 2;
    indices[2] = wrong ? 3 : iteration % 3;
    std::string error = errorOf(m->run({&in, 1}, {&out, 1}, result));
    EXPECT_THAT(error,
                HasSubstr(wrong ? "an index is out of range" : "no error"));
    if (!wrong) {
      EXPECT_THAT(got, ElementsAre(3, 1, 1 + iteration % 3));
    }
  }
}

TEST(LastCall, RunsAtOnceEachHaveTheirOwn) {
  std::shared_ptr<Module> m = scaled(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> x(100, float(t)), y(100);
      std::vector<int64_t> shape = {100};
      knapper_tensor in = tensor(x, shape), out = tensor(y, shape);
      RunResult result;
      for (int iteration = 0; iteration < 500; ++iteration) {
        y[99] = 0;
        if (!m->run({&in, 1}, {&out, 1}, result) || y[99] != float(2 * t + 1))
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong.load(), 0);
}
