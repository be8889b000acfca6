#include "runtime/testing/RemoteDevice.h"

#include "runtime/artefact/ElfImage.h"
#include "runtime/base/Json.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/drivers/cpu/CpuInfo.h"
#include "runtime/memory/Block.h"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace knapper::testing {
namespace {

/// The device's buffers by address.
struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, uint64_t> buffers;
  /// Bytes from `address` to the end of its buffer; -1 outside all.
  int64_t left(const void *address) {
    std::lock_guard lock(mutex);
    auto at = reinterpret_cast<uintptr_t>(address);
    auto next = buffers.upper_bound(at);
    if (next == buffers.begin())
      return -1;
    --next;
    return at <= next->first + next->second
               ? int64_t(next->first + next->second - at)
               : -1;
  }
  bool holds(const void *address, uint64_t bytes) {
    int64_t space = left(address);
    return space >= 0 && bytes <= uint64_t(space);
  }
};

class RemoteBuffer : public DeviceBuffer {
public:
  RemoteBuffer(Block block, std::shared_ptr<Memory> memory, bool onDevice)
      : block(std::move(block)), memory(std::move(memory)), onDevice(onDevice) {
    std::lock_guard lock(this->memory->mutex);
    if (onDevice)
      this->memory->buffers[key()] = this->block.bytes();
  }
  ~RemoteBuffer() override {
    std::lock_guard lock(memory->mutex);
    if (onDevice)
      memory->buffers.erase(key());
  }
  void *address() const override { return block.data(); }
  uint64_t bytes() const override { return block.bytes(); }

private:
  uintptr_t key() const { return reinterpret_cast<uintptr_t>(block.data()); }
  Block block;
  std::shared_ptr<Memory> memory;
  bool onDevice;
};

class RemoteExecutable : public Executable {
public:
  explicit RemoteExecutable(std::unique_ptr<ElfImage> image)
      : image(std::move(image)) {}
  Expected<KernelHandle> kernel(uint64_t entry,
                                std::string_view name) const override {
    const void *address = image->entry(entry);
    if (!address)
      return userError("no such kernel", std::string(name));
    return KernelHandle{address};
  }

private:
  std::unique_ptr<ElfImage> image;
};

class RemoteQueue : public DeviceQueue {
public:
  explicit RemoteQueue(std::shared_ptr<Memory> memory)
      : memory(std::move(memory)) {}

