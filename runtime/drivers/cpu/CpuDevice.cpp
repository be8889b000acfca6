#include "runtime/drivers/cpu/CpuDevice.h"

#include "runtime/artefact/ElfImage.h"
#include "runtime/base/Checked.h"
#include "runtime/base/ForkMutex.h"
#include "runtime/base/Json.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/base/Text.h"
#include "runtime/device/HostQueue.h"
#include "runtime/drivers/cpu/CpuCall.h"
#include "runtime/drivers/cpu/CpuInfo.h"
#include "runtime/drivers/cpu/OneDnnMatmul.h"
#include "runtime/drivers/cpu/Peaks.h"
#include "runtime/drivers/cpu/Share.h"
#include "runtime/drivers/cpu/ThreadPool.h"
#include "runtime/memory/Block.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>
#include <vector>

namespace knapper::cpu {
namespace {

// Idle workers spin this long: longer than the gaps between runs of a busy
// program, short enough not to be noticed on an idle one.
constexpr int kDefaultSpinMicroseconds = 200;
constexpr int kMaxThreads = 1024;
// Copies from this size on are shared by the workers.
constexpr uint64_t kSharedCopy = 1 << 20;
// A worker's share is so many chunks at most.
constexpr int64_t kChunks = 32;

class HostBuffer : public DeviceBuffer {
public:
  explicit HostBuffer(Block block) : block(std::move(block)) {}
  void *address() const override { return block.data(); }
  uint64_t bytes() const override { return block.bytes(); }

private:
  Block block;
};

class ElfExecutable : public Executable {
public:
  ElfExecutable(std::unique_ptr<ElfImage> image, std::string where)
      : image(std::move(image)), where(std::move(where)) {}
  Expected<KernelHandle> kernel(uint64_t entry,
                                std::string_view name) const override {
    const void *address = image->entry(entry);
    if (!address)
      return userError(cat("the entry of kernel '", name, "' at ", entry,
                           " lies outside the code"),
                       where, "compile the model again");
    return KernelHandle{address};
  }

private:
  std::unique_ptr<ElfImage> image;
  std::string where;
};

class CpuQueue : public HostQueue {
public:
  CpuQueue(std::shared_ptr<ThreadPool> pool, int threads, int spin)
      : pool(std::move(pool)), threads(threads), spin(spin),
        shares(static_cast<size_t>(threads)) {}

  ~CpuQueue() override {
    // A run that an exception ended did not finish.
    if (running)
      (void)finish();
  }

  Status reserve(const QueueNeeds &needs) override {
    if (scratch.bytes() >= needs.scratch)
      return success();
    Expected<Block> block = Block::allocate(needs.scratch);
    if (!block)
      return block.takeError();
    scratch = std::move(*block);
    return success();
  }

  Status begin() override {
    pool->beginRun();
    held = pool->tryAcquire(threads, scratch.bytes(), spin);
    // Kernels compute the same bits whatever mode the calling program is in.
    callerMode = _mm_getcsr();
    _mm_setcsr(kFloatMode);
    running = true;
    return success();
  }

  Status finish() override {
    if (held > 1)
      pool->release();
    held = 1;
    if (running) {
      _mm_setcsr(callerMode);
      pool->endRun();
    }
    running = false;
    return success();
  }

  Status launch(const LaunchCommand &command) override {
    if (recording) {
      recording->add(command);
      return success();
    }
    int64_t grain = std::max<int64_t>(command.grain, 1);
    int64_t worth = command.grid / grain + (command.grid % grain != 0);
    int workers = static_cast<int>(std::min<int64_t>(available(), worth));
    if (workers <= 1) {
      runPrograms(command, {scratch.data(), command.status, 0, 1}, 0,
                  command.grid);
      return success();
    }
    Launch launch{command, shares.data(), workers,
                  chunksOf(command.grid, grain, workers)};
    if (launch.chunks == workers) {
      pool->runCopies(workers, runChunk, launch, scratch.data());
      return success();
    }
    for (int w = 0; w < workers; ++w)
      shares[w].set(
          static_cast<uint32_t>(beginOf(w, workers, launch.chunks)),
          static_cast<uint32_t>(beginOf(w + 1, workers, launch.chunks)));
    pool->runCopies(workers, runShare, launch, scratch.data());
    return success();
  }

