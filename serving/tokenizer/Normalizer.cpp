#include "serving/tokenizer/Normalizer.h"

#include "runtime/base/Text.h"
#include "serving/tokenizer/ByteAlphabet.h"
#include "serving/tokenizer/PrecompiledMap.h"
#include "serving/tokenizer/RegexPattern.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

/// Rebuilds a text character by character.
template <typename Each> void rebuild(std::string &text, Each &&each) {
  std::string made;
  made.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    each(made, nextCodePoint(text, at));
  text = std::move(made);
}

class SequenceNormalizer : public Normalizer {
public:
  std::vector<std::unique_ptr<Normalizer>> steps;
  Status change(std::string &text) const override {
    for (const auto &step : steps)
      TRY(step->apply(text));
    return success();
  }
};

class FormNormalizer : public Normalizer {
public:
  explicit FormNormalizer(NormalForm form) : form(form) {}
  Status change(std::string &text) const override {
    text = normalForm(text, form);
    return success();
  }

private:
  NormalForm form;
};

class LowercaseNormalizer : public Normalizer {
public:
  Status change(std::string &text) const override {
    rebuild(text, [](std::string &made, char32_t c) { appendLower(made, c); });
    return success();
  }
};

class StripAccentsNormalizer : public Normalizer {
public:
  Status change(std::string &text) const override {
    rebuild(text, [](std::string &made, char32_t c) {
      if (!isMark(c))
        appendUtf8(made, c);
    });
    return success();
  }
};

class StripNormalizer : public Normalizer {
public:
  StripNormalizer(bool left, bool right) : left(left), right(right) {}
  Status change(std::string &text) const override {
    size_t begin = 0, end = text.size();
    for (size_t at = 0;
         left && at < text.size() && isSpace(nextCodePoint(text, at));)
      begin = at;
    while (right && end > begin) {
      size_t first = end - 1;
      while (first > begin && (text[first] & 0xc0) == 0x80)
        --first;
      size_t at = first;
      if (!isSpace(nextCodePoint(text, at)))
        break;
      end = first;
    }
    text = text.substr(begin, end - begin);
    return success();
  }

private:
  bool left, right;
};

class PrependNormalizer : public Normalizer {
public:
  explicit PrependNormalizer(std::string prefix) : prefix(std::move(prefix)) {}
  Status change(std::string &text) const override {
    if (!text.empty())
      text.insert(0, prefix);
    return success();
  }

private:
  std::string prefix;
};

class ReplaceNormalizer : public Normalizer {
public:
  ReplaceNormalizer(RegexPattern pattern, std::string content)
      : pattern(std::move(pattern)), content(std::move(content)) {}
  Status change(std::string &text) const override {
    std::string made;
    size_t done = 0;
    bool whole = pattern.forEach(text, [&](size_t begin, size_t end) {
      if (made.size() <= longestText) {
        made.append(text, done, begin - done);
        made += content;
      }
      done = end;
    });
    if (!whole)
      return userError(
          "a regular expression of the normalizer gave up on the text",
          "tokenizer.json", "a shorter text");
    if (done == 0)
      return success();
    made.append(text, done, std::string::npos);
    text = std::move(made);
    return success();
  }

private:
  RegexPattern pattern;
  std::string content;
};

class ByteLevelNormalizer : public Normalizer {
public:
  Status change(std::string &text) const override {
    std::string made;
    appendByteCharacters(made, text);
    text = std::move(made);
    return success();
  }
};

bool isChinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

class BertNormalizer : public Normalizer {
public:
  bool cleanText = true, chineseCharacters = true, lowercase = true;
  bool stripAccents = true;

  Status change(std::string &text) const override {
    rebuild(text, [&](std::string &made, char32_t c) {
      if (cleanText) {
        bool blank = c == '\t' || c == '\n' || c == '\r';
        if (c == 0 || c == 0xfffd || (!blank && isControl(c)))
          return;
        if (blank || isSpace(c))
          c = ' ';
      }
      if (chineseCharacters && isChinese(c)) {
        made += ' ';
        appendUtf8(made, c);
        made += ' ';
      } else {
        appendUtf8(made, c);
      }
    });
    if (stripAccents) {
      text = normalForm(text, NormalForm::nfd);
      rebuild(text, [](std::string &made, char32_t c) {
        if (!isNonspacingMark(c))
          appendUtf8(made, c);
      });
    }
    return lowercase ? LowercaseNormalizer().apply(text) : success();
  }
};

