#include "runtime/graph/Execution.h"

#include "runtime/base/Checked.h"
#include "runtime/base/KernelAbi.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace knapper {
namespace {

std::string dimsText(const Program::Tensor &tensor) {
  std::string out = cat(name(tensor.dtype), "[");
  for (size_t i = 0; i < tensor.dimText.size(); ++i)
    out += cat(i ? ", " : "", tensor.dimText[i]);
  return out + "]";
}

/// The dtype as a number: C callers may have put any there.
unsigned dtypeNumber(const knapper_tensor &tensor) {
  unsigned number;
  static_assert(sizeof number == sizeof tensor.dtype);
  memcpy(&number, &tensor.dtype, sizeof number);
  return number;
}
bool hasDType(const knapper_tensor &tensor, DType type) {
  return dtypeNumber(tensor) == static_cast<unsigned>(type);
}

std::string dimsText(const knapper_tensor &tensor) {
  unsigned dtype = dtypeNumber(tensor);
  std::string out = cat(dtype < kNumDTypes ? name(static_cast<DType>(dtype))
                                           : "unknown dtype",
                        "[");
  for (int32_t i = 0; i < tensor.rank; ++i)
    out += cat(i ? ", " : "", tensor.shape[i]);
  return out + "]";
}

/// Bytes of a dense tensor; no value if that overflows or a dim is negative.
std::optional<int64_t> tensorBytes(DType dtype, const int64_t *shape,
                                   size_t rank) {
  int64_t bytes = static_cast<int64_t>(byteSize(dtype));
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    if (shape[i] < 0)
      return std::nullopt;
    if (shape[i] == 0) {
      empty = true;
      continue;
    }
    std::optional<int64_t> product = checkedMul(bytes, shape[i]);
    if (!product)
      return std::nullopt;
    bytes = *product;
  }
  return empty ? 0 : bytes;
}

} // namespace

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
  memset(state->statuses(), 0, launches * sizeof(int32_t));
  state->symbols.resize(program.symbols.size());
  state->bound.resize(program.symbols.size());
  state->values.resize(program.values.size());
  state->known.resize(program.values.size());
  state->base.resize(program.buffers.size());
  state->bytes.resize(program.buffers.size());
  state->choice.assign(launches, Program::kNone);
  state->commands.resize(launches);
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
  state->staged.resize(program.buffers.size());
  if (program.hasLate)
    state->lateBlocks.resize(program.buffers.size());
  return state;
}

Status Execution::run(std::span<const knapper_tensor> inputs,
                      std::span<const knapper_tensor> outputs) {
  result.clear();
  result.pool = module.outputPool;
  if (Status s = checkInputs(inputs); !s)
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
  // Only these lists mention the caller's memory and the outputs'.
  for (uint32_t i = 0; i < program.launches.size(); ++i)
    if (state.choice[i] != Program::kNone)
      if (Status s = pointArgs(i); !s) {
        if (!program.launches[i].optional)
          return s;
        state.choice[i] = Program::kNone;
        state.binding = nullptr; // for sizes of another branch
      }
  if (options.profile)
    options.profile->assign(program.launches.size(), {});
  if (options.events)
    options.events->clear();

  Status status = state.queue->begin();
  if (status && external)
    status = state.queue->waitForOthers();
  if (status && !host)
    status = uploadInputs(inputs);
  if (status)
    status = commands();
  // Who profiles looks at no results: those of a device stay there.
  if (status && !host && !options.profile)
    status = downloadOutputs();
  if (Status s = state.queue->finish(); !s && status)
    status = std::move(s);
  for (const Timed &t : timed)
    if (status)
      noteTime(t.launch,
               t.begin->nanosecondsSince(*timed.front().begin).value_or(0),
               t.end->nanosecondsSince(*t.begin).value_or(0));
  for (Block &block : state.lateBlocks)
    if (block.bytes() > 0)
      module.outputPool->give(std::move(block));
  if (Status s = checkStatuses(); !s)
    return status ? std::move(s) : std::move(status);
  if (!status)
    return status;
  for (uint32_t i = 0; i < program.outputs.size(); ++i)
    for (uint32_t d : program.outputs[i].dims)
      if (!state.known[d])
        return userError("the run never computed the output's shape",
                         cat("output '", program.outputs[i].name, "'"),
                         "compile the model again");
  return success();
}

