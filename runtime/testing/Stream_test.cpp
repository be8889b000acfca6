// Runs in a stream of the caller's, on a device whose streams the test runs.
#include "runtime/testing/RemoteDevice.h"
#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"

#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::HasSubstr;

namespace {

/// A device's buffer with these elements.
template <typename T>
std::unique_ptr<DeviceBuffer> onDevice(Device &device,
                                       const std::vector<T> &elements) {
  auto buffer =
      device.allocate(elements.size() * sizeof(T), MemoryKind::device);
  EXPECT_TRUE(bool(buffer));
  memcpy((*buffer)->address(), elements.data(), elements.size() * sizeof(T));
  return std::move(*buffer);
}

/// Two rows for `rowProgram` and their sums, in the memory of a device.
struct TwoRows {
  explicit TwoRows(Device &device)
      : input(onDevice<float>(device, {1, 2, 3, 4, 5, 6})),
        output(onDevice<float>(device, {-1, -1})),
        result(static_cast<float *>(output->address())),
        given{input->address(), 24, KNAPPER_F32, 2, in.data()},
        made{output->address(), 8, KNAPPER_F32, 1, out.data()} {}

  std::vector<int64_t> in = {2, 3}, out = {2};
  std::unique_ptr<DeviceBuffer> input, output;
  float *result;
  knapper_tensor given, made;
};

/// Indices for `gatherProgram` and what is read there, in the memory of a
/// device.
struct TwoIndices {
  TwoIndices(Device &device, int64_t first, int64_t second)
      : indices(onDevice<int64_t>(device, {first, second})),
        output(onDevice<float>(device, {0, 0})),
        index(static_cast<int64_t *>(indices->address())),
        given{index, 16, KNAPPER_I64, 1, shape.data()},
        made{output->address(), 8, KNAPPER_F32, 1, shape.data()} {}

  std::vector<int64_t> shape = {2};
  std::unique_ptr<DeviceBuffer> indices, output;
  int64_t *index;
  knapper_tensor given, made;
};

} // namespace

