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
#include <utility>
#include <vector>

namespace knapper::testing {
namespace {

/// The device's buffers by address.
struct RemoteMemory {
  std::mutex mutex;
  std::map<uintptr_t, uint64_t> buffers, shared; // shared: with the host
  /// Bytes from `address` to the end of its buffer; -1 outside all.
  int64_t left(const void *address) { return left(buffers, address); }
  bool holds(const void *address, uint64_t bytes) {
    int64_t space = left(address);
    return space >= 0 && bytes <= uint64_t(space);
  }
  /// Whether copies may: also what the host shares.
  bool reaches(const void *address, uint64_t bytes) {
    int64_t space = left(shared, address);
    return holds(address, bytes) || (space >= 0 && bytes <= uint64_t(space));
  }

private:
  int64_t left(const std::map<uintptr_t, uint64_t> &ranges,
               const void *address) {
    std::lock_guard lock(mutex);
    auto at = reinterpret_cast<uintptr_t>(address);
    auto next = ranges.upper_bound(at);
    if (next == ranges.begin())
      return -1;
    --next;
    return at <= next->first + next->second
               ? int64_t(next->first + next->second - at)
               : -1;
  }
};

class RemoteBuffer : public DeviceBuffer {
public:
  RemoteBuffer(Block block, std::shared_ptr<RemoteMemory> memory, bool onDevice)
      : block(std::move(block)), memory(std::move(memory)), onDevice(onDevice) {
    std::lock_guard lock(this->memory->mutex);
    if (this->block.bytes() > 0)
      ranges()[key()] = this->block.bytes();
  }
  ~RemoteBuffer() override {
    std::lock_guard lock(memory->mutex);
    ranges().erase(key());
  }
  void *address() const override { return block.data(); }
  uint64_t bytes() const override { return block.bytes(); }

private:
  uintptr_t key() const { return reinterpret_cast<uintptr_t>(block.data()); }
  std::map<uintptr_t, uint64_t> &ranges() const {
    return onDevice ? memory->buffers : memory->shared;
  }
  Block block;
  std::shared_ptr<RemoteMemory> memory;
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
  RemoteQueue(std::shared_ptr<RemoteMemory> memory,
              std::shared_ptr<RemoteFaults> faults)
      : memory(std::move(memory)), faults(std::move(faults)) {}

