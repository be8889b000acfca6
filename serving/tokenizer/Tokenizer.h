// Texts to tokens and back, as a tokenizer.json says.
#pragma once

#include "serving/tokenizer/AddedTokens.h"
#include "serving/tokenizer/PreTokenizer.h"
#include "serving/tokenizer/TokenDecoder.h"
#include "serving/tokenizer/TokenModel.h"

#include <functional>
#include <mutex>

namespace knapper::serving {

struct EncodeOptions {
  /// Tokens that the post-processor puts around a text (often one at its
  /// start).
  bool addSpecialTokens = true;
  /// Texts of control tokens become these tokens, but in the `literal` ranges.
  bool parseSpecialTokens = true;
  /// Bytes of a user: sorted, not overlapping.
  std::vector<AddedTokens::Range> literal;
  /// Asked now and then, of long texts; true ends it with an error.
  std::function<bool()> stopped;
};

/// Thread-safe: threads that encode at once each use a cache of words.
class Tokenizer {
public:
  /// UserError: what the file asks for and we lack, or what is damaged.
  static Expected<std::unique_ptr<Tokenizer>> load(const std::string &path);
  static Expected<std::unique_ptr<Tokenizer>> parse(std::string_view json);
  ~Tokenizer();

  /// UserError for a text that is not UTF-8, or that a regular expression of
  /// the file takes too long for.
  Expected<std::vector<int32_t>>
  encode(std::string_view text, const EncodeOptions &options = {}) const;
  /// The whole text; what is no UTF-8 is U+FFFD.
  std::string decode(const std::vector<int32_t> &ids,
                     bool skipSpecialTokens = true) const;
  /// The same; an error once `stopped`, which is asked now and then, is true.
  Expected<std::string> decode(const std::vector<int32_t> &ids,
                               bool skipSpecialTokens,
                               const std::function<bool()> &stopped) const;

  /// One more than the largest token.
  int32_t size() const;
  /// As the file has it: not decoded. Empty where there is no such token.
  std::string_view tokenText(int32_t id) const;
  bool isSpecial(int32_t id) const;
  /// The token of a text as the file has it; -1 where there is none.
  int32_t tokenOf(std::string_view text) const;
  const TokenDecoder &decoder() const { return tokenDecoder; }

private:
  struct Scratch;
  Tokenizer();
  Status read(const nlohmann::json &json, LongLists &lists);
  Status readPostProcessor(const nlohmann::json &json);
  Status encodePart(std::string_view text, bool first,
                    const EncodeOptions &options, Scratch &scratch,
                    std::vector<int32_t> &ids) const;
  void encodePiece(std::string_view piece, bool bytes, Scratch &scratch,
                   std::vector<int32_t> &ids) const;
  std::unique_ptr<Scratch> take() const;

  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> preTokenizer;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  TokenDecoder tokenDecoder;
  std::vector<int32_t> before, after; ///< the post-processor's
  std::vector<bool> special;          ///< by token
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch>> idle; ///< under `mutex`
};

} // namespace knapper::serving
