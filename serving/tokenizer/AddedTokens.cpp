#include "serving/tokenizer/AddedTokens.h"

#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"
#include "serving/tokenizer/Vocabulary.h"

#include <algorithm>

namespace knapper::serving {

using Json = nlohmann::json;

Expected<AddedTokens> AddedTokens::read(const Json &json,
                                        const Normalizer *normalizer) {
  AddedTokens added;
  if (json.is_null())
    return added;
  if (!json.is_array())
    return userError("\"added_tokens\" is not a list", "tokenizer.json");
  for (const Json &entry : json) {
    AddedToken token;
    ASSIGN_OR_RETURN(token.content, textOf(entry, "content", "added token"));
    const Json id = entry.value("id", Json());
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= Vocabulary::mostTokens)
      return userError("the added token '" + token.content +
                           "' has no valid number",
                       "tokenizer.json");
    token.id = id.get<int32_t>();
    token.special = flagOf(entry, "special", false);
    token.singleWord = flagOf(entry, "single_word", false);
    token.leftStrip = flagOf(entry, "lstrip", false);
    token.rightStrip = flagOf(entry, "rstrip", false);
    token.normalized = flagOf(entry, "normalized", !token.special);
    if (token.content.empty())
      continue;
    size_t index = added.tokens.size();
    std::string text = token.content;
    if (token.normalized && normalizer)
      TRY(normalizer->apply(text));
    Set &set = added.sets[token.normalized];
    if (!text.empty()) {
      set.trie.insert(text, static_cast<int32_t>(index));
      set.starts[static_cast<unsigned char>(text[0])] = true;
      set.empty = false;
    }
    token.shown = text;
    added.byId.emplace(token.id, index);
    added.byContent.emplace(token.content, index);
    added.tokens.push_back(std::move(token));
  }
  return added;
}

const AddedToken *AddedTokens::find(int32_t id) const {
  auto found = byId.find(id);
  return found == byId.end() ? nullptr : &tokens[found->second];
}

const AddedToken *AddedTokens::find(std::string_view content) const {
  auto found = byContent.find(std::string(content));
  return found == byContent.end() ? nullptr : &tokens[found->second];
}

namespace {

size_t characterBefore(std::string_view text, size_t at) {
  do
    --at;
  while (at > 0 && (text[at] & 0xc0) == 0x80);
  return at;
}

size_t spacesBefore(std::string_view text, size_t at) {
  size_t end = at;
  while (at > 0) {
    size_t begin = characterBefore(text, at), next = begin;
    if (!isSpace(nextCodePoint(text, next)))
      break;
    at = begin;
  }
  return end - at;
}

size_t spacesAfter(std::string_view text, size_t at) {
  size_t begin = at;
  for (size_t next = at; at < text.size(); at = next)
    if (!isSpace(nextCodePoint(text, next)))
      break;
  return at - begin;
}

bool insideWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t before = characterBefore(text, begin);
    if (isWordCharacter(nextCodePoint(text, before)))
      return true;
  }
  return end < text.size() && isWordCharacter(nextCodePoint(text, end));
}

} // namespace

bool AddedTokens::next(std::string_view text, size_t at, bool normalized,
                       bool withSpecial, const std::vector<Range> &literal,
                       Match &match) const {
  const Set &set = sets[normalized];
  if (set.empty)
    return false;
  while (at < text.size()) {
    if (!set.starts[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    uint32_t node = ByteTrie::root;
    int32_t index = -1;
    size_t end = at;
    for (size_t i = at; i < text.size();) {
      node = set.trie.step(node, text[i++]);
      if (node == ByteTrie::none)
        break;
      if (set.trie.value(node) >= 0)
        index = set.trie.value(node), end = i;
    }
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken &token = tokens[index];
    if (token.special) {
      // A user's text that spells a control token stays text.
      auto range = std::upper_bound(
          literal.begin(), literal.end(), at,
          [](size_t place, const Range &range) { return place < range.end; });
      if (!withSpecial || (range != literal.end() && range->begin < end)) {
        at += withSpecial ? 1 : end - at;
        continue;
      }
    }
    if (token.singleWord && insideWord(text, at, end)) {
      at = end;
      continue;
    }
    match = {at, end, token.leftStrip ? spacesBefore(text, at) : 0,
             token.rightStrip ? spacesAfter(text, end) : 0, token.id};
    return true;
  }
  return false;
}

} // namespace knapper::serving
