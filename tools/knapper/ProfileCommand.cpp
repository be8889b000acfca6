#include "tools/knapper/Inputs.h"
#include "tools/knapper/ModelArgument.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ProfileArguments {
  ModelArgument model;
  Dims dims;
  Inputs inputs;
  std::string output;
  int64_t runs = 3;
};

/// One run as events of the Trace Event Format, from `begin` microseconds on;
/// returns where it ends.
double addRun(Json &events, const Json &profile, int64_t number, double begin) {
  const Json &launches = profile.at("launches");
  double total = profile.value("total_ns", 0.0) * 1e-3;
  events.push_back({{"name", "run " + std::to_string(number)},
                    {"cat", "run"},
                    {"ph", "X"},
                    {"ts", begin},
                    {"dur", total},
                    {"pid", 1},
                    {"tid", 1},
                    {"args", {{"launches", profile.at("events").size()}}}});
  for (const Json &event : profile.at("events")) {
    const Json &launch = launches.at(event.value("launch", size_t(0)));
    double ns = event.value("ns", 0.0);
    double flops = event.value("flops", 0.0), bytes = event.value("bytes", 0.0);
    std::string schedule = launch.value("schedule", "");
    events.push_back({{"name", launch.value("origin", "")},
                      {"cat", schedule.substr(0, schedule.find('{'))},
                      {"ph", "X"},
                      {"ts", begin + event.value("start_ns", 0.0) * 1e-3},
                      {"dur", ns * 1e-3},
                      {"pid", 1},
                      {"tid", 2},
                      {"args",
                       {{"kernel", launch.value("kernel", "")},
                        {"schedule", schedule},
                        {"flops", flops},
                        {"bytes", bytes},
                        {"GFLOP/s", ns > 0 ? flops / ns : 0},
                        {"GB/s", ns > 0 ? bytes / ns : 0}}}});
  }
  return begin + total;
}

Json nameOf(const char *what, int thread, const std::string &name) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", 1},
          {"tid", thread},
          {"args", {{"name", name}}}};
}

Status profile(Session &session, ProfileArguments &arguments) {
  TRY(arguments.dims.parse());
  ASSIGN_OR_RETURN(ModulePtr opened, arguments.model.open(session));
  ASSIGN_OR_RETURN(std::vector<Array> inputs,
                   arguments.inputs.make(opened.get(), arguments.dims));
  std::vector<knapper_tensor> tensors = tensorsOf(inputs);
  Json events = Json::array();
  double begin = 0;
  size_t launches = 0;
  constexpr int64_t warmUp = 1;
  for (int64_t run = 0; run < warmUp + arguments.runs; ++run) {
    session.progress("runs", static_cast<int>(run),
                     static_cast<int>(warmUp + arguments.runs));
    char *text = nullptr;
    TRY(toStatus(knapper_profile(opened.get(), tensors.data(),
                                 static_cast<int32_t>(tensors.size()), &text)));
    Json json = Json::parse(takeString(text));
    if (run == 0) {
      events.push_back(
          nameOf("process_name", 1,
                 arguments.model.path() + " (" + json.value("isa", "") + ")"));
      events.push_back(nameOf("thread_name", 1, "runs"));
      events.push_back(nameOf("thread_name", 2, "kernels"));
    }
    if (run < warmUp)
      continue;
    launches = json.at("events").size();
    begin = addRun(events, json, run - warmUp + 1, begin);
  }
  session.progress("", 1, 1);
  std::string output = arguments.output;
  if (output.empty())
    output = std::filesystem::path(arguments.model.path())
                 .filename()
                 .replace_extension(".trace.json")
                 .string();
  Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  TRY(writeFile(output,
                trace.dump(1, ' ', false, Json::error_handler_t::replace)));
  print(arguments.dims.chosenText());
  print(format("%s: %lld runs of %zu launches\n", printable(output).c_str(),
               static_cast<long long>(arguments.runs), launches));
  return success();
}

} // namespace

void addProfile(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App *command = app.add_subcommand(
      "profile", "Writes a trace of every launch, for ui.perfetto.dev");
  arguments->model.addTo(*command);
  arguments->inputs.addTo(*command);
  arguments->dims.addWithAutoTo(*command);
  command
      ->add_option("-o,--output", arguments->output,
                   "The trace, JSON [MODEL.trace.json here]")
      ->type_name("FILE");
  command->add_option("--runs", arguments->runs, "How many runs it holds")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(1000)))
      ->capture_default_str();
  command->footer(
      "Each launch is waited for, so that its time is its own: runs take "
      "longer "
      "than without\na profile (knapper bench times those). One more run warms "
      "up and is not shown.\nFor example:\n"
      "  knapper profile model.knap --dim batch=8 -o model.trace.json");
  command->callback([&session, arguments] {
    session.action = [&session, arguments] {
      return profile(session, *arguments);
    };
  });
}

} // namespace knapper::cli
