// libknapper: the compile half of the C API.
#include "compiler/pipeline/Compile.h"
#include "capi/Handles.h"
#include "compiler/report/Html.h"
#include "frontends/onnx/Inspect.h"
#include "runtime/module/Artefact.h"

#include <cstdlib>
#include <unistd.h>

using namespace knapper;

int knapper_has_compiler(void) { return 1; }

namespace {

/// The caller's struct at its own size, the rest at its default.
Expected<knapper_compile_options>
readCompileOptions(const knapper_compile_options *given, const char *function) {
  return capi::readOptions<knapper_compile_options>(
      given, KNAPPER_COMPILE_OPTIONS_INIT, function);
}

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
  return input;
}

Expected<Options> readSettings(const knapper_compile_options &given,
                               const char *function) {
  Options options;
  if (Status status = setOptionsFromEnvironment(options); !status)
    return status.takeError();
  if (given.num_options < 0 || (given.num_options > 0 && !given.options))
    return userError("options is NULL or their number negative", function);
  for (int32_t i = 0; i < given.num_options; ++i) {
    const knapper_option &option = given.options[i];
    if (!option.key || !option.value)
      return userError("an option's key or value is NULL", function);
    if (Status status = setOption(options, option.key, option.value); !status)
      return status.takeError();
  }
  return options;
}

} // namespace

knapper_error *knapper_compile(const knapper_compile_options *given,
                               const knapper_load_options *load,
                               knapper_module **out) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_compile";
    if (out)
      *out = nullptr;
    if (!given)
      return userError("options is NULL", function);
    auto options = readCompileOptions(given, function);
    if (!options)
      return options.takeError();
    auto input = readInput(*options, function);
    if (!input)
      return input.takeError();
    auto settings = readSettings(*options, function);
    if (!settings)
      return settings.takeError();
    std::string path = options->output_path ? options->output_path : "";
    ProgressFn progress;
    if (options->progress)
      progress = [&](const char *phase, int done, int total) {
        options->progress(options->progress_user, phase, done, total);
      };
    if (options->stopped_text)
      *options->stopped_text = nullptr;
    if (options->stats_json)
      *options->stats_json = nullptr;
    CompileStats stats;
    Expected<int> fd = compileModel(*input, *settings, path, &stats, progress);
    if (!fd)
      return fd.takeError();
    if (options->stopped_text && !settings->stopAfter.empty())
      if (Status status =
              capi::copyString(stats.stopped, options->stopped_text);
          !status)
        return status;
    if (options->stats_json)
      if (Status status = capi::copyString(stats.json(), options->stats_json);
          !status)
        return status;
    if (!out) {
      if (*fd >= 0)
        close(*fd);
      return success();
    }
    if (!settings->stopAfter.empty() && settings->stopAfter != "pack") {
      if (*fd >= 0)
        close(*fd);
      return userError("the compile ended before there was an artefact",
                       "option stop-after", "leave it out to run the model");
    }
    std::shared_ptr<const Artefact> artefact;
    auto loaded = path.empty() ? Artefact::loadFd(*fd, "memory")
                               : Artefact::load(path, {});
    if (!loaded)
      return loaded.takeError();
    return capi::openModule(std::move(*loaded), load, out);
  });
}

knapper_error *knapper_inspect(const knapper_compile_options *given,
                               char **json) {
  return capi::guarded([&]() -> Status {
    const char *function = "knapper_inspect";
    if (!json || !given)
      return userError("an argument is NULL", function);
    *json = nullptr;
    auto options = readCompileOptions(given, function);
    if (!options)
      return options.takeError();
    auto input = readInput(*options, function);
    if (!input)
      return input.takeError();
    OnnxSource source;
    source.path = input->path;
    source.bytes = input->bytes;
    Expected<std::string> text = inspectOnnx(source);
    if (!text)
      return text.takeError();
    return capi::copyString(*text, json);
  });
}

knapper_error *knapper_explain(const knapper_module *module, char **html) {
  return capi::guarded([&]() -> Status {
    if (!module || !html)
      return userError("an argument is NULL", "knapper_explain");
    *html = nullptr;
    const char *description = nullptr;
    if (knapper_error *error = knapper_module_describe(module, &description)) {
      Error copy = error->error;
      knapper_error_release(error);
      return copy;
    }
    return capi::copyString(reportHtml(description), html);
  });
}
