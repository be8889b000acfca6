// libknapper: the compile half of the C API.
#include "capi/ModelRequest.h"
#include "compiler/pipeline/LlvmErrors.h"
#include "compiler/pipeline/TensorText.h"
#include "compiler/pipeline/Translate.h"
#include "compiler/verify/VerifyKernels.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/artefact/Limits.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace knapper;

int knapper_has_compiler(void) { return 1; }

namespace {

Expected<CompileInput> readInput(const knapper_compile_options &given,
                                 const char *function) {
  CompileInput input;
  bool path = given.model_path && *given.model_path;
  if (path == (given.model_bytes != nullptr))
    return userError("give exactly one of model_path and model_bytes",
                     function);
  if (path)
    input.path = given.model_path;
  else
    input.bytes = {static_cast<const char *>(given.model_bytes),
                   given.model_size};
  input.cancel = Cancel(given.cancel);
  return input;
}

Expected<Options> readSettings(const knapper_compile_options &given,
                               const char *function) {
  Options options;
  TRY(setOptionsFromEnvironment(options));
  if (given.num_options < 0 || (given.num_options > 0 && !given.options))
    return userError("options is NULL or their number negative", function);
  for (int32_t i = 0; i < given.num_options; ++i) {
    const knapper_option &option = given.options[i];
    if (!option.key || !option.value)
      return userError("an option's key or value is NULL", function);
    TRY(setOption(options, option.key, option.value));
  }
  return options;
}

} // namespace

Expected<capi::ModelRequest>
capi::readRequest(const knapper_compile_options *given, const char *function) {
  throwLlvmErrors();
  if (!given)
    return userError("options is NULL", function);
  // The caller's struct at its own size, the rest at its default.
  ASSIGN_OR_RETURN(knapper_compile_options options,
                   capi::readOptions<knapper_compile_options>(
                       given, KNAPPER_COMPILE_OPTIONS_INIT, function));
  ASSIGN_OR_RETURN(CompileInput input, readInput(options, function));
  ASSIGN_OR_RETURN(Options settings, readSettings(options, function));
  return ModelRequest{options, std::move(input), std::move(settings)};
}

Expected<ts::HostTensor> capi::borrowTensor(const knapper_tensor &tensor,
                                            const std::string &where) {
  if (tensor.dtype == KNAPPER_STRING)
    return userError("holds strings, and the float64 reference evaluates "
                     "numbers alone",
                     where,
                     "verify a model of the part whose inputs are numbers "
                     "(onnx.utils.extract_model)");
  if (tensor.rank < 0 || tensor.rank > kMaxRank ||
      (tensor.rank > 0 && !tensor.shape) || tensor.dtype < 0 ||
      static_cast<unsigned>(tensor.dtype) >= kNumDTypes)
    return userError("is not a tensor", where);
  llvm::ArrayRef<int64_t> dims(tensor.shape, static_cast<size_t>(tensor.rank));
  auto dtype = static_cast<DType>(tensor.dtype);
  std::optional<int64_t> count = ts::elementCountOf(dims);
  if (!count || static_cast<uint64_t>(*count) > tensor.bytes / byteSize(dtype))
    return userError("has fewer bytes than its shape needs", where);
  return ts::HostTensor::borrow(dtype, dims, tensor.data);
}

knapper_error *knapper_compile(const knapper_compile_options *given,
                               const knapper_load_options *load,
                               knapper_module **out) {
  return capi::guarded([&]() -> Status {
    if (out)
      *out = nullptr;
    // What cannot be loaded is not compiled first.
    ArtefactLoadOptions how;
    if (out) {
      ASSIGN_OR_RETURN(
          knapper_load_options loading,
          capi::readOptions<knapper_load_options>(
              load, KNAPPER_LOAD_OPTIONS_INIT, "knapper_load_options"));
      ASSIGN_OR_RETURN([[maybe_unused]] std::string_view device,
                       capi::wantedDevice(loading));
      ASSIGN_OR_RETURN(how, capi::artefactOptions(load));
    }
    ASSIGN_OR_RETURN(auto request, capi::readRequest(given, "knapper_compile"));
    auto &[options, input, settings] = request;
    // Who wants all weights compared wants none taken for what it was.
    settings.verifyFiles |= out && how.constants == ConstantChecks::atLoad;
    std::string path = options.output_path ? options.output_path : "";
    if (std::error_code absent;
        !path.empty() && options.model_path &&
        std::filesystem::equivalent(path, options.model_path, absent))
      return userError("would overwrite the model", "option output",
                       "give another file to write");
    ProgressFn progress;
    if (options.progress)
      progress = [&](const char *phase, int done, int total) {
        options.progress(options.progress_user, phase, done, total);
      };
    if (options.stopped_text)
      *options.stopped_text = nullptr;
    if (options.stats_json)
      *options.stats_json = nullptr;
    CompileStats stats;
    ASSIGN_OR_RETURN(int fd,
                     compileModel(input, settings, path, &stats, progress));
    if (options.stopped_text && !settings.stopAfter.empty())
      TRY(capi::copyString(stats.stopped, options.stopped_text));
    if (options.stats_json)
      TRY(capi::copyString(stats.json(), options.stats_json));
    if (!out) {
      if (fd >= 0)
        close(fd);
      return success();
    }
    if (!settings.stopAfter.empty() && settings.stopAfter != "pack") {
      if (fd >= 0)
        close(fd);
      return userError("the compile ended before there was an artefact",
                       "option stop-after", "leave it out to run the model");
    }
    // What was made here, or checked when the cache gave it, is whole.
    if (path.empty() && how.constants == ConstantChecks::beforeUse)
      how.constants = ConstantChecks::none;
    ASSIGN_OR_RETURN(auto loaded, path.empty()
                                      ? Artefact::loadFd(fd, "memory", how)
                                      : Artefact::load(path, how));
    return capi::openModule(std::move(loaded), load, out,
                            capi::NoDevice::describes);
  });
}