  Status reserve(const QueueNeeds &needs) override {
    flush();
    Expected<Block> block = Block::allocate(needs.scratch);
    if (!block)
      return block.takeError();
    scratch = std::move(*block);
    return success();
  }
  Status begin() override {
    captured = false;
    return success();
  }
  Status finish() override {
    flush();
    return success();
  }
  Status launch(const LaunchCommand &c) override {
    if (c.grid < 1 || c.grain < 1)
      return deviceError("a launch was given a grid of " +
                         std::to_string(c.grid) + " and a grain of " +
                         std::to_string(c.grain));
    std::vector<void *> buffers(c.buffers, c.buffers + c.numBuffers);
    std::vector<int64_t> symbols(c.symbols, c.symbols + c.numSymbols);
    for (void *buffer : buffers)
      if (buffer && memory->left(buffer) < 0)
        return deviceError("a kernel was given an address of the host");
    waiting.push_back([this, c, buffers, symbols] {
      KernelContext context{scratch.data(), c.status, 0, 1};
      reinterpret_cast<KernelFn>(const_cast<void *>(c.kernel.handle))(
          buffers.data(), symbols.data(), &context, 0, c.grid);
    });
    return success();
  }
  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (bytes == 0)
      return success();
    if (!memory->holds(target, bytes) || !memory->holds(source, bytes))
      return deviceError("a copy was given an address of the host");
    waiting.push_back([=] { memcpy(target, source, bytes); });
    return success();
  }
  Status upload(void *target, const void *source, uint64_t bytes) override {
    if (!memory->holds(target, bytes) || memory->left(source) > 0)
      return deviceError("an upload goes from the host to the device");
    auto *data = static_cast<const char *>(source);
    waiting.push_back([target, kept = std::vector<char>(data, data + bytes)] {
      memcpy(target, kept.data(), kept.size());
    });
    return success();
  }
  Status download(void *target, const void *source, uint64_t bytes) override {
    flush();
    if (!memory->holds(source, bytes) || memory->left(target) > 0)
      return deviceError("a download goes from the device to the host");
    memcpy(target, source, bytes);
    return success();
  }
  class Event : public DeviceEvent {
  public:
    Event(RemoteQueue &queue, uint64_t point) : queue(queue), point(point) {}
    bool done() const override { return queue.finished >= point; }
    Status wait() const override {
      queue.flush();
      return success();
    }

  private:
    RemoteQueue &queue;
    uint64_t point;
  };
  Expected<std::unique_ptr<DeviceEvent>> record() override {
    return std::unique_ptr<DeviceEvent>(
        new Event(*this, finished + waiting.size()));
  }
  Status waitFor(const DeviceEvent &event) override { return event.wait(); }
  Status follow(void *stream) override {
    captured = static_cast<RemoteStream *>(stream)->captures;
    if (captured)
      return success();
    waiting.push_back(
        [stream] { static_cast<RemoteStream *>(stream)->finish(); });
    return success();
  }
  Status lead(void *stream) override {
    auto &work = static_cast<RemoteStream *>(stream)->work;
    if (!captured) {
      work.push_back([this] { flush(); });
      return success();
    }
    work.insert(work.end(), waiting.begin(), waiting.end());
    waiting.clear();
    return success();
  }
  bool isCaptured() const override { return captured; }
  void *ownStream() const override { return &waiting; }
  Status beginRecording() override { return notRecorded(); }
  Expected<std::unique_ptr<Recording>> endRecording() override {
    return notRecorded();
  }
  Status replay(const Recording &, Cancel) override { return notRecorded(); }

private:
  static Error notRecorded() {
    return userError("this device does not record", "queue");
  }
  void flush() {
    // A stream that is run on the way ends in a flush of this queue.
    RemoteWork commands = std::move(waiting);
    waiting.clear();
    for (auto &command : commands)
      command();
    finished += commands.size();
  }
  std::shared_ptr<Memory> memory;
  mutable RemoteWork waiting;
  uint64_t finished = 0;
  bool captured = false; // the stream that the run is in
  Block scratch;
};

class RemoteDevice : public Device {
public:
  std::string_view kind() const override { return "cpu"; }
  int rank(std::string_view isa) const override { return cpu::isaRank(isa); }
  std::string runnable() const override { return cpu::runnableIsas(); }
  bool addressesHost() const override { return false; }
  bool addresses(const void *address) const override {
    return memory->left(address) > 0;
  }
  bool canRecord() const override { return false; }
  bool hasStreams() const override { return true; }
  bool isAsynchronous() const override { return true; }
  Status describe(JsonWriter &json, bool) const override {
    json.field("name", "remote");
    return success();
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind kind) override {
    Expected<Block> block = Block::allocate(bytes);
    if (!block)
      return block.takeError();
    return std::unique_ptr<DeviceBuffer>(new RemoteBuffer(
        std::move(*block), memory, kind == MemoryKind::device && bytes > 0));
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &) override {
    return std::unique_ptr<DeviceQueue>(new RemoteQueue(memory));
  }
  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    Expected<std::unique_ptr<ElfImage>> image = ElfImage::load(code, where);
    if (!image)
      return image.takeError();
    return std::unique_ptr<Executable>(new RemoteExecutable(std::move(*image)));
  }

private:
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
};

} // namespace

std::shared_ptr<Device> remoteDevice() {
  return std::make_shared<RemoteDevice>();
}

} // namespace knapper::testing
