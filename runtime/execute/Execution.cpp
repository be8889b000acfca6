#include "runtime/execute/Execution.h"

#include "runtime/base/Checked.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace knapper {

Expected<std::unique_ptr<RunState>>
RunState::create(const Program &program, Device &device,
                 const QueueOptions &options) {
  auto state = std::make_unique<RunState>();
  Expected<std::unique_ptr<DeviceQueue>> queue = device.createQueue(options);
  if (!queue)
    return queue.takeError();
  state->queue = std::move(*queue);
  size_t launches = program.launches.size();
  Expected<std::unique_ptr<DeviceBuffer>> status = device.allocate(
      std::max<size_t>(launches, 1) * sizeof(int32_t), MemoryKind::host);
  if (!status)
    return status.takeError();
  state->statusMemory = std::move(*status);
  state->statuses = static_cast<int32_t *>(state->statusMemory->address());
  memset(state->statuses, 0, launches * sizeof(int32_t));
  state->symbols.resize(program.symbols.size());
  state->bound.resize(program.symbols.size());
  state->values.resize(program.values.size());
  state->known.resize(program.values.size());
  state->base.resize(program.buffers.size());
  state->bytes.resize(program.buffers.size());
  state->choice.assign(launches, Program::kNone);
  state->commands.resize(launches);
  state->wanted.reserve(launches);
  for (const Program::Launch &launch : program.launches) {
    state->firstArg.push_back(static_cast<uint32_t>(state->args.size()));
    state->args.resize(state->args.size() + launch.args.size());
    size_t most = 0, mostMaps = 0;
    for (const Program::Choice &c : launch.choices) {
      most = std::max(most, c.symbols.size());
      mostMaps = std::max(mostMaps, c.maps.size());
    }
    state->firstMap.push_back(static_cast<uint32_t>(state->kernelMaps.size()));
    state->kernelMaps.resize(state->kernelMaps.size() + mostMaps);
    state->firstSymbol.push_back(
        static_cast<uint32_t>(state->kernelSymbols.size()));
    state->kernelSymbols.resize(state->kernelSymbols.size() + most);
  }
  state->pointedBase.resize(program.buffers.size());
  state->staged.resize(program.buffers.size());
  if (program.hasLate)
    state->lateBlocks.resize(program.buffers.size());
  for (const Program::External &external : program.externals) {
    ExternalState &call = state->externals.emplace_back();
    size_t dims = 0;
    for (const auto *list : {&external.inputs, &external.outputs})
      for (const Program::ExternalTensor &tensor : *list)
        dims += tensor.dims.size();
    call.dims.resize(dims);
    call.inputs.resize(external.inputs.size());
    call.outputs.resize(external.outputs.size());
    call.shapes.resize(external.outputs.size());
    if (!device.addressesHost())
      call.copies.resize(external.inputs.size() + external.outputs.size());
  }
  return state;
}

