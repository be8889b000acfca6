// Loading and running.
#include "capi/Handles.h"

#include "knapper/kernel.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/base/Text.h"
#include "runtime/device/AbsentDevice.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/cpu/CpuInfo.h"
#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/profile/Describe.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>

using namespace knapper;
using namespace knapper::capi;

// The published convention is the compiler's own.
static_assert(sizeof(knapper_kernel_context) == sizeof(KernelContext) &&
              offsetof(knapper_kernel_context, scratch) ==
                  offsetof(KernelContext, scratch) &&
              offsetof(knapper_kernel_context, worker_index) ==
                  offsetof(KernelContext, workerIndex) &&
              offsetof(knapper_kernel_context, status) ==
                  offsetof(KernelContext, status) &&
              offsetof(knapper_kernel_context, workers) ==
                  offsetof(KernelContext, workers));
static_assert(KNAPPER_KERNEL_DIVISION_BY_ZERO == kernelDivisionByZero &&
              KNAPPER_KERNEL_INDEX_OUT_OF_RANGE == kernelIndexOutOfRange);

namespace {

Status checkTensors(const char *function, const knapper_tensor *tensors,
                    int32_t count, const char *what) {
  if (count < 0 || (count > 0 && !tensors))
    return userError(
        cat(count, " ", what, " at ", tensors ? "an address" : "NULL"),
        function, "give an array of so many tensors");
  return success();
}

} // namespace

/// The number that a variable of the environment begins with: OMP_NUM_THREADS
/// may be a list, of levels that nest. 0 where there is none.
static int leadingNumber(std::string_view text) {
  int number = 0;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  bool ends = end == text.data() + text.size() || *end == ',';
  return code == std::errc() && ends ? number : 0;
}

/// Threads that run a module: what is asked for, else what the environment
/// says, else one for each core that the process may use.
static Expected<int32_t> runThreads(int32_t wanted) {
  if (wanted < 0)
    return userError(cat("threads is ", wanted), "knapper_load_options",
                     "0 for one thread a core, or a count");
  if (wanted > 0)
    return wanted;
  if (const char *own = getenv("KNAPPER_THREADS"); own && *own) {
    std::string_view text = own;
    int count = leadingNumber(text);
    if (text == "0")
      return cpu::availableCores();
    if (count <= 0 || text.find(',') != text.npos)
      return userError(cat("'", text, "' is no number of threads"),
                       "environment variable KNAPPER_THREADS",
                       "a number, or unset it for one thread a core");
    return count;
  }
  int cores = cpu::availableCores();
  if (const char *omp = getenv("OMP_NUM_THREADS"))
    if (int count = leadingNumber(omp); count > 0)
      return std::min(cores, count);
  return cores;
}

Expected<std::string_view>
knapper::capi::wantedDevice(const knapper_load_options &options) {
  std::string_view wanted;
  if (options.device)
    wanted = options.device;
  else if (const char *name = getenv("KNAPPER_DEVICE"))
    wanted = name;
  if (wanted.empty() || wanted == "cpu" || wanted == "cuda")
    return wanted;
  return userError(cat("'", wanted, "' is no kind of device"), "device",
                   "\"cpu\" or \"cuda\", or None for a GPU where one is "
                   "found");
}

Expected<std::shared_ptr<Device>> knapper::capi::openDevice(const char *kind) {
  knapper_load_options options = KNAPPER_LOAD_OPTIONS_INIT;
  options.device = kind;
  ASSIGN_OR_RETURN(std::string_view wanted, wantedDevice(options));
  if (wanted != "cpu")
    if (std::shared_ptr<Device> gpu = knapper::cuda::device())
      return gpu;
  if (wanted == "cuda")
    return deviceError("no NVIDIA GPU is here", "device",
                       "a machine with a GPU and its driver, or the device "
                       "\"cpu\"");
  return knapper::cpu::device();
}

