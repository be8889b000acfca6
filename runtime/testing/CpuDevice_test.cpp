#include "runtime/drivers/cpu/CpuDevice.h"

#include "runtime/base/Json.h"
#include "runtime/testing/TestArtefact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper;
using namespace knapper::testing;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(CpuDevice, ConcurrentRunsLeaveEachOtherACore) {
  std::shared_ptr<Device> device = cpu::device();
  auto code = device->load(kernelObject("x86-64-v3"), "test kernels");
  ASSERT_TRUE(code);
  auto kernel = (*code)->kernel(kernelEntry("x86-64-v3", "workers"), "workers");
  ASSERT_TRUE(kernel);
  auto first = device->createQueue({3, -1}), second = device->createQueue({});
  ASSERT_TRUE(first && second);
  auto workers = [&](DeviceQueue &queue) {
    std::vector<int32_t> out(6);
    void *buffers[] = {out.data()};
    LaunchCommand command;
    command.kernel = *kernel;
    command.buffers = buffers;
    command.numBuffers = 1;
    command.grid = 6;
    EXPECT_TRUE(queue.launch(command));
    return out;
  };
  ASSERT_TRUE((*first)->begin());
  EXPECT_THAT(workers(**first), Each(3));
  ASSERT_TRUE((*second)->begin()); // the workers are taken: it works alone
  EXPECT_THAT(workers(**second), Each(1));
  EXPECT_THAT(workers(**first), Each(2));
  ASSERT_TRUE((*second)->finish());
  EXPECT_THAT(workers(**first), Each(3));
  ASSERT_TRUE((*first)->finish());
  // A queue that goes in the middle of a run gives everything back.
  ASSERT_TRUE((*first)->begin());
  *first = nullptr;
  ASSERT_TRUE((*second)->begin());
  auto third = device->createQueue({3, -1});
  ASSERT_TRUE((*second)->finish());
  ASSERT_TRUE((*third)->begin());
  EXPECT_THAT(workers(**third), Each(3));
  ASSERT_TRUE((*third)->finish());
}

TEST(CpuDevice, BelowV3ThereAreNoPeaks) {
  std::shared_ptr<Device> device = cpu::deviceUpTo(cpu::IsaLevel::belowV3);
  EXPECT_EQ(device->runnable(), "");
  JsonWriter json;
  json.beginObject();
  EXPECT_TRUE(device->describe(json, /*measure=*/false));
  Status status = device->describe(json, /*measure=*/true);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::user);
  EXPECT_THAT(status.error().message(), HasSubstr("below x86-64-v3"));
}
