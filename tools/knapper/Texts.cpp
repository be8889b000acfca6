#include "tools/knapper/Texts.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Printable.h"
#include "runtime/base/Text.h"
#include "tools/knapper/Random.h"

#include "llvm/Support/ConvertUTF.h"
#include <algorithm>
#include <cstring>
#include <optional>

namespace knapper::cli {
namespace {

constexpr size_t kCharacter = sizeof(llvm::UTF32);
constexpr size_t kMostBytes = 4; // of a character in UTF-8

/// Nothing where the characters are none of Unicode's.
std::optional<std::string> toUtf8(std::string_view characters) {
  std::vector<llvm::UTF32> from(characters.size() / kCharacter);
  memcpy(from.data(), characters.data(), from.size() * kCharacter);
  while (!from.empty() && from.back() == 0)
    from.pop_back();
  std::string to(from.size() * kMostBytes, '\0');
  const llvm::UTF32 *source = from.data();
  auto *begin = reinterpret_cast<llvm::UTF8 *>(to.data()), *end = begin;
  if (llvm::ConvertUTF32toUTF8(&source, source + from.size(), &end,
                               begin + to.size(),
                               llvm::strictConversion) != llvm::conversionOK)
    return std::nullopt;
  to.resize(end - begin);
  return to;
}

/// Nothing where the bytes are no UTF-8.
std::optional<std::vector<llvm::UTF32>> toCharacters(std::string_view text) {
  std::vector<llvm::UTF32> to(text.size());
  auto *source = reinterpret_cast<const llvm::UTF8 *>(text.data());
  llvm::UTF32 *end = to.data();
  if (llvm::ConvertUTF8toUTF32(&source, source + text.size(), &end,
                               to.data() + to.size(),
                               llvm::strictConversion) != llvm::conversionOK)
    return std::nullopt;
  to.resize(end - to.data());
  return to;
}

} // namespace

std::string_view textAt(const knapper_tensor &tensor, int64_t i) {
  const knapper_string &element =
      static_cast<const knapper_string *>(tensor.data)[i];
  return {element.data ? element.data : "", element.size};
}

std::string quoted(std::string_view text) {
  constexpr size_t most = 40;
  size_t end = text.size();
  if (end > most)
    for (end = most; end > most - kMostBytes && (text[end] & 0xc0) == 0x80;)
      --end; // within a character
  std::string_view beginning = text.substr(0, end);
  std::string shown;
  if (toCharacters(beginning)) {
    shown = printable(beginning);
  } else {
    constexpr char digits[] = "0123456789abcdef";
    for (unsigned char byte : beginning)
      if (byte < 0x80)
        shown += printable(std::string(1, static_cast<char>(byte)));
      else
        shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return cat("\"", shown, end < text.size() ? "...\"" : "\"");
}

Expected<Array> textArray(const std::vector<std::string> &texts,
                          std::vector<int64_t> shape,
                          const std::string &where) {
  ASSIGN_OR_RETURN(Array array,
                   Array::make(KNAPPER_STRING, std::move(shape), where));
  size_t bytes = 0;
  for (const std::string &text : texts)
    bytes += text.size();
  array.characters.resize(bytes);
  char *at = array.characters.data();
  auto *element = reinterpret_cast<knapper_string *>(array.data.get());
  for (const std::string &text : texts) {
    *element++ = {at, text.size()};
    at = std::copy(text.begin(), text.end(), at);
  }
  return array;
}

Expected<Array> textArray(std::string_view elements, size_t width, bool wide,
                          std::vector<int64_t> shape,
                          const std::string &where) {
  size_t bytes = wide ? width * kCharacter : width;
  std::vector<std::string> texts;
  for (size_t at = 0; at < elements.size(); at += bytes) {
    std::string_view element = elements.substr(at, bytes);
    std::optional<std::string> text;
    if (wide)
      text = toUtf8(element);
    else
      text = element.substr(0, element.find_last_not_of('\0') + 1);
    if (!text)
      return userError(cat("string ", texts.size(),
                           " has characters that are none of Unicode's"),
                       where, "save it again with numpy.save");
    texts.push_back(std::move(*text));
  }
  return textArray(texts, std::move(shape), where);
}

Expected<Array> randomTexts(std::vector<int64_t> shape, uint64_t seed,
                            const std::string &where) {
  constexpr std::string_view consonants = "bdfgklmnprstvwz", vowels = "aeiou";
  constexpr uint64_t kinds = 64, most = 3; // words, syllables of each
  int64_t count = elementCount(shape.data(), shape.size());
  // Says whether there can be so many, before they are made.
  if (Expected<Array> room = Array::make(KNAPPER_STRING, shape, where); !room)
    return room.takeError();
  std::vector<std::string> texts(static_cast<size_t>(count));
  for (size_t i = 0; i < texts.size(); ++i) {
    uint64_t word = randomBits(seed, i) % kinds;
    for (uint64_t syllable = 0; syllable <= word % most; ++syllable) {
      uint64_t bits = randomBits(word, syllable);
      texts[i] += consonants[bits % consonants.size()];
      texts[i] += vowels[(bits >> 32) % vowels.size()];
    }
  }
  return textArray(texts, std::move(shape), where);
}

Expected<FixedTexts> fixedTexts(const knapper_tensor &tensor,
                                const std::string &where) {
  int64_t count = elementCount(tensor.shape, size_t(tensor.rank));
  size_t characters = 1, bytes = 1; // NumPy has no elements without any
  bool wide = true;
  for (int64_t i = 0; i < count; ++i) {
    std::string_view text = textAt(tensor, i);
    bytes = std::max(bytes, text.size());
    std::optional<std::vector<llvm::UTF32>> converted = toCharacters(text);
    wide &= converted.has_value();
    if (converted)
      characters = std::max(characters, converted->size());
  }
  FixedTexts fixed{wide ? cat("<U", characters) : cat("|S", bytes), {}};
  size_t width = wide ? characters * kCharacter : bytes;
  constexpr int64_t mostBytes = int64_t(4) << 30;
  std::optional<int64_t> total = checkedMul(count, int64_t(width));
  if (!total || *total > mostBytes)
    return userError(cat("would take more than 4 GiB: ", count,
                         " strings, each as wide as the longest of ", width,
                         " bytes"),
                     where, "leave the output out, or run on fewer strings");
  fixed.elements.resize(static_cast<size_t>(*total));
  char *at = fixed.elements.data();
  for (int64_t i = 0; i < count; ++i, at += width) {
    std::string_view text = textAt(tensor, i);
    if (wide) {
      std::vector<llvm::UTF32> converted = *toCharacters(text);
      memcpy(at, converted.data(), converted.size() * kCharacter);
    } else {
      memcpy(at, text.data(), text.size());
    }
  }
  return fixed;
}

} // namespace knapper::cli
