#include "compiler/pipeline/Table.h"
#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/ModelArgument.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

struct CompileArguments {
  std::string model, output;
  bool json = false;
  CompilerFlags flags;
};

void show(const nlohmann::ordered_json &stats, const std::string &output) {
  double total = 0;
  std::string phases;
  for (const auto &phase : stats["phases"]) {
    double seconds = phase["seconds"].get<double>();
    total += seconds;
    phases += format("  %-12s %8.3f s\n",
                     phase["name"].get<std::string>().c_str(), seconds);
  }
  print(format("%s: %s in %.2f s%s\n", printable(output).c_str(),
               bytesText(stats.value("artefact_bytes", 0.0)).c_str(), total,
               stats.value("from_cache", false) ? ", from the cache" : ""));
  print(phases);
  print(format("  %u launches, %u kernels, %u variants (kernels x instruction "
               "sets x guards)",
               stats.value("launches", 0u), stats.value("kernels", 0u),
               stats.value("variants", 0u)));
  if (unsigned variants = stats.value("variants", 0u);
      variants && stats.value("variant_cpu_seconds", 0.0) > 0)
    print(format(", %.1f ms of CPU a variant",
                 1e3 * stats.value("variant_cpu_seconds", 0.0) / variants));
  if (stats.value("pack_seconds", 0.0) > 0)
    print(
        format("; weights packed in %.3f s", stats.value("pack_seconds", 0.0)));
  print("\n");
  if (unsigned used = stats.value("records_used", 0u))
    print(format("  %u kernels scheduled by a tuning record\n", used));
  if (unsigned stale = stats.value("records_stale", 0u))
    print(format("  %u tuning records do not fit this version and were left "
                 "out: tune again\n",
                 stale));
}

Status compile(Session &session, const CompileArguments &arguments) {
  Expected<Options> settings = arguments.flags.options();
  if (!settings)
    return settings.takeError();
  if (isArtefact(arguments.model))
    return userError("it is a compiled artefact, not a model", arguments.model,
                     "knapper run " + arguments.model);
  bool stops = !settings->stopAfter.empty() && settings->stopAfter != "pack";
  std::string output = arguments.output;
  if (output.empty() && !stops)
    output = std::filesystem::path(arguments.model)
                 .filename()
                 .replace_extension(".knap")
                 .string();
  if (!settings->printAfter.empty())
    session.raiseLogLevel(KNAPPER_LOG_INFO); // the log is where it goes

  auto given = arguments.flags.given();
  std::vector<knapper_option> rows;
  for (auto &[key, value] : given)
    rows.push_back({key.c_str(), value.c_str()});
  char *stopped = nullptr, *stats = nullptr;
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = arguments.model.c_str();
  options.output_path = output.c_str();
  options.options = rows.data();
  options.num_options = static_cast<int32_t>(rows.size());
  options.progress = [](void *user, const char *phase, int32_t done,
                        int32_t total) {
    static_cast<Session *>(user)->progress(phase, done, total);
  };
  options.progress_user = &session;
  options.stopped_text = &stopped;
  options.stats_json = &stats;
  Status status = toStatus(knapper_compile(&options, nullptr, nullptr));
  std::string text = takeString(stopped), json = takeString(stats);
  if (!status)
    return status;
  session.progress("", 1, 1);
  if (arguments.json)
    print(json + "\n");
  else if (stops)
    print(text);
  else
    show(nlohmann::ordered_json::parse(json), output);
  return success();
}

} // namespace

void addCompile(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<CompileArguments>();
  CLI::App *command = app.add_subcommand(
      "compile", "Compiles a model into one file of native code");
  command
      ->add_option(
          "model", arguments->model,
          "An .onnx file, a portable artefact of StableHLO (.mlirbc), or what "
          "--dump-dir wrote with --start-from")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "Where to write the artefact [MODEL.knap here]")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "Print what was done as JSON");
  arguments->flags.addTo(*command);
  std::string footer = "The phases, in order:\n";
  for (const PhaseHelp &phase : phaseHelp())
    footer += format("  %-10s %s\n", phase.name, phase.does);
  auto listed = [&](const char *what, const std::vector<const char *> &names) {
    footer += what;
    for (const char *name : names)
      footer += format("%s %s", name == names.front() ? "" : ",", name);
    footer += "\n";
  };
  footer += "Their passes, for --stop-after and --print-after:\n";
  for (const PhaseHelp &phase : phaseHelp())
    if (!phase.passes.empty())
      listed(format("  %s:", phase.name).c_str(), phase.passes);
  listed("Passes for --disable:", optionalPasses());
  footer += "Every flag of the compiler is an environment variable too: "
            "--cache-dir is KNAPPER_CACHE_DIR.";
  footer += "\nFor example:\n"
            "  knapper compile model.onnx -o model.knap\n"
            "  knapper compile model.onnx --dim batch=8 --dtype bf16\n"
            "  knapper compile model.onnx --target cpu,cuda";
  command->footer(footer);
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return compile(session, *arguments);
    };
  });
}

} // namespace knapper::cli
