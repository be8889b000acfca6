// The fields of a JSON request, read by name with their types and ranges.
#pragma once

#include "serving/http/ApiError.h"
#include "serving/json/OrderedJson.h"

#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// One row of the table of an endpoint's fields.
struct FieldRow {
  std::string_view name;
  std::string_view refusal; ///< why it is not supported; empty: it is
};

/// Reads fields of one object. The first problem is kept; what is read after it
/// has no meaning. A field that is null counts as missing.
class FieldReader {
public:
  using Json = OrderedJson;
  FieldReader(const Json &object, std::string place = {})
      : object(object), place(std::move(place)) {}

  /// Refuses fields that the table does not have, or refuses.
  void checkNames(const std::vector<FieldRow> &table);

  /// The field, or nullptr.
  const Json *find(std::string_view name) const;
  std::optional<double> number(std::string_view name, double least,
                               double most);
  std::optional<int64_t> integer(std::string_view name, int64_t least,
                                 int64_t most);
  bool flag(std::string_view name, bool otherwise);
  std::optional<std::string> text(std::string_view name);
  /// A list of integers.
  std::vector<int32_t> tokens(std::string_view name);

  /// Keeps a problem of a field of this object.
  void fail(std::string_view name, const std::string &message,
            const char *code = "invalid_value");
  void fail(ApiError error);
  const std::optional<ApiError> &failure() const { return problem; }
  bool ok() const { return !problem; }
  /// "messages[2].content" of "content".
  std::string placeOf(std::string_view name) const;

private:
  const Json &object;
  std::string place;
  std::optional<ApiError> problem;
};

/// The name of `table` that a misspelt one is nearest to; empty where none is
/// near.
std::string_view nearestName(std::string_view name,
                             const std::vector<FieldRow> &table);

/// The JSON object of a body: UTF-8, at most 64 levels deep.
std::optional<OrderedJson> parseBody(const std::string &body, ApiError &error);

} // namespace knapper::serving
