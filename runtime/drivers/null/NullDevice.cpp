#include "runtime/drivers/null/NullDevice.h"

#include "runtime/base/Json.h"
#include "runtime/device/HostQueue.h"
#include "runtime/memory/Block.h"

#include <algorithm>
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

/// When all that a stream was given is done.
struct NullStream {
  std::chrono::steady_clock::time_point end;
  bool hangs = false; ///< it was given a launch that does

  Status wait(const Faults *faults) const {
    if (end > std::chrono::steady_clock::time_point())
      std::this_thread::sleep_until(end);
    while (hangs && faults->hung)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (faults && faults->lost)
      return deviceError("the device is lost", "the null driver");
    return success();
  }
};

class NullEvent : public DeviceEvent {
public:
  NullEvent(std::shared_ptr<const Faults> faults, NullStream point)
      : faults(std::move(faults)), point(point) {}
  bool done() const override {
    return std::chrono::steady_clock::now() >= point.end &&
           !(point.hangs && faults->hung);
  }
  Status wait() const override { return point.wait(faults.get()); }
  std::optional<uint64_t>
  nanosecondsSince(const DeviceEvent &earlier) const override {
    auto since = reached - static_cast<const NullEvent &>(earlier).reached;
    auto count = std::chrono::nanoseconds(since).count();
    return static_cast<uint64_t>(std::max<int64_t>(count, 0));
  }

private:
  std::shared_ptr<const Faults> faults;
  NullStream point;
  /// Of a stream that has nothing left to do: at once.
  std::chrono::steady_clock::time_point reached =
      std::max(point.end, std::chrono::steady_clock::now());
};

class NullQueue : public HostQueue {
public:
  explicit NullQueue(std::shared_ptr<const Faults> faults)
      : faults(std::move(faults)) {}
  Status reserve(const QueueNeeds &) override { return success(); }
  Status begin() override {
    begun = std::chrono::steady_clock::now();
    followed = nullptr;
    return state();
  }
  Status finish() override {
    if (runTime().count() > 0)
      std::this_thread::sleep_until(begun + runTime());
    return own.wait(faults.get());
  }
  Expected<std::unique_ptr<DeviceEvent>> record() override {
    return std::unique_ptr<DeviceEvent>(new NullEvent(faults, own));
  }
  Status follow(void *stream) override {
    followed = static_cast<NullStream *>(stream);
    return state();
  }
  Status lead(void *stream) override {
    followed = nullptr;
    auto &end = static_cast<NullStream *>(stream)->end;
    end = std::max(end, begun) + runTime();
    return state();
  }
  void *ownStream() const override { return &own; }
  void *workStream() const override { return followed ? followed : &own; }
  Status launch(const LaunchCommand &command) override {
    if (recording) {
      recording->add(command);
      return success();
    }
    NullStream &stream = followed ? *followed : own;
    stream.hangs |= faults && faults->hung;
    return followed ? state() : own.wait(faults.get());
  }
  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (recording)
      recording->add(target, source, bytes);
    else if (bytes > 0)
      memcpy(target, source, bytes);
    return success();
  }

private:
  Status state() const { return NullStream().wait(faults.get()); }
  std::chrono::microseconds runTime() const {
    return std::chrono::microseconds(faults ? faults->runMicroseconds.load()
                                            : 0);
  }
  std::shared_ptr<const Faults> faults;
  mutable NullStream own; // others lead it
  NullStream *followed = nullptr;
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
  /// Runs take a time only where somebody may say which.
  bool timesEvents() const override { return faults != nullptr; }
  bool hasStreams() const override { return true; }
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
