#include "serving/tokenizer/PreTokenizer.h"

#include "runtime/base/Text.h"
#include "serving/tokenizer/ByteAlphabet.h"
#include "serving/tokenizer/RegexPattern.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

/// What becomes of a match that a text is split at.
enum class SplitBehavior : uint8_t {
  removed,
  isolated,
  mergedWithPrevious,
  mergedWithNext,
  contiguous
};

struct SplitRange {
  size_t begin, end;
  bool match;
};

/// Ranges that cover the text, from the matches that `match(found)` reports.
template <typename Match>
void coverBy(std::string_view text, std::vector<SplitRange> &ranges,
             bool invert, Match &&match) {
  ranges.clear();
  size_t done = 0;
  match([&](size_t begin, size_t end) {
    if (begin > done)
      ranges.push_back({done, begin, invert});
    ranges.push_back({begin, end, !invert});
    done = end;
  });
  if (done < text.size())
    ranges.push_back({done, text.size(), invert});
}

/// Joins or drops the ranges of one text as the behaviour says.
void applyBehavior(std::vector<SplitRange> &ranges, SplitBehavior behavior) {
  size_t count = 0;
  bool previous = false;
  auto keep = [&](SplitRange range) { ranges[count++] = range; };
  switch (behavior) {
  case SplitBehavior::isolated:
    return;
  case SplitBehavior::removed:
    for (SplitRange range : ranges)
      if (!range.match)
        keep(range);
    break;
  case SplitBehavior::contiguous:
    for (SplitRange range : std::vector<SplitRange>(ranges))
      if (count && ranges[count - 1].match == range.match)
        ranges[count - 1].end = range.end;
      else
        keep(range);
    break;
  case SplitBehavior::mergedWithPrevious:
    for (SplitRange range : std::vector<SplitRange>(ranges)) {
      if (range.match && !previous && count)
        ranges[count - 1].end = range.end;
      else
        keep(range);
      previous = range.match;
    }
    break;
  case SplitBehavior::mergedWithNext: {
    // A match that no other follows joins what comes behind it.
    std::vector<SplitRange> all(ranges);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].match && i + 1 < all.size() && !all[i + 1].match) {
        all[i + 1].begin = all[i].begin;
        continue;
      }
      keep(all[i]);
    }
    break;
  }
  }
  ranges.resize(count);
}

template <typename Match>
void splitBy(Pieces &pieces, SplitBehavior behavior, bool invert,
             Match &&match) {
  pieces.next.clear();
  std::vector<SplitRange> ranges;
  for (const Pieces::Piece &piece : pieces.list) {
    coverBy(piece.text, ranges, invert,
            [&](auto &&found) { match(piece.text, found); });
    applyBehavior(ranges, behavior);
    for (SplitRange range : ranges)
      pieces.next.push_back(
          {piece.text.substr(range.begin, range.end - range.begin),
           piece.first && range.begin == 0});
  }
  std::swap(pieces.list, pieces.next);
}

/// A match is a character of a kind.
template <typename IsKind>
void splitByCharacter(Pieces &pieces, SplitBehavior behavior, IsKind &&isKind) {
  splitBy(pieces, behavior, false, [&](std::string_view text, auto &&found) {
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      if (isKind(nextCodePoint(text, at)))
        found(begin, at);
    }
  });
}

class SequencePreTokenizer : public PreTokenizer {
public:
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  void split(Pieces &pieces) const override {
    for (const auto &step : steps)
      step->split(pieces);
  }
};

class SplitPreTokenizer : public PreTokenizer {
public:
  SplitPreTokenizer(RegexPattern pattern, SplitBehavior behavior, bool invert,
                    std::string place)
      : pattern(std::move(pattern)), behavior(behavior), invert(invert),
        place(std::move(place)) {}
  void split(Pieces &pieces) const override {
    splitBy(pieces, behavior, invert, [&](std::string_view text, auto &&found) {
      if (!pattern.forEach(text, found))
        pieces.failed = place;
    });
  }

private:
  RegexPattern pattern;
  SplitBehavior behavior;
  bool invert;
  std::string place;
};

