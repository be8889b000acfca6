#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/ModelArgument.h"

#include <filesystem>
#include <fstream>

namespace knapper::cli {
namespace {

struct Arguments {
  std::string model, output;
  std::vector<std::string> dims;
};

Status translate(const Arguments &arguments) {
  std::string dims;
  for (const std::string &dim : arguments.dims)
    dims += (dims.empty() ? "" : ",") + dim;
  knapper_option row{"dim", dims.c_str()};
  knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
  options.model_path = arguments.model.c_str();
  options.options = &row;
  options.num_options = dims.empty() ? 0 : 1;
  std::error_code absent;
  if (std::filesystem::equivalent(arguments.output, arguments.model, absent))
    return userError("would overwrite the model", "option output",
                     "give another file to write");
  char *text = nullptr;
  TRY(toStatus(knapper_translate(&options, &text)));
  std::string made = takeString(text);
  if (arguments.output == "-") {
    print(made);
    return success();
  }
  std::ofstream file(arguments.output, std::ios::binary | std::ios::trunc);
  file << made;
  file.close();
  if (!file)
    return userError("cannot be written", arguments.output,
                     "give a folder that you may write to");
  print(format("%s: %s of StableHLO\n", printable(arguments.output).c_str(),
               bytesText(static_cast<double>(made.size())).c_str()));
  return success();
}

} // namespace

void addTranslate(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "translate", "Writes a model as portable StableHLO text");
  command
      ->add_option(
          "model", arguments->model,
          "An .onnx file, another model that compiles, or a .knap file "
          "of --keep-source")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "The .mlir file to write; - for the terminal")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--dim", arguments->dims,
                   "A number for a size without one, batch=1")
      ->type_name("NAME=NUMBER");
  command->footer("For example:\n  knapper translate model.onnx -o model.mlir "
                  "--dim batch=1");
  command->callback([&session, arguments] {
    session.action = [arguments] { return translate(*arguments); };
  });
}

} // namespace knapper::cli
