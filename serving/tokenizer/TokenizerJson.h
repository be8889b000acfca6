// Entries of a tokenizer.json, checked: shared by its readers.
#pragma once

#include "serving/tokenizer/RegexPattern.h"

#include <nlohmann/json.hpp>

namespace knapper::serving {

/// A text that must be there. UserError naming the section and the key.
Expected<std::string> textOf(const nlohmann::json &json, const char *key,
                             const char *section);
/// A flag; `otherwise` where it is missing or null.
bool flagOf(const nlohmann::json &json, const char *key, bool otherwise);
/// The "pattern" of an entry: {"Regex": ...} or {"String": ...}.
Expected<RegexPattern> patternOf(const nlohmann::json &json,
                                 const char *section);
/// The error of a kind of step that is not there.
Error unknownKind(const char *section, const std::string &type);

} // namespace knapper::serving
