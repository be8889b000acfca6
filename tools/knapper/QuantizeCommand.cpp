// knapper quantize: integers for floats, and how far the results move.
#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/Inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeArguments {
  std::string model, output, weights, range, activations;
  double percentile = 99.99;
  int64_t group = 64;
  bool asymmetric = false, json = false;
  int threads = 0;
  std::vector<std::string> calibrate, data, keep;
  CompilerFlags flags;
};

/// The .npz and .npy files that an argument names, a folder's by name.
Expected<std::vector<std::string>> filesOf(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::file_status found = fs::status(path, code);
  if (!fs::exists(found))
    return userError("cannot be read: " + code.message(), path,
                     "check the path and its permissions");
  if (!fs::is_directory(found))
    return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, code), end; !code && it != end;
       it.increment(code))
    if (it->path().extension() == ".npz" || it->path().extension() == ".npy")
      files.push_back(it->path().string());
  if (code)
    return userError("cannot be read: " + code.message(), path,
                     "check the path and its permissions");
  if (files.empty())
    return userError("the folder holds no .npz file", path,
                     "numpy.savez('sample.npz', NAME=array, ...) with an array "
                     "for each input of the model");
  std::sort(files.begin(), files.end());
  return files;
}

class QuantizeRun {
public:
  QuantizeRun(Session &session, QuantizeArguments &arguments)
      : session(session), arguments(arguments) {}

  Status run();

private:
  Status check() const;
  Status quantize();
  void report(const Json &json) const;
  static int sample(void *user, int32_t index, const knapper_module *model,
                    knapper_tensor *inputs);

  Session &session;
  QuantizeArguments &arguments;
  std::vector<std::string> files;
  std::vector<Array> arrays; ///< of the sample that is in use
  Status failure;            ///< why `sample` failed
  Json json;
};

int QuantizeRun::sample(void *user, int32_t index, const knapper_module *model,
                        knapper_tensor *inputs) {
  auto *self = static_cast<QuantizeRun *>(user);
  Inputs files({self->files[static_cast<size_t>(index)]});
  Expected<std::vector<Array>> made = files.makeFromFiles(model);
  if (!made) {
    self->failure = made.takeError();
    return 1;
  }
  self->arrays = std::move(*made);
  for (size_t i = 0; i < self->arrays.size(); ++i)
    inputs[i] = self->arrays[i].tensor();
  return 0;
}

Status QuantizeRun::check() const {
  bool weightsOnly = !arguments.weights.empty();
  if (!weightsOnly && arguments.calibrate.empty())
    return userError("nothing says what to quantise", "command line",
                     "--calibrate DATA, or --weights-only int8, or "
                     "--weights-only int4");
  if (weightsOnly && !arguments.calibrate.empty())
    return userError("--weights-only and --calibrate are two kinds of "
                     "quantisation",
                     "command line",
                     "give one of them; --data says what to compare on");
  if (!weightsOnly && !arguments.data.empty())
    return userError("--data goes with --weights-only", "command line",
                     "--calibrate's data is compared on, too");
  if (arguments.model.ends_with(".knap"))
    return userError("an artefact holds kernels, not the model",
                     arguments.model, "give the .onnx file");
  return success();
}

Status QuantizeRun::quantize() {
  auto rows = arguments.flags.given();
  rows.emplace_back("weight-group", std::to_string(arguments.group));
  rows.emplace_back("weight-zero-points",
                    arguments.asymmetric ? "true" : "false");
  std::vector<knapper_option> table;
  for (const auto &[key, value] : rows)
    table.push_back({key.c_str(), value.c_str()});
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = arguments.model.c_str();
  options.output_path = arguments.output.c_str();
  options.options = table.data();
  options.num_options = static_cast<int32_t>(table.size());
  options.progress = [](void *user, const char *phase, int32_t done,
                        int32_t total) {
    static_cast<Session *>(user)->progress(phase, done, total);
  };
  options.progress_user = &session;
  knapper_load_options loading = KNAPPER_LOAD_OPTIONS_INIT;
  loading.threads = arguments.threads;
  std::vector<const char *> names, keep;
  for (const std::string &file : files)
    names.push_back(file.c_str());
  for (const std::string &name : arguments.keep)
    keep.push_back(name.c_str());
  auto textOf = [](const std::string &text) {
    return text.empty() ? nullptr : text.c_str();
  };
  knapper_quantize_options how = KNAPPER_QUANTIZE_OPTIONS_INIT;
  how.weights_only = textOf(arguments.weights);
  how.range = textOf(arguments.range);
  how.percentile = arguments.percentile;
  how.activations = textOf(arguments.activations);
  how.keep = keep.data();
  how.num_keep = static_cast<int32_t>(keep.size());
  how.num_samples = static_cast<int32_t>(files.size());
  how.sample = sample;
  how.sample_user = this;
  how.sample_names = names.data();
  char *text = nullptr;
  Status status =
      toStatus(knapper_quantize(&options, &how, &loading, nullptr, &text));
  std::string said = takeString(text);
  if (!failure)
    return std::move(failure);
  if (!status)
    return status;
  json = Json::parse(said, nullptr, false);
  return success();
}

double numberOf(const Json &json, const char *name, double missing) {
  auto it = json.find(name);
  return it != json.end() && it->is_number() ? it->get<double>() : missing;
}
std::string nameOf(const Json &json, const char *name) {
  return printable(json.value(name, std::string()));
}

