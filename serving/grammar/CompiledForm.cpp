#include "serving/grammar/CompiledForm.h"

#include "compiled_grammar_impl.h"
#include "fsm.h"
#include "grammar_impl.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <xgrammar/xgrammar.h>

namespace knapper::serving {
namespace {

using xgrammar::AdaptiveTokenMask;
using StoreType = AdaptiveTokenMask::StoreType;

[[noreturn]] void damaged() {
  throw std::runtime_error("its compiled form is damaged");
}

template <typename T> void put(std::string &bytes, const T &value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

void put(std::string &bytes, const std::vector<int32_t> &list) {
  put(bytes, static_cast<uint64_t>(list.size()));
  bytes.append(reinterpret_cast<const char *>(list.data()),
               list.size() * sizeof(int32_t));
}

class FormReader {
public:
  explicit FormReader(std::string_view bytes) : rest(bytes) {}

  std::string_view take(uint64_t count) {
    if (count > rest.size())
      damaged();
    std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  }
  template <typename T> T number() {
    T value;
    memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::vector<int32_t> list() {
    auto count = number<uint64_t>();
    if (count > rest.size())
      damaged();
    std::vector<int32_t> made(count);
    if (count > 0)
      memcpy(made.data(), take(count * sizeof(int32_t)).data(),
             count * sizeof(int32_t));
    return made;
  }
  bool atEnd() const { return rest.empty(); }

private:
  std::string_view rest;
};

std::string bytesOf(const AdaptiveTokenMask &mask) {
  std::string bytes;
  put(bytes, mask.store_type);
  put(bytes, mask.accepted_indices);
  put(bytes, mask.rejected_indices);
  put(bytes, mask.uncertain_indices);
  std::vector<int32_t> words(
      static_cast<size_t>(mask.accepted_bitset.Size() + 31) / 32);
  for (int bit = mask.accepted_bitset.FindFirstOne(); bit >= 0;
       bit = mask.accepted_bitset.FindNextOne(bit))
    words[static_cast<size_t>(bit) / 32] |= 1u << (bit % 32);
  put(bytes, words);
  return bytes;
}

/// The library trusts what it finds in a mask.
AdaptiveTokenMask maskOf(std::string_view bytes,
                         const xgrammar::TokenizerInfo &tokens) {
  FormReader reader(bytes);
  AdaptiveTokenMask mask;
  mask.store_type = reader.number<StoreType>();
  auto sorted = static_cast<int32_t>(tokens.GetSortedDecodedVocab().size());
  for (auto *list : {&mask.accepted_indices, &mask.rejected_indices,
                     &mask.uncertain_indices}) {
    *list = reader.list();
    for (int32_t index : *list)
      if (index < 0 || index >= sorted)
        damaged();
  }
  std::vector<int32_t> words = reader.list();
  bool isBitset = mask.store_type == StoreType::kAcceptedBitset;
  int vocabulary = tokens.GetVocabSize();
  if (!reader.atEnd() ||
      (!isBitset && mask.store_type != StoreType::kAccepted &&
       mask.store_type != StoreType::kRejected) ||
      words.size() !=
          (isBitset ? static_cast<size_t>(vocabulary + 31) / 32 : 0))
    damaged();
  if (isBitset)
    mask.accepted_bitset = xgrammar::DynamicBitset(vocabulary);
  for (size_t i = 0; i < words.size(); ++i)
    for (auto bits = static_cast<uint32_t>(words[i]); bits; bits &= bits - 1) {
      int bit = static_cast<int>(i) * 32 + __builtin_ctz(bits);
      if (bit >= vocabulary)
        damaged();
      mask.accepted_bitset.Set(bit);
    }
  return mask;
}

bool areEqual(const AdaptiveTokenMask &a, const AdaptiveTokenMask &b) {
  return a.store_type == b.store_type &&
         a.accepted_indices == b.accepted_indices &&
         a.rejected_indices == b.rejected_indices &&
         a.uncertain_indices == b.uncertain_indices &&
         a.accepted_bitset == b.accepted_bitset;
}

} // namespace

std::shared_ptr<const MaskPool::Mask> MaskPool::intern(std::string_view bytes,
                                                       Mask mask) {
  size_t hash = std::hash<std::string_view>()(bytes);
  // Dropped when the mutex is free: the last owner of one locks it.
  std::vector<std::shared_ptr<const Mask>> candidates;
  {
    std::lock_guard lock(mutex);
    auto [first, last] = masks.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (auto candidate = it->second.lock())
        candidates.push_back(std::move(candidate));
  }
  for (auto &candidate : candidates)
    if (areEqual(*candidate, mask))
      return candidate;
  size_t size = sizeof(Mask) + MemorySize(mask);
  std::shared_ptr<const Mask> made(
      new Mask(std::move(mask)),
      [pool = shared_from_this(), hash, size](const Mask *gone) {
        delete gone;
        pool->forget(hash, size);
      });
  std::lock_guard lock(mutex);
  masks.emplace(hash, made);
  held += size;
  return made;
}

void MaskPool::forget(size_t hash, size_t bytes) {
  std::lock_guard lock(mutex);
  held -= bytes;
  auto [first, last] = masks.equal_range(hash);
  for (auto it = first; it != last;)
    it = it->second.expired() ? masks.erase(it) : std::next(it);
}

size_t MaskPool::bytes() const {
  std::lock_guard lock(mutex);
  return held;
}

/// The automata of rules are views of one, which the library writes and reads
/// once for each rule. Here they are written as views, and taken from the
/// grammar; none where some are not.
static std::string takeViews(xgrammar::Grammar::Impl &grammar) {
  std::string bytes;
  for (const auto &rule : grammar.per_rule_fsms) {
    if (!grammar.optimized || !rule || rule->GetFsm().GetFsm().IsNull() ||
        rule->GetFsm().GetFsm().ImplPtr() != grammar.complete_fsm.ImplPtr())
      return {};
    put(bytes, static_cast<int32_t>(rule->GetFsm().GetStart()));
    put(bytes, rule->GetFsm().GetEnds());
    put(bytes, static_cast<int32_t>(rule->GetEdgeNum()));
    put(bytes, static_cast<int32_t>(rule->GetNodeNum()));
  }
  grammar.per_rule_fsms.clear();
  grammar.optimized = false; // as the library expects of one without them
  return bytes;
}

static void readViews(FormReader &reader, xgrammar::Grammar::Impl &grammar) {
  auto count = reader.number<uint64_t>();
  if (count == 0)
    return;
  if (count != static_cast<uint64_t>(grammar.NumRules()) ||
      grammar.complete_fsm.IsNull())
    damaged();
  int32_t states = grammar.complete_fsm.NumStates();
  auto known = [&](int32_t state) {
    if (state < 0 || state >= states)
      damaged();
    return state;
  };
  for (; count > 0; --count) {
    auto start = known(reader.number<int32_t>());
    std::vector<int32_t> ends = reader.list();
    std::for_each(ends.begin(), ends.end(), known);
    auto edges = reader.number<int32_t>(), nodes = reader.number<int32_t>();
    grammar.per_rule_fsms.emplace_back(xgrammar::CompactFSMWithStartEndWithSize(
        xgrammar::CompactFSMWithStartEnd(grammar.complete_fsm, start,
                                         std::move(ends)),
        edges, nodes));
  }
  grammar.optimized = true;
}

/// The library takes a grammar without automata, and reads them in a match.
static void setViews(FormReader &reader, xgrammar::Grammar::Impl &grammar) {
  readViews(reader, grammar);
  if (!grammar.optimized ||
      grammar.per_rule_fsms.size() != static_cast<size_t>(grammar.NumRules()))
    damaged();
}

std::string writeCompiled(const xgrammar::CompiledGrammar &grammar) {
  auto whole =
      std::make_shared<xgrammar::CompiledGrammar::Impl>(*grammar.ImplPtr());
  auto rules =
      std::make_shared<xgrammar::Grammar::Impl>(*grammar->grammar.ImplPtr());
  uint64_t count = rules->per_rule_fsms.size();
  std::string views = takeViews(*rules);
  whole->grammar = xgrammar::Grammar(rules);
  std::string text = xgrammar::CompiledGrammar(whole).SerializeJSON(), masks,
              states, bytes;
  std::unordered_map<std::string, uint32_t> places;
  for (const auto &[state, mask] : grammar->adaptive_token_mask_cache) {
    std::string own = bytesOf(*mask);
    auto [place, isNew] =
        places.try_emplace(own, static_cast<uint32_t>(places.size()));
    if (isNew) {
      put(masks, static_cast<uint64_t>(own.size()));
      masks += own;
    }
    put(states, state);
    put(states, place->second);
  }
  put(bytes, static_cast<uint64_t>(text.size()));
  bytes += text;
  put(bytes, views.empty() ? 0 : count);
  bytes += views;
  put(bytes, static_cast<uint64_t>(places.size()));
  bytes += masks;
  put(bytes, static_cast<uint64_t>(grammar->adaptive_token_mask_cache.size()));
  bytes += states;
  return bytes;
}

xgrammar::CompiledGrammar readCompiled(std::string_view bytes,
                                       const xgrammar::TokenizerInfo &tokens,
                                       MaskPool &pool) {
  FormReader reader(bytes);
  std::string text(reader.take(reader.number<uint64_t>()));
  auto read = xgrammar::CompiledGrammar::DeserializeJSON(text, tokens);
  auto *grammar = std::get_if<xgrammar::CompiledGrammar>(&read);
  if (!grammar)
    damaged();
  setViews(reader, *(*grammar)->grammar.ImplPtr());
  std::vector<std::shared_ptr<const AdaptiveTokenMask>> masks;
  for (auto left = reader.number<uint64_t>(); left > 0; --left) {
    std::string_view own = reader.take(reader.number<uint64_t>());
    masks.push_back(pool.intern(own, maskOf(own, tokens)));
  }
  auto &cache = (*grammar)->adaptive_token_mask_cache;
  for (auto left = reader.number<uint64_t>(); left > 0; --left) {
    auto state = reader.number<xgrammar::ParserState>();
    auto place = reader.number<uint32_t>();
    if (place >= masks.size())
      damaged();
    cache.emplace(state, masks[place]);
  }
  if (!reader.atEnd())
    damaged();
  return std::move(*grammar);
}

size_t ownBytes(const xgrammar::CompiledGrammar &grammar) {
  constexpr size_t node = 2 * sizeof(void *); // of the hash table
  using Cache =
      std::remove_cvref_t<decltype(grammar->adaptive_token_mask_cache)>;
  return grammar.MemorySizeBytes() + grammar->adaptive_token_mask_cache.size() *
                                         (sizeof(Cache::value_type) + node);
}

} // namespace knapper::serving
