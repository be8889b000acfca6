// The added tokens of a tokenizer.json: texts that are one token wherever they
// stand.
#pragma once

#include "runtime/base/Error.h"
#include "serving/tokenizer/ByteTrie.h"
#include "serving/tokenizer/Normalizer.h"

#include <unordered_map>

namespace knapper::serving {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  std::string shown;    ///< what it decodes to: normalised where it is found so
  bool special = false; ///< a control token: not part of a shown text
  bool singleWord = false;                    ///< not inside a word
  bool leftStrip = false, rightStrip = false; ///< takes the spaces beside it
  bool normalized = false;                    ///< found in the normalised text
};

class AddedTokens {
public:
  static Expected<AddedTokens> read(const nlohmann::json &json,
                                    const Normalizer *normalizer);

  const AddedToken *find(int32_t id) const;
  const AddedToken *find(std::string_view content) const;
  const std::vector<AddedToken> &all() const { return tokens; }

  /// A range of bytes of a text.
  struct Range {
    size_t begin, end;
  };
  /// Calls `part(begin, end, id)` for each part of the text, in order: a token,
  /// or (id -1) what lies between. Texts of special tokens are tokens only
  /// outside of the `literal` ranges (sorted, not overlapping). `normalized`:
  /// the tokens for the normalised text, else the others.
  template <typename Part>
  void split(std::string_view text, bool normalized, bool withSpecial,
             const std::vector<Range> &literal, Part &&part) const {
    size_t done = 0;
    Match match;
    for (size_t at = 0;
         next(text, at, normalized, withSpecial, literal, match);) {
      at = match.end;
      size_t begin = std::max(match.begin - match.spacesBefore, done);
      if (done < begin)
        part(done, begin, -1);
      part(begin, match.end + match.spacesAfter, match.id);
      done = match.end + match.spacesAfter;
    }
    if (done < text.size())
      part(done, text.size(), -1);
  }

private:
  struct Match {
    size_t begin = 0, end = 0, spacesBefore = 0, spacesAfter = 0;
    int32_t id = -1;
  };
  /// Texts to look for, longest first from the leftmost place.
  struct Set {
    ByteTrie trie; ///< values are indices into `tokens`
    bool starts[256] = {};
    bool empty = true;
  };
  bool next(std::string_view text, size_t at, bool normalized, bool withSpecial,
            const std::vector<Range> &literal, Match &match) const;

  std::vector<AddedToken> tokens;
  std::unordered_map<int32_t, size_t> byId;
  std::unordered_map<std::string, size_t> byContent;
  Set sets[2]; ///< [normalized]
};

} // namespace knapper::serving