/// Where the buffer of an input or output lies for kernels: in the caller's
/// memory, or in a buffer of the device that does not address it.
Status Execution::place(uint32_t buffer, void *memory) {
  constexpr uintptr_t kAlignment = 16; // that kernels count on
  bool direct = host;
  if (!host && memory && reinterpret_cast<uintptr_t>(memory) % kAlignment == 0)
    external |= direct = module.where->addresses(memory);
  if (direct) {
    state.base[buffer] = static_cast<std::byte *>(memory);
    return success();
  }
  std::unique_ptr<DeviceBuffer> &staged = state.staged[buffer];
  if (!staged || staged->bytes() < state.bytes[buffer]) {
    staged = nullptr;
    Expected<std::unique_ptr<DeviceBuffer>> fresh =
        module.where->allocate(state.bytes[buffer], MemoryKind::device);
    if (!fresh)
      return fresh.takeError();
    staged = std::move(*fresh);
  }
  state.base[buffer] = static_cast<std::byte *>(staged->address());
  return success();
}

Status Execution::uploadInputs(std::span<const knapper_tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    uint32_t b = program.inputBuffer[i];
    if (b == Program::kNone || state.bytes[b] == 0 ||
        state.base[b] == inputs[i].data)
      continue;
    if (Status s =
            state.queue->upload(state.base[b], inputs[i].data, state.bytes[b]);
        !s)
      return s;
  }
  return success();
}

Status Execution::downloadOutputs() {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const knapper_tensor &out = result.tensors[i];
    const std::byte *from = state.base[program.outputBuffer[i]];
    if (!out.data || out.bytes == 0 || from == out.data)
      continue;
    if (Status s = state.queue->download(out.data, from, out.bytes); !s)
      return s;
  }
  return success();
}

Status Execution::checkInputs(std::span<const knapper_tensor> inputs) {
  if (inputs.size() != program.inputs.size())
    return userError(cat("the model has ", program.inputs.size(), " inputs, ",
                         inputs.size(), " were given"),
                     "", "give one tensor per input of the signature");
  std::fill(state.bound.begin(), state.bound.end(), 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Program::Tensor &want = program.inputs[i];
    const knapper_tensor &got = inputs[i];
    auto refuse = [&](std::string hint) {
      return userError(
          cat("expected ", dimsText(want), ", got ", dimsText(got)),
          cat("input '", want.name, "'"), std::move(hint));
    };
    if (got.rank < 0 || (got.rank > 0 && !got.shape))
      return userError(cat("expected ", dimsText(want),
                           ", got a tensor of rank ", got.rank,
                           " without a shape"),
                       cat("input '", want.name, "'"), "set rank and shape");
    if (!hasDType(got, want.dtype))
      return refuse(cat("convert the input to ", name(want.dtype)));
    if (static_cast<size_t>(got.rank) != want.dims.size())
      return refuse(cat("give a tensor of rank ", want.dims.size()));
    std::optional<int64_t> bytes = tensorBytes(want.dtype, got.shape, got.rank);
    if (!bytes)
      return refuse("give dims that are not negative and fit in memory");
    if (got.bytes < static_cast<uint64_t>(*bytes) || (!got.data && *bytes > 0))
      return userError(cat(dimsText(got), " takes ", *bytes, " bytes, ",
                           got.data ? got.bytes : 0, " were given"),
                       cat("input '", want.name, "'"),
                       "give dense, row-major memory of this size");
    for (int32_t d = 0; d < got.rank; ++d) {
      const Program::Value &v = program.values[want.dims[d]];
      if (v.op == fb::ScalarOp::constant && v.imm != got.shape[d])
        return refuse(cat("dim ", d, " must be ", v.imm));
      if (v.op != fb::ScalarOp::symbol)
        continue;
      const Program::Symbol &symbol = program.symbols[v.imm];
      if (!state.bound[v.imm]) {
        if (Status s = checkSymbol(symbol, got.shape[d]); !s) {
          Error error = s.takeError();
          error.where = cat("input '", want.name, "', dim ", d);
          return error;
        }
        state.bound[v.imm] = 1;
        state.symbols[v.imm] = got.shape[d];
      } else if (state.symbols[v.imm] != got.shape[d]) {
        return refuse(cat("dim ", d, " must be ", state.symbols[v.imm],
                          ": that is '", symbol.name, "' in an earlier dim"));
      }
    }
    if (uint32_t b = program.inputBuffer[i]; b != Program::kNone)
      state.bytes[b] = *bytes;
  }
  return success();
}