/// Columns, a line an output.
std::string outputTable(const Json &outputs) {
  std::string text = "  rms error    largest    of largest   dB      cosine\n";
  for (const Json &own : outputs) {
    text += format(
        "  %9.3g  %9.3g   %9.3g  %6.1f  %9.7f  ",
        numberOf(own, "relative_rms", INFINITY),
        numberOf(own, "largest_error", NAN), numberOf(own, "largest", NAN),
        numberOf(own, "decibels", INFINITY), numberOf(own, "cosine", NAN));
    text += nameOf(own, "name");
    if (auto unequal = own.value("not_finite", int64_t(0)))
      text += format("  (%lld not finite on one side)",
                     static_cast<long long>(unequal));
    text += "\n";
  }
  return text;
}

/// A line a layer, the one that is most off by itself first.
std::string layerTable(const Json &layers) {
  auto alone = [](const Json *layer) {
    return layer->contains("alone")
               ? numberOf((*layer)["alone"], "relative_rms", INFINITY)
               : 0;
  };
  std::vector<const Json *> sorted;
  for (const Json &layer : layers)
    sorted.push_back(&layer);
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [&](const Json *a, const Json *b) { return alone(a) > alone(b); });
  std::string text = "  alone     together   range of its input     layer\n";
  for (const Json *layer : sorted) {
    if (!layer->contains("alone"))
      return "";
    text += format("  %9.3g %9.3g  ", alone(layer),
                   numberOf((*layer)["together"], "relative_rms", INFINITY));
    text += layer->contains("low")
                ? format("%9.4g .. %-9.4g  ", numberOf(*layer, "low", 0),
                         numberOf(*layer, "high", 0))
                : std::string(24, ' ');
    text += nameOf(*layer, "name") + "\n";
  }
  return text;
}

void QuantizeRun::report(const Json &made) const {
  if (arguments.json) {
    Json whole = {
        {"output", arguments.output},
        {"weights", arguments.weights.empty() ? "int8" : arguments.weights}};
    if (!arguments.weights.empty()) {
      whole["group"] = arguments.group;
      whole["asymmetric"] = arguments.asymmetric;
    }
    for (const auto &[key, value] : made.items())
      if (key != "float_bytes" || value != 0)
        whole[key] = value;
    print(whole.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  print(format("%s: %s", printable(arguments.output).c_str(),
               bytesText(made.value("artefact_bytes", 0.0)).c_str()));
  if (files.empty()) {
    print("; give --data to compare the results with float32\n");
    return;
  }
  print(format(", of %s in float32\n",
               bytesText(made.value("float_bytes", 0.0)).c_str()));
  print(outputTable(made["outputs"]));
  if (!made["layers"].empty())
    print(format("%zu layers, the root mean square error of their results "
                 "when one is quantised and when all are:\n",
                 made["layers"].size()) +
          layerTable(made["layers"]));
  if (made["kept"].empty())
    return;
  print("matmuls that stay float:\n");
  for (const Json &node : made["kept"])
    print("  " + nameOf(node, "name") + ": " + nameOf(node, "why") + "\n");
}

Status QuantizeRun::run() {
  TRY(check());
  for (const auto *list : {&arguments.calibrate, &arguments.data})
    for (const std::string &path : *list) {
      ASSIGN_OR_RETURN(std::vector<std::string> found, filesOf(path));
      files.insert(files.end(), found.begin(), found.end());
    }
  Status status = quantize();
  session.progress("", 1, 1);
  if (status)
    report(json);
  return status;
}

} // namespace

void addQuantize(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App *command = app.add_subcommand(
      "quantize", "Stores a model's weights, or all that its matmuls read, as "
                  "integers");
  command->add_option("model", arguments->model, "An .onnx file")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Where to write: an artefact (.knap), or a model with "
                   "QuantizeLinear and DequantizeLinear (.onnx)")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "--calibrate", arguments->calibrate,
          "Static int8: the ranges of activations are those that this "
          "data makes. FILE.npz with an array for each input, named "
          "after it, or a folder of such files; a model of one input "
          "takes .npy files too. May be repeated; each file is one run")
      ->type_name("DATA")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--range", arguments->range,
          "Of the numbers of an activation, what its bytes stand for: "
          "all (minmax), all but a few (percentile), or what makes the "
          "least square error (error) [minmax]")
      ->type_name("minmax|percentile|error");
  command
      ->add_option("--percentile", arguments->percentile,
                   "How many of 100 numbers --range percentile keeps")
      ->type_name("P")
      ->capture_default_str();
  command
      ->add_option("--activations", arguments->activations,
                   "Bytes with a zero point, or signed ones around 0 [u8]")
      ->type_name("u8|i8");
  command
      ->add_option("--keep", arguments->keep,
                   "A node, or its result, that stays float; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--weights-only", arguments->weights,
                   "The weights of matmuls as integers of 8 or 4 bits; "
                   "activations stay float32")
      ->type_name("int8|int4");
  command
      ->add_option("--group", arguments->group,
                   "--weights-only: rows of a column that share a scale")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--asymmetric", arguments->asymmetric,
                    "--weights-only: a zero point for each group as well");
  command
      ->add_option("--data", arguments->data,
                   "--weights-only: data as --calibrate takes it; the results "
                   "are compared with those in float32; may be repeated")
      ->type_name("DATA")
      ->allow_extra_args(false);
  command
      ->add_option("--threads", arguments->threads,
                   "Threads that run the model; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->flags.addTo(*command, {"threads", "stop-after", "start-from",
                                    "print-after", "dump-dir", "weights",
                                    "weight-group", "weight-zero-points"});
  command->footer(
      "For example:\n"
      "  knapper quantize model.onnx -o model.knap --calibrate samples/\n"
      "  knapper quantize model.onnx -o model.knap --weights-only int4 "
      "--group 32 --data sample.npz");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return QuantizeRun(session, *arguments).run();
    };
  });
}

} // namespace knapper::cli
