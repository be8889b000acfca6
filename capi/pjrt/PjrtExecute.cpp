// Runs: they have ended when the function returns.
#include "capi/pjrt/PjrtExecutable.h"
#include <array>

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

  Few<std::shared_ptr<HostBlock>> inputs(count), outputs(results);
  Few<knapper_tensor> given(count), made(results);
  for (size_t i = 0; i < count; ++i) {
    const Buffer *buffer = a.argument_lists[0][i];
    const ArrayInfo &wanted = program.inputs[i];
    if (!buffer)
      return fail(Code::invalidArgument, "an argument is null");
    if (buffer->type != wanted.type || buffer->dims != wanted.dims)
      return wrongArgument(i, wanted, *buffer);
    inputs[i] = buffer->read();
    if (!inputs[i])
      return deletedBuffer("an argument");
    given[i] = {inputs[i]->data(), wanted.bytes, wanted.dtype,
                static_cast<int32_t>(wanted.moduleDims.size()),
                wanted.moduleDims.data()};
  }
  for (size_t i = 0; i < results; ++i) {
    const ArrayInfo &info = program.outputs[i];
    if (int32_t from = program.replaces[i];
        from >= 0 && isGiven(program, a.options, static_cast<size_t>(from)) &&
        a.argument_lists[0][from]->isOnly(inputs[from]))
      outputs[i] = inputs[from];
    else
      outputs[i] =
          std::make_shared<HostBlock>(executable.client->host, info.bytes);
    made[i] = {outputs[i]->data(), info.bytes, info.dtype,
               static_cast<int32_t>(info.moduleDims.size()),
               info.moduleDims.data()};
  }
  // Also where the run fails: what they held may be overwritten by then.
  for (size_t i = 0; i < count; ++i)
    if (isGiven(program, a.options, i))
      a.argument_lists[0][i]->remove();
  knapper_result *result = nullptr;
  if (knapper_error *error = knapper().run(
          program.module, given.data(), static_cast<int32_t>(count),
          made.data(), static_cast<int32_t>(results), &result))
    return fail(error);
  knapper().result_release(result);

  Few<std::unique_ptr<Buffer>> buffers(results);
  for (size_t i = 0; i < results; ++i) {
    const ArrayInfo &info = program.outputs[i];
    buffers[i] =
        std::make_unique<Buffer>(executable.client, info.type, info.dims,
                                 info.bytes, std::move(outputs[i]));
  }
  for (size_t i = 0; i < results; ++i)
    a.output_lists[0][i] = buffers[i].release();
  if (a.device_complete_events)
    a.device_complete_events[0] = readyEvent();
  return nullptr;
}

} // namespace

void setExecuteFunctions(PjrtApi &api) {
  api.LoadedExecutable_Execute = guarded<execute>;
}

} // namespace knapper::pjrt
