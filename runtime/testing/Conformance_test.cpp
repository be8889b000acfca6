// What every driver must pass. A new driver adds one row to `drivers`; a test
// that does not apply to it is skipped with the reason printed.
#include "runtime/base/Json.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/testing/RemoteDevice.h"
#include "runtime/testing/TestArtefact.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace knapper;
using namespace knapper::testing;
using ::testing::HasSubstr;

namespace {

struct Driver {
  const char *name;
  std::shared_ptr<Device> (*open)(); // null if the machine has no such device
  bool computes;                     // launches have effects
  const char *isa;                   // of the test kernels that it can load
};
const Driver drivers[] = {
    {"null", null::device, false, "x86-64-v3"},
    {"cpu", cpu::device, true, "x86-64-v3"},
    {"cuda", [] { return cuda::device(); }, true, "sm_80"},
    {"remote", [] { return remoteDevice(); }, true, "x86-64-v3"},
};

#define ASSERT_GOOD(call)                                                      \
  do {                                                                         \
    auto good_ = (call);                                                       \
    ASSERT_TRUE(good_) << good_.error().message();                             \
  } while (false)

class Conformance : public ::testing::TestWithParam<Driver> {
protected:
  void SetUp() override {
    device = GetParam().open();
    if (!device)
      GTEST_SKIP() << "this machine has no " << GetParam().name << " device";
    if (device->rank(GetParam().isa) == 0)
      GTEST_SKIP() << "this machine does not run " << GetParam().isa;
    auto made = device->createQueue({2, -1});
    ASSERT_TRUE(made) << made.error().message();
    queue = std::move(*made);
    auto loaded = device->load(kernelObject(GetParam().isa), "test kernels");
    ASSERT_TRUE(loaded) << loaded.error().message();
    code = std::move(*loaded);
    auto words = device->allocate(64, MemoryKind::host);
    ASSERT_TRUE(words) << words.error().message();
    status = std::move(*words);
    memset(status->address(), 0, 64);
  }

  std::unique_ptr<DeviceBuffer> buffer(uint64_t bytes,
                                       MemoryKind kind = MemoryKind::device) {
    auto made = device->allocate(bytes, kind);
    EXPECT_TRUE(made);
    return made ? std::move(*made) : nullptr;
  }
  std::unique_ptr<DeviceBuffer> filled(const std::vector<float> &data) {
    auto b = buffer(data.size() * 4);
    EXPECT_TRUE(queue->upload(b->address(), data.data(), data.size() * 4));
    return b;
  }
  std::vector<float> read(DeviceQueue &from, const DeviceBuffer &b,
                          size_t count) {
    std::vector<float> data(count);
    EXPECT_TRUE(from.download(data.data(), b.address(), count * 4));
    return data;
  }
  LaunchCommand command(const char *kernel, std::vector<void *> &buffers,
                        std::vector<int64_t> &symbols, int64_t grid) {
    auto handle = code->kernel(kernelEntry(GetParam().isa, kernel), kernel);
    EXPECT_TRUE(handle);
    LaunchCommand c;
    c.kernel = *handle;
    c.buffers = buffers.data();
    c.numBuffers = buffers.size();
    c.symbols = symbols.data();
    c.numSymbols = symbols.size();
    c.grid = grid;
    c.status = static_cast<int32_t *>(status->address());
    return c;
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<DeviceQueue> queue;
  std::unique_ptr<Executable> code;
  std::unique_ptr<DeviceBuffer> status;
};

#define SKIP_UNLESS_COMPUTES()                                                 \
  if (!GetParam().computes)                                                    \
  GTEST_SKIP() << "the " << GetParam().name << " driver computes nothing"

} // namespace

TEST_P(Conformance, NamesItself) {
  EXPECT_FALSE(device->kind().empty());
  EXPECT_FALSE(device->runnable().empty());
  JsonWriter json;
  json.beginObject();
  ASSERT_GOOD(device->describe(json, false));
  json.endObject();
  EXPECT_THAT(json.text(), HasSubstr("\"name\":\""));
}

TEST_P(Conformance, RefusesUnknownInstructionSets) {
  if (std::string(GetParam().name) == "null")
    GTEST_SKIP() << "the null driver does not look at code";
  EXPECT_EQ(device->rank("no such isa"), 0);
  EXPECT_EQ(device->rank(""), 0);
}

TEST_P(Conformance, BuffersAreAlignedAndSized) {
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::host})
    for (uint64_t bytes : {1ull, 4096ull, 3000000ull}) {
      auto b = buffer(bytes, kind);
      EXPECT_GE(b->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uint64_t>(b->address()) % 64, 0u);
    }
  EXPECT_NE(buffer(0), nullptr);
}

TEST_P(Conformance, TooMuchMemoryIsADeviceError) {
  auto b = device->allocate(uint64_t(1) << 60, MemoryKind::device);
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().kind, ErrorKind::device);
}