/// Dims that are expressions: their symbols are known now.
Status Execution::checkDims(std::span<const knapper_tensor> inputs,
                            const Binding &binding) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Program::Tensor &t = program.inputs[i];
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (int64_t want = binding.values[t.dims[d]];
          want != inputs[i].shape[d] || !binding.known[t.dims[d]])
        return userError(
            cat("expected ", dimsText(t), ", got ", dimsText(inputs[i])),
            cat("input '", t.name, "'"), cat("dim ", d, " must be ", want));
  }
  return success();
}

/// Points everything at the sizes of `binding`.
Status Execution::resolve(std::shared_ptr<const Binding> binding) {
  // Half resolved is not resolved.
  state.binding = nullptr;
  if (!state.arena || state.arena->bytes() < binding->arenaBytes) {
    state.arena = nullptr; // the old one first: never both at once
    Expected<std::unique_ptr<DeviceBuffer>> arena =
        module.where->allocate(binding->arenaBytes, MemoryKind::device);
    if (!arena)
      return arena.takeError();
    state.arena = std::move(*arena);
  }
  if (state.scratch < binding->scratch) {
    if (Status s = state.queue->reserve({binding->scratch}); !s)
      return s;
    state.scratch = binding->scratch;
  }
  state.values = binding->values;
  state.known = binding->known;
  auto *arena = static_cast<std::byte *>(state.arena->address());
  std::byte *constants = module.constants;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Program::Buffer &b = program.buffers[i];
    if (b.kind == fb::BufferKind::constant) {
      state.base[i] = constants + b.constantOffset;
      state.bytes[i] = b.constantBytes;
    } else if (b.kind == fb::BufferKind::temp) {
      state.base[i] = b.late ? nullptr : arena + binding->offsets[i];
      state.bytes[i] = b.late ? 0 : std::max<int64_t>(state.values[b.bytes], 0);
    } else if (b.kind == fb::BufferKind::output) {
      state.base[i] = nullptr; // late ones have no memory yet
      state.bytes[i] = 0;
    }
  }
  state.choice = binding->choice;
  for (uint32_t i = 0; i < program.launches.size(); ++i)
    if (state.choice[i] != Program::kNone)
      if (Status s = resolveLaunch(i); !s)
        return s;
  state.binding = std::move(binding);
  return success();
}

