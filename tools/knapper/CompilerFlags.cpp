#include "tools/knapper/CompilerFlags.h"

#include <algorithm>

namespace knapper::cli {

static std::string helpText(const OptionRow &row) {
  std::string fallback(row.fallback);
  std::erase(fallback, '"'); // the table's text is C++
  std::string help(row.help);
  std::string values(row.values);
  if (values.starts_with('|'))
    values.erase(0, 1);
  if (!values.empty())
    help += " (" + values + ")";
  if (!fallback.empty() && row.type != "switch")
    help += " [" + fallback + "]";
  return help;
}

void CompilerFlags::addTo(CLI::App &app,
                          std::initializer_list<std::string_view> except) {
  for (const OptionRow &row : optionRows()) {
    if (std::find(except.begin(), except.end(), row.name) != except.end())
      continue;
    Flag &flag = flags.emplace_back();
    flag.row = &row;
    std::string name(row.name);
    if (row.type == "switch") {
      flag.option =
          app.add_flag("--" + name + ",!--no-" + name, flag.on, helpText(row));
    } else {
      std::string names = "--" + name;
      for (const FormerName &each : formerNames())
        if (each.name == row.name)
          names += ",--" + std::string(each.former);
      flag.option = app.add_option(names, flag.texts, helpText(row));
      flag.option->allow_extra_args(false);
      flag.option->type_name(row.type == "number" ? "N" : "TEXT");
    }
    flag.option->group("Compiler");
  }
}

std::vector<std::pair<std::string, std::string>> CompilerFlags::given() const {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Flag &flag : flags) {
    if (flag.option->count() == 0)
      continue;
    std::string text;
    if (flag.row->type == "switch")
      text = flag.on ? "true" : "false";
    for (const std::string &part : flag.texts)
      text += (text.empty() ? "" : ",") + part;
    rows.emplace_back(flag.row->name, std::move(text));
  }
  return rows;
}

Expected<Options> CompilerFlags::options() const {
  Options options;
  TRY(setOptionsFromEnvironment(options));
  for (auto &[name, text] : given())
    TRY(setOption(options, name, text));
  return options;
}

} // namespace knapper::cli