class ByteLevelPreTokenizer : public PreTokenizer {
public:
  ByteLevelPreTokenizer(RegexPattern pattern, bool prefix, bool useRegex,
                        bool last, std::string place)
      : pattern(std::move(pattern)), prefix(prefix), useRegex(useRegex),
        last(last), place(std::move(place)) {}
  void split(Pieces &pieces) const override {
    if (prefix)
      for (Pieces::Piece &piece : pieces.list)
        if (!piece.text.starts_with(' '))
          piece.text = pieces.texts.emplace_back(" " + std::string(piece.text));
    if (useRegex)
      splitBy(pieces, SplitBehavior::isolated, false,
              [&](std::string_view text, auto &&found) {
                if (!pattern.forEach(text, found))
                  pieces.failed = place;
              });
    // Behind the last step the model spells a piece only when it is new.
    if (last) {
      pieces.bytes = true;
      return;
    }
    for (Pieces::Piece &piece : pieces.list) {
      std::string &made = pieces.texts.emplace_back();
      appendByteCharacters(made, piece.text);
      piece.text = made;
    }
  }

private:
  RegexPattern pattern;
  bool prefix, useRegex, last;
  std::string place;
};

class MetaspacePreTokenizer : public PreTokenizer {
public:
  enum class Prepend : uint8_t { never, first, always };
  MetaspacePreTokenizer(std::string mark, Prepend prepend, bool splits)
      : mark(std::move(mark)), prepend(prepend), splits(splits) {}
  void split(Pieces &pieces) const override {
    for (Pieces::Piece &piece : pieces.list) {
      std::string &made = pieces.texts.emplace_back();
      if ((prepend == Prepend::always ||
           (prepend == Prepend::first && piece.first)) &&
          !piece.text.starts_with(' ') && !piece.text.starts_with(mark))
        made = mark;
      for (char c : piece.text)
        if (c == ' ')
          made += mark;
        else
          made += c;
      piece.text = made;
    }
    if (splits)
      splitBy(pieces, SplitBehavior::mergedWithNext, false,
              [&](std::string_view text, auto &&found) {
                for (size_t at = 0;
                     (at = text.find(mark, at)) != std::string_view::npos;
                     at += mark.size())
                  found(at, at + mark.size());
              });
  }

private:
  std::string mark;
  Prepend prepend;
  bool splits;
};

bool isAsciiPunctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

/// Splits at characters of a kind.
class CharacterPreTokenizer : public PreTokenizer {
public:
  using IsKind = bool (*)(char32_t);
  CharacterPreTokenizer(IsKind isKind, SplitBehavior behavior)
      : isKind(isKind), behavior(behavior) {}
  void split(Pieces &pieces) const override {
    splitByCharacter(pieces, behavior, isKind);
  }

private:
  IsKind isKind;
  SplitBehavior behavior;
};

class DelimiterPreTokenizer : public PreTokenizer {
public:
  explicit DelimiterPreTokenizer(char32_t delimiter) : delimiter(delimiter) {}
  void split(Pieces &pieces) const override {
    splitByCharacter(pieces, SplitBehavior::removed,
                     [&](char32_t c) { return c == delimiter; });
  }

private:
  char32_t delimiter;
};

bool isAnyPunctuation(char32_t c) {
  return isAsciiPunctuation(c) || isPunctuation(c);
}

Expected<SplitBehavior> behaviorOf(const Json &json,
                                   const char *otherwise = "Isolated") {
  std::string name = json.contains("behavior") && json["behavior"].is_string()
                         ? json["behavior"].get<std::string>()
                         : otherwise;
  constexpr std::pair<std::string_view, SplitBehavior> names[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::mergedWithPrevious},
      {"MergedWithNext", SplitBehavior::mergedWithNext},
      {"Contiguous", SplitBehavior::contiguous}};
  for (auto [known, behavior] : names)
    if (name == known)
      return behavior;
  return unknownKind("split behavior", name);
}

} // namespace

Expected<std::unique_ptr<PreTokenizer>> PreTokenizer::read(const Json &json) {
  return read(json, true, "pre_tokenizer");
}

