// Runs: short ones have ended when the function returns, others go on.
#include "capi/pjrt/PjrtExecutable.h"
#include "capi/pjrt/PjrtProfiler.h"
#include <array>
#include <chrono>
#include <optional>

namespace knapper::pjrt {

namespace {

/// A list whose first entries need no allocation.
template <typename T, size_t N = 32> class Few {
public:
  explicit Few(size_t count) {
    if (count > N) {
      many.resize(count);
      first = many.data();
    }
  }
  T &operator[](size_t i) { return first[i]; }
  T *data() { return first; }

private:
  std::array<T, N> inside{};
  std::vector<T> many;
  T *first = inside.data();
};

PjrtError *wrongArgument(size_t index, const ArrayInfo &wanted,
                         const Buffer &given) {
  auto text = [](Type type, const std::vector<int64_t> &dims) {
    std::string result = std::string(nameOf(type)) + "[";
    for (size_t i = 0; i < dims.size(); ++i)
      result += (i ? "," : "") + std::to_string(dims[i]);
    return result + "]";
  };
  return fail(Code::invalidArgument, "argument " + std::to_string(index) +
                                         " is " + text(given.type, given.dims) +
                                         ", the program takes " +
                                         text(wanted.type, wanted.dims));
}

/// Whether the call gives the argument away.
bool isGiven(const CompiledProgram &program, const ExecuteOptions *options,
             size_t index) {
  if (!program.inputs[index].donated)
    return false;
  for (size_t i = 0; options && i < options->num_non_donatable_input_indices;
       ++i)
    if (options->non_donatable_input_indices[i] == static_cast<int64_t>(index))
      return false;
  return true;
}

/// Runs that take less are not worth another thread's waking.
constexpr int64_t kShortNanoseconds = 100'000;

/// A call's arguments and results; the module has its own number of them.
struct ProgramCall {
  ProgramCall(std::shared_ptr<CompiledProgram> of, const PjrtDevice &device)
      : program(std::move(of)), device(device), inputs(program->inputs.size()),
        outputs(program->outputs.size()) {}

  std::shared_ptr<CompiledProgram> program;
  const PjrtDevice &device;
  Few<std::shared_ptr<HostBlock>> inputs, outputs;

  /// Null where all went well.
  knapper_error *run();
  /// Counts this call among the writers of its results' memory, as often as it
  /// holds it; -1: no longer.
  void claim(int by);
};

void ProgramCall::claim(int by) {
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    int32_t from = program->replaces[i];
    bool replaces =
        from >= 0 && inputs[static_cast<size_t>(from)] == outputs[i];
    outputs[i]->writers += replaces ? 2 * by : by;
  }
}

knapper_error *ProgramCall::run() {
  auto tensor = [](const ArrayInfo &info, const HostBlock &block) {
    return knapper_tensor{block.data(), info.bytes, info.dtype,
                          static_cast<int32_t>(info.moduleDims.size()),
                          info.moduleDims.data()};
  };
  size_t count = program->inputs.size(), results = program->outputs.size();
  Few<knapper_tensor> given(count), made(results);
  for (size_t i = 0; i < count; ++i)
    given[i] = tensor(program->inputs[i], *inputs[i]);
  for (size_t i = 0; i < results; ++i)
    made[i] = tensor(program->outputs[i], *outputs[i]);
  auto start = std::chrono::steady_clock::now();
  knapper_result *result = nullptr;
  knapper_run_options options = KNAPPER_RUN_OPTIONS_INIT;
  char *profile = nullptr;
  auto began = std::chrono::system_clock::now().time_since_epoch();
  if (isRecorded())
    options.profile = &profile;
  knapper_error *error = knapper().run_with(
      program->module, given.data(), static_cast<int32_t>(count), made.data(),
      static_cast<int32_t>(results), options.profile ? &options : nullptr,
      &result);
  std::unique_ptr<char, void (*)(char *)> text(profile,
                                               knapper().string_release);
  if (error)
    return error;
  if (profile)
    recordRun({device.description.id, std::chrono::nanoseconds(began).count(),
               profile});
  knapper().result_release(result);
  program->lastNanoseconds =
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start)
          .count();
  return nullptr;
}

/// A call that goes on, and what waits for it.
struct PendingCall {
  std::unique_ptr<ProgramCall> call;
  std::vector<std::shared_ptr<Completion>> before; ///< that write the inputs
  std::shared_ptr<Completion> done;

  void run() noexcept;
};

void PendingCall::run() noexcept {
  PjrtError *error = nullptr;
  try {
    for (size_t i = 0; !error && i < before.size(); ++i) {
      before[i]->wait();
      error = before[i]->error();
    }
    if (!error)
      if (knapper_error *failed = call->run())
        error = fail(failed);
  } catch (const std::bad_alloc &) {
    error = outOfMemory();
  } catch (const std::exception &e) {
    error = unexpected(e.what());
  }
  // Who is told finds the memory free, and may give away the results.
  call->claim(-1);
  call.reset();
  before.clear();
  if (!error) {
    done->complete();
    return;
  }
  done->complete(error->code, error->message);
  release(error);
}

