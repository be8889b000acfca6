#include "tune/Records.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/Text.h"

#include <nlohmann/json.hpp>

namespace knapper::tune {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kVersion = 1;
constexpr uintmax_t kMostBytes = 64 << 20;

std::string member(const Json &object, const char *key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>()
                                               : std::string();
}

bool isSignature(const std::string &text) {
  return text.size() == 16 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// What is wrong with a record, or nothing.
std::string read(const Json &json, Record &record) {
  if (!json.is_object())
    return "is no object";
  record.signature = member(json, "signature");
  record.target = member(json, "target");
  record.machine = member(json, "machine");
  record.sizes = member(json, "sizes");
  if (!isSignature(record.signature))
    return "has no signature of 16 hex digits";
  if (record.target.empty())
    return "has no target";
  auto choice = json.find("choice");
  if (choice == json.end() || !choice->is_object() || choice->empty())
    return "has no choice";
  for (auto &[name, value] : choice->items()) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      return "has a choice that is no integer of 64 bits: " + name;
    record.choice[name] = value.get<int64_t>();
  }
  if (auto gain = json.find("gain"); gain != json.end() && gain->is_number())
    record.gain = gain->get<double>();
  if (auto threads = json.find("threads");
      threads != json.end() && threads->is_number_integer())
    record.threads = threads->get<int64_t>();
  return {};
}

} // namespace

std::string textOf(const Choice &choice) {
  std::string text;
  for (const auto &[name, value] : choice)
    text += cat(text.empty() ? "" : ",", name, "=", value);
  return text;
}

Expected<Records> Records::parse(std::string_view text, std::string where) {
  auto refuse = [&](std::string what) {
    return userError(std::move(what), where,
                     "give a file that knapper tune wrote");
  };
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return refuse("is no file of tuning records: no JSON object");
  auto version = json.find("knapper_tuning");
  if (version == json.end() || !version->is_number_integer())
    return refuse("is no file of tuning records: no \"knapper_tuning\"");
  if (*version != kVersion)
    return refuse(cat("has version ", version->get<int64_t>(),
                      " of the format, this is ", kVersion));
  auto list = json.find("records");
  if (list == json.end() || !list->is_array())
    return refuse("has no list \"records\"");
  Records records;
  for (size_t i = 0; i < list->size(); ++i) {
    Record record;
    if (std::string wrong = tune::read((*list)[i], record); !wrong.empty())
      return refuse(cat("record ", i, " ", wrong));
    records.set(std::move(record));
  }
  return records;
}

Expected<Records> Records::read(const std::string &path) {
  Expected<InputFile> file = InputFile::open(path);
  if (!file)
    return file.takeError();
  if (file->bytes() > kMostBytes)
    return userError(
        cat("has ", file->bytes(), " bytes: that is no file of tuning records"),
        path, "give a file that knapper tune wrote");
  ASSIGN_OR_RETURN(std::string text, file->read());
  return parse(text, path);
}

std::string Records::json() const {
  Json json = {{"knapper_tuning", kVersion}, {"records", Json::array()}};
  for (const auto &[key, r] : records)
    json["records"].push_back({{"signature", r.signature},
                               {"target", r.target},
                               {"choice", r.choice},
                               {"gain", r.gain},
                               {"machine", r.machine},
                               {"threads", r.threads},
                               {"sizes", r.sizes}});
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

const Record *Records::find(std::string_view signature,
                            std::string_view target) const {
  auto it = records.find({std::string(signature), std::string(target)});
  return it == records.end() ? nullptr : &it->second;
}

void Records::set(Record record) {
  Key key{record.signature, record.target};
  records.insert_or_assign(std::move(key), std::move(record));
}

size_t Records::merge(const Records &other) {
  size_t taken = 0;
  for (const auto &[key, record] : other.records)
    if (const Record *known = find(key.first, key.second);
        !known || known->gain < record.gain) {
      set(record);
      ++taken;
    }
  return taken;
}

} // namespace knapper::tune
