// Byte-pair encoding: the best merge of neighbours first, the leftmost of
// equals (Sennrich et al., 2016; as `tokenizers` applies it).
#include "serving/tokenizer/TokenModel.h"
#include "serving/tokenizer/TokenizerJson.h"
#include "serving/tokenizer/Utf8.h"

#include <algorithm>
#include <queue>

namespace knapper::serving {
namespace {

using Json = nlohmann::json;

struct Merge {
  uint32_t rank;
  int32_t made;
};

/// Pairs of tokens and what they merge into, in one open table.
class MergeTable {
public:
  void reserve(size_t count) {
    size_t size = 64;
    while (size < 2 * count)
      size *= 2;
    slots.resize(size);
  }
  void add(int32_t left, int32_t right, Merge merge) {
    uint64_t key = keyOf(left, right);
    size_t i = start(key);
    while (slots[i].key != empty && slots[i].key != key)
      i = (i + 1) & (slots.size() - 1);
    slots[i] = {key, merge}; // of two that are equal, the later one counts
  }
  const Merge *find(int32_t left, int32_t right) const {
    uint64_t key = keyOf(left, right);
    for (size_t i = start(key); slots[i].key != empty;
         i = (i + 1) & (slots.size() - 1))
      if (slots[i].key == key)
        return &slots[i].merge;
    return nullptr;
  }

private:
  static constexpr uint64_t empty = ~uint64_t(0);
  struct Slot {
    uint64_t key = empty;
    Merge merge{};
  };
  static uint64_t keyOf(int32_t left, int32_t right) {
    return uint64_t(static_cast<uint32_t>(left)) << 32 |
           static_cast<uint32_t>(right);
  }
  size_t start(uint64_t key) const {
    key *= 0x9e3779b97f4a7c15u;
    return (key ^ key >> 32) & (slots.size() - 1);
  }
  std::vector<Slot> slots;
};

class BytePairModel : public TokenModel {
public:
  void tokenize(std::string_view piece,
                std::vector<int32_t> &ids) const override {
    if (ignoreMerges)
      if (int32_t whole = vocabulary.find(piece); whole >= 0) {
        ids.push_back(whole);
        return;
      }
    size_t first = ids.size();
    spell(piece, ids);
    size_t count = ids.size() - first;
    if (count <= shortWord)
      ids.resize(first + mergeShort(ids.data() + first, count));
    else
      mergeLong(ids, first);
  }

  Status read(const Json &json, LongLists &lists);

private:
  static constexpr size_t shortWord = 24;

  void spell(std::string_view piece, std::vector<int32_t> &ids) const;
  size_t mergeShort(int32_t *ids, size_t count) const;
  void mergeLong(std::vector<int32_t> &ids, size_t first) const;

