// Runs: short ones have ended when the function returns, others go on. Those of
// a GPU go to its stream, and end later.
#include "capi/pjrt/DeviceGroup.h"
#include "capi/pjrt/PjrtExecutable.h"
#include "capi/pjrt/PjrtProfiler.h"
#include <algorithm>
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
  Few<std::shared_ptr<ArrayBlock>> inputs, outputs;

  /// Null where all went well. On a GPU the stream then has the run.
  knapper_error *run();
  /// Moves inputs whose end calls somebody else's function.
  void takeForeign(std::vector<std::shared_ptr<ArrayBlock>> &foreign);
  /// Counts this call among the writers of its results' memory, as often as it
  /// holds it; -1: no longer.
  void claim(int by);
};

using Mark = std::unique_ptr<knapper_mark, void (*)(knapper_mark *)>;

/// The place behind all that the stream was given.
PjrtError *markEnd(const DeviceStream &stream, Mark &mark) {
  knapper_mark *made = nullptr;
  if (knapper_error *error = knapper().stream_mark(stream.stream.get(), &made))
    return fail(error);
  mark = Mark(made, knapper().mark_release);
  return nullptr;
}

PjrtError *waitFor(const Mark &mark) {
  knapper_error *error = knapper().mark_wait(mark.get());
  return error ? fail(error) : nullptr;
}

PjrtError *finish(const DeviceStream &stream) {
  Mark mark(nullptr, knapper().mark_release);
  PjrtError *error = markEnd(stream, mark);
  return error ? error : waitFor(mark);
}

void ProgramCall::takeForeign(
    std::vector<std::shared_ptr<ArrayBlock>> &foreign) {
  for (size_t i = 0; i < program->inputs.size(); ++i)
    if (inputs[i] && inputs[i]->isForeign())
      foreign.push_back(std::move(inputs[i]));
}

void ProgramCall::claim(int by) {
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    int32_t from = program->replaces[i];
    bool replaces =
        from >= 0 && inputs[static_cast<size_t>(from)] == outputs[i];
    outputs[i]->writers += replaces ? 2 * by : by;
  }
}

bool isInPlace(const CompiledProgram &program) {
  return std::any_of(program.replaces.begin(), program.replaces.end(),
                     [](int32_t input) { return input >= 0; });
}

