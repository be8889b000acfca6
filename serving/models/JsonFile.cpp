#include "serving/models/JsonFile.h"

#include "runtime/base/InputFile.h"
#include "serving/tokenizer/ParseJson.h"

namespace knapper::serving {

using Json = nlohmann::json;

Expected<Json> readJsonFile(const std::string &path) {
  ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  ASSIGN_OR_RETURN(std::string text, file.read());
  return parseJson<Json>(text, path);
}

} // namespace knapper::serving
