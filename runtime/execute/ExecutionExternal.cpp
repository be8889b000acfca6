// Operators of the host's inside a run, and strings, which only they make.
#include "runtime/base/Text.h"
#include "runtime/execute/Execution.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

namespace knapper {
namespace {

std::string shapeText(knapper_dtype dtype, const int64_t *shape, int32_t rank) {
  std::string out = cat(name(static_cast<DType>(dtype)), "[");
  for (int32_t i = 0; i < rank; ++i)
    out += cat(i ? ", " : "", shape[i]);
  return out + "]";
}

} // namespace

/// Dims, place and, from a device, the bytes of every input. `direct`: the
/// operator takes the addresses.
Status Execution::externalInputs(const Program::External &external,
                                 ExternalState &call, bool direct) {
  int64_t *dims = call.dims.data();
  for (size_t i = 0; i < external.inputs.size(); ++i) {
    const Program::ExternalTensor &from = external.inputs[i];
    knapper_tensor &tensor = call.inputs[i];
    tensor = {nullptr, 0, static_cast<knapper_dtype>(from.dtype), -1, nullptr};
    if (from.place.buffer == Program::kNone)
      continue;
    tensor.rank = static_cast<int32_t>(from.dims.size());
    tensor.shape = dims;
    for (uint32_t d : from.dims) {
      if (!state.known[d])
        return valueError(program, d);
      *dims++ = state.values[d];
    }
    std::optional<int64_t> bytes =
        tensorBytes(from.dtype, tensor.shape, from.dims.size());
    if (!bytes)
      return userError("an input has a size that is negative or too large",
                       external.node.where, "give inputs of other sizes");
    tensor.bytes = static_cast<size_t>(*bytes);
    Expected<std::byte *> place = address(from.place, tensor.bytes);
    if (!place)
      return place.takeError();
    tensor.data = *place;
    if (direct)
      continue;
    call.copies[i].resize(tensor.bytes);
    tensor.data = call.copies[i].data();
    if (tensor.bytes > 0)
      if (Status s = state.queue->download(tensor.data, *place, tensor.bytes);
          !s)
        return s;
  }
  return success();
}

/// Asks the operator for the shapes of its results: sets the symbols that wait
/// for them, and compares the rest with what was compiled.
Status Execution::externalShapes(uint32_t index, ExternalState &call) {
  const Program::External &external = program.externals[index];
  if (Status s = module.operators[index]->shapes(external.node, call.inputs,
                                                 true, call.shapes);
      !s)
    return s;
  auto refuse = [&](size_t i) {
    const Program::ExternalTensor &want = external.outputs[i];
    const knapper_result_shape &got = call.shapes[i];
    std::string compiled = cat(name(want.dtype), "[");
    for (size_t d = 0; d < want.dims.size(); ++d)
      compiled += cat(d ? ", " : "", expressionText(program, want.dims[d]));
    return userError(cat("result ", i, " of the operator is ",
                         shapeText(got.dtype, got.shape, got.rank),
                         ", the model was compiled for ", compiled, "]"),
                     external.node.where,
                     "compile the model again with the operator that runs it");
  };
  for (uint32_t symbol : external.symbols)
    state.bound[symbol] = 0;
  for (size_t i = 0; i < external.outputs.size(); ++i) {
    const Program::ExternalTensor &want = external.outputs[i];
    const knapper_result_shape &got = call.shapes[i];
    if (static_cast<DType>(got.dtype) != want.dtype ||
        static_cast<size_t>(got.rank) != want.dims.size())
      return refuse(i);
    for (size_t d = 0; d < want.dims.size(); ++d) {
      const Program::Value &value = program.values[want.dims[d]];
      if (value.op != fb::ScalarOp::symbol)
        continue;
      auto symbol = static_cast<uint32_t>(value.imm);
      if (!std::binary_search(external.symbols.begin(), external.symbols.end(),
                              symbol) ||
          state.bound[symbol])
        continue;
      if (Status s = setSymbol(symbol, got.shape[d]); !s)
        return s;
    }
  }
  if (!external.symbols.empty())
    if (Status s = bindLate(external.dependents); !s)
      return s;
  for (size_t i = 0; i < external.outputs.size(); ++i)
    for (size_t d = 0; d < external.outputs[i].dims.size(); ++d) {
      uint32_t dim = external.outputs[i].dims[d];
      if (!state.known[dim])
        return valueError(program, dim);
      if (state.values[dim] != call.shapes[i].shape[d])
        return refuse(i);
    }
  return success();
}

/// Memory of every output; strings begin empty.
Status Execution::externalOutputs(const Program::External &external,
                                  ExternalState &call, bool direct) {
  for (size_t i = 0; i < external.outputs.size(); ++i) {
    const Program::ExternalTensor &to = external.outputs[i];
    const knapper_result_shape &shape = call.shapes[i];
    std::optional<int64_t> bytes =
        tensorBytes(to.dtype, shape.shape, to.dims.size());
    if (!bytes)
      return userError("a result has a size that is too large",
                       external.node.where, "give smaller inputs");
    knapper_tensor &tensor = call.outputs[i];
    tensor = {nullptr, static_cast<size_t>(*bytes), shape.dtype, shape.rank,
              shape.shape};
    Expected<std::byte *> place = address(to.place, tensor.bytes);
    if (!place)
      return place.takeError();
    tensor.data = *place;
    if (!direct) {
      std::vector<std::byte> &copy = call.copies[external.inputs.size() + i];
      copy.resize(tensor.bytes);
      tensor.data = copy.data();
    }
    if (to.dtype == DType::text && tensor.bytes > 0)
      memset(tensor.data, 0, tensor.bytes);
  }
  return success();
}

Status Execution::runExternal(uint32_t index) {
  const Program::External &external = program.externals[index];
  ExternalState &call = state.externals[index];
  const Operator &op = *module.operators[index];
  const bool direct = host || op.onDevice();
  auto start = std::chrono::steady_clock::now();
  if (Status s = externalInputs(external, call, direct); !s)
    return s;
  if (Status s = externalShapes(index, call); !s)
    return s;
  if (Status s = externalOutputs(external, call, direct); !s)
    return s;
  auto allocate = [&](size_t bytes) -> void * {
    std::unique_ptr<char[]> made(new (std::nothrow) char[bytes + 1]);
    if (!made)
      return nullptr;
    state.text.push_back(std::move(made));
    return state.text.back().get();
  };
  void *stream = host ? nullptr : state.queue->workStream();
  if (Status s = op.compute(external.node, call.inputs, call.outputs, allocate,
                            stream);
      !s)
    return s;
  for (size_t i = 0; !direct && i < external.outputs.size(); ++i) {
    const knapper_tensor &tensor = call.outputs[i];
    Expected<std::byte *> place =
        address(external.outputs[i].place, tensor.bytes);
    if (!place)
      return place.takeError();
    if (tensor.bytes > 0)
      if (Status s = state.queue->upload(*place, tensor.data, tensor.bytes); !s)
        return s;
  }
  if (options.profile)
    noteTime(static_cast<uint32_t>(program.launches.size()) + index,
             start.time_since_epoch() / std::chrono::nanoseconds(1),
             (std::chrono::steady_clock::now() - start) /
                 std::chrono::nanoseconds(1));
  return success();
}

/// A string without bytes has none to be read.
Status Execution::checkTexts(std::span<const knapper_tensor> inputs) {
  for (size_t i = 0; program.hasText && i < inputs.size(); ++i) {
    if (program.inputs[i].dtype != DType::text)
      continue;
    auto *strings = static_cast<const knapper_string *>(inputs[i].data);
    std::optional<int64_t> bytes = tensorBytes(DType::text, inputs[i].shape,
                                               program.inputs[i].dims.size());
    for (uint64_t n = 0; n < *bytes / sizeof(knapper_string); ++n)
      if (!strings[n].data && strings[n].size > 0)
        return userError(
            cat("string ", n, " has ", strings[n].size, " bytes at NULL"),
            cat("input '", program.inputs[i].name, "'"),
            "give the address of its bytes");
  }
  return success();
}

/// What the strings of outputs point to belongs to inputs, to the artefact or
/// to the run: the result gets bytes of its own.
Status Execution::keepTexts() {
  result.text.clear();
  for (size_t i = 0; program.hasText && i < program.outputs.size(); ++i) {
    const knapper_tensor &tensor = result.tensors[i];
    if (program.outputs[i].dtype != DType::text || !tensor.data)
      continue;
    auto *strings = static_cast<knapper_string *>(tensor.data);
    uint64_t count = tensor.bytes / sizeof(knapper_string), total = 0;
    for (uint64_t n = 0; n < count; ++n)
      if (__builtin_add_overflow(total, strings[n].size, &total))
        return userError("an operator made a string of more bytes than there "
                         "are",
                         cat("output '", program.outputs[i].name, "'"),
                         "correct the operator");
    std::unique_ptr<char[]> own(new (std::nothrow) char[total + 1]);
    if (!own)
      return deviceError(cat("no memory for ", total, " bytes of strings"),
                         cat("output '", program.outputs[i].name, "'"),
                         "use smaller inputs");
    char *at = own.get();
    for (uint64_t n = 0; n < count; ++n) {
      if (strings[n].size > 0)
        memcpy(at, strings[n].data, strings[n].size);
      strings[n].data = at;
      at += strings[n].size;
    }
    result.text.push_back(std::move(own));
  }
  state.text.clear();
  return success();
}

} // namespace knapper
