#include "runtime/drivers/null/NullDevice.h"

#include "runtime/base/Json.h"
#include "runtime/device/HostQueue.h"
#include "runtime/memory/Block.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace knapper::null {
namespace {

class NullBuffer : public DeviceBuffer {
public:
  explicit NullBuffer(Block block) : block(std::move(block)) {}
  void *address() const override { return block.data(); }
  uint64_t bytes() const override { return block.bytes(); }

private:
  Block block;
};

class NullExecutable : public Executable {
public:
  Expected<KernelHandle> kernel(uint64_t, std::string_view) const override {
    return KernelHandle{this};
  }
};

class NullQueue : public HostQueue {
public:
  explicit NullQueue(std::shared_ptr<const Faults> faults)
      : faults(std::move(faults)) {}
  Status reserve(const QueueNeeds &) override { return success(); }
  Status begin() override {
    begun = std::chrono::steady_clock::now();
    return state();
  }
  Status finish() override {
    if (int64_t time = faults ? faults->runMicroseconds.load() : 0; time > 0)
      std::this_thread::sleep_until(begun + std::chrono::microseconds(time));
    return state();
  }
  Status launch(const LaunchCommand &command) override {
    if (recording) {
      recording->add(command);
      return success();
    }
    while (faults && faults->hung)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return state();
  }
  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (recording)
      recording->add(target, source, bytes);
    else if (bytes > 0)
      memcpy(target, source, bytes);
    return success();
  }

private:
  Status state() const {
    if (faults && faults->lost)
      return deviceError("the device is lost", "the null driver");
    return success();
  }
  std::shared_ptr<const Faults> faults;
  std::chrono::steady_clock::time_point begun;
};

class NullDevice : public Device {
public:
  explicit NullDevice(std::shared_ptr<const Faults> faults = nullptr)
      : faults(std::move(faults)) {}
  std::string_view kind() const override { return "null"; }
  int rank(std::string_view) const override { return 1; }
  std::string runnable() const override { return "every instruction set"; }
  bool addressesHost() const override { return true; }
  bool isAsynchronous() const override { return true; }
  bool canRecord() const override { return true; }
  Status describe(JsonWriter &json, bool) const override {
    json.field("name", "computes nothing");
    return success();
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind) override {
    Expected<Block> block = Block::allocate(bytes);
    if (!block)
      return block.takeError();
    return std::unique_ptr<DeviceBuffer>(new NullBuffer(std::move(*block)));
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &) override {
    return std::unique_ptr<DeviceQueue>(new NullQueue(faults));
  }
  Expected<std::unique_ptr<Executable>> load(std::span<const std::byte>,
                                             const std::string &) override {
    return std::unique_ptr<Executable>(new NullExecutable);
  }

private:
  std::shared_ptr<const Faults> faults;
};

} // namespace

std::shared_ptr<Device> device() { return std::make_shared<NullDevice>(); }

std::shared_ptr<Device> faultyDevice(std::shared_ptr<const Faults> faults) {
  return std::make_shared<NullDevice>(std::move(faults));
}

} // namespace knapper::null