  Status copy(void *target, const void *source, uint64_t bytes) override {
    if (recording)
      recording->add(target, source, bytes);
    else if (bytes >= kSharedCopy && available() > 1)
      copyShared(target, source, bytes, available());
    else if (bytes > 0)
      memcpy(target, source, bytes);
    return success();
  }

private:
  /// A launch in chunks of programs, shared by workers.
  struct Launch {
    const LaunchCommand &command;
    Share *shares; // one for each worker
    int workers;
    int64_t chunks;
  };

  /// Where part `i` of `parts` parts of `count` begins. What is left when each
  /// has as many is spread over them: halves of the parts are halves of the
  /// count. `parts` is at most kChunks * kMaxThreads.
  static int64_t beginOf(int64_t i, int64_t parts, int64_t count) {
    return count / parts * i + count % parts * i / parts;
  }

  /// Chunks of at least `grain` programs; as many for each worker unless they
  /// are single programs.
  static int64_t chunksOf(int64_t grid, int64_t grain, int workers) {
    int64_t most = kChunks * workers;
    if (grain == 1 && grid <= most)
      return grid;
    return std::clamp<int64_t>(grid / grain / workers * workers, workers, most);
  }

  static void runPrograms(const LaunchCommand &command,
                          const KernelContext &context, int64_t begin,
                          int64_t end) {
    if (command.call)
      static_cast<const CpuCall *>(command.call)
          ->run(command.buffers, context, begin, end);
    else
      reinterpret_cast<KernelFn>(const_cast<void *>(command.kernel.handle))(
          command.buffers, command.symbols, &context, begin, end);
  }
  static void runPrograms(const Launch &launch, const KernelContext &context,
                          Share::Chunks chunks) {
    const LaunchCommand &command = launch.command;
    runPrograms(command, context,
                beginOf(chunks.begin, launch.chunks, command.grid),
                beginOf(chunks.end, launch.chunks, command.grid));
  }

  /// Worker w runs the one chunk that there is for it: of a launch this small
  /// what is noted for others to take would count.
  static void runChunk(void *argument, int worker, void *scratch) {
    const Launch &launch = *static_cast<Launch *>(argument);
    KernelContext context{scratch, launch.command.status, worker,
                          launch.workers};
    auto chunk = static_cast<uint32_t>(worker);
    runPrograms(launch, context, {chunk, chunk + 1});
  }

  /// Worker w runs its share, then what others have not begun of theirs.
  static void runShare(void *argument, int worker, void *scratch) {
    const Launch &launch = *static_cast<Launch *>(argument);
    KernelContext context{scratch, launch.command.status, worker,
                          launch.workers};
    while (auto chunks = launch.shares[worker].takeFront())
      runPrograms(launch, context, *chunks);
    for (int i = 1; i < launch.workers; ++i) {
      Share &other = launch.shares[(worker + i) % launch.workers];
      while (auto chunks = other.takeBack())
        runPrograms(launch, context, *chunks);
    }
  }

  /// Workers for the next command: other runs keep the cores that they are on.
  int available() const {
    return held == 1 ? 1 : std::max(1, held - pool->otherRuns());
  }

  void copyShared(void *target, const void *source, uint64_t bytes,
                  int workers) {
    struct Copy {
      char *target;
      const char *source;
      uint64_t bytes, part;
    } copy{static_cast<char *>(target), static_cast<const char *>(source),
           bytes, alignUp(bytes / workers + 1, 4096)};
    auto part = [](void *argument, int worker, void *) {
      const Copy &c = *static_cast<Copy *>(argument);
      uint64_t begin = std::min(c.bytes, worker * c.part);
      uint64_t end = std::min(c.bytes, begin + c.part);
      memcpy(c.target + begin, c.source + begin, end - begin);
    };
    pool->run(workers, part, &copy, nullptr);
  }

