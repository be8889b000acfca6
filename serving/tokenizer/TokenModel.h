// The models of a tokenizer.json: a piece of text to tokens.
#pragma once

#include "runtime/base/Error.h"
#include "serving/tokenizer/LongLists.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace knapper::serving {

class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a piece, which is not empty. Thread-safe.
  virtual void tokenize(std::string_view piece,
                        std::vector<int32_t> &ids) const = 0;
  /// Texts longer than this are not worth keeping (their tokens).
  static constexpr size_t longestCached = 128;

  Vocabulary vocabulary;

  /// Of a "model" entry, whose long lists may have been read before: what is
  /// used of `lists` is moved. UserError for a kind that is not known, a
  /// vocabulary or merges that are damaged.
  static Expected<std::unique_ptr<TokenModel>> read(const nlohmann::json &json,
                                                    LongLists &lists);

protected:
  /// The tokens <0x00> to <0xFF>; false where one is missing.
  bool findByteTokens(std::vector<int32_t> &byteTokens) const;
  Status readVocabulary(const nlohmann::json &json, LongLists &lists);
  /// The token that an entry names; -1 where it is null or missing.
  Expected<int32_t> namedToken(const nlohmann::json &json,
                               const char *key) const;
};

/// One file a model; the kind is in the entry, or follows from its fields.
Expected<std::unique_ptr<TokenModel>>
readBytePairModel(const nlohmann::json &json, LongLists &lists);
Expected<std::unique_ptr<TokenModel>>
readWordPieceModel(const nlohmann::json &json, LongLists &lists);
Expected<std::unique_ptr<TokenModel>>
readUnigramModel(const nlohmann::json &json);

} // namespace knapper::serving
