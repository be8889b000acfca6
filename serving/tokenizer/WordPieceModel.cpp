// WordPiece: the longest token that fits, from the left (Schuster and Nakajima,
// 2012; as BERT applies it).
#include "serving/tokenizer/TokenModel.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

#include <algorithm>

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

class WordPieceModel : public TokenModel {
public:
  void tokenize(std::string_view piece,
                std::vector<int32_t> &ids) const override {
    size_t characters = 0;
    for (char byte : piece)
      characters += (byte & 0xc0) != 0x80;
    size_t first = ids.size();
    if (characters > mostCharacters) {
      ids.push_back(unknown);
      return;
    }
    std::string name;
    for (size_t at = 0; at < piece.size();) {
      size_t end = endOfLongest(piece, at);
      int32_t id = -1;
      while (end > at) {
        name = at > 0 ? prefix : std::string();
        name += piece.substr(at, end - at);
        if ((id = vocabulary.find(name)) >= 0)
          break;
        do
          --end;
        while (end > at && (piece[end] & 0xc0) == 0x80);
      }
      if (id < 0) { // a part without a token makes the whole piece unknown
        ids.resize(first);
        ids.push_back(unknown);
        return;
      }
      ids.push_back(id);
      at = end;
    }
  }

  Status read(const Json &json, LongLists &lists) {
    TRY(readVocabulary(json, lists));
    ASSIGN_OR_RETURN(unknown, namedToken(json, "unk_token"));
    if (unknown < 0)
      return userError("the model has no \"unk_token\"", "tokenizer.json");
    prefix = json.contains("continuing_subword_prefix") &&
                     json["continuing_subword_prefix"].is_string()
                 ? json["continuing_subword_prefix"].get<std::string>()
                 : "##";
    const Json most = json.value("max_input_chars_per_word", Json(100));
    mostCharacters = most.is_number_unsigned() ? most.get<size_t>() : 100;
    return success();
  }

private:
  /// Where the longest token of the vocabulary could end, at the end of a
  /// character.
  size_t endOfLongest(std::string_view piece, size_t at) const {
    size_t end = std::min(piece.size(), at + vocabulary.longest());
    while (end < piece.size() && end > at && (piece[end] & 0xc0) == 0x80)
      --end;
    return end;
  }

  std::string prefix;
  size_t mostCharacters = 100;
  int32_t unknown = -1;
};

} // namespace

Expected<std::unique_ptr<TokenModel>> readWordPieceModel(const Json &json,
                                                         LongLists &lists) {
  auto model = std::make_unique<WordPieceModel>();
  TRY(model->read(json, lists));
  return std::unique_ptr<TokenModel>(std::move(model));
}

} // namespace knapper::serving
