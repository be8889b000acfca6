#include "serving/tokenizer/TokenizerJson.h"

namespace knapper::serving {

using Json = nlohmann::json;

Expected<std::string> textOf(const Json &json, const char *key,
                             const char *section) {
  auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_string())
    return userError(std::string("the ") + section + " has no text \"" + key +
                         "\"",
                     "tokenizer.json");
  return found->get<std::string>();
}

bool flagOf(const Json &json, const char *key, bool otherwise) {
  auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>()
                                                    : otherwise;
}

Expected<RegexPattern> patternOf(const Json &json, const char *section) {
  Json pattern = json.value("pattern", Json());
  if (pattern.is_object() && pattern.contains("String")) {
    ASSIGN_OR_RETURN(std::string text, textOf(pattern, "String", section));
    return RegexPattern::literal(text);
  }
  ASSIGN_OR_RETURN(std::string text, textOf(pattern, "Regex", section));
  return RegexPattern::compile(text);
}

Error unknownKind(const char *section, const std::string &type) {
  return userError(std::string("the ") + section + " \"" + type +
                       "\" is not supported",
                   "tokenizer.json");
}

} // namespace knapper::serving