  Status reserve(const QueueNeeds &needs) override {
    flush();
    TRY(faults->refuse(needs.scratch));
    Expected<Block> block = Block::allocate(needs.scratch);
    if (!block)
      return block.takeError();
    scratch = std::move(*block);
    return success();
  }
  Status begin() override {
    captured = false;
    followed = nullptr;
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
    return give([this, c, buffers, symbols] {
      auto compute = [&] {
        KernelContext context{scratch.data(), c.status, 0, 1};
        reinterpret_cast<KernelFn>(const_cast<void *>(c.kernel.handle))(
            const_cast<void **>(buffers.data()), symbols.data(), &context, 0,
            c.grid);
      };
      if (!faults->failsLaunch())
        return compute();
      spoil(buffers, compute);
      *c.status = kernelIndexOutOfRange;
    });
  }
  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (bytes == 0)
      return success();
    if (!memory->reaches(target, bytes) || !memory->reaches(source, bytes))
      return deviceError("a copy was given an address of the host");
    return give([=] { memcpy(target, source, bytes); });
  }
  Status upload(void *target, const void *source, uint64_t bytes) override {
    if (!memory->holds(target, bytes) || memory->left(source) > 0)
      return deviceError("an upload goes from the host to the device");
    auto *data = static_cast<const char *>(source);
    return give([target, kept = std::vector<char>(data, data + bytes)] {
      memcpy(target, kept.data(), kept.size());
    });
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
    Event(RemoteQueue &queue, std::shared_ptr<bool> reached)
        : queue(queue), reached(std::move(reached)) {}
    bool done() const override { return *reached; }
    Status wait() const override {
      // No further than to the event.
      if (!*reached)
        queue.flush(reached.get());
      return success();
    }

  private:
    RemoteQueue &queue;
    std::shared_ptr<bool> reached;
  };
  Expected<std::unique_ptr<DeviceEvent>> record() override {
    auto reached = std::make_shared<bool>(false);
    TRY(give([reached] { *reached = true; }));
    return std::unique_ptr<DeviceEvent>(new Event(*this, std::move(reached)));
  }
  Status waitFor(const DeviceEvent &event) override { return event.wait(); }
  Status follow(void *stream) override {
    auto *theirs = static_cast<RemoteStream *>(stream);
    captured = theirs->captures;
    followed = captured ? nullptr : theirs;
    if (followed && faults->runs == RemoteFaults::Runs::behind)
      followed->finish();
    return success();
  }
  Status lead(void *stream) override {
    auto *theirs = static_cast<RemoteStream *>(stream);
    followed = nullptr;
    if (captured) {
      theirs->work.insert(theirs->work.end(), own.work.begin(), own.work.end());
      own.work.clear();
      return success();
    }
    auto run = std::make_shared<RemoteStream>();
    run->work.swap(own.work);
    // Known before it is there: who ends this queue waits for it.
    led.push_back({run, theirs});
    theirs->work.push_back([run] { run->finish(); });
    if (runsAtOnce())
      flush();
    return success();
  }
  bool isCaptured() const override { return captured; }
  void *ownStream() const override { return &own; }
  Status beginRecording() override { return notRecorded(); }
  Expected<std::unique_ptr<Recording>> endRecording() override {
    return notRecorded();
  }
  Status replay(const Recording &, Cancel) override { return notRecorded(); }

private:
  static Error notRecorded() {
    return userError("this device does not record", "queue");
  }
  /// Each word that `compute` changes is no number of any use then.
  void spoil(std::span<void *const> buffers,
             const std::function<void()> &compute) {
    using Word = uint64_t;
    constexpr Word none = 0x7f7f7f7f7f7f7f7f;
    std::map<Word *, std::vector<Word>> before;
    for (void *buffer : buffers)
      if (buffer) {
        auto words = static_cast<size_t>(memory->left(buffer)) / sizeof(Word);
        auto &kept = before[static_cast<Word *>(buffer)];
        kept.resize(words);
        memcpy(kept.data(), buffer, words * sizeof(Word));
      }
    compute();
    for (auto &[at, kept] : before)
      for (size_t i = 0; i < kept.size(); ++i)
        if (memcmp(at + i, &kept[i], sizeof(Word)) != 0)
          memcpy(at + i, &none, sizeof(Word));
  }
  bool runsAtOnce() const {
    return !captured && faults->runs == RemoteFaults::Runs::atOnce;
  }
  Status give(std::function<void()> command) {
    own.work.push_back(std::move(command));
    if (runsAtOnce())
      flush();
    return success();
  }
  /// Runs what was given so far, or no further than until `reached`.
  void flush(const bool *reached = nullptr) {
    if (followed)
      followed->finish();
    for (auto &[run, stream] : std::exchange(led, {}))
      if (!run->work.empty())
        stream->finish();
    std::vector<std::function<void()>> commands = std::move(own.work);
    own.work.clear();
    size_t done = 0;
    while (done < commands.size() && !(reached && *reached))
      commands[done++]();
    own.work.insert(own.work.begin(),
                    commands.begin() + static_cast<std::ptrdiff_t>(done),
                    commands.end());
  }
  std::shared_ptr<RemoteMemory> memory;
  std::shared_ptr<RemoteFaults> faults;
  mutable RemoteStream own; // others lead it
  bool captured = false;    // the stream that the run is in
  RemoteStream *followed = nullptr;
  /// Runs that went into a stream, while they wait there.
  struct Led {
    std::shared_ptr<RemoteStream> run;
    RemoteStream *stream;
  };
  std::vector<Led> led;
  Block scratch;
};

class RemoteDevice : public Device {
public:
  explicit RemoteDevice(std::shared_ptr<RemoteFaults> faults)
      : faults(std::move(faults)) {}
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
  std::optional<uint64_t> freeBytes() const override {
    uint64_t bytes = faults->freeBytes;
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind kind) override {
    if (kind == MemoryKind::device)
      TRY(faults->refuse(bytes));
    Expected<Block> block = Block::allocate(bytes);
    if (!block)
      return block.takeError();
    return std::unique_ptr<DeviceBuffer>(new RemoteBuffer(
        std::move(*block), memory, kind == MemoryKind::device));
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &) override {
    return std::unique_ptr<DeviceQueue>(new RemoteQueue(memory, faults));
  }
  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    Expected<std::unique_ptr<ElfImage>> image = ElfImage::load(code, where);
    if (!image)
      return image.takeError();
    return std::unique_ptr<Executable>(new RemoteExecutable(std::move(*image)));
  }

private:
  std::shared_ptr<RemoteMemory> memory = std::make_shared<RemoteMemory>();
  const std::shared_ptr<RemoteFaults> faults;
};

} // namespace

Status RemoteFaults::refuse(uint64_t bytes) {
  uint64_t fewest = fewestBytes;
  if (fewest == 0 || bytes < fewest)
    return success();
  ++refused;
  return deviceError("has no " + std::to_string(bytes) + " bytes",
                     "the remote device", "a smaller batch");
}

bool RemoteFaults::failsLaunch() {
  ++launches;
  if (soundLaunches < 0)
    return false;
  if (soundLaunches > 0) {
    --soundLaunches;
    return false;
  }
  if (--failingLaunches <= 0)
    soundLaunches = -1;
  return true;
}

std::shared_ptr<Device> remoteDevice(std::shared_ptr<RemoteFaults> faults) {
  return std::make_shared<RemoteDevice>(
      faults ? std::move(faults) : std::make_shared<RemoteFaults>());
}

} // namespace knapper::testing