  MergeTable merges;
  std::vector<int32_t> byteTokens; ///< of byte fallback
  std::string prefix, suffix;      ///< of parts inside, at the end of a word
  int32_t unknown = -1;
  bool fuseUnknown = false, ignoreMerges = false, byteFallback = false;
};

/// One token a character.
void BytePairModel::spell(std::string_view piece,
                          std::vector<int32_t> &ids) const {
  bool pending = false; // an unknown token that more characters may join
  std::string name;
  for (size_t at = 0; at < piece.size();) {
    size_t length = std::min(utf8Length(piece[at]), piece.size() - at);
    std::string_view character = piece.substr(at, length);
    std::string_view key = character;
    if (!prefix.empty() || !suffix.empty()) {
      name = at > 0 ? prefix : std::string();
      name += character;
      if (at + length == piece.size())
        name += suffix;
      key = name;
    }
    at += length;
    if (int32_t id = vocabulary.find(key); id >= 0) {
      if (pending)
        ids.push_back(unknown);
      pending = false;
      ids.push_back(id);
      continue;
    }
    if (byteFallback && std::all_of(key.begin(), key.end(), [&](char byte) {
          return byteTokens[static_cast<unsigned char>(byte)] >= 0;
        })) {
      for (char byte : key)
        ids.push_back(byteTokens[static_cast<unsigned char>(byte)]);
      continue;
    }
    if (unknown < 0)
      continue;
    if (pending && !fuseUnknown)
      ids.push_back(unknown);
    pending = true;
  }
  if (pending)
    ids.push_back(unknown);
}

size_t BytePairModel::mergeShort(int32_t *ids, size_t count) const {
  // The merge of each place with the next one; ranks are read once.
  Merge next[shortWord];
  constexpr uint32_t none = ~0u;
  auto look = [&](size_t i) {
    const Merge *merge =
        i + 1 < count ? merges.find(ids[i], ids[i + 1]) : nullptr;
    next[i] = merge ? *merge : Merge{none, -1};
  };
  for (size_t i = 0; i < count; ++i)
    look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (next[i].rank < next[best].rank)
        best = i;
    if (next[best].rank == none)
      break;
    ids[best] = next[best].made;
    --count;
    for (size_t i = best + 1; i < count; ++i)
      ids[i] = ids[i + 1], next[i] = next[i + 1];
    look(best);
    if (best > 0)
      look(best - 1);
  }
  return count;
}

void BytePairModel::mergeLong(std::vector<int32_t> &ids, size_t first) const {
  struct Symbol {
    int32_t id, previous, next; ///< id -1: merged away
  };
  struct Candidate {
    uint32_t rank;
    int32_t at, left, right, made;
    bool operator<(const Candidate &other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::vector<Symbol> symbols;
  auto count = static_cast<int32_t>(ids.size() - first);
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({ids[first + i], i - 1, i + 1 < count ? i + 1 : -1});
  std::priority_queue<Candidate> queue;
  auto look = [&](int32_t at) {
    if (at < 0 || symbols[at].next < 0)
      return;
    int32_t left = symbols[at].id, right = symbols[symbols[at].next].id;
    if (const Merge *merge = merges.find(left, right))
      queue.push({merge->rank, at, left, right, merge->made});
  };
  for (int32_t i = 0; i < count; ++i)
    look(i);
  while (!queue.empty()) {
    Candidate top = queue.top();
    queue.pop();
    Symbol &left = symbols[top.at];
    if (left.id != top.left || left.next < 0 ||
        symbols[left.next].id != top.right)
      continue;
    Symbol &right = symbols[left.next];
    left.id = top.made;
    right.id = -1;
    left.next = right.next;
    if (right.next >= 0)
      symbols[right.next].previous = top.at;
    look(left.previous);
    look(top.at);
  }
  ids.resize(first);
  for (const Symbol &symbol : symbols)
    if (symbol.id >= 0)
      ids.push_back(symbol.id);
}

Status damagedMerge(uint32_t rank, const std::string &made) {
  return userError("merge " + std::to_string(rank) + " ('" + made +
                       "') is damaged or not of the vocabulary",
                   "tokenizer.json");
}

Status BytePairModel::read(const Json &json, LongLists &lists) {
  TRY(readVocabulary(json, lists));
  if (json.contains("dropout") && json["dropout"].is_number() &&
      json["dropout"].get<double>() != 0)
    return userError("the model's dropout makes tokens random",
                     "tokenizer.json");
  auto text = [&](const char *key) {
    return json.contains(key) && json[key].is_string()
               ? json[key].get<std::string>()
               : std::string();
  };
  prefix = text("continuing_subword_prefix");
  suffix = text("end_of_word_suffix");
  fuseUnknown = flagOf(json, "fuse_unk", false);
  ignoreMerges = flagOf(json, "ignore_merges", false);
  byteFallback = flagOf(json, "byte_fallback", false);
  findByteTokens(byteTokens);
  ASSIGN_OR_RETURN(unknown, namedToken(json, "unk_token"));
  uint32_t rank = 0;
  std::string made;
  auto take = [&](std::string_view left, std::string_view right) {
    made = left;
    if (!prefix.empty() && right.starts_with(prefix))
      made += right.substr(prefix.size());
    else
      made += right;
    int32_t ids[3] = {vocabulary.find(left), vocabulary.find(right),
                      vocabulary.find(made)};
    if (left.empty() || ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
      return false;
    merges.add(ids[0], ids[1], {rank++, ids[2]});
    return true;
  };
  if (lists.merges) {
    merges.reserve(lists.merges->size());
    return lists.eachMerge(take) ? success() : damagedMerge(rank, made);
  }
  auto list = json.find("merges");
  if (list == json.end() || !list->is_array())
    return userError("the model has no \"merges\"", "tokenizer.json");
  merges.reserve(list->size());
  for (const Json &merge : *list) {
    std::string_view left, right;
    if (merge.is_string()) {
      const auto &both = merge.get_ref<const std::string &>();
      size_t space = both.find(' ');
      if (space != std::string::npos) {
        left = std::string_view(both).substr(0, space);
        right = std::string_view(both).substr(space + 1);
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0].get_ref<const std::string &>();
      right = merge[1].get_ref<const std::string &>();
    }
    if (!take(left, right))
      return damagedMerge(rank, made);
  }
  return success();
}

} // namespace

Expected<std::unique_ptr<TokenModel>> readBytePairModel(const Json &json,
                                                        LongLists &lists) {
  auto model = std::make_unique<BytePairModel>();
  TRY(model->read(json, lists));
  return std::unique_ptr<TokenModel>(std::move(model));
}

} // namespace knapper::serving
