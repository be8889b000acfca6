// Memory of a device by the C API: on the CPU everywhere, on a GPU where one is.
#include "capi/testing/TakeError.h"
#include "knapper/device.h"
#include "runtime/testing/TestArtefact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>

using ::testing::HasSubstr;
using namespace knapper::testing;
using knapper::DType;

namespace {

using OpenDevice =
    std::unique_ptr<knapper_device, decltype(&knapper_device_release)>;

OpenDevice open(const char *kind) {
  knapper_device *device = nullptr;
  EXPECT_EQ(take(knapper_device_open(kind, &device)), "no error");
  return {device, knapper_device_release};
}

bool hasGpu() {
  knapper_device *device = nullptr;
  std::string said = take(knapper_device_open("cuda", &device));
  knapper_device_release(device);
  if (!device)
    EXPECT_THAT(said, HasSubstr("no NVIDIA GPU is here"));
  return device;
}

class EveryDevice : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (std::string(GetParam()) == "cuda" && !hasGpu())
      GTEST_SKIP() << "no NVIDIA GPU is here";
    device = open(GetParam());
  }
  OpenDevice device{nullptr, knapper_device_release};
};

/// Copies of any size, below and above what threads copy.
TEST_P(EveryDevice, BytesComeBack) {
  for (size_t count : {1u, 1000u, 3u << 20}) {
    std::vector<float> given(count), back(count);
    std::iota(given.begin(), given.end(), 1.0f);
    size_t bytes = count * sizeof(float);
    void *memory = nullptr;
    ASSERT_EQ(take(knapper_device_allocate(device.get(), bytes, &memory)),
              "no error");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    EXPECT_EQ(take(knapper_device_write(device.get(), memory, given.data(),
                                        bytes)),
              "no error");
    EXPECT_EQ(
        take(knapper_device_read(device.get(), back.data(), memory, bytes)),
        "no error");
    EXPECT_EQ(given, back);
    knapper_device_free(device.get(), memory);
  }
}

TEST_P(EveryDevice, NothingIsNoMemory) {
  void *memory = &device;
  EXPECT_EQ(take(knapper_device_allocate(device.get(), 0, &memory)),
            "no error");
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(take(knapper_device_write(device.get(), nullptr, nullptr, 0)),
            "no error");
  knapper_device_free(device.get(), nullptr);
}

TEST_P(EveryDevice, TooMuchIsTheDevicesError) {
  void *memory = &device;
  knapper_error *error =
      knapper_device_allocate(device.get(), size_t(1) << 60, &memory);
  ASSERT_TRUE(error);
  EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_DEVICE);
  EXPECT_EQ(memory, nullptr);
  knapper_error_release(error);
}

TEST_P(EveryDevice, NullArgumentsAreNamed) {
  void *memory = nullptr;
  EXPECT_THAT(take(knapper_device_open(GetParam(), nullptr)),
              HasSubstr("out is NULL"));
  EXPECT_THAT(take(knapper_device_allocate(nullptr, 4, &memory)),
              HasSubstr("device is NULL"));
  EXPECT_THAT(take(knapper_device_write(device.get(), nullptr, &memory, 4)),
              HasSubstr("target is NULL"));
  EXPECT_THAT(take(knapper_device_read(device.get(), &memory, nullptr, 4)),
              HasSubstr("source is NULL"));
  EXPECT_THAT(take(knapper_stream_create(device.get(), nullptr)),
              HasSubstr("out is NULL"));
  EXPECT_THAT(take(knapper_mark_wait(nullptr)), HasSubstr("mark is NULL"));
  knapper_device_release(nullptr);
  knapper_stream_release(nullptr);
  knapper_mark_release(nullptr);
}

TEST_P(EveryDevice, SaysWhatItIs) {
  char *json = nullptr;
  ASSERT_EQ(take(knapper_device_describe(device.get(), &json)), "no error");
  EXPECT_THAT(json,
              HasSubstr("\"device\":\"" + std::string(GetParam()) + "\""));
  knapper_string_release(json);
}

INSTANTIATE_TEST_SUITE_P(Devices, EveryDevice,
                         ::testing::Values("cpu", "cuda"),
                         [](const auto &info) { return info.param; });

TEST(DeviceApi, AnUnknownKind) {
  knapper_device *device = nullptr;
  EXPECT_THAT(take(knapper_device_open("tpu", &device)),
              HasSubstr("'tpu' is no kind of device"));
}

TEST(DeviceApi, ACpuHasNoStreams) {
  OpenDevice device = open("cpu");
  EXPECT_EQ(knapper_device_addresses_host(device.get()), 1);
  knapper_stream *stream = nullptr;
  EXPECT_THAT(take(knapper_stream_create(device.get(), &stream)),
              HasSubstr("the device 'cpu' has no streams"));
  EXPECT_EQ(stream, nullptr);
}

/// Memory of the CPU's is memory for a run like any other.
TEST(DeviceApi, RunsTakeItsMemory) {
  TestArtefact a;
  uint32_t n = a.constant(8), four = a.constant(4);
  uint32_t x = a.input("x", DType::f32, {n}, {"8"});
  uint32_t y = a.output("y", DType::f32, {n}, {"8"});
  uint32_t main = a.region();
  a.copy(main, x, y, a.mul(n, four));
  std::vector<std::byte> bytes = a.bytes();
  knapper_module *module = nullptr;
  ASSERT_EQ(
      take(knapper_load_memory(bytes.data(), bytes.size(), nullptr, &module)),
      "no error");
  OpenDevice device = open("cpu");
  void *in = nullptr, *out = nullptr;
  ASSERT_EQ(take(knapper_device_allocate(device.get(), 32, &in)), "no error");
  ASSERT_EQ(take(knapper_device_allocate(device.get(), 32, &out)), "no error");
  std::vector<float> given = {1, 2, 3, 4, 5, 6, 7, 8}, back(8);
  ASSERT_EQ(take(knapper_device_write(device.get(), in, given.data(), 32)),
            "no error");
  int64_t shape[] = {8};
  knapper_tensor input = {in, 32, KNAPPER_F32, 1, shape},
                 output = {out, 32, KNAPPER_F32, 1, shape};
  knapper_result *result = nullptr;
  ASSERT_EQ(take(knapper_run(module, &input, 1, &output, 1, &result)),
            "no error");
  EXPECT_EQ(take(knapper_device_read(device.get(), back.data(), out, 32)),
            "no error");
  EXPECT_EQ(back, given);
  knapper_result_release(result);
  knapper_device_free(device.get(), in);
  knapper_device_free(device.get(), out);
  knapper_module_release(module);
}

TEST(DeviceApi, MarksOfAStream) {
  if (!hasGpu())
    GTEST_SKIP() << "no NVIDIA GPU is here";
  OpenDevice device = open("cuda");
  EXPECT_GT(knapper_device_free_bytes(device.get()), 0u);
  knapper_stream *stream = nullptr;
  ASSERT_EQ(take(knapper_stream_create(device.get(), &stream)), "no error");
  EXPECT_TRUE(knapper_stream_handle(stream));
  EXPECT_EQ(take(knapper_stream_wait_for_others(stream)), "no error");
  knapper_mark *mark = nullptr;
  ASSERT_EQ(take(knapper_stream_mark(stream, &mark)), "no error");
  EXPECT_EQ(take(knapper_mark_wait(mark)), "no error");
  EXPECT_EQ(knapper_mark_reached(mark), 1);
  knapper_mark_release(mark);
  knapper_stream_release(stream);
}

} // namespace
