#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/TimesTable.h"

#include <algorithm>
#include <filesystem>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainArguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  std::string output, other;
  int64_t runs = 0;
  bool profile = false, json = false;
};

Status explain(Session &session, ExplainArguments &arguments) {
  TRY(arguments.dims.parse());
  ASSIGN_OR_RETURN(ModulePtr module,
                   arguments.model.open(session, !arguments.profile));
  knapper_explain_options options = KNAPPER_EXPLAIN_OPTIONS_INIT;
  Expected<std::vector<Array>> inputs = std::vector<Array>();
  std::vector<knapper_tensor> tensors;
  ModulePtr other;
  if (arguments.profile) {
    inputs = arguments.inputs.make(module.get(), arguments.dims);
    if (!inputs)
      return inputs.takeError();
    tensors = tensorsOf(*inputs);
    options.profile = 1;
    options.inputs = tensors.data();
    options.num_inputs = static_cast<int32_t>(tensors.size());
    options.runs = arguments.runs;
    options.name = arguments.model.path().c_str();
    options.progress = [](void *user, const char *phase, int32_t done,
                          int32_t total) {
      static_cast<Session *>(user)->progress(phase, done, total);
    };
    options.progress_user = &session;
  }
  if (!arguments.other.empty()) {
    ASSIGN_OR_RETURN(ModulePtr opened,
                     arguments.model.openBeside(arguments.other));
    other = std::move(opened);
    options.other = other.get();
    options.other_name = arguments.other.c_str();
  }
  char *html = nullptr, *json = nullptr;
  TRY(toStatus(knapper_explain_with(module.get(), &options,
                                    arguments.json ? nullptr : &html, &json)));
  std::string page = html ? takeString(html) : "", text = takeString(json);
  if (arguments.json) {
    print(text + "\n");
    return success();
  }
  std::string output = arguments.output;
  if (output.empty())
    output = std::filesystem::path(arguments.model.path())
                 .filename()
                 .replace_extension(".html")
                 .string();
  TRY(writeFile(output, page));
  Json description = Json::parse(text);
  if (arguments.profile)
    print(arguments.dims.chosenText() + timesTable(description["profile"]) +
          "\n");
  if (description.contains("comparison"))
    print(comparisonTable(description["comparison"]) + "\n");
  print(printable(output) + "\n");
  return success();
}

} // namespace

void addExplain(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App *command = app.add_subcommand(
      "explain", "Writes a report: kernels, their times and what would make "
                 "them faster, fusions, memory");
  arguments->model.addTo(*command);
  CLI::Option *profile = command->add_flag(
      "--profile", arguments->profile,
      "Run the model: times of all kernels, as shares of the machine's peaks, "
      "and what would make them faster");
  CLI::Option *runs =
      command
          ->add_option("--runs", arguments->runs,
                       "How many runs are profiled [a second of them]")
          ->type_name("N")
          ->check(CLI::Range(int64_t(1), int64_t(1000)));
  auto before = command->get_options();
  arguments->inputs.addTo(*command);
  arguments->dims.addWithAutoTo(*command);
  // What only a run needs would be ignored without one.
  for (CLI::Option *option : command->get_options())
    if (std::find(before.begin(), before.end(), option) == before.end())
      option->needs(profile);
  runs->needs(profile);
  command
      ->add_option("--compare", arguments->other,
                   "Another artefact of the model, which runs interleaved with "
                   "this one: times kernel by kernel")
      ->type_name("FILE")
      ->needs(profile);
  command
      ->add_option("-o,--output", arguments->output,
                   "The HTML file, which needs no network [MODEL.html here]")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json,
                    "Print everything as JSON instead");
  command->footer(
      "With --profile the longest kernels are also printed. The roofline is "
      "the least time\nthat the measured peaks of memory bandwidth and "
      "arithmetic allow, as a share of the\ntime taken; data that stays in "
      "caches can exceed 100 %. For example:\n"
      "  knapper explain model.knap --profile --dim batch=8 -o report.html\n"
      "  knapper explain old.knap --profile --compare new.knap --dim batch=8");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return explain(session, *arguments);
    };
  });
}

} // namespace knapper::cli