knapper_error *knapper_inspect(const knapper_compile_options *given,
                               char **json) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_inspect";
    if (!json)
      return userError("json is NULL", function);
    *json = nullptr;
    ASSIGN_OR_RETURN(auto request, capi::readRequest(given, function));
    ASSIGN_OR_RETURN(const FrontEnd *frontEnd,
                     frontEndOf(request.input, request.settings));
    ModelInput model = modelOf(request.input);
    ASSIGN_OR_RETURN(std::string text,
                     knapper::guarded(*frontEnd, "looked into it", model, [&] {
                       return frontEnd->inspect(model);
                     }));
    return capi::copyString(text, json);
  });
}

knapper_error *knapper_translate(const knapper_compile_options *given,
                                 char **text) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_translate";
    if (!text)
      return userError("text is NULL", function);
    *text = nullptr;
    ASSIGN_OR_RETURN(auto request, capi::readRequest(given, function));
    ASSIGN_OR_RETURN(std::string made,
                     translateModel(request.input, request.settings));
    return capi::copyString(made, text);
  });
}

namespace {

/// Loads, runs and copies out: what verification asks of a runtime.
Expected<std::vector<ts::HostTensor>>
runOnce(int fd, const std::vector<ts::HostTensor> &inputs) {
  ASSIGN_OR_RETURN(auto loaded, Artefact::loadFd(fd, "memory"));
  auto take = [](knapper_error *error) {
    Error copy = error->error;
    knapper_error_release(error);
    return copy;
  };
  knapper_module *opened = nullptr;
  TRY(capi::openModule(std::move(loaded), nullptr, &opened));
  std::unique_ptr<knapper_module, void (*)(knapper_module *)> module(
      opened, knapper_module_release);
  std::vector<knapper_tensor> views;
  for (const ts::HostTensor &tensor : inputs)
    views.push_back({const_cast<uint8_t *>(tensor.data()), tensor.bytes(),
                     static_cast<knapper_dtype>(tensor.dtype()),
                     static_cast<int32_t>(tensor.rank()),
                     tensor.dims().data()});
  knapper_result *made = nullptr;
  if (knapper_error *error =
          knapper_run(module.get(), views.data(),
                      static_cast<int32_t>(views.size()), nullptr, 0, &made))
    return take(error);
  std::unique_ptr<knapper_result, void (*)(knapper_result *)> result(
      made, knapper_result_release);
  std::vector<ts::HostTensor> outputs;
  for (int32_t i = 0; i < knapper_result_num_outputs(made); ++i) {
    knapper_tensor tensor;
    if (knapper_error *error = knapper_result_output(made, i, &tensor))
      return take(error);
    ts::HostTensor copy = ts::HostTensor::allocate(
        static_cast<DType>(tensor.dtype),
        llvm::ArrayRef<int64_t>(tensor.shape,
                                static_cast<size_t>(tensor.rank)));
    if (copy.bytes() > 0)
      memcpy(copy.mutableData(), tensor.data, copy.bytes());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

} // namespace

knapper_error *knapper_verify(const knapper_compile_options *given,
                              const knapper_tensor *inputs, int32_t num_inputs,
                              char **json) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_verify";
    if (!json || num_inputs < 0 || (num_inputs > 0 && !inputs))
      return userError("an argument is NULL or the number of inputs negative",
                       function);
    *json = nullptr;
    ASSIGN_OR_RETURN(auto request, capi::readRequest(given, function));
    std::vector<ts::HostTensor> tensors;
    for (int32_t i = 0; i < num_inputs; ++i) {
      const knapper_tensor &tensor = inputs[i];
      std::string where = "input " + std::to_string(i);
      ASSIGN_OR_RETURN(ts::HostTensor borrowed,
                       capi::borrowTensor(tensor, where));
      tensors.push_back(std::move(borrowed));
    }
    ASSIGN_OR_RETURN(
        VerifyReport report,
        verifyModel(request.input, request.settings, tensors, runOnce));
    return capi::copyString(report.json(), json);
  });
}
