// libknapper: quantisation, with the runtime that calibrates.
#include "capi/ModelRequest.h"
#include "compiler/calibrate/QuantizeModel.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/base/Text.h"

#include <filesystem>
#include <unistd.h>

using namespace knapper;

namespace {

Error take(knapper_error *error) {
  Error copy = error->error;
  knapper_error_release(error);
  return copy;
}

/// Loads with the caller's options, and asks it for samples.
class Host : public QuantizeHost {
public:
  Host(const knapper_quantize_options &how, const knapper_load_options *options,
       const int32_t *cancel)
      : how(how), options(options), cancel(cancel) {}

  Expected<Run> load(int fd, std::vector<std::string> *outputs) override;
  Expected<Tensors> sample(int index) override;
  std::string sampleName(int index) const override {
    return how.sample_names && how.sample_names[index] ? how.sample_names[index]
                                                       : cat("sample ", index);
  }

private:
  using Module = std::shared_ptr<knapper_module>;
  static Expected<Tensors> run(const Module &module, const Tensors &inputs,
                               const int32_t *cancel);

  const knapper_quantize_options &how;
  const knapper_load_options *options;
  const int32_t *cancel; ///< the caller's
  Module first;
};

Expected<QuantizeHost::Run> Host::load(int fd,
                                       std::vector<std::string> *outputs) {
  ASSIGN_OR_RETURN(auto loaded, Artefact::loadFd(fd, "memory"));
  knapper_module *opened = nullptr;
  TRY(capi::openModule(std::move(loaded), options, &opened));
  Module module(opened, knapper_module_release);
  for (int32_t i = 0; i < knapper_module_num_outputs(opened); ++i) {
    knapper_tensor_info info = {};
    info.size = sizeof info;
    if (knapper_error *error = knapper_module_output(opened, i, &info))
      return take(error);
    outputs->push_back(info.name);
  }
  if (!first)
    first = module;
  return Run([module, cancel = cancel](const Tensors &inputs) {
    return run(module, inputs, cancel);
  });
}

Expected<QuantizeHost::Tensors> Host::sample(int index) {
  std::vector<knapper_tensor> given(knapper_module_num_inputs(first.get()));
  if (how.sample(how.sample_user, index, first.get(), given.data()))
    return userError("the calibration data cannot be read", sampleName(index));
  Tensors tensors;
  for (auto [i, tensor] : llvm::enumerate(given)) {
    std::string where = cat(sampleName(index), ", input ", i);
    ASSIGN_OR_RETURN(ts::HostTensor borrowed,
                     capi::borrowTensor(tensor, where));
    tensors.push_back(std::move(borrowed));
  }
  return tensors;
}

/// Outputs are borrowed from the result, which they keep.
Expected<QuantizeHost::Tensors>
Host::run(const Module &module, const Tensors &inputs, const int32_t *cancel) {
  std::vector<knapper_tensor> views;
  for (const ts::HostTensor &tensor : inputs)
    views.push_back({const_cast<uint8_t *>(tensor.data()), tensor.bytes(),
                     static_cast<knapper_dtype>(tensor.dtype()),
                     static_cast<int32_t>(tensor.rank()),
                     tensor.dims().data()});
  knapper_result *made = nullptr;
  knapper_run_options running = KNAPPER_RUN_OPTIONS_INIT;
  running.cancel = cancel;
  if (knapper_error *error = knapper_run_with(
          module.get(), views.data(), static_cast<int32_t>(views.size()),
          nullptr, 0, &running, &made))
    return take(error);
  std::shared_ptr<knapper_result> result(made, knapper_result_release);
  Tensors outputs;
  for (int32_t i = 0; i < knapper_result_num_outputs(made); ++i) {
    knapper_tensor tensor;
    if (knapper_error *error = knapper_result_output(made, i, &tensor))
      return take(error);
    outputs.push_back(ts::HostTensor::borrow(
        static_cast<DType>(tensor.dtype),
        llvm::ArrayRef<int64_t>(tensor.shape, static_cast<size_t>(tensor.rank)),
        tensor.data, result));
  }
  return outputs;
}

/// One of the words, by its index; NULL is the first.
Expected<int> wordOf(const char *given, const char *option,
                     std::initializer_list<const char *> words) {
  std::string all;
  for (auto [i, word] : llvm::enumerate(words)) {
    if (!given || std::string_view(given) == word)
      return static_cast<int>(i);
    all += (all.empty() ? "" : ", ") + std::string(word);
  }
  return userError(cat("'", given, "' is none of ", all),
                   cat("option ", option));
}

Expected<QuantizeOptions> readOptions(const knapper_quantize_options &how) {
  QuantizeOptions options;
  if (how.weights_only) {
    Expected<int> width =
        wordOf(how.weights_only, "weights-only", {"int8", "int4"});
    if (!width)
      return width.takeError();
    options.weightsOnly = how.weights_only;
  }
  Expected<int> range =
      wordOf(how.range, "range", {"minmax", "percentile", "error"});
  if (!range)
    return range.takeError();
  options.range = static_cast<RangeChoice>(*range);
  Expected<int> activations =
      wordOf(how.activations, "activations", {"u8", "i8"});
  if (!activations)
    return activations.takeError();
  options.signedActivations = *activations == 1;
  if (how.percentile)
    options.percentile = how.percentile;
  if (!(options.percentile > 0 && options.percentile <= 100))
    return userError(cat(options.percentile, " is no share in percent"),
                     "option percentile", "a number above 0, at most 100");
  if (how.num_keep < 0 || (how.num_keep && !how.keep) || how.num_samples < 0 ||
      (how.num_samples && !how.sample))
    return userError("a number is negative, or what it counts is NULL",
                     "knapper_quantize");
  for (int32_t i = 0; i < how.num_keep; ++i)
    options.keep.push_back(how.keep[i] ? how.keep[i] : "");
  options.samples = how.num_samples;
  return options;
}

} // namespace

