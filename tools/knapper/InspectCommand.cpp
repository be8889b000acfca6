#include "tools/knapper/CompilerFlags.h"
#include "tools/knapper/ModelArgument.h"

#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

void showSignature(const Json &json, const char *key) {
  for (const Json &tensor : json.value(key, Json::array())) {
    std::string dims;
    for (const Json &dim : tensor.value("dims", Json::array()))
      dims +=
          (dims.empty() ? "" : ", ") +
          (dim.is_string() ? printable(dim.get<std::string>()) : dim.dump());
    print(format("%-7s %s: %s [%s]\n",
                 std::string_view(key) == "inputs" ? "input" : "output",
                 printable(tensor.value("name", "")).c_str(),
                 printable(tensor.value("dtype", "")).c_str(), dims.c_str()));
  }
}

void show(const Json &json) {
  print(format("producer %s\n", printable(json.value("producer", "")).c_str()));
  for (const Json &opset : json.value("opsets", Json::array()))
    print(format("opset   %s %s\n",
                 printable(opset.value("domain", "")).c_str(),
                 opset.value("version", Json()).dump().c_str()));
  showSignature(json, "inputs");
  showSignature(json, "outputs");
  print(format("nodes   %s\nweights %s in %s tensors\n",
               json.value("nodes", Json()).dump().c_str(),
               bytesText(json.value("initializer_bytes", 0.0)).c_str(),
               json.value("initializers", Json()).dump().c_str()));
  print("operators\n");
  for (const Json &op : json.value("operators", Json::array()))
    print(format("  %6s  %s (%s opset %s)%s\n",
                 op.value("count", Json()).dump().c_str(),
                 printable(op.value("op", "")).c_str(),
                 printable(op.value("domain", "")).c_str(),
                 op.value("opset", Json()).dump().c_str(),
                 op.value("registered", false) ? "  registered"
                 : op.value("supported", true) ? ""
                                               : "  NOT SUPPORTED"));
  const Json missing = json.value("unsupported", Json::array());
  if (missing.empty()) {
    print("every operator is known\n");
    return;
  }
  print("not supported\n");
  for (const Json &op : missing) {
    const Json nodes = op.value("nodes", Json::array());
    std::string name = printable(op.value("op", "")),
                reason = printable(op.value("reason", ""));
    // Inputs and initializers are of no opset.
    if (op.value("opset", 0) == 0)
      print(format("  %s: %s; %zu of them", name.c_str(), reason.c_str(),
                   nodes.size()));
    else
      print(format("  %s (%s opset %s): %s; %zu nodes", name.c_str(),
                   printable(op.value("domain", "")).c_str(),
                   op.value("opset", Json()).dump().c_str(), reason.c_str(),
                   nodes.size()));
    for (size_t i = 0; i < nodes.size() && i < 3; ++i)
      if (nodes[i].is_string())
        print((i ? ", '" : ": '") + printable(nodes[i].get<std::string>()) +
              "'");
    print("\n");
  }
}

} // namespace

void addInspect(CLI::App &app, Session &session) {
  struct Arguments {
    std::string model;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Says what an ONNX model holds and needs, without compiling");
  command->add_option("model", arguments->model, "An .onnx file")
      ->required()
      ->type_name("FILE");
  command->footer("Exit code 1 where something is not supported. For example:\n"
                  "  knapper inspect model.onnx");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([&session, arguments] {
    session.action = [&session, arguments]() -> Status {
      if (isArtefact(arguments->model))
        return userError("it is a compiled artefact, not a model",
                         arguments->model,
                         "knapper explain " + arguments->model);
      knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
      options.model_path = arguments->model.c_str();
      char *text = nullptr;
      TRY(toStatus(knapper_inspect(&options, &text)));
      std::string made = takeString(text);
      Json json = Json::parse(made);
      if (arguments->json)
        print(made + "\n");
      else
        show(json);
      session.exitCode =
          json.value("unsupported", Json::array()).empty() ? 0 : 1;
      return success();
    };
  });
}

} // namespace knapper::cli
