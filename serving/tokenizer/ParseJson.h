// JSON files of a model's folder.
#pragma once

#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace knapper::serving {

/// The text as JSON, discarded where it is none (`Json::is_discarded`).
/// UserError, with the path as its place, for values that are nested so deep
/// that whoever walks them would outgrow the stack. `Json` keeps the order of
/// an object's fields or sorts them.
template <class Json>
Expected<Json> parseJson(std::string_view text, const std::string &path) {
  constexpr int deepest = 64;
  bool deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, typename Json::parse_event_t, Json &) {
        deep |= depth > deepest;
        return !deep;
      },
      /*allow_exceptions=*/false);
  if (deep)
    return userError("is nested more than 64 levels deep", path,
                     "copy or download the file again");
  return json;
}

} // namespace knapper::serving