/// A device that the artefact has code for, of the kind wanted if any is: a GPU
/// where one is found.
static Expected<std::shared_ptr<Device>> deviceFor(const Artefact &artefact,
                                                   std::string_view wanted) {
  bool cpu = false, cuda = false;
  for (uint32_t i = 0; i < count(artefact.header().targets()); ++i) {
    std::string_view device =
        text(artefact.header().targets()->Get(i)->device());
    cpu |= device == "cpu";
    cuda |= device == "cuda";
  }
  if ((wanted == "cpu" && !cpu) || (wanted == "cuda" && !cuda))
    return userError(cat("the artefact has no code for device '", wanted,
                         "', it has code for ", cpu ? "'cpu'" : "'cuda'"),
                     artefact.name(), "compile the model for this target");
  if (!cuda || wanted == "cpu") // loading says what the artefact has
    return knapper::cpu::device();
  if (std::shared_ptr<Device> gpu = knapper::cuda::device())
    return gpu;
  if (cpu && wanted.empty())
    return knapper::cpu::device();
  return deviceError(
      cpu ? "no NVIDIA GPU is here"
          : "no NVIDIA GPU is here, and the artefact has no other code",
      artefact.name(),
      cpu ? "a machine with a GPU and its driver, or the device \"cpu\", "
            "which the artefact has code for"
          : "a machine with a GPU and its driver, or compile for "
            "--target cpu");
}

Status knapper::capi::openModule(std::shared_ptr<const Artefact> artefact,
                                 const knapper_load_options *given,
                                 knapper_module **out, NoDevice noDevice) {
  Expected<knapper_load_options> options = readOptions<knapper_load_options>(
      given, KNAPPER_LOAD_OPTIONS_INIT, "knapper_load_options");
  if (!options)
    return options.takeError();
  if (options->spin_microseconds < -1 || options->spin_microseconds > 1000000)
    return userError(cat("spin_microseconds is ", options->spin_microseconds,
                         ", it must be -1 (default) to 1000000"),
                     "knapper_load_options");
  ModuleOptions module;
  Expected<int32_t> threads = runThreads(options->threads);
  if (!threads)
    return threads.takeError();
  module.threads = *threads;
  module.spinMicroseconds = options->spin_microseconds;
  if (options->isa)
    module.isa = options->isa;
  else if (const char *isa = getenv("KNAPPER_ISA"))
    module.isa = isa;
  Expected<std::string_view> wanted = wantedDevice(*options);
  if (!wanted)
    return wanted.takeError();
  Expected<std::shared_ptr<Device>> device = deviceFor(*artefact, *wanted);
  if (!device && device.error().kind == ErrorKind::device &&
      (options->describe ||
       (noDevice == NoDevice::describes && wanted->empty()))) {
    module.describes = true;
    device = absentDevice("cuda", device.takeError());
  }
  if (!device)
    return device.takeError();
  auto loaded = Module::load(std::move(artefact), std::move(*device), module);
  if (!loaded)
    return loaded.takeError();
  auto handle = std::make_unique<knapper_module>();
  handle->module = std::move(*loaded);
  *out = handle.release();
  return success();
}

Expected<ArtefactLoadOptions>
knapper::capi::artefactOptions(const knapper_load_options *given) {
  Expected<knapper_load_options> options = readOptions<knapper_load_options>(
      given, KNAPPER_LOAD_OPTIONS_INIT, "knapper_load_options");
  if (!options)
    return options.takeError();
  Expected<int32_t> threads = runThreads(options->threads);
  if (!threads)
    return threads.takeError();
  switch (options->verify_constants) {
  case KNAPPER_VERIFY_BEFORE_USE:
    return ArtefactLoadOptions{ConstantChecks::beforeUse, *threads};
  case KNAPPER_VERIFY_AT_LOAD:
    return ArtefactLoadOptions{ConstantChecks::atLoad, *threads};
  case KNAPPER_VERIFY_NOT:
    return ArtefactLoadOptions{ConstantChecks::none, *threads};
  }
  return userError(cat("verify_constants is ", options->verify_constants),
                   "verify_constants",
                   "KNAPPER_VERIFY_BEFORE_USE, KNAPPER_VERIFY_AT_LOAD or "
                   "KNAPPER_VERIFY_NOT");
}

knapper_error *knapper_load(const char *path,
                            const knapper_load_options *options,
                            knapper_module **out) {
  return guarded([&]() -> Status {
    if (!out || !path)
      return nullArgument("knapper_load", out ? "path" : "out");
    *out = nullptr;
    auto how = artefactOptions(options);
    if (!how)
      return how.takeError();
    auto artefact = Artefact::load(path, *how);
    if (!artefact)
      return artefact.takeError();
    return openModule(std::move(*artefact), options, out);
  });
}

