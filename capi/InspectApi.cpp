// Signatures, memory, descriptions, devices.
#include "capi/Handles.h"

#include "runtime/base/Json.h"
#include "runtime/base/Text.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/cuda/CudaDevice.h"
#include "runtime/profile/Describe.h"

#include <algorithm>

using namespace knapper;
using namespace knapper::capi;

int32_t knapper_module_num_inputs(const knapper_module *module) {
  if (!module)
    return 0;
  return static_cast<int32_t>(module->module->program().inputs.size());
}
int32_t knapper_module_num_outputs(const knapper_module *module) {
  if (!module)
    return 0;
  return static_cast<int32_t>(module->module->program().outputs.size());
}

using SignatureList = std::vector<Program::Tensor> Program::*;

static Status tensorInfo(const knapper_module *module, SignatureList list,
                         int32_t index, knapper_tensor_info *out,
                         const char *function) {
  if (!module || !out)
    return userError(module ? "info is NULL" : "module is NULL", function);
  const std::vector<Program::Tensor> &tensors = module->module->program().*list;
  size_t size = out->size;
  if (size < sizeof(size_t) + sizeof(const char *))
    return userError(cat("info->size is ", size), function,
                     "set info->size to sizeof(knapper_tensor_info)");
  if (index < 0 || static_cast<size_t>(index) >= tensors.size())
    return userError(
        cat("there is no tensor ", index, " among ", tensors.size()), function);
  const Program::Tensor &t = tensors[index];
  knapper_tensor_info info = {size,
                              t.name,
                              static_cast<knapper_dtype>(t.dtype),
                              static_cast<int32_t>(t.dims.size()),
                              t.staticDims.data(),
                              t.dimText.data()};
  memcpy(out, &info, std::min(size, sizeof info));
  return success();
}

knapper_error *knapper_module_input(const knapper_module *module, int32_t index,
                                    knapper_tensor_info *info) {
  return guarded([&] {
    return tensorInfo(module, &Program::inputs, index, info,
                      "knapper_module_input");
  });
}
knapper_error *knapper_module_output(const knapper_module *module,
                                     int32_t index, knapper_tensor_info *info) {
  return guarded([&] {
    return tensorInfo(module, &Program::outputs, index, info,
                      "knapper_module_output");
  });
}

int knapper_module_may_replace(const knapper_module *module, int32_t output,
                               int32_t input) {
  if (!module)
    return 0;
  const Program &program = module->module->program();
  return output >= 0 && static_cast<size_t>(output) < program.outputs.size() &&
         input >= 0 && static_cast<size_t>(input) < program.inputs.size() &&
         program.mayReplace(output, input);
}

/// Whether the run decides the size of a temp.
static bool dependsOnRun(const Program &program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const Program::Buffer &buffer) {
                       return buffer.kind == fb::BufferKind::temp &&
                              buffer.late;
                     });
}

knapper_error *knapper_module_peak_memory(const knapper_module *module,
                                          const char *const *names,
                                          const int64_t *values, int32_t count,
                                          uint64_t *arena_bytes,
                                          uint64_t *constant_bytes) {
  return guarded([&]() -> Status {
    const char *where = "peak memory";
    if (!module || count < 0 || (count > 0 && (!names || !values)))
      return userError("module, names or values is NULL", where);
    const Program &program = module->module->program();
    std::vector<int64_t> symbols(program.symbols.size());
    std::string all, missing;
    for (size_t s = 0; s < symbols.size(); ++s) {
      const Program::Symbol &symbol = program.symbols[s];
      if (symbol.late) {
        // How often a loop runs does not change its memory.
        if (dependsOnRun(program))
          return userError(cat("size '", symbol.name,
                               "' is computed by the model: there is no peak "
                               "before the run"),
                           where);
        continue;
      }
      all += cat(all.empty() ? "" : ", ", symbol.name);
    }
    // Before missing sizes: a misspelt name also leaves the right one missing.
    for (int32_t i = 0; i < count; ++i) {
      bool known = false;
      for (const Program::Symbol &symbol : program.symbols)
        known |= !symbol.late && names[i] &&
                 std::string_view(names[i]) == symbol.name;
      if (!known)
        return userError(
            cat("the model has no size '", names[i] ? names[i] : "", "'"),
            where,
            all.empty() ? "leave it out: all sizes are numbers"
                        : cat("its sizes are: ", all));
    }
    for (size_t s = 0; s < symbols.size(); ++s) {
      const Program::Symbol &symbol = program.symbols[s];
      bool found = symbol.late;
      for (int32_t i = 0; i < count && !found; ++i)
        if (names[i] && std::string_view(names[i]) == symbol.name) {
          if (Status status = checkSymbol(symbol, values[i]); !status)
            return status;
          symbols[s] = values[i];
          found = true;
        }
      if (!found)
        missing += cat(missing.empty() ? "" : ", ", symbol.name);
    }
    if (!missing.empty())
      return userError(cat("no value is given for: ", missing), where,
                       cat("give values for: ", all));
    auto binding = module->module->binding(symbols);
    if (!binding)
      return binding.takeError();
    if (arena_bytes)
      *arena_bytes = (*binding)->arenaBytes;
    if (constant_bytes)
      *constant_bytes = module->module->artefact().constants().size();
    return success();
  });
}

knapper_error *knapper_module_describe(const knapper_module *module,
                                       const char **json) {
  return guarded([&]() -> Status {
    if (!module || !json)
      return userError("module or json is NULL", "knapper_module_describe");
    std::lock_guard lock(module->mutex);
    if (module->description.empty())
      module->description = describeModule(*module->module);
    *json = module->description.c_str();
    return success();
  });
}

knapper_error *knapper_devices(int measure, char **json) {
  return guarded([&]() -> Status {
    if (!json)
      return userError("json is NULL", "knapper_devices");
    *json = nullptr;
    JsonWriter text;
    text.beginArray();
    std::vector<std::shared_ptr<Device>> devices = {cpu::device()};
    for (int i = 0; i < cuda::deviceCount(); ++i)
      if (std::shared_ptr<Device> gpu = cuda::device(i))
        devices.push_back(std::move(gpu));
    for (const std::shared_ptr<Device> &device : devices) {
      text.beginObject().field("device", device->kind());
      if (Status s = device->describe(text, measure != 0); !s)
        return s;
      text.endObject();
    }
    text.endArray();
    return copyString(text.text(), json);
  });
}
