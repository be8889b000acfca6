#include "serving/models/JsonFile.h"

#include "runtime/base/InputFile.h"

namespace knapper::serving {

using Json = nlohmann::json;

Expected<Json> readJsonFile(const std::string &path) {
  constexpr int deepest = 64;
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  ASSIGN_OR_RETURN(std::string text, file.read());
  bool deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json &) {
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
