#include "tools/knapper/Session.h"
#include "tune/Records.h"

#include <nlohmann/json.hpp>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::Record;
using tune::Records;

struct RecordsArguments {
  std::vector<std::string> files;
  std::string output;
};

/// The records that an artefact was compiled with, from its report.
Expected<Records> recordsInArtefact(const std::string &path) {
  knapper_load_options load = KNAPPER_LOAD_OPTIONS_INIT;
  load.threads = 1;
  knapper_module *loaded = nullptr;
  TRY(toStatus(knapper_load(path.c_str(), &load, &loaded)));
  ModulePtr module(loaded);
  const char *text = nullptr;
  TRY(toStatus(knapper_module_describe(module.get(), &text)));
  const Json json = Json::parse(text);
  Records records;
  if (!json.contains("report"))
    return records;
  const Json &report = json["report"];
  for (const Json &kernel : report.value("unique_kernels", Json::array())) {
    if (!kernel.value("recorded", false))
      continue;
    Record record;
    record.signature = kernel.value("signature", "");
    record.target = report.value("target", "");
    for (const Json &knob : kernel.value("knobs", Json::array()))
      if (knob.value("value", int64_t(0)) != knob.value("model", int64_t(0)))
        record.choice[knob.value("name", "")] = knob.value("value", int64_t(0));
    if (!record.choice.empty())
      records.set(std::move(record));
  }
  return records;
}

Expected<Records> open(const std::string &path) {
  return path.ends_with(".knap") ? recordsInArtefact(path)
                                 : Records::read(path);
}

Status give(const Records &records, const std::string &output) {
  if (!output.empty())
    return writeFile(output, records.json());
  print(records.json());
  return success();
}

Status merge(const RecordsArguments &arguments) {
  Records all;
  for (const std::string &file : arguments.files) {
    ASSIGN_OR_RETURN(Records records, open(file));
    all.merge(records);
  }
  return give(all, arguments.output);
}

/// A line for every record that one of two files has alone or otherwise.
Status diff(const RecordsArguments &arguments) {
  ASSIGN_OR_RETURN(Records before, open(arguments.files[0]));
  ASSIGN_OR_RETURN(Records after, open(arguments.files[1]));
  auto line = [](char sign, const Record &record) {
    print(format("%c %s %s %s %.3fx\n", sign, record.signature.c_str(),
                 printable(record.target).c_str(),
                 printable(tune::textOf(record.choice)).c_str(), record.gain));
  };
  Records both = before;
  both.merge(after);
  for (const auto &[key, record] : both.all()) {
    const Record *was = before.find(key.first, key.second);
    const Record *is = after.find(key.first, key.second);
    if (was && is && was->choice == is->choice)
      continue;
    if (was)
      line('-', *was);
    if (is)
      line('+', *is);
  }
  return success();
}

} // namespace

void addRecords(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<RecordsArguments>();
  CLI::App *command = app.add_subcommand(
      "records", "Shows, merges and compares tuning records");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *help, size_t least, size_t most,
                 Status (*action)(const RecordsArguments &)) {
    CLI::App *part = command->add_subcommand(name, help);
    part->add_option("files", arguments->files,
                     "Files of knapper tune, or .knap files")
        ->required()
        ->type_name("FILE")
        ->expected(static_cast<int>(least), static_cast<int>(most));
    part->callback([&session, arguments, action] {
      session.action = [arguments, action] { return action(*arguments); };
    });
    return part;
  };
  constexpr size_t any = 1000;
  CLI::App *showing = add("show", "Prints the records of a file", 1, 1, merge);
  showing->footer("For example:\n"
                  "  knapper records show model.knap");
  CLI::App *merging =
      add("merge", "All records; of two for one kernel the greater gain", 1,
          any, merge);
  merging->footer("For example:\n"
                  "  knapper records merge a.tune.json b.tune.json -o "
                  "all.tune.json");
  for (CLI::App *part : {showing, merging})
    part->add_option("-o,--output", arguments->output,
                     "Where to write them [stdout]")
        ->type_name("FILE");
  add("diff", "What the second file has otherwise", 2, 2, diff)
      ->footer("For example:\n"
               "  knapper records diff before.tune.json after.tune.json");
  command->footer("For example:\n"
                  "  knapper records merge a.tune.json b.tune.json -o "
                  "all.tune.json\n"
                  "  knapper records show model.knap");
}

} // namespace knapper::cli
