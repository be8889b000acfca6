#include "serving/kvcache/KvCache.h"

#include <algorithm>
#include <utility>

namespace knapper::serving {

KvCache::Hit KvCache::look(std::span<const int32_t> tokens,
                           std::string_view salt) const {
  Hit hit;
  if (!prefixes)
    return hit;
  for (PrefixTrie::Node node :
       trie.find(tokens, usableBlocks(tokens.size()), salt)) {
    ++hit.blocks;
    hit.idle += ledger.owners(trie.blockOf(node)) == 0;
  }
  return hit;
}

int32_t KvCache::adopt(std::span<const int32_t> tokens, BlockList &list,
                       std::string_view salt) {
  if (!prefixes)
    return 0;
  std::vector<PrefixTrie::Node> found =
      trie.find(tokens, usableBlocks(tokens.size()), salt);
  list.nodes.reserve(list.nodes.size() + found.size());
  list.blocks.reserve(list.blocks.size() + found.size());
  for (PrefixTrie::Node node : found) {
    if (!ledger.retain(trie.blockOf(node)))
      break;
    trie.use(node);
    list.nodes.push_back(node);
    list.blocks.push_back(trie.blockOf(node));
  }
  return static_cast<int32_t>(list.blocks.size());
}

bool KvCache::grow(BlockList &list, int32_t count) {
  auto held = static_cast<int32_t>(list.blocks.size());
  if (count <= held)
    return true;
  if (count - held > available())
    return false;
  list.blocks.reserve(static_cast<size_t>(count));
  for (int32_t i = held; i < count; ++i) {
    while (ledger.numFree() == 0) {
      std::optional<int32_t> evicted = trie.evict();
      if (!evicted)
        break;
      ledger.withdraw(*evicted);
    }
    std::optional<int32_t> block = ledger.take();
    if (!block) {
      while (static_cast<int32_t>(list.blocks.size()) > held) {
        ledger.release(list.blocks.back());
        list.blocks.pop_back();
      }
      return false;
    }
    list.blocks.push_back(*block);
  }
  return true;
}

KvCache::Published KvCache::publish(std::span<const int32_t> tokens,
                                    BlockList &list, std::string_view salt) {
  size_t full = tokens.size() / static_cast<size_t>(blockTokens);
  auto result = Published::unmoved;
  if (!prefixes || full <= list.nodes.size())
    return result;
  list.nodes.reserve(std::min(full, list.blocks.size()));
  for (size_t i = list.nodes.size(); i < full && i < list.blocks.size(); ++i) {
    PrefixTrie::Node parent = i == 0 ? PrefixTrie::root : list.nodes[i - 1];
    int32_t mine = list.blocks[i];
    PrefixTrie::Node node =
        trie.insert(parent,
                    tokens.subspan(i * static_cast<size_t>(blockTokens),
                                   static_cast<size_t>(blockTokens)),
                    mine, salt);
    int32_t known = trie.blockOf(node);
    if (known == mine) {
      ledger.publish(mine);
    } else if (ledger.stepIsRunning()) {
      return Published::waits;
    } else { // another sequence was first: both use its block
      ledger.retain(known);
      ledger.release(mine);
      list.blocks[i] = known;
      result = Published::moved;
    }
    trie.use(node);
    list.nodes.push_back(node);
  }
  return result;
}

void KvCache::release(BlockList &list) {
  if (list.blocks.empty())
    return;
  if (!ledger.stepIsRunning())
    return giveBack(list, ledger.stepsSubmitted());
  returning.push_back({std::exchange(list, {}), ledger.stepsSubmitted()});
}

void KvCache::endStep() {
  ledger.endStep();
  auto end = returning.begin();
  for (; end != returning.end() && end->step <= ledger.stepsFinished(); ++end)
    giveBack(end->list, end->step);
  returning.erase(returning.begin(), end);
}

void KvCache::giveBack(BlockList &list, uint64_t step) {
  // From the end: what follows a block is evicted before it.
  for (size_t i = list.blocks.size(); i-- > 0;) {
    ledger.release(list.blocks[i], step);
    if (i < list.nodes.size())
      trie.drop(list.nodes[i], ++clock);
  }
  list = {};
}

} // namespace knapper::serving