/// Fills the command of a launch whose choice is known, but for its arguments.
Status Execution::resolveLaunch(uint32_t index) {
  const Program::Launch &launch = program.launches[index];
  const Program::Choice &c = launch.choices[state.choice[index]];
  int64_t *symbols = state.kernelSymbols.data() + state.firstSymbol[index];
  for (size_t i = 0; i < c.symbols.size(); ++i)
    symbols[i] = state.values[c.symbols[i]];
  LaunchCommand &command = state.commands[index];
  command.kernel = module.kernels[c.kernel];
  command.buffers = state.args.data() + state.firstArg[index];
  command.numBuffers = static_cast<uint32_t>(launch.args.size());
  command.symbols = symbols;
  command.numSymbols = static_cast<uint32_t>(c.symbols.size());
  TensorMap *maps = state.kernelMaps.data() + state.firstMap[index];
  for (size_t i = 0; i < c.maps.size(); ++i) {
    const Program::Map &from = c.maps[i];
    maps[i] = {from.arg, from.dtype, from.rank, state.values[from.offset]};
    maps[i].swizzle = from.swizzle;
    for (uint32_t d = 0; d < from.rank; ++d) {
      maps[i].sizes[d] = state.values[from.sizes[d]];
      maps[i].box[d] = from.box[d];
      if (d + 1 < from.rank)
        maps[i].strides[d] = state.values[from.strides[d]];
    }
  }
  command.maps = maps;
  command.numMaps = static_cast<uint32_t>(c.maps.size());
  command.grid = state.values[c.grid];
  command.grain = std::max<int64_t>(state.values[c.grain], 1);
  command.scratch = state.values[c.scratch];
  command.status = state.statuses() + index;
  return success();
}

Status Execution::pointArgs(uint32_t index) {
  const Program::Launch &launch = program.launches[index];
  void **args = state.args.data() + state.firstArg[index];
  for (size_t i = 0; i < launch.args.size(); ++i) {
    const Program::Ref &ref = launch.args[i];
    int64_t offset = state.values[ref.offset];
    if (offset < 0 || uint64_t(offset) > state.bytes[ref.buffer])
      return userError(cat("argument ", i, " lies at offset ", offset,
                           " of a buffer of ", state.bytes[ref.buffer],
                           " bytes"),
                       launch.origin, "compile the model again");
    args[i] = state.base[ref.buffer] + offset;
  }
  return success();
}

Status Execution::prepareOutputs(std::span<const knapper_tensor> outputs) {
  size_t n = program.outputs.size();
  if (!outputs.empty() && outputs.size() != n)
    return userError(
        cat("the model has ", n, " outputs, ", outputs.size(), " were given"),
        "", "give none, or one tensor per output");
  given = outputs;
  size_t dims = 0;
  for (const Program::Tensor &t : program.outputs)
    dims += t.dims.size();
  result.shapes.resize(dims);
  result.tensors.resize(n);
  result.owned.resize(n);
  dims = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const Program::Tensor &t = program.outputs[i];
    result.tensors[i] = {nullptr, 0, static_cast<knapper_dtype>(t.dtype),
                         static_cast<int32_t>(t.dims.size()),
                         result.shapes.data() + dims};
    dims += t.dims.size();
    if (!outputs.empty() && outputs[i].data && !hasDType(outputs[i], t.dtype))
      return userError(cat("expected memory for ", dimsText(t), ", got ",
                           dimsText(outputs[i])),
                       cat("output '", t.name, "'"),
                       cat("give memory of dtype ", name(t.dtype)));
    if (!t.late)
      if (Status s = provideOutput(i); !s)
        return s;
  }
  return success();
}

/// Kernels take it that what they write is nothing else that the caller gave.
Status Execution::checkOverlaps(std::span<const knapper_tensor> inputs) {
  if (std::none_of(given.begin(), given.end(),
                   [](const knapper_tensor &t) { return t.data; }))
    return success();
  struct Range {
    uintptr_t begin, end;
    const char *name;
    bool output;
  };
  std::vector<Range> ranges;
  ranges.reserve(inputs.size() + given.size());
  auto add = [&](const void *data, size_t bytes, const char *name,
                 bool output) {
    auto begin = reinterpret_cast<uintptr_t>(data);
    if (data && bytes > 0)
      ranges.push_back({begin, begin + bytes, name, output});
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    add(inputs[i].data,
        *tensorBytes(program.inputs[i].dtype, inputs[i].shape, inputs[i].rank),
        program.inputs[i].name, false);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].data) {
      const Program::Tensor &t = program.outputs[i];
      add(given[i].data, t.late ? given[i].bytes : result.tensors[i].bytes,
          t.name, true);
    }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  const Range *last = nullptr, *lastOutput = nullptr; // those that end last
  for (const Range &range : ranges) {
    const Range *other = range.output ? last : lastOutput;
    if (other && range.begin < other->end)
      return userError(
          cat("its memory is also ", other->output ? "output '" : "input '",
              other->name, "'"),
          cat(range.output ? "output '" : "input '", range.name, "'"),
          "give outputs memory of their own");
    if (!last || range.end > last->end)
      last = &range;
    if (range.output && (!lastOutput || range.end > lastOutput->end))
      lastOutput = &range;
  }
  return success();
}