knapper_error *knapper_load_memory(const void *bytes, size_t size,
                                   const knapper_load_options *options,
                                   knapper_module **out) {
  return guarded([&]() -> Status {
    if (!out || (!bytes && size > 0))
      return nullArgument("knapper_load_memory", out ? "bytes" : "out");
    *out = nullptr;
    auto how = artefactOptions(options);
    if (!how)
      return how.takeError();
    auto artefact = Artefact::loadMemory(
        {static_cast<const std::byte *>(bytes), size}, *how);
    if (!artefact)
      return artefact.takeError();
    return openModule(std::move(*artefact), options, out);
  });
}

void knapper_module_release(knapper_module *module) { delete module; }

knapper_error *knapper_module_save(const knapper_module *module,
                                   const char *path) {
  return guarded([&]() -> Status {
    if (!module || !path)
      return nullArgument("knapper_module_save", module ? "path" : "module");
    return module->module->artefact().save(path);
  });
}

knapper_error *knapper_run(knapper_module *module, const knapper_tensor *inputs,
                           int32_t num_inputs, const knapper_tensor *outputs,
                           int32_t num_outputs, knapper_result **out) {
  return knapper_run_with(module, inputs, num_inputs, outputs, num_outputs,
                          nullptr, out);
}

knapper_error *
knapper_run_with(knapper_module *module, const knapper_tensor *inputs,
                 int32_t num_inputs, const knapper_tensor *outputs,
                 int32_t num_outputs, const knapper_run_options *options,
                 knapper_result **out) {
  return guarded([&]() -> Status {
    if (!module || !out)
      return nullArgument("knapper_run", module ? "out" : "module");
    *out = nullptr;
    if (Status s = checkTensors("knapper_run", inputs, num_inputs, "inputs");
        !s)
      return s;
    if (!outputs)
      num_outputs = 0;
    if (Status s = checkTensors("knapper_run", outputs, num_outputs, "outputs");
        !s)
      return s;
    Expected<knapper_run_options> chosen = readOptions<knapper_run_options>(
        options, KNAPPER_RUN_OPTIONS_INIT, "knapper_run_options");
    if (!chosen)
      return chosen.takeError();
    if (chosen->check_only != 0 && chosen->check_only != 1)
      return userError(
          cat("check_only is ", chosen->check_only, ", it must be 0 or 1"),
          "knapper_run_options");
    if (chosen->in_stream != 0 && chosen->in_stream != 1)
      return userError(
          cat("in_stream is ", chosen->in_stream, ", it must be 0 or 1"),
          "knapper_run_options");
    auto result = std::make_unique<knapper_result>();
    RunOptions how;
    how.cancel = Cancel(chosen->cancel);
    how.checkOnly = chosen->check_only == 1;
    if (chosen->in_stream == 1)
      how.stream = chosen->stream;
    std::span<const knapper_tensor> given(inputs,
                                          static_cast<size_t>(num_inputs)),
        wanted(outputs, static_cast<size_t>(num_outputs));
    if (!chosen->profile) {
      if (Status s = module->module->run(given, wanted, result->result, how);
          !s)
        return s;
      *out = result.release();
      return success();
    }
    *chosen->profile = nullptr;
    if (chosen->check_only || chosen->in_stream)
      return userError("profile is asked for with check_only or in_stream",
                       "knapper_run_options", "leave one of them out");
    Expected<std::string> text =
        profileRun(*module->module, given, wanted, result->result, how);
    if (!text)
      return text.takeError();
    if (Status s = copyString(*text, chosen->profile); !s)
      return s;
    *out = result.release();
    return success();
  });
}

int32_t knapper_result_num_outputs(const knapper_result *result) {
  if (!result)
    return 0;
  return static_cast<int32_t>(result->result.outputs().size());
}

knapper_error *knapper_result_output(const knapper_result *result,
                                     int32_t index, knapper_tensor *tensor) {
  return guarded([&]() -> Status {
    if (!result || !tensor)
      return nullArgument("knapper_result_output",
                          result ? "tensor" : "result");
    auto outputs = result->result.outputs();
    if (index < 0 || static_cast<size_t>(index) >= outputs.size())
      return userError(
          cat("there is no output ", index, " among ", outputs.size()),
          "knapper_result_output");
    *tensor = outputs[index];
    return success();
  });
}

void knapper_result_release(knapper_result *result) { delete result; }