TEST_P(Conformance, CopiesKeepOrder) {
  ASSERT_GOOD(queue->begin());
  auto a = filled({1, 2, 3, 4}), b = filled({0, 0, 0, 0});
  ASSERT_GOOD(queue->copy(b->address(), a->address(), 16));
  float nine = 9;
  ASSERT_GOOD(queue->upload(a->address(), &nine, 4));
  ASSERT_GOOD(
      queue->copy(static_cast<float *>(b->address()) + 3, a->address(), 4));
  ASSERT_GOOD(queue->copy(b->address(), a->address(), 0));
  EXPECT_EQ(read(*queue, *b, 4), (std::vector<float>{1, 2, 3, 9}));
  ASSERT_GOOD(queue->finish());
}

TEST_P(Conformance, LargeCopiesAreWhole) {
  for (size_t count : {300000, 1000003}) {
    std::vector<float> data(count);
    std::iota(data.begin(), data.end(), 0.0f);
    auto a = filled(data), b = buffer(count * 4);
    ASSERT_GOOD(queue->begin());
    ASSERT_GOOD(queue->copy(b->address(), a->address(), count * 4));
    ASSERT_GOOD(queue->finish());
    EXPECT_EQ(read(*queue, *b, count), data);
  }
}

TEST_P(Conformance, UploadsByThreadsAreWhole) {
  for (uint64_t count : {1, 1000, (9 << 20) + 5}) {
    std::vector<int32_t> data(count), back(count);
    for (uint64_t i = 0; i < count; ++i)
      data[i] = static_cast<int32_t>(i * 7 + 1);
    auto b = buffer(count * 4);
    // The first half of memory, the second of a file.
    char name[] = "/tmp/knapper-upload-XXXXXX";
    int file = mkstemp(name);
    ASSERT_GE(file, 0);
    unlink(name);
    uint64_t bytes = count * 4, half = count / 2 * 4;
    ASSERT_EQ(write(file, data.data(), bytes), static_cast<ssize_t>(bytes));
    auto *target = static_cast<std::byte *>(b->address());
    UploadPart parts[] = {{target, half, data.data()},
                          {target + half, bytes - half, nullptr, file, half}};
    parts[1].offset += 4;
    EXPECT_FALSE(device->uploadAll(parts, 4)) << "past the end of the file";
    parts[1].offset -= 4;
    ASSERT_GOOD(device->uploadAll(parts, 4));
    close(file);
    ASSERT_GOOD(queue->begin());
    ASSERT_GOOD(queue->download(back.data(), b->address(), count * 4));
    ASSERT_GOOD(queue->finish());
    EXPECT_EQ(data, back);
  }
}

TEST_P(Conformance, LaunchesCoverTheGridOnce) {
  SKIP_UNLESS_COMPUTES();
  std::vector<int64_t> none;
  for (int64_t grid : {1, 2, 3, 7, 64, 1001})
    for (int64_t grain : {1, 5, 2000}) {
      std::vector<float> data(grid);
      std::iota(data.begin(), data.end(), 0.0f);
      auto in = filled(data);
      auto out = filled(std::vector<float>(grid + 1, -1.0f));
      std::vector<void *> buffers = {in->address(), out->address()};
      LaunchCommand c = command("scale", buffers, none, grid);
      c.grain = grain;
      ASSERT_GOOD(queue->begin());
      ASSERT_GOOD(queue->launch(c));
      ASSERT_GOOD(queue->finish());
      for (float &v : data)
        v = v * 2 + 1;
      data.push_back(-1.0f); // nothing beyond the grid
      ASSERT_EQ(read(*queue, *out, grid + 1), data) << grid << " " << grain;
    }
}

TEST_P(Conformance, LaunchesAreOrderedAndReadSymbols) {
  SKIP_UNLESS_COMPUTES();
  auto counter = buffer(8);
  int64_t zero = 0, total = 0;
  ASSERT_GOOD(queue->upload(counter->address(), &zero, 8));
  std::vector<void *> buffers = {counter->address()};
  ASSERT_GOOD(queue->begin());
  for (int64_t i = 1; i <= 50; ++i) {
    // The list may be reused as soon as the call returns.
    std::vector<int64_t> step = {i};
    ASSERT_GOOD(queue->launch(command("count_up", buffers, step, 1)));
    step[0] = 1000000;
  }
  ASSERT_GOOD(queue->download(&total, counter->address(), 8));
  ASSERT_GOOD(queue->finish());
  EXPECT_EQ(total, 50 * 51 / 2);
}

TEST_P(Conformance, ScratchIsThereAfterReserve) {
  SKIP_UNLESS_COMPUTES();
  ASSERT_GOOD(queue->reserve({64}));
  ASSERT_GOOD(queue->reserve({1 << 20}));
  auto in = filled(std::vector<float>(100, 1.0f)), out = buffer(40);
  std::vector<void *> buffers = {in->address(), out->address()};
  std::vector<int64_t> columns = {10};
  LaunchCommand c = command("row_sum", buffers, columns, 10);
  c.scratch = 1 << 20;
  ASSERT_GOOD(queue->begin());
  ASSERT_GOOD(queue->launch(c));
  ASSERT_GOOD(queue->finish());
  EXPECT_EQ(read(*queue, *out, 10), std::vector<float>(10, 10.0f));
}

