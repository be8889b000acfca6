// What the sizes of a run decide: memory of temporaries, which variant a launch
// takes and its arguments. Most sizes are known before the run, some are bound
// in the middle of it.
#include "runtime/base/Text.h"
#include "runtime/execute/Execution.h"
#include "runtime/execute/VendorCalls.h"

#include <algorithm>
#include <cstring>

namespace knapper {

/// Points everything at the sizes of `binding`.
Status Execution::resolve(std::shared_ptr<const Binding> binding) {
  // Half resolved is not resolved.
  state.binding = nullptr;
  if (Status s = settle(); !s)
    return s;
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
      // Constants may begin before what a device holds of them.
      state.base[i] = reinterpret_cast<std::byte *>(
          reinterpret_cast<uintptr_t>(constants) + b.constantOffset);
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
      if (Status s = resolveLaunch(i, binding->calls[i].get()); !s)
        return s;
  if (module.code) {
    state.wanted.clear();
    for (uint32_t i = 0; i < program.launches.size(); ++i)
      if (state.choice[i] != Program::kNone && state.commands[i].grid > 0 &&
          !state.commands[i].call)
        state.wanted.push_back(state.commands[i].kernel);
    if (Status s = module.code->prepare(state.wanted); !s)
      return s;
  }
  state.binding = std::move(binding);
  return success();
}

/// Fills the command of a launch whose choice is known, but for its arguments.
Status Execution::resolveLaunch(uint32_t index, const VendorCall *call) {
  const Program::Launch &launch = program.launches[index];
  const Program::Choice &c = launch.choices[state.choice[index]];
  int64_t *symbols = state.kernelSymbols.data() + state.firstSymbol[index];
  for (size_t i = 0; i < c.symbols.size(); ++i)
    symbols[i] = state.values[c.symbols[i]];
  LaunchCommand &command = state.commands[index];
  command.kernel = module.kernels[c.kernel];
  command.call = call;
  command.buffers = state.args.data() + state.firstArg[index];
  command.numBuffers = static_cast<uint32_t>(launch.args.size());
  command.symbols = symbols;
  command.numSymbols = static_cast<uint32_t>(c.symbols.size());
  TmaDescriptor *maps = state.kernelMaps.data() + state.firstMap[index];
  for (size_t i = 0; i < c.maps.size(); ++i) {
    const Program::Map &from = c.maps[i];
    maps[i] = {from.arg, from.dtype, from.rank, state.values[from.offset]};
    maps[i].swizzle = from.swizzle;
    maps[i].tf32 = from.tf32;
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
  if (call) { // (a launch without programs has nothing to write)
    command.grid = std::min(command.grid, int64_t(1)) * call->grid;
    command.grain = 1;
    command.scratch = call->scratch;
  }
  command.status = state.statuses + index;
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
  const Program::Choice &choice = launch.choices[state.choice[index]];
  return choice.matmul
             ? checkReach(*choice.matmul, launch, state.values, state.bytes)
             : success();
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

} // namespace knapper
