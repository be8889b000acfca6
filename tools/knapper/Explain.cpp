#include "tools/knapper/ModelArgument.h"

#include <filesystem>

namespace knapper::cli {
namespace {

struct Arguments {
  ModelArgument model;
  std::string output;
  bool json = false;
};

Status explain(Session &session, const Arguments &arguments) {
  Expected<ModulePtr> module = arguments.model.open(session);
  if (!module)
    return module.takeError();
  if (arguments.json) {
    const char *json = nullptr;
    if (Status status = toStatus(knapper_module_describe(module->get(), &json));
        !status)
      return status;
    print(std::string(json) + "\n");
    return success();
  }
  char *html = nullptr;
  if (Status status = toStatus(knapper_explain(module->get(), &html)); !status)
    return status;
  std::string output = arguments.output;
  if (output.empty())
    output = std::filesystem::path(arguments.model.path())
                 .filename()
                 .replace_extension(".html")
                 .string();
  if (Status status = writeFile(output, takeString(html)); !status)
    return status;
  print(printable(output) + "\n");
  return success();
}

} // namespace

void addExplain(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "explain", "Writes a report: kernels, fusions, memory, time per phase");
  arguments->model.addTo(*command);
  command
      ->add_option("-o,--output", arguments->output,
                   "The HTML file, which needs no network [MODEL.html here]")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json,
                    "Print everything as JSON instead");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return explain(session, *arguments);
    };
  });
}

} // namespace knapper::cli