class NmtNormalizer : public Normalizer {
public:
  Status change(std::string &text) const override {
    rebuild(text, [](std::string &made, char32_t c) {
      if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) ||
          c == 0x7f || c == 0x8f || c == 0x9f)
        return;
      bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                   (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
                   c == 0x2581 || c == 0xfeff || c == 0xfffd;
      appendUtf8(made, space ? U' ' : c);
    });
    return success();
  }
};

class PrecompiledNormalizer : public Normalizer {
public:
  explicit PrecompiledNormalizer(PrecompiledMap map) : map(std::move(map)) {}
  Status change(std::string &text) const override {
    return checkLength(map.apply(text, longestText));
  }

private:
  PrecompiledMap map;
};

} // namespace

Status Normalizer::apply(std::string &text) const {
  TRY(change(text));
  return checkLength(text.size());
}

Status Normalizer::checkLength(size_t bytes) {
  if (bytes <= longestText)
    return success();
  return userError(cat("the normalizer makes the text longer than ",
                       longestText >> 20, " MiB"),
                   "tokenizer.json", "a shorter text");
}

Expected<std::unique_ptr<Normalizer>> Normalizer::read(const Json &json) {
  using Result = std::unique_ptr<Normalizer>;
  if (json.is_null())
    return Result();
  ASSIGN_OR_RETURN(std::string type, textOf(json, "type", "normalizer"));
  if (type == "Sequence") {
    auto sequence = std::make_unique<SequenceNormalizer>();
    for (const Json &step : json.value("normalizers", Json::array())) {
      ASSIGN_OR_RETURN(Result made, read(step));
      if (made)
        sequence->steps.push_back(std::move(made));
    }
    return Result(std::move(sequence));
  }
  if (type == "NFC")
    return Result(std::make_unique<FormNormalizer>(NormalForm::nfc));
  if (type == "NFD")
    return Result(std::make_unique<FormNormalizer>(NormalForm::nfd));
  if (type == "NFKC")
    return Result(std::make_unique<FormNormalizer>(NormalForm::nfkc));
  if (type == "NFKD")
    return Result(std::make_unique<FormNormalizer>(NormalForm::nfkd));
  if (type == "Lowercase")
    return Result(std::make_unique<LowercaseNormalizer>());
  if (type == "StripAccents")
    return Result(std::make_unique<StripAccentsNormalizer>());
  if (type == "Strip")
    return Result(std::make_unique<StripNormalizer>(
        flagOf(json, "strip_left", true), flagOf(json, "strip_right", true)));
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, textOf(json, "prepend", "normalizer"));
    return Result(std::make_unique<PrependNormalizer>(std::move(prefix)));
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(RegexPattern pattern, patternOf(json, "normalizer"));
    ASSIGN_OR_RETURN(std::string content,
                     textOf(json, "content", "normalizer"));
    return Result(std::make_unique<ReplaceNormalizer>(std::move(pattern),
                                                      std::move(content)));
  }
  if (type == "ByteLevel")
    return Result(std::make_unique<ByteLevelNormalizer>());
  if (type == "Nmt")
    return Result(std::make_unique<NmtNormalizer>());
  if (type == "BertNormalizer") {
    auto bert = std::make_unique<BertNormalizer>();
    bert->cleanText = flagOf(json, "clean_text", true);
    bert->chineseCharacters = flagOf(json, "handle_chinese_chars", true);
    bert->lowercase = flagOf(json, "lowercase", true);
    bert->stripAccents = flagOf(json, "strip_accents", bert->lowercase);
    return Result(std::move(bert));
  }
  if (type == "Precompiled") {
    ASSIGN_OR_RETURN(std::string encoded,
                     textOf(json, "precompiled_charsmap", "normalizer"));
    ASSIGN_OR_RETURN(PrecompiledMap map, PrecompiledMap::read(encoded));
    return Result(std::make_unique<PrecompiledNormalizer>(std::move(map)));
  }
  return unknownKind("normalizer", type);
}

} // namespace knapper::serving
