#include "compiler/options/Options.h"
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>

namespace knapper {
namespace {

template <typename T> constexpr std::string_view typeName = "text";
template <> constexpr std::string_view typeName<int64_t> = "number";
template <> constexpr std::string_view typeName<bool> = "switch";

std::optional<int64_t> parseNumber(std::string_view text) {
  int64_t value;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Error badValue(std::string_view name, std::string_view value,
               std::string expected) {
  return userError("'" + std::string(value) + "' is no value for it",
                   "option " + std::string(name), "use " + std::move(expected));
}

Status parse(std::string &field, std::string_view name, std::string_view value,
             std::string_view values) {
  if (!values.empty()) {
    bool known = false;
    for (size_t at = 0; at <= values.size();) {
      size_t end = std::min(values.find('|', at), values.size());
      known |= values.substr(at, end - at) == value;
      at = end + 1;
    }
    if (!known)
      return badValue(name, value,
                      "one of " + std::string(values.substr(
                                      values.starts_with('|') ? 1 : 0)));
  }
  field = value;
  return success();
}

Status parse(int64_t &field, std::string_view name, std::string_view value,
             std::string_view) {
  std::optional<int64_t> number = parseNumber(value);
  if (!number || *number < 0)
    return badValue(name, value, "a number, 0 or more");
  field = *number;
  return success();
}

Status parse(bool &field, std::string_view name, std::string_view value,
             std::string_view) {
  for (std::string_view yes : {"true", "1", "on"})
    if (value == yes) {
      field = true;
      return success();
    }
  for (std::string_view no : {"false", "0", "off"})
    if (value == no) {
      field = false;
      return success();
    }
  return badValue(name, value, "true or false");
}

} // namespace

std::span<const OptionRow> optionRows() {
  static const std::vector<OptionRow> rows = {
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP)                       \
  {NAME, typeName<TYPE>, #DEFAULT, VALUES, HELP},
#include "compiler/options/Options.def"
#undef OPTION
  };
  return rows;
}

std::span<const FormerName> formerNames() {
  static constexpr FormerName names[] = {
      {"float32-products", "float32-matmul"},
  };
  return names;
}

Status setOption(Options &options, std::string_view name,
                 std::string_view value) {
  for (const FormerName &each : formerNames())
    if (name == each.former)
      name = each.name;
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP)                       \
  if (name == NAME)                                                            \
    return parse(options.FIELD, name, value, VALUES);
#include "compiler/options/Options.def"
#undef OPTION
  std::string known;
  for (const OptionRow &row : optionRows())
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  return userError("there is no option '" + std::string(name) + "'", "options",
                   "one of: " + known);
}

Status setOptionsFromEnvironment(Options &options) {
  auto read = [&](std::string_view name) -> Status {
    std::string variable = "KNAPPER_";
    for (char c : name)
      variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    // Empty is as good as not set.
    if (const char *value = std::getenv(variable.c_str()); value && *value)
      if (Status status = setOption(options, name, value); !status) {
        Error error = status.takeError();
        error.where = "environment variable " + variable;
        return error;
      }
    return success();
  };
  for (const FormerName &each : formerNames())
    TRY(read(each.former));
  for (const OptionRow &row : optionRows())
    TRY(read(row.name));
  return success();
}

std::vector<std::string> splitList(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string_view part = text.substr(at, end - at);
    while (!part.empty() && part.front() == ' ')
      part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ')
      part.remove_suffix(1);
    if (!part.empty())
      parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

Expected<std::vector<std::pair<std::string, int64_t>>>
parseDims(std::string_view text) {
  std::vector<std::pair<std::string, int64_t>> dims;
  for (const std::string &part : splitList(text)) {
    size_t equals = part.rfind('=');
    std::optional<int64_t> number;
    if (equals != std::string::npos && equals > 0)
      number = parseNumber(std::string_view(part).substr(equals + 1));
    if (!number || *number < 0)
      return badValue("dim", part,
                      "name=value with a value of 0 or more, such as batch=1");
    dims.emplace_back(part.substr(0, equals), *number);
  }
  return dims;
}

Status checkGivenOnce(std::span<const std::pair<std::string, int64_t>> dims) {
  std::map<std::string_view, int64_t> seen;
  for (const auto &[name, value] : dims)
    if (auto [it, fresh] = seen.try_emplace(name, value);
        !fresh && it->second != value)
      return userError("'" + name + "' is given as " +
                           std::to_string(it->second) + " and as " +
                           std::to_string(value),
                       "option dim", "give each size once");
  return success();
}

} // namespace knapper