/// Shape and memory of an output whose dims are known.
Status Execution::provideOutput(uint32_t index) {
  const Program::Tensor &t = program.outputs[index];
  knapper_tensor &out = result.tensors[index];
  auto *shape = const_cast<int64_t *>(out.shape);
  for (size_t d = 0; d < t.dims.size(); ++d) {
    if (!state.known[t.dims[d]])
      return valueError(program, t.dims[d]);
    shape[d] = state.values[t.dims[d]];
  }
  std::optional<int64_t> bytes = tensorBytes(t.dtype, shape, t.dims.size());
  if (!bytes)
    return userError(cat("the output would be ", dimsText(out)),
                     cat("output '", t.name, "'"), "give smaller inputs");
  if (!given.empty() && given[index].data) {
    if (given[index].bytes < static_cast<uint64_t>(*bytes))
      return userError(cat(dimsText(out), " takes ", *bytes, " bytes, ",
                           given[index].bytes, " were given"),
                       cat("output '", t.name, "'"),
                       "give more memory, or none: the module provides it");
    out.data = given[index].data;
  } else {
    Block &block = result.owned[index];
    if (block.bytes() < static_cast<uint64_t>(*bytes)) {
      module.outputPool->give(std::move(block));
      Expected<Block> fresh = module.outputPool->take(*bytes);
      if (!fresh)
        return fresh.takeError();
      block = std::move(*fresh);
    }
    out.data = block.data();
  }
  out.bytes = *bytes;
  uint32_t buffer = program.outputBuffer[index];
  state.bytes[buffer] = *bytes;
  return place(buffer, out.data);
}

/// Whether a run is launches and copies alone, between addresses that are known
/// before it.
bool Execution::recordable() const {
  if (host || options.profile || options.cancel || program.hasLate ||
      !module.where->canRecord())
    return false;
  for (const auto &region : program.regions)
    for (const Program::Instruction &in : region)
      if (in.op != fb::Instruction::Launch && in.op != fb::Instruction::Copy &&
          in.op != fb::Instruction::Call && in.op != fb::Instruction::NONE)
        return false;
  return true;
}

Status Execution::commands() {
  if (!recordable())
    return region(0);
  if (state.recordedBinding != state.binding ||
      state.recordedBase != state.base) {
    state.recording = nullptr;
    state.recordedBinding = state.binding;
    state.recordedBase = state.base;
    return region(0);
  }
  if (!state.recording) {
    if (Status s = state.queue->beginRecording(); !s)
      return s;
    Status status = region(0);
    Expected<std::unique_ptr<Recording>> made = state.queue->endRecording();
    if (!status)
      return status;
    if (!made)
      return made.takeError();
    state.recording = std::move(*made);
    ++state.recordings;
  }
  return state.queue->replay(*state.recording);
}

