#include "serving/scheduler/StepRecord.h"
#include "tools/knapper/Session.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace knapper::cli {
namespace {

std::string shown(const serving::StepDecision &decision) {
  std::string text = "parts";
  for (const auto &part : decision.parts)
    text += format(" %llu:%d+%d", static_cast<unsigned long long>(part.id),
                   part.tokens, part.proposed);
  for (auto [name, list] : {std::pair("admitted", &decision.admitted),
                            {"preempted", &decision.preempted}}) {
    text += std::string(", ") + name;
    for (uint64_t id : *list)
      text += " " + std::to_string(id);
  }
  return text;
}

Status replay(const std::string &path) {
  using namespace knapper::serving;
  std::ifstream file(path);
  if (!file)
    return userError(std::string("cannot be read: ") + strerror(errno), path);
  std::string line;
  if (!std::getline(file, line) || line != kStepRecordHeader)
    return userError("does not begin with '" + std::string(kStepRecordHeader) +
                         "'",
                     path, "a file that `knapper serve --record` wrote");
  size_t steps = 0;
  while (std::getline(file, line)) {
    // The last line of a server that was killed may end anywhere.
    if (file.eof())
      break;
    Expected<StepRecord> record = readStepRecord(line);
    if (!record) {
      Error error = record.takeError();
      error.where = format("%s:%zu: %s", path.c_str(), steps + 2,
                           printable(error.where).c_str());
      return error;
    }
    StepDecision now = scheduleStep(record->state);
    if (!areEqual(now, record->decision))
      return userError(format("step %zu decided otherwise\n  then: %s\n  now:  "
                              "%s",
                              steps + 1, shown(record->decision).c_str(),
                              shown(now).c_str()),
                       path, "the version that wrote it");
    ++steps;
  }
  print(format("%zu steps, all decisions equal\n", steps));
  return success();
}

} // namespace

void addReplay(CLI::App &app, Session &session) {
  auto path = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand(
      "replay",
      "Decides again what a server's scheduler decided, and compares");
  command->add_option("file", *path, "What `knapper serve --record FILE` wrote")
      ->required()
      ->type_name("FILE");
  command->footer("For example:\n"
                  "  knapper serve ./SmolLM2-135M-Instruct --record steps\n"
                  "  knapper replay steps");
  command->callback(
      [&session, path] { session.action = [path] { return replay(*path); }; });
}

} // namespace knapper::cli
