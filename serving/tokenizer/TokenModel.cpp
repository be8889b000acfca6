#include "serving/tokenizer/TokenModel.h"

#include "serving/tokenizer/TokenizerJson.h"

#include <cstdio>

namespace knapper::serving {

using Json = nlohmann::json;

bool TokenModel::findByteTokens(std::vector<int32_t> &byteTokens) const {
  byteTokens.resize(256);
  bool all = true;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", byte);
    byteTokens[byte] = vocabulary.find(name);
    all &= byteTokens[byte] >= 0;
  }
  return all;
}

Status TokenModel::readVocabulary(const Json &json, LongLists &lists) {
  if (lists.vocabulary) {
    vocabulary = std::move(*lists.vocabulary);
    return success();
  }
  auto found = json.find("vocab");
  if (found == json.end() || !found->is_object())
    return userError("the model has no \"vocab\"", "tokenizer.json");
  size_t bytes = 0;
  for (auto it = found->begin(); it != found->end(); ++it)
    bytes += it.key().size();
  vocabulary.reserve(found->size(), bytes);
  for (auto it = found->begin(); it != found->end(); ++it)
    if (!it.value().is_number_integer() ||
        !vocabulary.add(it.key(), it.value().get<int64_t>() < 0 ||
                                          it.value().get<int64_t>() >=
                                              Vocabulary::mostTokens
                                      ? -1
                                      : it.value().get<int32_t>()))
      return userError("the token '" + it.key() + "' has no valid number",
                       "tokenizer.json");
  return success();
}

Expected<int32_t> TokenModel::namedToken(const Json &json,
                                         const char *key) const {
  auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    return -1;
  int32_t id = vocabulary.find(found->get_ref<const std::string &>());
  if (id < 0)
    return userError(std::string("the model's ") + key + " '" +
                         found->get<std::string>() +
                         "' is not in its vocabulary",
                     "tokenizer.json");
  return id;
}

Expected<std::unique_ptr<TokenModel>> TokenModel::read(const Json &json,
                                                       LongLists &lists) {
  if (!json.is_object())
    return userError("there is no \"model\"", "tokenizer.json");
  std::string type = json.contains("type") && json["type"].is_string()
                         ? json["type"].get<std::string>()
                     : json.contains("merges") ? "BPE"
                     : json.contains("vocab") && json["vocab"].is_array()
                         ? "Unigram"
                         : "WordPiece";
  if (type == "BPE")
    return readBytePairModel(json, lists);
  if (type == "WordPiece")
    return readWordPieceModel(json, lists);
  if (type == "Unigram")
    return readUnigramModel(json);
  return unknownKind("model", type);
}

} // namespace knapper::serving