/// Reads the arguments, makes the results' memory and takes what is given away.
PjrtError *prepare(LoadedExecutable_Execute_Args &a, ProgramCall &call) {
  const CompiledProgram &program = *call.program;
  size_t count = program.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const Buffer *buffer = a.argument_lists[0][i];
    const ArrayInfo &wanted = program.inputs[i];
    if (!buffer)
      return fail(Code::invalidArgument, "an argument is null");
    if (buffer->device != a.executable->device)
      return fail(Code::invalidArgument,
                  "argument " + std::to_string(i) + " is on " +
                      buffer->device->description.name +
                      ", the program runs on " +
                      a.executable->device->description.name +
                      "; put it there with jax.device_put");
    if (buffer->type != wanted.type || buffer->dims != wanted.dims)
      return wrongArgument(i, wanted, *buffer);
    call.inputs[i] = buffer->read();
    if (!call.inputs[i])
      return deletedBuffer("an argument");
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    int32_t from = program.replaces[i];
    if (from >= 0 && isGiven(program, a.options, static_cast<size_t>(from)) &&
        a.argument_lists[0][from]->isOnly(call.inputs[from]))
      call.outputs[i] = call.inputs[from];
    else
      call.outputs[i] = std::make_shared<HostBlock>(a.executable->device->host,
                                                    program.outputs[i].bytes);
  }
  // Also where the run fails: what they held may be overwritten by then.
  for (size_t i = 0; i < count; ++i)
    if (isGiven(program, a.options, i))
      a.argument_lists[0][i]->remove();
  return nullptr;
}

PjrtError *execute(LoadedExecutable_Execute_Args &a) {
  LoadedExecutable &executable = *a.executable;
  CompiledProgram &program = *executable.program;
  if (executable.deleted)
    return fail(Code::failedPrecondition, "the executable was deleted");
  size_t count = program.inputs.size(), results = program.outputs.size();
  if (a.num_devices != 1)
    return fail(Code::invalidArgument, "the program runs on one device");
  if (a.num_args != count || (count && !a.argument_lists) ||
      (results && !a.output_lists))
    return fail(Code::invalidArgument,
                "the program takes " + std::to_string(count) +
                    " arguments, and there are " + std::to_string(a.num_args));

  std::vector<std::shared_ptr<Completion>> before;
  for (size_t i = 0; i < count; ++i)
    if (const Buffer *buffer = a.argument_lists[0][i];
        buffer && buffer->ready) {
      if (!buffer->isReady())
        before.push_back(buffer->ready);
      else if (PjrtError *error = buffer->ready->error())
        return error;
    }
  int64_t last = program.lastNanoseconds;
  bool isShort = last >= 0 && last < kShortNanoseconds;
  bool now = program.callsBack || (isShort && before.empty());
  if (now) // of a function of the process
    for (const std::shared_ptr<Completion> &each : before) {
      each->wait();
      if (PjrtError *error = each->error())
        return error;
    }

  std::optional<ProgramCall> here;
  std::unique_ptr<ProgramCall> there;
  ProgramCall &call = now ? here.emplace(executable.program, *executable.device)
                          : *(there = std::make_unique<ProgramCall>(
                                  executable.program, *executable.device));
  if (PjrtError *error = prepare(a, call))
    return error;
  std::shared_ptr<Completion> done;
  if (!now)
    done = std::make_shared<Completion>();
  else if (knapper_error *error = call.run())
    return fail(error);
  Few<std::unique_ptr<Buffer>> buffers(results);
  for (size_t i = 0; i < results; ++i) {
    const ArrayInfo &info = program.outputs[i];
    buffers[i] =
        std::make_unique<Buffer>(executable.device, info.type, info.dims,
                                 info.bytes, call.outputs[i], done);
  }
  std::unique_ptr<PluginEvent, void (*)(PluginEvent *)> event(makeEvent(done),
                                                              destroyEvent);
  if (!now) {
    call.claim(1);
    auto pending = std::make_shared<PendingCall>(
        PendingCall{std::move(there), std::move(before), done});
    executable.device->runs.add([pending] { pending->run(); });
  }
  for (size_t i = 0; i < results; ++i)
    a.output_lists[0][i] = buffers[i].release();
  if (a.device_complete_events)
    a.device_complete_events[0] = event.release();
  return nullptr;
}

} // namespace

void setExecuteFunctions(PjrtApi &api) {
  api.LoadedExecutable_Execute = guarded<execute>;
}

} // namespace knapper::pjrt
