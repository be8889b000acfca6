// A run's inputs and outputs: checked, and given memory that kernels can use.
#include "runtime/artefact/Limits.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"
#include "runtime/execute/Execution.h"

#include <algorithm>
#include <cstring>

namespace knapper {

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

std::string_view dtypeText(const knapper_tensor &tensor) {
  unsigned dtype = dtypeNumber(tensor);
  return dtype < kNumDTypes ? name(static_cast<DType>(dtype)) : "unknown dtype";
}

std::string dimsText(const knapper_tensor &tensor) {
  if (tensor.rank == KNAPPER_FLAT)
    return std::string(dtypeText(tensor));
  // A number that is no rank does not say how long the shape is.
  if (tensor.rank > kMaxRank)
    return cat(dtypeText(tensor), " of rank ", tensor.rank);
  std::string out = cat(dtypeText(tensor), "[");
  for (int32_t i = 0; i < tensor.rank; ++i)
    out += cat(i ? ", " : "", tensor.shape[i]);
  return out + "]";
}

/// Of an input that was checked.
uint64_t inputBytes(const Program::Tensor &input,
                    const knapper_tensor &tensor) {
  return *tensorBytes(input.dtype, tensor.shape, tensor.rank);
}

} // namespace

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
    if (!outputs.empty() && outputs[i].data) {
      const knapper_tensor &got = outputs[i];
      if (!hasDType(got, t.dtype))
        return userError(
            cat("expected memory for ", dimsText(t), ", got ", dimsText(got)),
            cat("output '", t.name, "'"),
            cat("give memory of dtype ", name(t.dtype)));
      if (got.rank < KNAPPER_FLAT || got.rank > kMaxRank ||
          (got.rank > 0 && !got.shape))
        return userError(cat("expected memory for ", dimsText(t),
                             ", got a tensor of rank ", got.rank,
                             " without a shape"),
                         cat("output '", t.name, "'"),
                         "set rank and shape, or the rank KNAPPER_FLAT");
    }
    if (t.late)
      std::fill_n(result.shapes.data() + dims - t.dims.size(), t.dims.size(),
                  -1);
    else if (Status s = provideOutput(i); !s)
      return s;
  }
  return success();
}

/// Whether an output of the caller lies exactly where this input does, and may.
bool Execution::isReplaced(uint32_t input, const knapper_tensor &tensor) const {
  for (uint32_t o = 0; o < given.size(); ++o)
    if (given[o].data && given[o].data == tensor.data &&
        program.mayReplace(o, input) &&
        result.tensors[o].bytes == inputBytes(program.inputs[input], tensor))
      return true;
  return false;
}

/// Kernels take it that what they write is nothing else that the caller gave,
/// but for outputs in place of an input.
Status Execution::checkOverlaps(std::span<const knapper_tensor> inputs) {
  if (std::none_of(given.begin(), given.end(),
                   [](const knapper_tensor &t) { return t.data; }))
    return success();
  struct Range {
    uintptr_t begin, end;
    uint32_t index;
    bool output;
  };
  std::vector<Range> ranges;
  ranges.reserve(inputs.size() + given.size());
  auto add = [&](const void *data, size_t bytes, uint32_t index, bool output) {
    auto begin = reinterpret_cast<uintptr_t>(data);
    if (data && bytes > 0)
      ranges.push_back({begin, begin + bytes, index, output});
  };
  for (uint32_t i = 0; i < inputs.size(); ++i)
    if (!isReplaced(i, inputs[i]))
      add(inputs[i].data, inputBytes(program.inputs[i], inputs[i]), i, false);
  for (uint32_t i = 0; i < given.size(); ++i)
    if (given[i].data)
      add(given[i].data,
          program.outputs[i].late ? given[i].bytes : result.tensors[i].bytes, i,
          true);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  auto text = [&](const Range &range) {
    return range.output
               ? cat("output '", program.outputs[range.index].name, "'")
               : cat("input '", program.inputs[range.index].name, "'");
  };
  const Range *last = nullptr, *lastOutput = nullptr; // those that end last
  for (const Range &range : ranges) {
    const Range *other = range.output ? last : lastOutput;
    if (other && range.begin < other->end) {
      const Range &output = range.output ? range : *other;
      const Range &under = range.output ? *other : range;
      bool pair =
          !under.output && program.mayReplace(output.index, under.index);
      return userError(
          cat("its memory is ", pair ? "partly " : "also ", text(*other)),
          text(range),
          pair ? cat("give ", text(output),
                     " exactly the memory "
                     "of ",
                     text(under), ", or memory of its own")
               : "give outputs memory of their own");
    }
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
                     cat("output '", t.name, "'"),
                     std::any_of(shape, shape + out.rank,
                                 [](int64_t dim) { return dim < 0; })
                         ? "give larger inputs"
                         : "give smaller inputs");
  if (!given.empty() && given[index].data) {
    const knapper_tensor &memory = given[index];
    if (memory.rank != KNAPPER_FLAT &&
        !std::equal(shape, shape + out.rank, memory.shape,
                    memory.shape + memory.rank))
      return userError(
          cat("the output is ", dimsText(out), ", the memory given for it is ",
              dimsText(memory)),
          cat("output '", t.name, "'"),
          "give memory of the output's shape, or say that it is flat memory "
          "(flat_outputs=True in Python, rank KNAPPER_FLAT in C)");
    if (given[index].bytes < static_cast<uint64_t>(*bytes))
      return userError(cat(dimsText(out), " takes ", *bytes, " bytes, ",
                           given[index].bytes, " were given"),
                       cat("output '", t.name, "'"),
                       "give more memory, or none: the module provides it");
    out.data = given[index].data;
  } else if (!options.checkOnly) {
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

bool Execution::isKnown(const void *memory) const {
  auto *at = static_cast<const std::byte *>(memory);
  return std::any_of(options.deviceMemory.begin(), options.deviceMemory.end(),
                     [&](std::span<const std::byte> range) {
                       std::less<> before;
                       return !before(at, range.data()) &&
                              before(at, range.data() + range.size());
                     });
}

/// Where the buffer of an input or output lies for kernels: in the caller's
/// memory, or in a buffer of the device that does not address it.
Status Execution::place(uint32_t buffer, void *memory) {
  constexpr uintptr_t kAlignment = 16; // that kernels count on
  bool direct = host;
  if (!host && memory && reinterpret_cast<uintptr_t>(memory) % kAlignment == 0)
    external |= direct =
        options.onDevice || isKnown(memory) || module.where->addresses(memory);
  if (direct) {
    state.base[buffer] = static_cast<std::byte *>(memory);
    return success();
  }
  std::unique_ptr<DeviceBuffer> &staged = state.staged[buffer];
  if (!staged || staged->bytes() < state.bytes[buffer]) {
    if (Status s = settle(); !s)
      return s;
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
    if (Block &own = result.owned[i]; own.data() == out.data)
      own.touch(); // while kernels run
    if (Status s = state.queue->download(out.data, from, out.bytes); !s)
      return s;
  }
  return success();
}

} // namespace knapper
