#include "serving/tokenizer/Detokenizer.h"

#include "serving/tokenizer/Utf8.h"

namespace knapper::serving {

void Detokenizer::follow(const std::vector<int32_t> &before) {
  for (int32_t id : before) {
    if (!first && toStrip == 0)
      break; // what comes later begins no text
    push(id);
  }
  pending.clear();
}

std::string Detokenizer::push(int32_t id) {
  std::string_view token = tokenizer.tokenText(id);
  if (token.empty() || (skipSpecial && tokenizer.isSpecial(id)))
    return {};
  const TokenDecoder &decoder = tokenizer.decoder();
  TokenDecoder::Part part = decoder.part(token, first);
  first = false;
  if (decoder.isByteLevel()) {
    pending += part.text;
    size_t held = unfinishedUtf8(pending);
    std::string ready = replaceInvalidUtf8(
        std::string_view(pending).substr(0, pending.size() - held));
    pending.erase(0, pending.size() - held);
    return ready;
  }
  if (!part.isByte)
    return endRun() + stripped(std::move(part.text));
  pending += part.text;
  if (mode == Mode::whole || validUtf8(pending) != pending.size())
    return {};
  std::string ready = stripped(std::move(pending));
  pending.clear();
  return ready;
}

std::string Detokenizer::finish() {
  std::string text = tokenizer.decoder().isByteLevel()
                         ? replaceInvalidUtf8(pending)
                         : endRun();
  pending.clear();
  return text;
}

std::string Detokenizer::endRun() {
  if (pending.empty())
    return {};
  std::string text;
  if (validUtf8(pending) == pending.size())
    text = std::move(pending);
  else
    for (size_t i = 0; i < pending.size(); ++i)
      text += "\xef\xbf\xbd";
  pending.clear();
  return stripped(std::move(text));
}

std::string Detokenizer::stripped(std::string text) {
  const std::string &strip = tokenizer.decoder().stripped();
  while (toStrip > 0 && !text.empty()) {
    if (!text.starts_with(strip)) {
      toStrip = 0;
      break;
    }
    text.erase(0, strip.size());
    --toStrip;
  }
  return text;
}

} // namespace knapper::serving
