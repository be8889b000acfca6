#include "serving/engine/StepQueue.h"

#include "runtime/base/Json.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/null/NullDevice.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace knapper;
using namespace knapper::serving;

namespace {

/// The null device, as one that lacks something.
class LesserDevice : public Device {
public:
  LesserDevice(bool asynchronous, bool streams)
      : asynchronous(asynchronous), streams(streams) {}
  std::string_view kind() const override { return "lesser"; }
  int rank(std::string_view isa) const override { return whole->rank(isa); }
  std::string runnable() const override { return whole->runnable(); }
  bool addressesHost() const override { return true; }
  bool canRecord() const override { return false; }
  bool isAsynchronous() const override { return asynchronous; }
  bool hasStreams() const override { return streams; }
  Status describe(JsonWriter &json, bool measure) const override {
    return whole->describe(json, measure);
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind kind) override {
    return whole->allocate(bytes, kind);
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &options) override {
    return whole->createQueue(options);
  }
  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    return whole->load(code, where);
  }

private:
  const bool asynchronous, streams;
  std::shared_ptr<Device> whole = null::device();
};

TEST(StepQueue, NeedsADeviceThatComputesBesideInTheOrderOfStreams) {
  auto message = [](bool asynchronous, bool streams) {
    auto device = std::make_shared<LesserDevice>(asynchronous, streams);
    auto queue = StepQueue::create(device);
    EXPECT_EQ(StepQueue::isFor(*device), bool(queue));
    if (queue)
      return std::string();
    EXPECT_EQ(queue.error().kind, ErrorKind::user);
    return queue.error().message();
  };
  EXPECT_EQ(message(true, true), "");
  EXPECT_NE(message(true, false).find("has no streams"), std::string::npos);
  for (bool streams : {false, true})
    EXPECT_NE(message(false, streams).find("on the thread that submits"),
              std::string::npos);
  EXPECT_TRUE(StepQueue::isFor(*null::device()));
  EXPECT_FALSE(StepQueue::isFor(*cpu::device()));
}

TEST(StepQueue, TakesListsWithoutNumbers) {
  auto queue = StepQueue::create(null::device());
  ASSERT_TRUE(queue) << queue.error().message();
  // A step without draws has six of them, which point nowhere.
  const std::vector<int32_t> none, numbers{7, 8};
  std::vector<const std::vector<int32_t> *> lists{&none, &numbers, &none};
  ASSERT_TRUE((*queue)->begin(lists, 1));
  ASSERT_TRUE((*queue)->end());
  ASSERT_TRUE((*queue)->wait());
  const auto *there = static_cast<const int32_t *>((*queue)->list(1));
  EXPECT_EQ(there[0], 7);
  EXPECT_EQ(there[1], 8);
}

TEST(StepQueue, MoreRowsKeepWhatNobodyHasRead) {
  auto queue = StepQueue::create(null::device());
  ASSERT_TRUE(queue) << queue.error().message();
  const std::vector<int32_t> numbers{1};
  std::vector<const std::vector<int32_t> *> lists{&numbers};
  ASSERT_TRUE((*queue)->begin(lists, 2));
  // The null device has the host's memory.
  static_cast<int64_t *>((*queue)->best())[1] = 42;
  static_cast<float *>((*queue)->logprobs())[1] = -0.5f;
  ASSERT_TRUE((*queue)->end());
  ASSERT_TRUE((*queue)->wait());
  ASSERT_TRUE((*queue)->begin(lists, 4 * (*queue)->capacity()));
  EXPECT_EQ((*queue)->bestToken(1), 42);
  EXPECT_EQ((*queue)->bestLogprob(1), -0.5f);
}

TEST(StepQueue, MeasuresWhatTheDeviceWaited) {
  auto queue = StepQueue::create(
      null::faultyDevice(std::make_shared<const null::Faults>()));
  ASSERT_TRUE(queue) << queue.error().message();
  auto step = [&] {
    std::vector<int32_t> numbers{1, 2, 3};
    std::vector<const std::vector<int32_t> *> lists{&numbers};
    ASSERT_TRUE((*queue)->begin(lists, 1));
    ASSERT_TRUE((*queue)->end());
    ASSERT_TRUE((*queue)->wait());
  };
  step();
  EXPECT_FALSE((*queue)->gapNanoseconds()); // nothing was before
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  step();
  ASSERT_TRUE((*queue)->gapNanoseconds());
  EXPECT_GE(*(*queue)->gapNanoseconds(), 3'000'000U);
}

} // namespace
