// Tokens to text as they come, never a part of a character.
#pragma once

#include "serving/tokenizer/Tokenizer.h"

namespace knapper::serving {

/// The texts that `push` and `finish` return, one after the other, are the text
/// of the tokens. Of one thread at a time; the tokenizer must live longer.
class Detokenizer {
public:
  enum class Mode : uint8_t {
    stream, ///< a character is given out as soon as it is whole
    /// As `tokenizers` decodes a whole text: of a run of byte tokens that is
    /// not UTF-8, each byte is U+FFFD, also those of its whole characters.
    whole
  };
  explicit Detokenizer(const Tokenizer &tokenizer,
                       bool skipSpecialTokens = true, Mode mode = Mode::stream)
      : tokenizer(tokenizer), skipSpecial(skipSpecialTokens), mode(mode),
        toStrip(tokenizer.decoder().strippedAtStart()) {}

  /// The text continues that of these tokens, which somebody else shows: no
  /// space is taken off its start. Before the first `push`.
  void follow(const std::vector<int32_t> &before);
  /// What the token adds; may be empty. A token without a text adds nothing.
  std::string push(int32_t id);
  /// What was held back: bytes that never became a character, as U+FFFD.
  std::string finish();
  /// Whether something is held back.
  bool holds() const { return !pending.empty(); }

private:
  std::string endRun();
  std::string stripped(std::string text);

  const Tokenizer &tokenizer;
  bool skipSpecial;
  Mode mode;
  bool first = true;
  size_t toStrip;
  std::string pending; ///< bytes that are no character yet
};

} // namespace knapper::serving