knapper_error *ProgramCall::run() {
  auto tensor = [](const ArrayInfo &info, const ArrayBlock &block) {
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
  const DeviceStream *stream = device.stream.get();
  if (isRecorded()) {
    options.profile = &profile;
    // A run with clocks is in no stream.
    if (PjrtError *failed = stream ? finish(*stream) : nullptr)
      release(failed); // the run meets it too
  } else if (stream) {
    options.in_stream = 1;
    options.stream = stream->handle();
  }
  auto once = [&] {
    return knapper().run_with(program->module, given.data(),
                              static_cast<int32_t>(count), made.data(),
                              static_cast<int32_t>(results), &options, &result);
  };
  knapper_error *error = once();
  // The module's own memory may be missing for what is kept of arrays. (A run
  // that overwrites an input is not begun twice.)
  if (error && stream && !isInPlace(*program) &&
      knapper().error_get_kind(error) == KNAPPER_ERROR_DEVICE &&
      device.arrays->dropKept()) {
    knapper().error_release(error);
    error = once();
  }
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
  /// Of a program of several devices, and which of them this is.
  std::shared_ptr<DeviceGroup> group = nullptr;
  int64_t number = 0;

  /// Runs it, on whatever thread. On a host it has ended then, on a GPU its
  /// stream has it; `self` owns this.
  void run(const std::shared_ptr<PendingCall> &self) noexcept;

private:
  PjrtError *begin();
  knapper_error *runCall();
  PjrtError *endLater(const std::shared_ptr<PendingCall> &self);
  void end(PjrtError *error) noexcept;
};

knapper_error *PendingCall::runCall() {
  if (!group)
    return call->run();
  DevicePlace place(*group, number);
  return call->run();
}

/// What writes the inputs is before it in a GPU's stream; if it failed on the
/// way there, that is known.
PjrtError *PendingCall::begin() {
  bool isInStream = bool(call->device.stream);
  for (const std::shared_ptr<Completion> &each : before) {
    if (isInStream && !each->isReady())
      continue;
    each->wait();
    if (PjrtError *error = each->error())
      return error;
  }
  knapper_error *failed = runCall();
  return failed ? fail(failed) : nullptr;
}

PjrtError *PendingCall::endLater(const std::shared_ptr<PendingCall> &self) {
  DeviceStream &stream = *call->device.stream;
  auto mark = std::make_shared<Mark>(nullptr, knapper().mark_release);
  if (PjrtError *error = markEnd(stream, *mark))
    return error;
  stream.ends.add([self, mark] { self->end(waitFor(*mark)); });
  return nullptr;
}

void PendingCall::run(const std::shared_ptr<PendingCall> &self) noexcept {
  PjrtError *error = nullptr;
  try {
    error = begin();
    if (!error && call->device.stream) {
      error = endLater(self);
      if (!error)
        return;
    }
  } catch (const std::bad_alloc &) {
    error = outOfMemory();
  } catch (const std::exception &e) {
    error = unexpected(e.what());
  }
  // What the stream has of the run may use the memory that is let go.
  if (call->device.stream)
    if (PjrtError *failed = finish(*call->device.stream))
      release(failed);
  end(error);
}

void PendingCall::end(PjrtError *error) noexcept {
  const std::string none;
  if (group)
    group->leave(number, error ? error->message : none);
  // Who is told finds the memory free, and may give away the results. Memory of
  // somebody else's goes after that: its end may want a lock that who waits
  // has.
  std::vector<std::shared_ptr<ArrayBlock>> foreign;
  try {
    call->takeForeign(foreign);
  } catch (const std::bad_alloc &) { // they go with the call
  }
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

/// Reads the arguments of device number `at` and makes the results' memory.
PjrtError *prepare(LoadedExecutable_Execute_Args &a, size_t at,
                   ProgramCall &call) {
  const CompiledProgram &program = *call.program;
  PjrtDevice *device = a.executable->devices[at];
  size_t count = program.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const Buffer *buffer = a.argument_lists[at][i];
    const ArrayInfo &wanted = program.inputs[i];
    if (!buffer)
      return fail(Code::invalidArgument, "an argument is null");
    if (buffer->device != device)
      return fail(Code::invalidArgument,
                  "argument " + std::to_string(i) + " is on " +
                      buffer->device->description.name +
                      ", the program runs on " + device->description.name +
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
        a.argument_lists[at][from]->isOnly(call.inputs[from]))
      call.outputs[i] = call.inputs[from];
    else
      call.outputs[i] = std::make_shared<ArrayBlock>(device->arrays,
                                                     program.outputs[i].bytes);
  }
  return nullptr;
}

/// Takes what is given away. Also where the run fails: what it held may be
/// overwritten by then.
void take(LoadedExecutable_Execute_Args &a, size_t at) {
  const CompiledProgram &program = *a.executable->program;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (isGiven(program, a.options, i))
      a.argument_lists[at][i]->remove();
}

/// The runs that write arguments of device number `at`, and have not ended;
/// the error of one that has.
PjrtError *pendingBefore(LoadedExecutable_Execute_Args &a, size_t at,
                         std::vector<std::shared_ptr<Completion>> &before) {
  for (size_t i = 0; i < a.executable->program->inputs.size(); ++i)
    if (const Buffer *buffer = a.argument_lists[at][i];
        buffer && buffer->ready) {
      if (!buffer->isReady())
        before.push_back(buffer->ready);
      else if (PjrtError *error = buffer->ready->error())
        return error;
    }
  return nullptr;
}

/// Hands out the results of device number `at`.
class Results {
public:
  Results(const LoadedExecutable &executable, size_t at, ProgramCall &call,
          const std::shared_ptr<Completion> &done)
      : count(executable.program->outputs.size()), buffers(count),
        event(makeEvent(done), destroyEvent) {
    for (size_t i = 0; i < count; ++i) {
      const ArrayInfo &info = executable.program->outputs[i];
      buffers[i] =
          std::make_unique<Buffer>(executable.devices[at], info.type, info.dims,
                                   info.bytes, call.outputs[i], done);
    }
  }
  void give(LoadedExecutable_Execute_Args &a, size_t at) noexcept {
    for (size_t i = 0; i < count; ++i)
      a.output_lists[at][i] = buffers[i].release();
    if (a.device_complete_events)
      a.device_complete_events[at] = event.release();
  }

private:
  size_t count;
  Few<std::unique_ptr<Buffer>> buffers;
  std::unique_ptr<PluginEvent, void (*)(PluginEvent *)> event;
};

/// Runs the program on all its devices at once, each on its queue's thread.
PjrtError *executeTogether(LoadedExecutable_Execute_Args &a) {
  LoadedExecutable &executable = *a.executable;
  size_t devices = executable.devices.size();
  auto group = std::make_shared<DeviceGroup>(devices);
  std::vector<std::shared_ptr<PendingCall>> calls(devices);
  std::vector<std::unique_ptr<Results>> results;
  for (size_t at = 0; at < devices; ++at) {
    PjrtDevice *device = executable.devices[at];
    calls[at] = std::make_shared<PendingCall>(
        PendingCall{std::make_unique<ProgramCall>(executable.program, *device),
                    {},
                    std::make_shared<Completion>(),
                    group,
                    static_cast<int64_t>(at)});
    if (PjrtError *error = pendingBefore(a, at, calls[at]->before))
      return error;
    if (PjrtError *error = prepare(a, at, *calls[at]->call))
      return error;
    results.push_back(std::make_unique<Results>(
        executable, at, *calls[at]->call, calls[at]->done));
  }
  for (size_t at = 0; at < devices; ++at) {
    take(a, at);
    calls[at]->call->claim(1);
  }
  {
    std::lock_guard lock(executable.devices[0]->client->together);
    for (size_t at = 0; at < devices; ++at) {
      try {
        executable.devices[at]->runs.add(
            [call = calls[at]] { call->run(call); });
      } catch (const std::exception &e) {
        // The others must not wait for it.
        calls[at]->call->claim(-1);
        calls[at]->call.reset();
        calls[at]->done->complete(Code::internal, e.what());
        group->leave(static_cast<int64_t>(at), e.what());
      }
    }
  }
  if (executable.program->callsBack) // functions of the process
    for (const std::shared_ptr<PendingCall> &call : calls)
      call->done->wait();
  for (size_t at = 0; at < devices; ++at)
    results[at]->give(a, at);
  return nullptr;
}

/// A run of a GPU's: the call returns when the stream has it, or when it waits
/// for its place there. It waits where to queue it takes long (its launches are
/// many, or some steps are the host's), and behind those that wait already.
PjrtError *executeInStream(LoadedExecutable_Execute_Args &a,
                           std::vector<std::shared_ptr<Completion>> before) {
  LoadedExecutable &executable = *a.executable;
  CompiledProgram &program = *executable.program;
  PjrtDevice *device = executable.devices[0];
  if (program.callsBack) // functions of the process
    for (const std::shared_ptr<Completion> &each : before) {
      each->wait();
      if (PjrtError *error = each->error())
        return error;
    }
  int64_t last = program.lastNanoseconds;
  bool isShort = last >= 0 && last < kShortNanoseconds;
  bool now = program.callsBack || (isShort && device->runs.isIdle());
  auto pending = std::make_shared<PendingCall>(
      PendingCall{std::make_unique<ProgramCall>(executable.program, *device),
                  std::move(before), std::make_shared<Completion>()});
  if (PjrtError *error = prepare(a, 0, *pending->call))
    return error;
  Results made(executable, 0, *pending->call, pending->done);
  take(a, 0);
  pending->call->claim(1);
  if (!now) {
    device->runs.add([pending] { pending->run(pending); });
  } else {
    pending->run(pending);
    if (pending->done->isReady())
      if (PjrtError *error = pending->done->error())
        return error;
  }
  made.give(a, 0);
  return nullptr;
}

PjrtError *execute(LoadedExecutable_Execute_Args &a) {
  LoadedExecutable &executable = *a.executable;
  CompiledProgram &program = *executable.program;
  if (executable.deleted)
    return fail(Code::failedPrecondition, "the executable was deleted");
  size_t count = program.inputs.size(), results = program.outputs.size();
  size_t devices = executable.devices.size();
  if (a.num_devices != devices)
    return fail(Code::invalidArgument,
                "the program runs on " + std::to_string(devices) +
                    " devices, and arguments are given for " +
                    std::to_string(a.num_devices));
  if (a.num_args != count || (count && !a.argument_lists) ||
      (results && !a.output_lists))
    return fail(Code::invalidArgument,
                "the program takes " + std::to_string(count) +
                    " arguments, and there are " + std::to_string(a.num_args));
  if (devices > 1)
    return executeTogether(a);

  std::vector<std::shared_ptr<Completion>> before;
  if (PjrtError *error = pendingBefore(a, 0, before))
    return error;
  if (!isHost(*executable.devices[0]))
    return executeInStream(a, std::move(before));
  int64_t last = program.lastNanoseconds;
  bool isShort = last >= 0 && last < kShortNanoseconds;
  bool now = program.callsBack || (isShort && before.empty());
  if (now) // of a function of the process
    for (const std::shared_ptr<Completion> &each : before) {
      each->wait();
      if (PjrtError *error = each->error())
        return error;
    }

  PjrtDevice *device = executable.devices[0];
  std::optional<ProgramCall> here;
  std::unique_ptr<ProgramCall> there;
  ProgramCall &call = now ? here.emplace(executable.program, *device)
                          : *(there = std::make_unique<ProgramCall>(
                                  executable.program, *device));
  if (PjrtError *error = prepare(a, 0, call))
    return error;
  take(a, 0);
  std::shared_ptr<Completion> done;
  if (!now)
    done = std::make_shared<Completion>();
  else if (knapper_error *error = call.run())
    return fail(error);
  Results made(executable, 0, call, done);
  if (!now) {
    call.claim(1);
    auto pending = std::make_shared<PendingCall>(
        PendingCall{std::move(there), std::move(before), done});
    device->runs.add([pending] { pending->run(pending); });
  }
  made.give(a, 0);
  return nullptr;
}

} // namespace

void setExecuteFunctions(PjrtApi &api) {
  api.LoadedExecutable_Execute = guarded<execute>;
}

} // namespace knapper::pjrt