knapper_error *knapper_quantize(const knapper_compile_options *given,
                                const knapper_quantize_options *how,
                                const knapper_load_options *load,
                                knapper_module **out, char **json) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_quantize";
    if (out)
      *out = nullptr;
    if (json)
      *json = nullptr;
    ASSIGN_OR_RETURN(auto request, capi::readRequest(given, function));
    auto &[options, input, settings] = request;
    ASSIGN_OR_RETURN(auto known,
                     capi::readOptions<knapper_quantize_options>(
                         how, KNAPPER_QUANTIZE_OPTIONS_INIT, function));
    ASSIGN_OR_RETURN(QuantizeOptions wanted, readOptions(known));
    std::string path = options.output_path ? options.output_path : "";
    if (std::error_code absent;
        !path.empty() && options.model_path &&
        std::filesystem::equivalent(path, options.model_path, absent))
      return userError("would overwrite the model", "option output",
                       "give another file to write");
    if (out && path.ends_with(".onnx"))
      return userError("an ONNX model is no module", function,
                       "compile what was written");
    ProgressFn progress;
    if (options.progress)
      progress = [&](const char *phase, int done, int total) {
        options.progress(options.progress_user, phase, done, total);
      };
    Host host(known, load, options.cancel);
    QuantizeReport report;
    ASSIGN_OR_RETURN(int fd, quantizeModel(input, settings, wanted, path, host,
                                           report, progress));
    if (json)
      TRY(capi::copyString(report.json(), json));
    if (!out) {
      if (fd >= 0)
        close(fd);
      return success();
    }
    auto loaded = path.empty() ? Artefact::loadFd(fd, "memory")
                               : Artefact::load(path, {});
    if (!loaded)
      return loaded.takeError();
    return capi::openModule(std::move(*loaded), load, out);
  });
}