Status Execution::run(std::span<const knapper_tensor> inputs,
                      std::span<const knapper_tensor> outputs) {
  result.clear();
  state.text.clear();
  if (options.stream && !module.where->hasStreams())
    return userError(cat("a module on the device '", module.where->kind(),
                         "' runs in no stream"),
                     "stream", "leave it out, or load for a GPU");
  if (!options.profile && !options.checkOnly &&
      state.lastCall.repeats(inputs, outputs, result.tensors, result.shapes))
    return runAgain();
  state.lastCall.forget();
  result.pool = module.outputPool;
  // Of runs that nobody waited for; those in streams go on behind them.
  if (Status s = options.stream ? checkStatuses() : settle(); !s)
    return s;
  if (Status s = checkInputs(inputs); !s)
    return s;
  if (Status s = checkTexts(inputs); !s)
    return s;
  bool same = state.binding != nullptr;
  for (size_t i = 0; same && i < program.symbols.size(); ++i)
    same = program.symbols[i].late ||
           state.binding->symbols[i] == state.symbols[i];
  std::shared_ptr<const Binding> binding = state.binding;
  if (!same) {
    Expected<std::shared_ptr<const Binding>> found =
        module.binding(state.symbols);
    if (!found)
      return found.takeError();
    binding = std::move(*found);
  }
  if (Status s = checkDims(inputs, *binding); !s)
    return s;
  if (!same || program.hasLate)
    if (Status s = resolve(std::move(binding)); !s)
      return s;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (uint32_t b = program.inputBuffer[i]; b != Program::kNone) {
      if (Status s = place(b, inputs[i].data); !s)
        return s;
    }
  if (Status s = prepareOutputs(outputs); !s)
    return s;
  if (Status s = checkOverlaps(inputs); !s)
    return s;
  if (options.checkOnly)
    return success();
  if (Status s = pointAllArgs(); !s)
    return s;
  if (options.profile)
    options.profile->assign(program.launches.size() + program.externals.size(),
                            {});
  if (options.events)
    options.events->clear();

  Status status = state.queue->begin();
  if (status && options.stream)
    status = state.queue->follow(*options.stream);
  else if (status && external)
    status = state.queue->waitForOthers();
  if (status && state.queue->isCaptured() && !capturable())
    status = userError("the model has loops, sizes from data or operators of "
                       "the host: its run waits for the device, which a "
                       "capture cannot",
                       program.name, "capture what is around it");
  if (status && !host)
    status = uploadInputs(inputs);
  if (status)
    status = commands();
  // Who profiles looks at no results: those of a device stay there.
  if (status && !host && !options.profile)
    status = downloadOutputs();
  if (status && options.stream) {
    status = state.queue->lead(*options.stream);
    state.pending |= bool(status);
  }
  if (!status || !options.stream) {
    if (Status s = state.queue->finish(); !s && status)
      status = std::move(s);
    state.pending = false;
  }
  for (const Timed &t : timed)
    if (status)
      noteTime(t.launch,
               t.begin->nanosecondsSince(*timed.front().begin).value_or(0),
               t.end->nanosecondsSince(*t.begin).value_or(0));
  for (Block &block : state.lateBlocks)
    if (block.bytes() > 0)
      module.outputPool->give(std::move(block));
  if (!state.pending)
    if (Status s = checkStatuses(); !s)
      return status ? std::move(s) : std::move(status);
  if (!status)
    return status;
  if (Status s = keepTexts(); !s)
    return s;
  for (uint32_t i = 0; i < program.outputs.size(); ++i)
    for (uint32_t d : program.outputs[i].dims)
      if (!state.known[d])
        return userError("the run never computed the output's shape",
                         cat("output '", program.outputs[i].name, "'"),
                         "compile the model again");
  if (followsFromCall(outputs)) {
    state.lastCall.note(inputs, outputs, result.outputs());
    state.straight = isStraight();
  }
  return success();
}

/// Whether all that the run found out before its first command follows from the
/// call's tensors, and holds for the next run of the same ones.
bool Execution::followsFromCall(std::span<const knapper_tensor> outputs) const {
  return host && !program.hasLate && !program.hasText && state.pointed &&
         outputs.size() == program.outputs.size() &&
         std::all_of(outputs.begin(), outputs.end(),
                     [](const knapper_tensor &t) { return t.data; });
}

/// Whether a run does each launch once and nothing else.
bool Execution::isStraight() const {
  const std::vector<Program::Instruction> &main = program.regions[0];
  if (main.size() != program.launches.size())
    return false;
  for (uint32_t i = 0; i < main.size(); ++i)
    if (main[i].op != fb::Instruction::Launch || main[i].index != i ||
        state.choice[i] == Program::kNone)
      return false;
  return true;
}

Status Execution::settle() {
  if (!state.pending)
    return success();
  state.pending = false;
  if (Status s = state.queue->finish(); !s)
    return s;
  return checkStatuses();
}

/// A run between the tensors of the last one: nothing is left to check.
Status Execution::runAgain() {
  Status status = state.queue->begin();
  if (status && !state.straight)
    status = region(0);
  else if (status)
    for (const LaunchCommand &command : state.commands) {
      status = options.cancel.isWished() ? cancelledRun()
               : command.grid > 0        ? state.queue->launch(command)
                                         : success();
      if (!status)
        break;
    }
  if (Status s = state.queue->finish(); !s && status)
    status = std::move(s);
  if (Status s = checkStatuses(); !s)
    return status ? std::move(s) : std::move(status);
  return status;
}

