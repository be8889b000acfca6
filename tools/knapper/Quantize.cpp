// knapper quantize: weights as integers, and how far the results move.
#include "tools/knapper/Accuracy.h"
#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::pair<std::string, std::string>>;

struct Arguments {
  std::string model, output, weights;
  int64_t group = 64;
  bool asymmetric = false, json = false;
  int threads = 0;
  std::vector<std::string> data;
  Dims dims;
  CompilerFlags flags;
};

class Quantizer {
public:
  Quantizer(Session &session, Arguments &arguments)
      : session(session), arguments(arguments) {}

  Status run();

private:
  /// Loads what it compiled when `load`.
  Expected<ModulePtr> compile(const Rows &rows, const std::string &output,
                              bool load, Json *stats);
  Status compare(knapper_module *exact, knapper_module *quantised);
  void report(const Json &before, const Json &after) const;

  Session &session;
  Arguments &arguments;
  std::vector<Distance> outputs;
};

Expected<ModulePtr> Quantizer::compile(const Rows &rows,
                                       const std::string &output, bool load,
                                       Json *stats) {
  std::vector<knapper_option> table;
  for (const auto &[key, value] : rows)
    table.push_back({key.c_str(), value.c_str()});
  char *text = nullptr;
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = arguments.model.c_str();
  options.output_path = output.empty() ? nullptr : output.c_str();
  options.options = table.data();
  options.num_options = static_cast<int32_t>(table.size());
  options.progress = [](void *user, const char *phase, int32_t done,
                        int32_t total) {
    static_cast<Session *>(user)->progress(phase, done, total);
  };
  options.progress_user = &session;
  options.stats_json = &text;
  knapper_load_options loading = KNAPPER_LOAD_OPTIONS_INIT;
  loading.threads = arguments.threads;
  knapper_module *module = nullptr;
  Status status =
      toStatus(knapper_compile(&options, &loading, load ? &module : nullptr));
  std::string json = takeString(text);
  if (!status)
    return status.takeError();
  *stats = Json::parse(json, nullptr, false);
  return ModulePtr(module);
}

Expected<ResultPtr> resultsOf(knapper_module *module,
                              const std::vector<knapper_tensor> &inputs) {
  knapper_result *made = nullptr;
  if (Status status = toStatus(knapper_run(module, inputs.data(),
                                           static_cast<int32_t>(inputs.size()),
                                           nullptr, 0, &made));
      !status)
    return status.takeError();
  return ResultPtr(made);
}

Status Quantizer::compare(knapper_module *exact, knapper_module *quantised) {
  for (size_t file = 0; file < arguments.data.size(); ++file) {
    session.progress("compare", static_cast<int>(file),
                     static_cast<int>(arguments.data.size()));
    Inputs files({arguments.data[file]});
    Expected<std::vector<Array>> inputs =
        files.make(exact, arguments.dims.values());
    if (!inputs)
      return inputs.takeError();
    std::vector<knapper_tensor> tensors = tensorsOf(*inputs);
    Expected<ResultPtr> wanted = resultsOf(exact, tensors);
    if (!wanted)
      return wanted.takeError();
    Expected<ResultPtr> got = resultsOf(quantised, tensors);
    if (!got)
      return got.takeError();
    for (int32_t i = 0; i < knapper_result_num_outputs(wanted->get()); ++i) {
      knapper_tensor ours = {}, theirs = {};
      if (Status status =
              toStatus(knapper_result_output(wanted->get(), i, &theirs));
          !status)
        return status;
      if (Status status = toStatus(knapper_result_output(got->get(), i, &ours));
          !status)
        return status;
      Expected<knapper_tensor_info> info = outputInfo(exact, i);
      if (!info)
        return info.takeError();
      if (outputs.size() <= static_cast<size_t>(i))
        outputs.push_back({info->name});
      // Sizes that data decides may differ.
      if (!std::equal(ours.shape, ours.shape + ours.rank, theirs.shape,
                      theirs.shape + theirs.rank))
        return userError("output '" + printable(info->name) +
                             "' has another size after quantisation",
                         arguments.data[file],
                         "leave this output out of the model");
      outputs[static_cast<size_t>(i)].add(ours, theirs);
    }
  }
  session.progress("", 1, 1);
  return success();
}

