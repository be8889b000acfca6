#include "compiler/report/Comparison.h"
#include "compiler/report/Html.h"
#include "compiler/report/Times.h"
#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Profiles.h"
#include "tools/knapper/TimesTable.h"

#include <algorithm>
#include <filesystem>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  std::string output, other;
  int64_t runs = 0;
  bool profile = false, json = false;
};

/// Both must take the same arrays.
Status sameInputs(const Arguments &arguments, const Json &first,
                  const Json &second) {
  auto types = [](const Json &description) {
    std::string text;
    for (const Json &input : description["inputs"])
      text += input["name"].get<std::string>() + " " +
              input["dtype"].get<std::string>() + " of rank " +
              std::to_string(input["shape"].size()) + ", ";
    return text.empty() ? "none" : text.substr(0, text.size() - 2);
  };
  std::string one = types(first), other = types(second);
  if (one == other)
    return success();
  return userError("the two models have other inputs: " + one + "; and " +
                       other,
                   arguments.other, "give two artefacts of one model");
}

/// Adds "profile" (compiler/report/Times.h) to the description, and where there
/// is another file to compare with, "comparison"
/// (compiler/report/Comparison.h).
Status measure(Session &session, Arguments &arguments, knapper_module *module,
               Json &description) {
  Expected<std::vector<Array>> inputs =
      arguments.inputs.make(module, arguments.dims);
  if (!inputs)
    return inputs.takeError();
  session.progress("peaks of the machine", 0, 2);
  Expected<Json> devices = measuredDevices();
  if (!devices)
    return devices.takeError();
  std::vector<knapper_module *> modules = {module};
  ModulePtr second;
  Json secondDescription;
  if (!arguments.other.empty()) {
    Expected<ModulePtr> opened = arguments.model.openBeside(arguments.other);
    if (!opened)
      return opened.takeError();
    second = std::move(*opened);
    modules.push_back(second.get());
    Expected<Json> about = describe(second.get());
    if (!about)
      return about.takeError();
    secondDescription = std::move(*about);
    if (Status status = sameInputs(arguments, description, secondDescription);
        !status)
      return status;
  }
  session.progress("runs", 1, 2);
  auto profiles =
      profileInTurns(modules, tensorsOf(*inputs), {.runs = arguments.runs});
  if (!profiles)
    return profiles.takeError();
  session.progress("", 2, 2);
  description["profile"] =
      report::timesOf(description, profiles->front(), *devices);
  if (second) {
    secondDescription["profile"] =
        report::timesOf(secondDescription, profiles->back(), *devices);
    description["comparison"] =
        report::comparisonOf(description, secondDescription);
    description["comparison"]["first"] = arguments.model.path();
  }
  return success();
}

Status explain(Session &session, Arguments &arguments) {
  if (Status status = arguments.dims.parse(); !status)
    return status;
  Expected<ModulePtr> module = arguments.model.open(session);
  if (!module)
    return module.takeError();
  Expected<Json> description = describe(module->get());
  if (!description)
    return description.takeError();
  if (arguments.profile)
    if (Status status =
            measure(session, arguments, module->get(), *description);
        !status)
      return status;
  std::string text =
      description->dump(-1, ' ', false, Json::error_handler_t::replace);
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
  if (Status status = writeFile(output, reportHtml(text)); !status)
    return status;
  if (arguments.profile)
    print(arguments.dims.chosenText() + timesTable((*description)["profile"]) +
          "\n");
  if (description->contains("comparison"))
    print(comparisonTable((*description)["comparison"]) + "\n");
  print(printable(output) + "\n");
  return success();
}

} // namespace

void addExplain(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
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
                   "Another artefact of the model, which runs in turns with "
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
