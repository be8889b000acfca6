// The decoders of a tokenizer.json: the texts of tokens to text.
#pragma once

#include "runtime/base/Error.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// What a "decoder" entry asks for, in a form that works token by token.
class TokenDecoder {
public:
  /// Null: texts are joined by spaces. UserError for a kind that is not known
  /// or an order of steps that no token-by-token decoder can follow.
  static Expected<TokenDecoder> read(const nlohmann::json &json);

  /// The part of one token: a text, or (`isByte`) a byte of a character that
  /// several tokens spell.
  struct Part {
    std::string text;
    bool isByte = false;
  };
  /// `first`: nothing came before it.
  Part part(std::string_view token, bool first) const;
  /// Texts are bytes of UTF-8 that need not end with a character.
  bool isByteLevel() const { return byteLevel; }
  /// How many of `stripped()` go from the start of the whole text.
  size_t strippedAtStart() const { return stripCount; }
  const std::string &stripped() const { return stripText; }

private:
  enum class Kind : uint8_t { replace, strip, wordPiece, metaspace, bytes };
  struct Step {
    Kind kind;
    std::string pattern, content;
    size_t start = 0, stop = 0; ///< of strip
    bool flag = false; ///< cleanup of wordPiece; whether metaspace prepends
  };
  Status add(const nlohmann::json &json);
  static void apply(const Step &step, std::string &text, bool first);

  std::vector<Step> steps;
  std::string stripText;
  size_t stripCount = 0;
  static constexpr double mostGrowth = 1024;
  double growth = 1; ///< at most, of a token's text by the steps
  bool byteLevel = false, fused = false, joinedBySpaces = false;
};

} // namespace knapper::serving