Expected<std::unique_ptr<PreTokenizer>>
PreTokenizer::read(const Json &json, bool last, const std::string &place) {
  using Result = std::unique_ptr<PreTokenizer>;
  const char *section = "pre_tokenizer";
  if (json.is_null())
    return Result();
  ASSIGN_OR_RETURN(std::string type, textOf(json, "type", section));
  if (type == "Sequence") {
    auto sequence = std::make_unique<SequencePreTokenizer>();
    const Json steps = json.value("pretokenizers", Json::array());
    if (!steps.is_array())
      return userError("\"pretokenizers\" of a Sequence is not a list",
                       "tokenizer.json");
    for (size_t i = 0; i < steps.size(); ++i) {
      ASSIGN_OR_RETURN(Result made,
                       read(steps[i], last && i + 1 == steps.size(),
                            cat(place, ".pretokenizers[", i, "]")));
      if (made)
        sequence->steps.push_back(std::move(made));
    }
    return Result(std::move(sequence));
  }
  if (type == "ByteLevel") {
    // The splitting of GPT-2: contractions, words, numbers, other signs, each
    // with a space before it, and spaces.
    ASSIGN_OR_RETURN(
        RegexPattern pattern,
        RegexPattern::compile("'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+"
                              "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"));
    return Result(std::make_unique<ByteLevelPreTokenizer>(
        std::move(pattern), flagOf(json, "add_prefix_space", true),
        flagOf(json, "use_regex", true), last, place));
  }
  if (type == "Split") {
    ASSIGN_OR_RETURN(RegexPattern pattern, patternOf(json, section));
    ASSIGN_OR_RETURN(SplitBehavior behavior, behaviorOf(json));
    return Result(std::make_unique<SplitPreTokenizer>(
        std::move(pattern), behavior, flagOf(json, "invert", false), place));
  }
  if (type == "Metaspace") {
    using Prepend = MetaspacePreTokenizer::Prepend;
    ASSIGN_OR_RETURN(std::string mark, textOf(json, "replacement", section));
    if (mark.empty())
      return userError("has an empty \"replacement\"", section,
                       "the mark of a space, usually U+2581");
    std::string scheme =
        flagOf(json, "add_prefix_space", true) ? "always" : "never";
    if (json.contains("prepend_scheme")) {
      ASSIGN_OR_RETURN(scheme, textOf(json, "prepend_scheme", section));
    }
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return unknownKind("prepend_scheme", scheme);
    return Result(std::make_unique<MetaspacePreTokenizer>(
        mark,
        scheme == "always"  ? Prepend::always
        : scheme == "first" ? Prepend::first
                            : Prepend::never,
        flagOf(json, "split", true)));
  }
  if (type == "BertPreTokenizer") {
    auto sequence = std::make_unique<SequencePreTokenizer>();
    sequence->steps.push_back(std::make_unique<CharacterPreTokenizer>(
        isSpace, SplitBehavior::removed));
    sequence->steps.push_back(std::make_unique<CharacterPreTokenizer>(
        isAnyPunctuation, SplitBehavior::isolated));
    return Result(std::move(sequence));
  }
  if (type == "Whitespace") {
    std::string word = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}"
                       "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
                       "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
    ASSIGN_OR_RETURN(
        RegexPattern pattern,
        RegexPattern::compile("[" + word + "]++|[^\\s" + word + "]++"));
    return Result(std::make_unique<SplitPreTokenizer>(
        std::move(pattern), SplitBehavior::removed, true, place));
  }
  if (type == "WhitespaceSplit")
    return Result(std::make_unique<CharacterPreTokenizer>(
        isSpace, SplitBehavior::removed));
  if (type == "Punctuation") {
    ASSIGN_OR_RETURN(SplitBehavior behavior, behaviorOf(json));
    return Result(
        std::make_unique<CharacterPreTokenizer>(isAnyPunctuation, behavior));
  }
  if (type == "Digits")
    return Result(std::make_unique<CharacterPreTokenizer>(
        isDigitOrNumber, flagOf(json, "individual_digits", false)
                             ? SplitBehavior::isolated
                             : SplitBehavior::contiguous));
  if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(std::string text, textOf(json, "delimiter", section));
    size_t at = 0;
    if (text.empty() || (nextCodePoint(text, at), at != text.size()))
      return userError("the pre_tokenizer's delimiter is not one character",
                       "tokenizer.json");
    at = 0;
    return Result(
        std::make_unique<DelimiterPreTokenizer>(nextCodePoint(text, at)));
  }
  return unknownKind(section, type);
}

} // namespace knapper::serving
