#include "serving/tokenizer/TokenDecoder.h"

#include "serving/tokenizer/ByteAlphabet.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

namespace knapper::serving {

using Json = nlohmann::json;

namespace {

void replaceAll(std::string &text, std::string_view from, std::string_view to) {
  if (from.empty())
    return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
}

/// English without the spaces that WordPiece puts before signs.
void cleanUp(std::string &text) {
  constexpr std::pair<std::string_view, std::string_view> rows[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto [from, to] : rows)
    replaceAll(text, from, to);
}

/// The byte of <0x00> to <0xFF>; -1 for another text.
int namedByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0)
      return -1;
    value = 16 * value + digit;
  }
  return value;
}

std::string bytesOf(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    int byte = byteOfCharacter(nextCodePoint(token, at));
    if (byte < 0) // an added token, which is not spelt in that alphabet
      return std::string(token);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

} // namespace

void TokenDecoder::apply(const Step &step, std::string &text, bool first) {
  switch (step.kind) {
  case Kind::replace:
    replaceAll(text, step.pattern, step.content);
    break;
  case Kind::strip: {
    size_t begin = 0, end = text.size(), width = step.content.size();
    for (size_t i = 0;
         i < step.start &&
         std::string_view(text).substr(begin).starts_with(step.content);
         ++i)
      begin += width;
    for (size_t i = 0;
         i < step.stop && end >= begin + width &&
         std::string_view(text).substr(0, end).ends_with(step.content);
         ++i)
      end -= width;
    text = text.substr(begin, end - begin);
    break;
  }
  case Kind::wordPiece:
    if (!first) {
      if (text.starts_with(step.content))
        text.erase(0, step.content.size());
      else
        text.insert(0, 1, ' ');
    }
    if (step.flag)
      cleanUp(text);
    break;
  case Kind::metaspace: {
    // Of the first token every mark goes where the pre-tokenizer prepends one.
    replaceAll(text, step.pattern, first && step.flag ? "" : " ");
    break;
  }
  case Kind::bytes:
    break;
  }
}

TokenDecoder::Part TokenDecoder::part(std::string_view token,
                                      bool first) const {
  Part made;
  if (byteLevel) {
    made.text = bytesOf(token);
    return made;
  }
  made.text = token;
  if (joinedBySpaces && !first)
    made.text.insert(0, 1, ' ');
  for (const Step &step : steps) {
    if (step.kind == Kind::bytes) {
      if (int byte = namedByte(made.text); byte >= 0) {
        made.text.assign(1, static_cast<char>(byte));
        made.isByte = true;
        return made;
      }
      continue;
    }
    apply(step, made.text, first);
  }
  return made;
}

Status TokenDecoder::add(const Json &json) {
  const char *section = "decoder";
  ASSIGN_OR_RETURN(std::string type, textOf(json, "type", section));
  auto number = [&](const char *key) -> size_t {
    auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned()
               ? found->get<size_t>()
               : 0;
  };
  if (type == "Sequence") {
    for (const Json &step : json.value("decoders", Json::array()))
      TRY(add(step));
    return success();
  }
  if (type == "Fuse") {
    fused = true;
    return success();
  }
  if (fused) {
    // What follows sees one long text; at its start only can it act early.
    if (type == "Strip" && number("stop") == 0 && stripCount == 0) {
      ASSIGN_OR_RETURN(stripText, textOf(json, "content", section));
      // Nothing can be stripped any number of times.
      stripCount = stripText.empty() ? 0 : number("start");
      return success();
    }
    return userError("the decoder '" + type +
                         "' behind 'Fuse' is not supported",
                     "tokenizer.json");
  }
  if (type == "ByteLevel") {
    if (!steps.empty())
      return userError("a decoder before 'ByteLevel' is not supported",
                       "tokenizer.json");
    byteLevel = true;
    return success();
  }
  if (byteLevel)
    return userError("the decoder '" + type +
                         "' behind 'ByteLevel' is not supported",
                     "tokenizer.json");
  Step step{};
  if (type == "Replace") {
    Json pattern = json.value("pattern", Json());
    ASSIGN_OR_RETURN(step.pattern, textOf(pattern, "String", section));
    ASSIGN_OR_RETURN(step.content, textOf(json, "content", section));
    step.kind = Kind::replace;
    // Each of a chain may lengthen what the one before it made.
    if (!step.pattern.empty() && step.content.size() > step.pattern.size())
      growth *= static_cast<double>(step.content.size()) /
                static_cast<double>(step.pattern.size());
    if (growth > mostGrowth)
      return userError("the decoder's \"Replace\" steps make a token more than "
                       "1024 times as long",
                       "tokenizer.json");
  } else if (type == "ByteFallback") {
    step.kind = Kind::bytes;
  } else if (type == "Strip") {
    ASSIGN_OR_RETURN(step.content, textOf(json, "content", section));
    if (!step.content.empty())
      step.start = number("start"), step.stop = number("stop");
    step.kind = Kind::strip;
  } else if (type == "WordPiece") {
    ASSIGN_OR_RETURN(step.content, textOf(json, "prefix", section));
    step.flag = flagOf(json, "cleanup", true);
    step.kind = Kind::wordPiece;
  } else if (type == "Metaspace") {
    ASSIGN_OR_RETURN(step.pattern, textOf(json, "replacement", section));
    auto scheme = json.find("prepend_scheme");
    step.flag = scheme != json.end() && scheme->is_string()
                    ? *scheme != "never"
                    : flagOf(json, "add_prefix_space", true);
    step.kind = Kind::metaspace;
  } else {
    return unknownKind(section, type);
  }
  steps.push_back(std::move(step));
  return success();
}

Expected<TokenDecoder> TokenDecoder::read(const Json &json) {
  TokenDecoder decoder;
  if (json.is_null())
    decoder.joinedBySpaces = true;
  else
    TRY(decoder.add(json));
  return decoder;
}

} // namespace knapper::serving