TEST(Stream, ARunInAStreamTakesItsPlaceThere) {
  std::shared_ptr<Device> device = remoteDevice();
  std::shared_ptr<Module> m = rowProgram().load({}, device);
  TwoRows rows(*device);
  auto *x = static_cast<float *>(rows.input->address());
  std::fill(x, x + 6, 0.0f);
  RemoteStream stream;
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  // What the stream has before is done first, what the run does comes then.
  stream.work.push_back([&] { x[0] = 5; });
  Status s = m->run({&rows.given, 1}, {&rows.made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(rows.result[0], -1);
  stream.finish();
  EXPECT_EQ(rows.result[0], 2 * 5 + 3 + 0.5f);
  EXPECT_EQ(rows.result[1], 3 + 0.5f);
  // Two runs that nobody waits for, then one that waits for all.
  for (int i = 0; i < 2; ++i) {
    s = m->run({&rows.given, 1}, {&rows.made, 1}, unused, options);
    ASSERT_TRUE(s) << errorOf(s);
  }
  std::vector<float> host(6, 1);
  knapper_tensor fromHost = tensor(host, rows.in);
  s = m->run({&fromHost, 1}, {}, unused);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_THAT(floats(unused.outputs()[0]), Each(9.5f));
}

TEST(Stream, WhatARunInAStreamFoundWrongIsTheErrorOfALaterOne) {
  std::shared_ptr<Device> device = remoteDevice();
  std::shared_ptr<Module> m = gatherProgram().load({}, device);
  TwoIndices two(*device, 2, 7);
  RemoteStream stream;
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  Status s = m->run({&two.given, 1}, {&two.made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  stream.finish();
  EXPECT_THAT(errorOf(m->run({&two.given, 1}, {&two.made, 1}, unused, options)),
              HasSubstr("gather_node: an index is out of range"));
  two.index[1] = 0;
  s = m->run({&two.given, 1}, {&two.made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  stream.finish();
  EXPECT_EQ(static_cast<float *>(two.output->address())[1], 1);
}

TEST(Stream, ACpuHasNoStreams) {
  std::shared_ptr<Module> m = rowProgram().load({}, cpu::device());
  std::vector<float> x(6, 1);
  std::vector<int64_t> shape = {2, 3};
  knapper_tensor input = tensor(x, shape);
  RunOptions options;
  RunResult result;
  EXPECT_EQ(errorOf(m->run({&input, 1}, {}, result, options)), "no error");
  options.stream = static_cast<void *>(nullptr);
  EXPECT_THAT(errorOf(m->run({&input, 1}, {}, result, options)),
              HasSubstr("runs in no stream"));
}

// A graph of the caller's may be replayed at any time: in the middle of a run,
// and after runs of other sizes.
TEST(Stream, ACapturedRunHasMemoryOfItsOwn) {
  std::shared_ptr<Device> device = remoteDevice();
  TwoRows rows(*device);
  std::shared_ptr<Module> m = rowProgram().load({}, device);
  RemoteStream stream{{}, true};
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  Status s = m->run({&rows.given, 1}, {&rows.made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  EXPECT_EQ(rows.result[0], -1);
  ASSERT_EQ(stream.work.size(), 3u);
  for (int64_t count : {2, 60}) {
    std::vector<float> host(count * 3, 1);
    std::vector<int64_t> shape = {count, 3};
    knapper_tensor fromHost = tensor(host, shape);
    rows.result[0] = rows.result[1] = -1;
    for (auto &command : stream.work) {
      command();
      s = m->run({&fromHost, 1}, {}, unused);
      ASSERT_TRUE(s) << errorOf(s);
      EXPECT_THAT(floats(unused.outputs()[0]), Each(9.5f));
    }
    EXPECT_EQ(rows.result[0], 2 * 6 + 3 + 0.5f);
    EXPECT_EQ(rows.result[1], 2 * 15 + 3 + 0.5f);
  }
}

TEST(Stream, WhatAReplayFoundWrongIsTheErrorOfALaterRun) {
  std::shared_ptr<Device> device = remoteDevice();
  std::shared_ptr<Module> m = gatherProgram().load({}, device);
  TwoIndices two(*device, 2, 1);
  RemoteStream stream{{}, true};
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  Status s = m->run({&two.given, 1}, {&two.made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  two.index[1] = 7;
  for (auto &command : stream.work)
    command();
  two.index[1] = 1;
  RunResult plain;
  EXPECT_THAT(errorOf(m->run({&two.given, 1}, {}, plain)),
              HasSubstr("gather_node: an index is out of range"));
  s = m->run({&two.given, 1}, {}, plain);
  EXPECT_TRUE(s) << errorOf(s);
}

TEST(Stream, ACaptureTakesNoRunThatWaits) {
  TestArtefact a;
  uint32_t n = a.symbol("n");
  uint32_t bytes = a.mul(n, a.constant(4));
  uint32_t flag = a.input("flag", DType::i1, {});
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  uint32_t main = a.region(), then = a.region(), otherwise = a.region();
  a.ifElse(main, flag, then, otherwise);
  a.copy(then, x, y, bytes);
  a.launch(otherwise, "scale", {x, y}, n);
  std::shared_ptr<Device> device = remoteDevice();
  std::shared_ptr<Module> m = a.load({}, device);
  auto condition = onDevice<char>(*device, {1});
  auto input = onDevice<float>(*device, {3}),
       output = onDevice<float>(*device, {0});
  std::vector<int64_t> scalar, one = {1};
  knapper_tensor given[] = {
      {condition->address(), 1, KNAPPER_I1, 0, scalar.data()},
      {input->address(), 4, KNAPPER_F32, 1, one.data()}};
  knapper_tensor made = {output->address(), 4, KNAPPER_F32, 1, one.data()};
  RemoteStream stream{{}, true};
  RunOptions options;
  options.stream = &stream;
  RunResult unused;
  EXPECT_THAT(errorOf(m->run(given, {&made, 1}, unused, options)),
              HasSubstr("which a capture cannot"));
  EXPECT_TRUE(stream.work.empty());
  stream.captures = false;
  Status s = m->run(given, {&made, 1}, unused, options);
  ASSERT_TRUE(s) << errorOf(s);
  stream.finish();
  EXPECT_EQ(*static_cast<float *>(output->address()), 3);
}
