// The two long lists of tokenizer.json, its vocabulary and its merges, read
// past the JSON library: as values of one they take most of a server's start.
#pragma once

#include "serving/tokenizer/Vocabulary.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace knapper::serving {

struct LongLists {
  /// The file's text with null in the place of what was taken.
  std::string rest;
  std::optional<Vocabulary> vocabulary;
  /// Ends of the two texts of each merge in `mergeTexts`.
  std::optional<std::vector<std::pair<size_t, size_t>>> merges;
  std::string mergeTexts;

  /// `take(left, right)` of each merge, until it is false.
  template <typename Take> bool eachMerge(Take &&take) const {
    size_t begin = 0;
    for (auto [middle, end] : *merges) {
      std::string_view all = mergeTexts;
      if (!take(all.substr(begin, middle - begin),
                all.substr(middle, end - middle)))
        return false;
      begin = end;
    }
    return true;
  }
};

/// What "model" has of "vocab" (an object of numbers) and of "merges". Nothing
/// where one is not plain: damaged, with two of a name or a number, or other
/// values. The JSON library reads such a file as a whole, and says what is
/// wrong.
std::optional<LongLists> takeLongLists(std::string_view text);

} // namespace knapper::serving
