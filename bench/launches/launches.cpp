// knapper_launches FILE.knap [ROUNDS]: what it takes to run a program on a GPU
// beside its kernels' own work, as JSON. bench/gpu_overhead.py makes the file.
//
// Inputs and outputs lie in the device's memory. A run that comes again is
// replayed as a recording: the first runs, which are not, are left out. The
// queue is watched: what the calling thread has computed when the program was
// handed over, before it waits, is the submission. To read that clock is a call
// of the system, which some hosts make slow: what two readings in a row differ
// by is taken off, and the driver's part is of rounds of its own.
#include "runtime/base/Text.h"
#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/execute/Module.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace knapper;

namespace {

double processorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

double atFinish = 0; // processor time when the last run began to wait
bool replayed = false;

/// What of a submission a round watches.
enum class MeasuredPart { whole, replay, order, memory };
constexpr int numParts = 4;
MeasuredPart watched = MeasuredPart::whole;
double inPart = 0; // processor time of this round

template <typename Work> auto watch(MeasuredPart part, Work work) {
  if (watched != part)
    return work();
  double begin = processorSeconds();
  auto result = work();
  inPart += processorSeconds() - begin;
  return result;
}

class WatchedQueue : public DeviceQueue {
public:
  explicit WatchedQueue(std::unique_ptr<DeviceQueue> queue)
      : queue(std::move(queue)) {}
  Status reserve(const QueueNeeds &needs) override {
    return queue->reserve(needs);
  }
  Status begin() override { return queue->begin(); }
  Status finish() override {
    atFinish = processorSeconds();
    return queue->finish();
  }
  Status launch(const LaunchCommand &command) override {
    return queue->launch(command);
  }
  Status copy(void *target, const void *source, uint64_t bytes) override {
    return queue->copy(target, source, bytes);
  }
  Status upload(void *target, const void *source, uint64_t bytes) override {
    return queue->upload(target, source, bytes);
  }
  Status download(void *target, const void *source, uint64_t bytes) override {
    return queue->download(target, source, bytes);
  }
  Expected<std::unique_ptr<DeviceEvent>> record() override {
    return queue->record();
  }
  Status waitFor(const DeviceEvent &event) override {
    return queue->waitFor(event);
  }
  Status waitForOthers() override {
    return watch(MeasuredPart::order, [&] { return queue->waitForOthers(); });
  }
  Status beginRecording() override { return queue->beginRecording(); }
  Expected<std::unique_ptr<Recording>> endRecording() override {
    return queue->endRecording();
  }
  Status replay(const Recording &recording, Cancel cancel) override {
    replayed = true;
    return watch(MeasuredPart::replay,
                 [&] { return queue->replay(recording, cancel); });
  }

private:
  std::unique_ptr<DeviceQueue> queue;
};

class WatchedDevice : public Device {
public:
  explicit WatchedDevice(std::shared_ptr<Device> device)
      : device(std::move(device)) {}
  std::string_view kind() const override { return device->kind(); }
  int rank(std::string_view isa) const override { return device->rank(isa); }
  std::string runnable() const override { return device->runnable(); }
  bool addressesHost() const override { return device->addressesHost(); }
  bool addresses(const void *memory) const override {
    return watch(MeasuredPart::memory,
                 [&] { return device->addresses(memory); });
  }
  bool timesEvents() const override { return device->timesEvents(); }
  bool canRecord() const override { return device->canRecord(); }
  Status describe(JsonWriter &json, bool measure) const override {
    return device->describe(json, measure);
  }
  Expected<std::unique_ptr<DeviceBuffer>> allocate(uint64_t bytes,
                                                   MemoryKind kind) override {
    return device->allocate(bytes, kind);
  }
  Expected<std::unique_ptr<DeviceQueue>>
  createQueue(const QueueOptions &options) override {
    auto queue = device->createQueue(options);
    if (!queue)
      return queue.takeError();
    return std::unique_ptr<DeviceQueue>(
        std::make_unique<WatchedQueue>(std::move(*queue)));
  }
  Expected<std::unique_ptr<Executable>>
  load(std::span<const std::byte> code, const std::string &where) override {
    return device->load(code, where);
  }

private:
  std::shared_ptr<Device> device;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

/// What two readings of the processor's time in a row differ by.
double clockSeconds() {
  std::vector<double> differences;
  for (int i = 0; i < 1000; ++i) {
    double before = processorSeconds();
    differences.push_back(processorSeconds() - before);
  }
  return median(std::move(differences));
}

struct LaunchArguments {
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<knapper_tensor> tensors;
};

/// Memory of the device for tensors whose sizes are numbers.
Status provide(const Program &program, const Binding &binding,
               const std::vector<Program::Tensor> &tensors, Device &device,
               LaunchArguments &arguments) {
  arguments.shapes.reserve(tensors.size());
  for (const Program::Tensor &tensor : tensors) {
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (uint32_t dim : tensor.dims) {
      shape.push_back(binding.values[dim]);
      elements *= shape.back();
    }
    uint64_t bytes = elements * byteSize(tensor.dtype);
    auto buffer = device.allocate(bytes, MemoryKind::device);
    if (!buffer)
      return buffer.takeError();
    arguments.shapes.push_back(std::move(shape));
    arguments.memory.push_back(std::move(*buffer));
    arguments.tensors.push_back(
        {arguments.memory.back()->address(), bytes,
         static_cast<knapper_dtype>(tensor.dtype),
         static_cast<int32_t>(arguments.shapes.back().size()),
         arguments.shapes.back().data()});
  }
  return success();
}

Status measure(const std::string &path, int rounds) {
  auto gpu = cuda::device();
  if (!gpu) {
    printf("{\"skipped\": \"this machine has no NVIDIA GPU\"}\n");
    return success();
  }
  auto device = std::make_shared<WatchedDevice>(gpu);
  auto artefact = Artefact::load(path);
  if (!artefact)
    return artefact.takeError();
  auto loaded = Module::load(*artefact, device, {});
  if (!loaded)
    return loaded.takeError();
  Module &module = **loaded;
  const Program &program = module.program();
  if (!program.symbols.empty())
    return userError("has symbolic sizes", path, "fix them with --dim");
  auto binding = module.binding({});
  if (!binding)
    return binding.takeError();
  LaunchArguments inputs, outputs;
  if (Status s = provide(program, **binding, program.inputs, *device, inputs);
      !s)
    return s;
  if (Status s = provide(program, **binding, program.outputs, *device, outputs);
      !s)
    return s;
  RunResult result;
  constexpr int warmUp = 5;
  std::vector<double> wall;
  std::array<std::vector<double>, numParts> parts;
  for (int i = 0; i < numParts * rounds + warmUp; ++i) {
    replayed = false;
    inPart = 0;
    watched = static_cast<MeasuredPart>(i % numParts);
    auto begin = std::chrono::steady_clock::now();
    double processor = processorSeconds();
    if (Status s = module.run(inputs.tensors, outputs.tensors, result); !s)
      return s;
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    if (i < warmUp)
      continue;
    if (!replayed)
      return internalError("the run was not replayed", path);
    if (watched == MeasuredPart::whole) {
      wall.push_back(took.count());
      inPart = atFinish - processor;
    }
    parts[i % numParts].push_back(inPart);
  }
  size_t launches = program.launches.size();
  double clock = clockSeconds();
  auto microseconds = [&](MeasuredPart part, double readings) {
    return (median(parts[static_cast<int>(part)]) - readings * clock) * 1e6;
  };
  printf("{\"launches\": %zu, \"run_us\": %.2f, \"kernel_us\": %.3f, "
         "\"submission_us\": %.2f, \"replay_us\": %.2f, \"order_us\": %.2f, "
         "\"memory_us\": %.2f, \"clock_us\": %.2f}\n",
         launches, median(wall) * 1e6, median(wall) * 1e6 / launches,
         microseconds(MeasuredPart::whole, 1),
         microseconds(MeasuredPart::replay, 1),
         microseconds(MeasuredPart::order, 1),
         microseconds(MeasuredPart::memory,
                      inputs.tensors.size() + outputs.tensors.size()),
         clock * 1e6);
  return success();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "knapper_launches FILE.knap [ROUNDS]\n");
    return 2;
  }
  Status status = measure(argv[1], argc > 2 ? atoi(argv[2]) : 200);
  if (!status)
    fprintf(stderr, "%s\n", status.error().message().c_str());
  return !status;
}