/// Only these lists mention the caller's memory and the outputs'.
Status Execution::pointAllArgs() {
  if (!program.hasLate && state.binding && state.pointed == state.binding &&
      state.pointedBase == state.base)
    return success();
  state.pointed = nullptr;
  for (uint32_t i = 0; i < program.launches.size(); ++i)
    if (state.choice[i] != Program::kNone)
      if (Status s = pointArgs(i); !s) {
        if (!program.launches[i].optional)
          return s;
        state.choice[i] = Program::kNone;
        state.binding = nullptr; // for sizes of another branch
      }
  state.pointed = state.binding;
  state.pointedBase = state.base;
  return success();
}

bool Execution::consistsOf(std::initializer_list<fb::Instruction> kinds) const {
  for (const auto &region : program.regions)
    for (const Program::Instruction &in : region)
      if (std::find(kinds.begin(), kinds.end(), in.op) == kinds.end())
        return false;
  return true;
}

bool Execution::recordable() const {
  using I = fb::Instruction;
  return !host && !options.profile && !program.hasLate &&
         module.where->canRecord() && !state.queue->isCaptured() &&
         consistsOf({I::Launch, I::Copy, I::Call, I::NONE});
}

bool Execution::capturable() const {
  using I = fb::Instruction;
  bool onDevice =
      std::all_of(module.operators.begin(), module.operators.end(),
                  [](const auto &each) { return each->onDevice(); });
  return !program.hasLate && onDevice &&
         consistsOf({I::Launch, I::Copy, I::Call, I::NONE, I::Assert,
                     I::SetSymbols, I::External});
}

/// The entry of this run's sizes and addresses, the first of the list; null,
/// and an entry for the next time, where there was none.
Recorded *Execution::findRecorded() {
  constexpr size_t kKept = 16;
  auto found = std::find_if(
      state.recorded.begin(), state.recorded.end(), [&](const Recorded &r) {
        return r.binding == state.binding && r.base == state.base;
      });
  bool known = found != state.recorded.end();
  if (!known && state.recorded.size() < kKept)
    found = state.recorded.emplace(found);
  else if (!known)
    --found;
  std::rotate(state.recorded.begin(), found, found + 1);
  Recorded &first = state.recorded.front();
  if (known)
    return &first;
  first.binding = state.binding;
  first.base = state.base;
  first.recording = nullptr;
  return nullptr;
}

Status Execution::commands() {
  // To start a recording costs what some launches do.
  constexpr size_t kWorthwhile = 4;
  if (!state.binding || program.launches.size() < kWorthwhile || !recordable())
    return region(0);
  Recorded *recorded = findRecorded();
  // Recordings that are not used again cost more than they save.
  constexpr uint64_t kTried = 8, kUses = 4;
  if (!recorded || (!recorded->recording && state.recordings >= kTried &&
                    state.replays < kUses * state.recordings))
    return region(0);
  if (!recorded->recording) {
    if (Status s = state.queue->beginRecording(); !s)
      return s;
    Status status = region(0);
    Expected<std::unique_ptr<Recording>> made = state.queue->endRecording();
    if (!status)
      return status;
    if (!made)
      return made.takeError();
    recorded->recording = std::move(*made);
    ++state.recordings;
  }
  ++state.replays;
  return state.queue->replay(*recorded->recording, options.cancel);
}