  std::shared_ptr<ThreadPool> pool;
  int threads;
  int spin;
  int held = 1;            // workers of the current batch
  bool running = false;    // between begin and finish
  unsigned callerMode = 0; // of floating point, while running
  Block scratch;
  std::vector<Share> shares; // of the launch in progress
};

class CpuDevice : public Device {
public:
  explicit CpuDevice(IsaLevel level) : level(level) {}
  std::string_view kind() const override { return "cpu"; }
  int rank(std::string_view isa) const override { return isaRank(isa, level); }
  std::string runnable() const override { return runnableIsas(level); }
  bool addressesHost() const override { return true; }
  bool canRecord() const override { return true; }

  Status describe(JsonWriter &json, bool measure) const override {
    std::string isas = runnable();
    json.field("name", processorName());
    json.field("isa", isas.substr(0, isas.find(',')));
    json.field("cores", availableCores());
    // Without leave of the system their level is not chosen; say why.
    if (tileRegisters() != TileRegisters::absent)
      json.field("tile_registers",
                 tileRegisters() == TileRegisters::granted
                     ? std::string("granted")
                     : cat("refused by the system: ", tileRefusal()));
    if (!measure)
      return success();
    Expected<Peaks> peaks = machinePeaks(level);
    if (!peaks)
      return peaks.takeError();
    json.field("fma_gflops", peaks->fmaGflops);
    json.field("fma_gflops_one_core", peaks->fmaGflopsOneCore);
    json.field("copy_gbps", peaks->copyGbps);
    json.field("copy_gbps_one_core", peaks->copyGbpsOneCore);
    return success();
  }

  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind) override {
    Expected<Block> block = Block::allocate(bytes);
    if (!block)
      return block.takeError();
    return std::unique_ptr<DeviceBuffer>(new HostBuffer(std::move(*block)));
  }

  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &options) override {
    if (options.threads < 0 || options.threads > kMaxThreads)
      return userError(cat("threads is ", options.threads,
                           ", it must be 0 (automatic) to ", kMaxThreads),
                       "option threads");
    int threads = options.threads ? options.threads : availableCores();
    int spin = options.spinMicroseconds < 0 ? kDefaultSpinMicroseconds
                                            : options.spinMicroseconds;
    return std::unique_ptr<DeviceQueue>(new CpuQueue(pool, threads, spin));
  }

  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    Expected<std::unique_ptr<ElfImage>> image = ElfImage::load(code, where);
    if (!image)
      return image.takeError();
    return std::unique_ptr<Executable>(
        new ElfExecutable(std::move(*image), where));
  }

  Expected<std::string> openLibrary(VendorLibrary library) override {
    if (library != VendorLibrary::onednn)
      return Device::openLibrary(library);
    ASSIGN_OR_RETURN(std::shared_ptr<const OneDnn> found, oneDnn());
    return found->text();
  }
  Expected<std::shared_ptr<const VendorCall>>
  prepare(const VendorMatmul &matmul, int32_t threads) override {
    if (matmul.library != VendorLibrary::onednn)
      return Device::prepare(matmul, threads);
    ASSIGN_OR_RETURN(std::shared_ptr<const OneDnn> found, oneDnn());
    return oneDnnMatmul(std::move(found), matmul,
                        threads > 0 ? threads : availableCores());
  }

private:
  /// Tried again until it is found: the folders may have been set since.
  Expected<std::shared_ptr<const OneDnn>> oneDnn() {
    std::lock_guard lock(forkMutex<OneDnn>());
    if (!library) {
      ASSIGN_OR_RETURN(library, OneDnn::open());
    }
    return library;
  }

  IsaLevel level;
  std::shared_ptr<const OneDnn> library; // guarded
  std::shared_ptr<ThreadPool> pool = std::make_shared<ThreadPool>();
};

} // namespace

std::shared_ptr<Device> device() {
  static std::weak_ptr<Device> current;
  std::lock_guard lock(forkMutex<CpuDevice>());
  std::shared_ptr<Device> device = current.lock();
  if (!device) {
    device = std::make_shared<CpuDevice>(machineLevel());
    current = device;
  }
  return device;
}

std::shared_ptr<Device> deviceUpTo(IsaLevel level) {
  return std::make_shared<CpuDevice>(std::min(level, machineLevel()));
}

} // namespace knapper::cpu