TEST_P(Conformance, KernelsReportTheirStatus) {
  SKIP_UNLESS_COMPUTES();
  auto table = filled({1, 2}), out = buffer(8), index = buffer(16);
  int64_t indices[] = {0, 5};
  ASSERT_GOOD(queue->upload(index->address(), indices, 16));
  std::vector<void *> buffers = {table->address(), index->address(),
                                 out->address()};
  std::vector<int64_t> limit = {2};
  ASSERT_GOOD(queue->begin());
  ASSERT_GOOD(queue->launch(command("gather", buffers, limit, 2)));
  ASSERT_GOOD(queue->finish());
  EXPECT_EQ(*static_cast<int32_t *>(status->address()), kernelIndexOutOfRange);
}

TEST_P(Conformance, EventsFollowTheirWork) {
  auto a = filled({1}), b = filled({0}), c = filled({0});
  auto other = device->createQueue({});
  ASSERT_TRUE(other);
  ASSERT_GOOD(queue->begin());
  ASSERT_GOOD((*other)->begin());
  ASSERT_GOOD(queue->copy(b->address(), a->address(), 4));
  auto event = queue->record();
  ASSERT_TRUE(event);
  ASSERT_GOOD((*other)->waitFor(**event));
  ASSERT_GOOD((*other)->copy(c->address(), b->address(), 4));
  ASSERT_GOOD((*event)->wait());
  EXPECT_TRUE((*event)->done());
  EXPECT_EQ(read(**other, *c, 1), std::vector<float>{1});
  ASSERT_GOOD((*other)->finish());
  ASSERT_GOOD(queue->finish());
}

TEST_P(Conformance, RecordingsReplay) {
  if (!device->canRecord())
    GTEST_SKIP() << "the " << GetParam().name << " driver does not record";
  auto a = filled({1, 2}), b = filled({0, 0});
  auto counter = buffer(8);
  int64_t zero = 0, total = 0;
  ASSERT_GOOD(queue->upload(counter->address(), &zero, 8));
  ASSERT_GOOD(queue->begin());
  EXPECT_FALSE(queue->endRecording());
  ASSERT_GOOD(queue->beginRecording());
  EXPECT_FALSE(queue->beginRecording());
  {
    std::vector<void *> buffers = {counter->address()};
    std::vector<int64_t> step = {7};
    ASSERT_GOOD(queue->launch(command("count_up", buffers, step, 1)));
    ASSERT_GOOD(queue->copy(b->address(), a->address(), 8));
  }
  auto recording = queue->endRecording();
  ASSERT_TRUE(recording);
  EXPECT_EQ(read(*queue, *b, 2), (std::vector<float>{0, 0})); // not run yet
  for (float v : {5.0f, 6.0f}) {
    ASSERT_GOOD(queue->upload(a->address(), &v, 4));
    ASSERT_GOOD(queue->replay(**recording, {}));
    EXPECT_EQ(read(*queue, *b, 2), (std::vector<float>{v, 2}));
  }
  int32_t wished = 1;
  Status cancelled = queue->replay(**recording, Cancel(&wished));
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::user);
  ASSERT_GOOD(queue->download(&total, counter->address(), 8));
  ASSERT_GOOD(queue->finish());
  EXPECT_EQ(total, GetParam().computes ? 14 : 0);
}

TEST_P(Conformance, BadCodeIsAUserError) {
  if (std::string(GetParam().name) == "null")
    GTEST_SKIP() << "the null driver does not look at code";
  std::vector<std::byte> junk(4096);
  auto loaded = device->load(junk, "junk");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::user);
  EXPECT_THAT(loaded.error().message(), HasSubstr("junk: "));
  auto kernel = code->kernel(uint64_t(1) << 40, "nowhere");
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::user);
}

TEST_P(Conformance, QueuesWorkSideBySide) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto made = device->createQueue({2, 10});
      auto a = device->allocate(4000, MemoryKind::device);
      auto b = device->allocate(4000, MemoryKind::device);
      if (!made || !a || !b) {
        ++wrong;
        return;
      }
      DeviceQueue &q = **made;
      std::vector<float> data(1000, float(t)), back(1000);
      std::vector<void *> buffers = {(*a)->address(), (*b)->address()};
      std::vector<int64_t> none;
      for (int i = 0; i < 50; ++i) {
        LaunchCommand c = command("scale", buffers, none, 1000);
        wrong += !q.begin();
        wrong += !q.upload((*a)->address(), data.data(), 4000);
        wrong += !q.launch(c);
        wrong += !q.download(back.data(), (*b)->address(), 4000);
        wrong += !q.finish();
        if (GetParam().computes)
          wrong += back != std::vector<float>(1000, t * 2.0f + 1.0f);
      }
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Conformance, ::testing::ValuesIn(drivers),
                         [](const auto &info) { return info.param.name; });