Status Execution::region(uint32_t index) {
  for (const Program::Instruction &in : program.regions[index]) {
    if (options.cancel.isWished())
      return cancelledRun();
    if (in.op != fb::Instruction::Launch)
      lastEvent = nullptr;
    if (unchecked)
      if (Status s = checkConstants(in); !s)
        return s;
    switch (in.op) {
    case fb::Instruction::Launch:
      if (Status s = launch(in.index); !s)
        return s;
      break;
    case fb::Instruction::Copy: {
      if (!state.known[in.bytes] || state.values[in.bytes] < 0)
        return userError("a copy has a size that is negative or not known yet",
                         program.name, "compile the model again");
      uint64_t size = state.values[in.bytes];
      Expected<std::byte *> source = address(in.source, size);
      if (!source)
        return source.takeError();
      Expected<std::byte *> target = address(in.target, size);
      if (!target)
        return target.takeError();
      if (*source < *target + size && *target < *source + size && size > 0) {
        if (*source == *target)
          break;
        return userError("a copy overlaps itself", program.name,
                         "compile the model again");
      }
      if (Status s = state.queue->copy(*target, *source, size); !s)
        return s;
      break;
    }
    case fb::Instruction::External:
      if (Status s = runExternal(in.index); !s)
        return s;
      break;
    case fb::Instruction::BindSymbol:
      if (Status s = bindSymbol(in); !s)
        return s;
      break;
    case fb::Instruction::If: {
      Expected<bool> taken = condition(in);
      if (!taken)
        return taken.takeError();
      if (Status s = region(*taken ? in.index : in.other); !s)
        return s;
      break;
    }
    case fb::Instruction::While:
      for (;;) {
        if (options.cancel.isWished())
          return cancelledRun();
        if (Status s = region(in.index); !s)
          return s;
        Expected<bool> taken = condition(in);
        if (!taken)
          return taken.takeError();
        if (!*taken)
          break;
        if (Status s = region(in.other); !s)
          return s;
      }
      break;
    case fb::Instruction::Call:
      if (Status s = region(in.index); !s)
        return s;
      break;
    case fb::Instruction::SetSymbols:
      if (Status s = setSymbols(program.assignments[in.index]); !s)
        return s;
      break;
    case fb::Instruction::Assert: {
      const Program::Check &c = program.assertions[in.index];
      if (!state.known[c.value])
        return valueError(program, c.value);
      if (state.values[c.value] == 0)
        return userError(c.message, c.where, c.hint);
      break;
    }
    case fb::Instruction::Repeat:
      if (Status s = repeat(in); !s)
        return s;
      break;
    case fb::Instruction::NONE:
      break;
    }
  }
  return success();
}

Status Execution::repeat(const Program::Instruction &in) {
  if (!state.known[in.bytes])
    return userError("a number of iterations is used before it is bound",
                     program.name, "compile the model again");
  int64_t trips = state.values[in.bytes];
  for (int64_t iteration = 0; iteration < trips; ++iteration) {
    if (options.cancel.isWished())
      return cancelledRun();
    if (in.source.buffer != Program::kNone) {
      Expected<bool> taken = condition(in);
      if (!taken)
        return taken.takeError();
      if (!*taken)
        break;
    }
    if (Status s = setSymbol(in.other, iteration); !s)
      return s;
    if (Status s = bindLate(program.dependents[in.other]); !s)
      return s;
    if (Status s = region(in.index); !s)
      return s;
  }
  return success();
}

Status Execution::launch(uint32_t index) {
  if (state.choice[index] == Program::kNone)
    return userError("a launch has sizes that are not possible together, or "
                     "not known yet",
                     program.launches[index].origin,
                     "give inputs of other sizes");
  const LaunchCommand &command = state.commands[index];
  if (!options.profile) {
    return command.grid > 0 ? state.queue->launch(command) : success();
  }
  if (module.where->timesEvents())
    return timedLaunch(index);
  auto start = std::chrono::steady_clock::now();
  if (command.grid > 0)
    if (Status s = state.queue->launch(command); !s)
      return s;
  Expected<std::unique_ptr<DeviceEvent>> end = state.queue->record();
  if (!end)
    return end.takeError();
  if (Status s = (*end)->wait(); !s)
    return s;
  auto nanoseconds = [](std::chrono::steady_clock::duration duration) {
    return std::chrono::nanoseconds(duration).count();
  };
  noteTime(index, nanoseconds(start.time_since_epoch()),
           nanoseconds(std::chrono::steady_clock::now() - start));
  return success();
}