// An asynchronous run: shared by the task and the handle, so that neither waits
// for the other to let go.
struct AsyncRun {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  int32_t cancel = 0; // set and read atomically
  knapper_error *error = nullptr;
  knapper_result *result = nullptr;
  std::vector<knapper_tensor> inputs, outputs;
  std::vector<std::vector<int64_t>> shapes;
  ~AsyncRun() {
    if (error)
      knapper_error_release(error);
    delete result;
  }
  void keep(std::span<const knapper_tensor> tensors, const Program &program) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      knapper_tensor t = tensors[i];
      // Another rank is refused before the shape is looked at.
      if (t.shape && t.rank > 0 && i < program.inputs.size() &&
          static_cast<size_t>(t.rank) == program.inputs[i].dims.size()) {
        shapes.emplace_back(t.shape, t.shape + t.rank);
        t.shape = shapes.back().data();
      }
      inputs.push_back(t);
    }
  }
};

struct knapper_event {
  std::shared_ptr<AsyncRun> run;
};

knapper_error *knapper_run_async(knapper_module *module,
                                 const knapper_tensor *inputs,
                                 int32_t num_inputs,
                                 const knapper_tensor *outputs,
                                 int32_t num_outputs, knapper_event **out) {
  return guarded([&]() -> Status {
    if (!module || !out)
      return nullArgument("knapper_run_async", module ? "out" : "module");
    *out = nullptr;
    if (Status s =
            checkTensors("knapper_run_async", inputs, num_inputs, "inputs");
        !s)
      return s;
    if (!outputs)
      num_outputs = 0;
    if (Status s =
            checkTensors("knapper_run_async", outputs, num_outputs, "outputs");
        !s)
      return s;
    auto run = std::make_shared<AsyncRun>();
    run->keep({inputs, static_cast<size_t>(num_inputs)},
              module->module->program());
    run->outputs.assign(outputs, outputs + num_outputs); // shapes say nothing
    auto event = std::make_unique<knapper_event>(knapper_event{run});
    std::lock_guard lock(module->mutex);
    if (!module->queue)
      module->queue = std::make_unique<WorkQueue>();
    module->queue->submit([run, program = module->module] {
      knapper_result *result = nullptr;
      knapper_error *error = guarded([&]() -> Status {
        auto fresh = std::make_unique<knapper_result>();
        Status s = program->run(run->inputs, run->outputs, fresh->result,
                                {.cancel = Cancel(&run->cancel)});
        if (s)
          result = fresh.release();
        return s;
      });
      std::lock_guard runLock(run->mutex);
      run->result = result;
      run->error = error;
      run->done = true;
      run->finished.notify_all();
    });
    *out = event.release();
    return success();
  });
}

knapper_error *knapper_event_wait(knapper_event *event, knapper_result **out) {
  if (!event)
    return guarded(
        []() -> Status { return nullArgument("knapper_event_wait", "event"); });
  std::shared_ptr<AsyncRun> run = std::move(event->run);
  delete event;
  std::unique_lock lock(run->mutex);
  run->finished.wait(lock, [&] { return run->done; });
  if (out) {
    *out = run->result;
    run->result = nullptr;
  }
  knapper_error *error = run->error;
  run->error = nullptr;
  return error;
}

int knapper_event_wait_for(const knapper_event *event, int64_t nanoseconds) {
  if (!event)
    return 1;
  std::unique_lock lock(event->run->mutex);
  // The clock's end is 292 years away; what is added to it must not pass it.
  std::chrono::nanoseconds time(
      std::clamp<int64_t>(nanoseconds, 0, int64_t(1) << 60));
  return event->run->finished.wait_for(lock, time,
                                       [&] { return event->run->done; });
}

int knapper_event_done(const knapper_event *event) {
  if (!event)
    return 1;
  std::lock_guard lock(event->run->mutex);
  return event->run->done;
}

void knapper_event_cancel(knapper_event *event) {
  if (!event)
    return;
  std::atomic_ref<int32_t>(event->run->cancel).store(1);
}

knapper_error *knapper_profile(knapper_module *module,
                               const knapper_tensor *inputs, int32_t num_inputs,
                               char **json) {
  return guarded([&]() -> Status {
    if (!module || !json)
      return nullArgument("knapper_profile", module ? "json" : "module");
    *json = nullptr;
    if (Status s =
            checkTensors("knapper_profile", inputs, num_inputs, "inputs");
        !s)
      return s;
    Expected<std::string> text = profileModule(
        *module->module, {inputs, static_cast<size_t>(num_inputs)});
    if (!text)
      return text.takeError();
    return copyString(*text, json);
  });
}
