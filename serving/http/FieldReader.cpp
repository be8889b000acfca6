#include "serving/http/FieldReader.h"

#include "runtime/base/EditDistance.h"
#include "serving/sampling/SamplingBounds.h"

#include <algorithm>
#include <cmath>

namespace knapper::serving {

using Json = FieldReader::Json;

std::string_view nearestName(std::string_view name,
                             const std::vector<FieldRow> &table) {
  std::string_view nearest;
  if (name.size() > 64)
    return nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const FieldRow &row : table)
    if (size_t distance = editDistance(name, row.name); distance < least) {
      least = distance;
      nearest = row.name;
    }
  return nearest;
}

namespace {

/// Stops where the text has more levels or names than are taken. A callback of
/// `Json::parse` could say so too, but then each end of an object in a list
/// looks at all that are in the list.
class BoundedParser : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  // An object that keeps its order finds a name by looking at all of them.
  static constexpr size_t mostDepth = 64, mostNames = 1024,
                          mostNamesInAll = 100000;

public:
  explicit BoundedParser(Json &root) : Base(root, true) {}

  bool start_object(size_t size) { return opens() && Base::start_object(size); }
  bool start_array(size_t size) { return opens() && Base::start_array(size); }
  bool end_object() {
    names.pop_back();
    return Base::end_object();
  }
  bool end_array() {
    names.pop_back();
    return Base::end_array();
  }
  bool key(std::string &name) {
    many |= ++names.back() > mostNames || ++all > mostNamesInAll;
    return !many && Base::key(name);
  }

  bool deep = false, many = false;

private:
  bool opens() {
    deep |= names.size() >= mostDepth;
    names.push_back(0);
    return !deep;
  }

  std::vector<size_t> names; ///< of each object or list that is open
  size_t all = 0;
};

} // namespace

std::optional<Json> parseBody(const std::string &body, ApiError &error) {
  auto fail = [&](std::string message, const char *code) {
    error.message = std::move(message);
    error.code = code;
    return std::nullopt;
  };
  Json json;
  BoundedParser parser(json);
  const bool &deep = parser.deep, &many = parser.many;
  // The parser takes one for the end of the text.
  if (body.find('\0') != std::string::npos)
    return fail("the body is not JSON: it holds a zero byte", "invalid_json");
  try {
    Json::sax_parse(body, &parser);
    if (!deep && !many && !json.is_object())
      return fail("the body is not a JSON object", "invalid_json");
    if (!deep && !many)
      return json;
  } catch (const Json::exception &problem) {
    // "[json.exception.parse_error.101] parse error at line 1, ...".
    std::string message = problem.what();
    if (deep || many)
      message.clear();
    if (size_t at = message.find("] "); at != std::string::npos)
      message = message.substr(at + 2);
    if (!message.empty())
      return fail("the body is not JSON: " + message, "invalid_json");
  }
  if (deep)
    return fail("the JSON is nested more than 64 levels deep", "too_deep");
  return fail("an object of the JSON has more than 1024 fields, or all have "
              "more than 100000",
              "too_many_fields");
}

std::string FieldReader::placeOf(std::string_view name) const {
  return place.empty() ? std::string(name) : place + "." + std::string(name);
}

void FieldReader::fail(ApiError error) {
  if (!problem)
    problem = std::move(error);
}

void FieldReader::fail(std::string_view name, const std::string &message,
                       const char *code) {
  ApiError error;
  error.param = placeOf(name);
  error.message = "'" + error.param + "' " + message;
  error.code = code;
  fail(std::move(error));
}

void FieldReader::checkNames(const std::vector<FieldRow> &table) {
  for (auto it = object.begin(); it != object.end() && ok(); ++it) {
    auto row = std::find_if(table.begin(), table.end(), [&](const FieldRow &r) {
      return r.name == it.key();
    });
    if (row == table.end()) {
      std::string_view near = nearestName(it.key(), table);
      std::string advice;
      if (!near.empty())
        advice = "; did you mean '" + std::string(near) + "'?";
      else if (table.size() <= 4)
        for (const FieldRow &known : table)
          advice += (advice.empty() ? "; there are '" : ", '") +
                    std::string(known.name) + "'";
      fail(it.key(), "is no field of this request" + advice, "unknown_field");
    } else if (!row->refusal.empty() && !it.value().is_null()) {
      fail(it.key(), "is not supported: " + std::string(row->refusal),
           "unsupported_field");
    }
  }
}

const Json *FieldReader::find(std::string_view name) const {
  auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> FieldReader::number(std::string_view name, double least,
                                          double most) {
  const Json *value = find(name);
  if (!value)
    return std::nullopt;
  double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most)) {
    fail(name, "must be a number of " + rangeText(least, most));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> FieldReader::integer(std::string_view name,
                                            int64_t least, int64_t most) {
  const Json *value = find(name);
  if (!value)
    return std::nullopt;
  bool fits = value->is_number_unsigned()
                  ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                  : value->is_number_integer();
  int64_t number = fits ? value->get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    // "or more" would be no answer to what is too large.
    bool large =
        (value->is_number_unsigned() && (!fits || number > most)) ||
        (value->is_number_float() && value->get<double>() > double(most));
    fail(name,
         "must be an integer of " +
             (large ? std::to_string(least) + " to " + std::to_string(most)
                    : rangeText(static_cast<double>(least),
                                static_cast<double>(most))));
    return std::nullopt;
  }
  return number;
}

bool FieldReader::flag(std::string_view name, bool otherwise) {
  const Json *value = find(name);
  if (!value)
    return otherwise;
  if (!value->is_boolean()) {
    fail(name, "must be true or false");
    return otherwise;
  }
  return value->get<bool>();
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const Json *value = find(name);
  if (!value)
    return std::nullopt;
  if (!value->is_string()) {
    fail(name, "must be a text");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<int32_t> FieldReader::tokens(std::string_view name) {
  std::vector<int32_t> list;
  const Json *value = find(name);
  if (!value)
    return list;
  bool good = value->is_array();
  for (const Json &item : good ? *value : Json::array()) {
    good &= item.is_number_unsigned() && item.get<uint64_t>() <= INT32_MAX;
    if (!good)
      break;
    list.push_back(item.get<int32_t>());
  }
  if (!good)
    fail(name, "must be a list of tokens (integers of 0 or more)");
  return list;
}

} // namespace knapper::serving