/// Launches follow each other as in any run; times are read when all are done.
Status Execution::timedLaunch(uint32_t index) {
  auto event = [&]() -> Expected<std::shared_ptr<DeviceEvent>> {
    Expected<std::unique_ptr<DeviceEvent>> made = state.queue->record();
    if (!made)
      return made.takeError();
    return std::shared_ptr<DeviceEvent>(std::move(*made));
  };
  if (!lastEvent) {
    Expected<std::shared_ptr<DeviceEvent>> begin = event();
    if (!begin)
      return begin.takeError();
    lastEvent = std::move(*begin);
  }
  if (state.commands[index].grid > 0)
    if (Status s = state.queue->launch(state.commands[index]); !s)
      return s;
  Expected<std::shared_ptr<DeviceEvent>> end = event();
  if (!end)
    return end.takeError();
  timed.push_back({index, std::move(lastEvent), *end});
  lastEvent = std::move(*end);
  return success();
}

void Execution::noteTime(uint32_t index, uint64_t start, uint64_t nanoseconds) {
  LaunchTime &time = (*options.profile)[index];
  time.nanoseconds += nanoseconds;
  ++time.executions;
  int64_t flops = 0, bytes = 0; // not known of an external operator
  if (index < program.launches.size()) {
    const Program::Launch &l = program.launches[index];
    time.choice = state.choice[index];
    flops = state.known[l.flops] ? state.values[l.flops] : 0;
    bytes = state.known[l.bytes] ? state.values[l.bytes] : 0;
  }
  time.flops += flops;
  time.bytes += bytes;
  if (!options.events)
    return;
  if (options.events->empty())
    firstStart = start;
  options.events->push_back(
      {index, start - firstStart, nanoseconds, flops, bytes});
}

Expected<std::byte *> Execution::address(const Program::Ref &ref,
                                         uint64_t size) {
  int64_t offset = state.values[ref.offset];
  if (!state.known[ref.offset] || offset < 0 ||
      !inside(offset, size, state.bytes[ref.buffer]))
    return userError(cat("bytes ", offset, " to ", offset, " + ", size,
                         " lie outside a buffer of ", state.bytes[ref.buffer],
                         " ('", program.buffers[ref.buffer].name, "')"),
                     program.name, "compile the model again");
  return state.base[ref.buffer] + offset;
}

Expected<bool> Execution::condition(const Program::Instruction &in) {
  Expected<std::byte *> from = address(in.source, 1);
  if (!from)
    return from.takeError();
  uint8_t flag = 0;
  if (Status s = state.queue->download(&flag, *from, 1); !s)
    return s.takeError();
  return flag != 0;
}

Status takeStatuses(const Program &program, RunState &state) {
  int32_t *statuses = state.statuses;
  for (size_t i = 0; i < state.commands.size(); ++i) {
    if (statuses[i] == kernelOk)
      continue;
    int32_t code = statuses[i];
    memset(statuses, 0, program.launches.size() * sizeof(int32_t));
    const char *origin = program.launches[i].origin;
    if (code == kernelIndexOutOfRange) {
      std::string read;
      for (const Program::Ref &arg : program.launches[i].args) {
        if (arg.buffer == Program::kNone)
          continue;
        const Program::Buffer &buffer = program.buffers[arg.buffer];
        if (buffer.kind != fb::BufferKind::input)
          continue;
        const Program::Tensor &input = program.inputs[buffer.index];
        if (!isFloat(input.dtype))
          read += cat(read.empty() ? "; the kernel reads input '" : ", '",
                      input.name, "'");
      }
      return userError(cat("an index is out of range", read), origin,
                       "check the values of the model's index inputs");
    }
    if (code == kernelDivisionByZero)
      return userError("integer division by zero", origin,
                       "check the values of the model's inputs");
    uint32_t choice = state.choice[i];
    std::string_view label = choice == Program::kNone
                                 ? std::string_view()
                                 : program.launches[i].choices[choice].label;
    if (code == kernelLibraryFailed && label.starts_with("vendor{"))
      return deviceError(cat("a library's call failed (", label, ")"), origin,
                         "compile without --vendor, and report it");
    std::string what = cat("a kernel reported status ", code,
                           ", which there is not (", label, ")");
    if (label.starts_with("user{"))
      return userError(what, origin, "mend the kernel of --kernels");
    return internalError(what, origin);
  }
  return success();
}

} // namespace knapper