void Quantizer::report(const Json &before, const Json &after) const {
  double bytes = after.value("artefact_bytes", 0.0);
  if (arguments.json) {
    Json json = {
        {"output", arguments.output}, {"weights", arguments.weights},
        {"group", arguments.group},   {"asymmetric", arguments.asymmetric},
        {"artefact_bytes", bytes},    {"outputs", jsonOf(outputs)}};
    if (!outputs.empty())
      json["float_bytes"] = before.value("artefact_bytes", 0.0);
    print(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  print(format("%s: %s", printable(arguments.output).c_str(),
               bytesText(bytes).c_str()));
  if (outputs.empty()) {
    print("; give --data to compare the results with float32\n");
    return;
  }
  print(format(", of %s in float32\n",
               bytesText(before.value("artefact_bytes", 0.0)).c_str()));
  print(tableOf(outputs));
}

Status Quantizer::run() {
  if (Status status = arguments.dims.parse(); !status)
    return status;
  if (arguments.weights.empty())
    return userError("nothing says what to quantise", "command line",
                     "--weights-only int8, or --weights-only int4");
  if (arguments.model.ends_with(".knap"))
    return userError("an artefact holds kernels, not the model",
                     arguments.model, "give the .onnx file");
  if (!arguments.output.ends_with(".knap"))
    return userError("integer weights go into an artefact", arguments.output,
                     "-o FILE.knap");
  Rows rows = arguments.flags.given(), narrow = rows;
  narrow.emplace_back("weights", arguments.weights);
  narrow.emplace_back("weight-group", std::to_string(arguments.group));
  narrow.emplace_back("weight-zero-points",
                      arguments.asymmetric ? "true" : "false");
  Json before, after;
  bool compares = !arguments.data.empty();
  Expected<ModulePtr> quantised =
      compile(narrow, arguments.output, compares, &after);
  if (!quantised)
    return quantised.takeError();
  if (compares) {
    Expected<ModulePtr> exact = compile(rows, "", true, &before);
    if (!exact)
      return exact.takeError();
    if (Status status = compare(exact->get(), quantised->get()); !status)
      return status;
  }
  session.progress("", 1, 1);
  report(before, after);
  return success();
}

} // namespace

void addQuantize(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command =
      app.add_subcommand("quantize", "Stores a model's weights as integers");
  command->add_option("model", arguments->model, "An .onnx file")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Where to write the artefact")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--weights-only", arguments->weights,
                   "The weights of matrix products as integers of 8 or 4 bits; "
                   "activations stay float32")
      ->type_name("int8|int4");
  command
      ->add_option("--group", arguments->group,
                   "Rows of a column that share a scale")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--asymmetric", arguments->asymmetric,
                    "A zero point for each group as well");
  command
      ->add_option("--data", arguments->data,
                   "FILE.npz with an array for each input: the results are "
                   "compared with those in float32; may be repeated")
      ->type_name("FILE");
  command
      ->add_option("--threads", arguments->threads,
                   "Threads that run the model; 0: one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", arguments->json, "Print JSON");
  arguments->dims.addTo(*command, "A size that no file gives; may be repeated");
  arguments->flags.addTo(
      *command, {"threads", "dim", "stop-after", "start-from", "print-after",
                 "dump-dir", "weights", "weight-group", "weight-zero-points"});
  command->footer(
      "For example:\n"
      "  knapper quantize model.onnx -o model.knap --weights-only int4 "
      "--group 32 --data sample.npz");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return Quantizer(session, *arguments).run();
    };
  });
}

} // namespace knapper::cli
