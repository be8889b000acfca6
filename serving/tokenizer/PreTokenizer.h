// The pre-tokenizers of a tokenizer.json: a normalised text to pieces that the
// model looks at one by one.
#pragma once

#include "runtime/base/Error.h"

#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace knapper::serving {

/// A text in parts. Texts that a step made lie in `texts`.
struct Pieces {
  struct Piece {
    std::string_view text;
    bool first = false; ///< begins where the whole input does
  };
  std::vector<Piece> list, next; ///< `next` is what a step builds
  std::deque<std::string> texts;
  /// The pieces are bytes that stand for characters of the byte alphabet.
  bool bytes = false;
  /// The place in tokenizer.json of a regular expression that gave up on a
  /// piece; empty: none did.
  std::string failed;
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  /// Replaces `pieces.list` by finer ones. Thread-safe.
  virtual void split(Pieces &pieces) const = 0;

  /// Of a "pre_tokenizer" entry; null for null. UserError for a kind that is
  /// not known.
  static Expected<std::unique_ptr<PreTokenizer>>
  read(const nlohmann::json &json);

private:
  static Expected<std::unique_ptr<PreTokenizer>>
  read(const nlohmann::json &json, bool last, const std::string &place);
};

} // namespace knapper::serving
