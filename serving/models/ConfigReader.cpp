#include "serving/models/ConfigReader.h"

#include "runtime/base/Text.h"
#include "serving/models/JsonFile.h"

namespace knapper::serving {

using Json = nlohmann::json;

Expected<ConfigReader> ConfigReader::open(const std::string &path) {
  ASSIGN_OR_RETURN(Json json, readJsonFile(path));
  if (!json.is_object())
    return userError("is no JSON object", path,
                     "copy or download the file again");
  return ConfigReader(std::move(json), path);
}

const Json *ConfigReader::find(const std::string &name) {
  asked.insert(name);
  auto it = fields.find(name);
  return it == fields.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigReader::has(const std::string &name) const {
  auto it = fields.find(name);
  return it != fields.end() && !it->is_null();
}

void ConfigReader::fail(const std::string &name, std::string what,
                        std::string hint) {
  if (!error)
    error = userError(std::move(what), cat(path, ", field '", name, "'"),
                      std::move(hint));
}

int64_t ConfigReader::integer(const std::string &name,
                              std::optional<int64_t> fallback) {
  const Json *value = find(name);
  if (!value && fallback)
    return *fallback;
  if (!value || !value->is_number_integer() ||
      (value->is_number_unsigned() &&
       value->get<uint64_t>() > uint64_t(INT32_MAX))) {
    fail(name, value ? "is no whole number below 2^31" : "is missing");
    return 0;
  }
  return value->get<int64_t>();
}

int64_t ConfigReader::layers(const std::string &name) {
  int64_t number = integer(name);
  if (number >= 0 && number <= mostLayers)
    return number;
  fail(name, cat("is ", number), cat("1 to ", mostLayers));
  return 0;
}

double ConfigReader::real(const std::string &name,
                          std::optional<double> fallback) {
  const Json *value = find(name);
  if (!value && fallback)
    return *fallback;
  if (!value || !value->is_number()) {
    fail(name, value ? "is no number" : "is missing");
    return 0;
  }
  return value->get<double>();
}

bool ConfigReader::flag(const std::string &name, bool fallback) {
  const Json *value = find(name);
  if (!value)
    return fallback;
  if (!value->is_boolean())
    fail(name, "is neither true nor false");
  return value->is_boolean() && value->get<bool>();
}

std::string ConfigReader::text(const std::string &name,
                               std::optional<std::string> fallback) {
  const Json *value = find(name);
  if (!value && fallback)
    return *fallback;
  if (!value || !value->is_string()) {
    fail(name, value ? "is no text" : "is missing");
    return {};
  }
  return value->get<std::string>();
}

Expected<std::vector<int32_t>> ConfigReader::integers(const std::string &name) {
  std::vector<int32_t> list;
  const Json *value = find(name);
  if (!value)
    return list;
  for (const Json &entry : value->is_array() ? *value : Json::array({*value})) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() > INT32_MAX)
      return userError("is neither a token nor a list of tokens",
                       cat(path, ", field '", name, "'"),
                       "numbers that are not negative");
    list.push_back(entry.get<int32_t>());
  }
  return list;
}

std::vector<std::string> ConfigReader::texts(const std::string &name) {
  const Json *value = find(name);
  std::vector<std::string> list;
  if (!value)
    return list;
  if (value->is_array())
    for (const Json &entry : *value)
      if (entry.is_string())
        list.push_back(entry.get<std::string>());
  if (!value->is_array() || list.size() != value->size())
    fail(name, "is no list of texts");
  return list;
}

std::vector<double> ConfigReader::reals(const std::string &name) {
  const Json *value = find(name);
  std::vector<double> list;
  if (!value)
    return list;
  if (value->is_array())
    for (const Json &entry : *value)
      if (entry.is_number())
        list.push_back(entry.get<double>());
  if (!value->is_array() || list.size() != value->size())
    fail(name, "is no list of numbers");
  return list;
}

ConfigReader ConfigReader::object(const std::string &name) {
  const Json *value = find(name);
  if (value && !value->is_object())
    fail(name, "is no object");
  return {value && value->is_object() ? *value : Json::object(),
          cat(path, ", field '", name, "'")};
}

void ConfigReader::join(ConfigReader &inner, bool all) {
  if (error)
    return;
  if (inner.error)
    error = inner.error;
  else if (Status status = all ? inner.finish() : success(); !status)
    error = status.takeError();
}

void ConfigReader::expect(const std::string &name, const Json &value) {
  const Json *given = find(name);
  if (given && *given != value)
    fail(name,
         cat("is ", given->dump(-1, ' ', true, Json::error_handler_t::replace),
             ", and only ", value.dump(), " is known"));
}

void ConfigReader::ignore(std::initializer_list<const char *> names) {
  asked.insert(names.begin(), names.end());
}

Status ConfigReader::finish() const {
  if (error)
    return *error;
  for (const auto &[name, value] : fields.items()) {
    bool asksNothing =
        value.is_null() || value == false ||
        ((value.is_object() || value.is_array() || value.is_string()) &&
         (value.empty() || value == ""));
    if (!asksNothing && !asked.contains(name)) {
      std::string known;
      for (const std::string &each : asked)
        known += (known.empty() ? "" : ", ") + each;
      return userError("is not known, and may change results",
                       cat(path, ", field '", name, "'"),
                       cat("known here: ", known));
    }
  }
  return success();
}

} // namespace knapper::serving