Status Execution::region(uint32_t index) {
  for (const Program::Instruction &in : program.regions[index]) {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return userError("the run was cancelled");
    if (in.op != fb::Instruction::Launch)
      lastEvent = nullptr;
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
        if (options.cancel && options.cancel->load(std::memory_order_relaxed))
          return userError("the run was cancelled");
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
  const Program::Launch &l = program.launches[index];
  LaunchTime &time = (*options.profile)[index];
  time.nanoseconds += nanoseconds;
  ++time.executions;
  time.choice = state.choice[index];
  int64_t flops = state.known[l.flops] ? state.values[l.flops] : 0;
  int64_t bytes = state.known[l.bytes] ? state.values[l.bytes] : 0;
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

Status Execution::setSymbol(uint32_t symbol, int64_t value) {
  if (Status s = checkSymbol(program.symbols[symbol], value); !s) {
    Error error = s.takeError();
    error.where = "a size computed by the model";
    return error;
  }
  state.symbols[symbol] = value;
  state.bound[symbol] = 1;
  return success();
}

Status Execution::bindSymbol(const Program::Instruction &in) {
  Expected<std::byte *> from = address(in.source, sizeof(int64_t));
  if (!from)
    return from.takeError();
  int64_t value = 0;
  if (Status s = state.queue->download(&value, *from, sizeof value); !s)
    return s;
  if (Status s = setSymbol(in.index, value); !s)
    return s;
  return bindLate(program.dependents[in.index]);
}

Status Execution::setSymbols(const Program::Assignment &assignment) {
  for (auto [symbol, value] : assignment.symbols)
    if (!state.known[value])
      return userError("a size is used before it is bound", program.name,
                       "compile the model again");
  // Values change in bindLate only: all are read before any symbol is set.
  for (auto [symbol, value] : assignment.symbols)
    if (Status s = setSymbol(symbol, state.values[value]); !s)
      return s;
  return bindLate(assignment.dependents);
}

Status Execution::repeat(const Program::Instruction &in) {
  if (!state.known[in.bytes])
    return userError("a number of turns is used before it is bound",
                     program.name, "compile the model again");
  int64_t trips = state.values[in.bytes];
  for (int64_t turn = 0; turn < trips; ++turn) {
    if (options.cancel && options.cancel->load(std::memory_order_relaxed))
      return userError("the run was cancelled");
    if (in.source.buffer != Program::kNone) {
      Expected<bool> taken = condition(in);
      if (!taken)
        return taken.takeError();
      if (!*taken)
        break;
    }
    if (Status s = setSymbol(in.other, turn); !s)
      return s;
    if (Status s = bindLate(program.dependents[in.other]); !s)
      return s;
    if (Status s = region(in.index); !s)
      return s;
  }
  return success();
}

/// Evaluates anew what symbols set just now decide: values, checks, memory,
/// outputs, choices.
Status Execution::bindLate(const Program::Dependents &changed) {
  for (uint32_t i : changed.values) {
    const Program::Value &v = program.values[i];
    state.known[i] = v.op == fb::ScalarOp::symbol
                         ? state.bound[v.imm]
                         : state.known[v.a] && state.known[v.b];
    if (!state.known[i])
      continue;
    std::optional<int64_t> value = evaluate(v, state.symbols, state.values);
    if (!value)
      return valueError(program, i);
    state.values[i] = *value;
  }
  for (uint32_t i : changed.checks) {
    const Program::Check &c = program.checks[i];
    if (state.known[c.value] && state.values[c.value] == 0)
      return userError(c.message, c.where, c.hint);
  }
  for (uint32_t i : changed.buffers) {
    const Program::Buffer &b = program.buffers[i];
    if (!state.known[b.bytes])
      continue;
    int64_t bytes = state.values[b.bytes];
    if (b.optional)
      bytes = std::max<int64_t>(bytes, 0);
    if (bytes < 0)
      return userError(cat("a temporary has ", bytes, " bytes"), b.name);
    if (Status s = placeLate(i, bytes); !s)
      return s;
  }
  auto known = [&](uint32_t value) { return state.known[value] != 0; };
  for (uint32_t i : changed.outputs) {
    const Program::Tensor &t = program.outputs[i];
    if (std::all_of(t.dims.begin(), t.dims.end(), known))
      if (Status s = provideOutput(i); !s)
        return s;
  }
  for (uint32_t i : changed.launches) {
    const Program::Launch &l = program.launches[i];
    state.choice[i] = Program::kNone;
    auto ready = [&](const Program::Ref &ref) {
      const Program::Buffer &b = program.buffers[ref.buffer];
      if (!known(ref.offset) || (b.late && !known(b.bytes)))
        return false;
      if (b.kind != fb::BufferKind::output)
        return true;
      const Program::Tensor &t = program.outputs[b.index];
      return std::all_of(t.dims.begin(), t.dims.end(), known);
    };
    bool complete = std::all_of(l.args.begin(), l.args.end(), ready);
    for (const Program::Choice &c : l.choices) {
      complete &= known(c.guard) && known(c.grid) && known(c.grain) &&
                  known(c.scratch) &&
                  std::all_of(c.symbols.begin(), c.symbols.end(), known);
    }
    if (!complete)
      continue;
    Expected<uint32_t> choice = choose(program, l, state.values, state.known);
    if (!choice && l.optional)
      continue;
    if (!choice)
      return choice.takeError();
    uint64_t scratch = state.values[l.choices[*choice].scratch];
    if (state.scratch < scratch) {
      // Workers get their scratch when a batch begins.
      if (Status s = state.queue->finish(); !s)
        return s;
      if (Status s = state.queue->reserve({scratch}); !s)
        return s;
      state.scratch = scratch;
      if (Status s = state.queue->begin(); !s)
        return s;
    }
    state.choice[i] = *choice;
    if (Status s = resolveLaunch(i); !s)
      return s;
    if (Status s = pointArgs(i); !s) {
      if (!l.optional)
        return s;
      state.choice[i] = Program::kNone;
    }
  }
  return success();
}

/// Memory for a temporary whose size is known only now. Bound again inside a
/// loop, it keeps what was in it.
Status Execution::placeLate(uint32_t buffer, uint64_t bytes) {
  std::byte *old = state.base[buffer];
  uint64_t oldBytes = std::min(state.bytes[buffer], bytes);
  state.bytes[buffer] = bytes;
  if (!host) {
    std::unique_ptr<DeviceBuffer> before;
    if (state.staged[buffer] && state.staged[buffer]->bytes() < bytes)
      before = std::move(state.staged[buffer]); // until it has been copied
    if (Status s = place(buffer, nullptr); !s)
      return s;
    if (!old || old == state.base[buffer] || oldBytes == 0)
      return success();
    if (Status s = state.queue->copy(state.base[buffer], old, oldBytes); !s)
      return s;
    Expected<std::unique_ptr<DeviceEvent>> copied = state.queue->record();
    return copied ? (*copied)->wait() : Status(copied.takeError());
  }
  Block &block = state.lateBlocks[buffer];
  if (block.bytes() < bytes) {
    // What grows in a loop grows by factors.
    uint64_t wanted = oldBytes > 0 ? std::max(bytes, 2 * block.bytes()) : bytes;
    Expected<Block> fresh = module.outputPool->take(wanted);
    if (!fresh)
      return fresh.takeError();
    if (oldBytes > 0)
      memcpy(fresh->data(), old, oldBytes);
    module.outputPool->give(std::move(block));
    block = std::move(*fresh);
  }
  state.base[buffer] = static_cast<std::byte *>(block.data());
  return success();
}

Status Execution::checkStatuses() {
  int32_t *statuses = state.statuses();
  for (size_t i = 0; i < program.launches.size(); ++i) {
    if (statuses[i] == kernelOk)
      continue;
    int32_t code = statuses[i];
    memset(statuses, 0, program.launches.size() * sizeof(int32_t));
    const char *origin = program.launches[i].origin;
    if (code == kernelIndexOutOfRange)
      return userError("an index is out of range", origin,
                       "check the values of the model's index inputs");
    if (code == kernelDivisionByZero)
      return userError("integer division by zero", origin,
                       "check the values of the model's inputs");
    return internalError(cat("a kernel reported status ", code), origin);
  }
  return success();
}

} // namespace knapper
