#include "serving/kvcache/PrefixTrie.h"

namespace knapper::serving {

PrefixTrie::PrefixTrie(int32_t blockTokens)
    : blockTokens(static_cast<size_t>(blockTokens)), nodes(1) {}

std::vector<int32_t> PrefixTrie::keyOf(Node parent,
                                       std::span<const int32_t> block,
                                       std::string_view salt) {
  std::vector<int32_t> key(block.begin(), block.end());
  if (parent == root)
    key.insert(key.end(), salt.begin(), salt.end());
  return key;
}

std::vector<PrefixTrie::Node> PrefixTrie::find(std::span<const int32_t> tokens,
                                               size_t most,
                                               std::string_view salt) const {
  std::vector<Node> found;
  Node at = root;
  while (found.size() < most && tokens.size() >= blockTokens) {
    auto it =
        nodes[at].children.find(keyOf(at, tokens.first(blockTokens), salt));
    if (it == nodes[at].children.end())
      break;
    at = it->second;
    found.push_back(at);
    tokens = tokens.subspan(blockTokens);
  }
  return found;
}

/// It stays in the list of unused ones, last.
PrefixTrie::Node PrefixTrie::take() {
  if (unused.empty()) {
    unused.reserve(nodes.size());
    nodes.emplace_back();
    unused.push_back(static_cast<Node>(nodes.size()) - 1);
  }
  return unused.back();
}

PrefixTrie::Node PrefixTrie::insert(Node parent,
                                    std::span<const int32_t> tokens,
                                    int32_t block, std::string_view salt) {
  std::vector<int32_t> key = keyOf(parent, tokens, salt);
  if (auto known = nodes[parent].children.find(key);
      known != nodes[parent].children.end())
    return known->second;
  std::set<std::pair<uint64_t, Node>> single{{0, root}};
  Node node = take();
  auto it = nodes[parent].children.emplace(std::move(key), node).first;
  unused.pop_back();
  nodes[node].place = single.extract(single.begin());
  nodes[node].parent = parent;
  nodes[node].block = block;
  nodes[node].self = it;
  ++count;
  settle(parent);
  settle(node);
  return node;
}

void PrefixTrie::settle(Node node) {
  if (node == root)
    return;
  Entry &entry = nodes[node];
  bool isIdle = entry.place.empty();
  bool becomesIdle = entry.users == 0 && entry.children.empty();
  if (becomesIdle == isIdle)
    return;
  if (becomesIdle) {
    entry.place.value() = {entry.lastUse, node};
    idle.insert(std::move(entry.place));
  } else {
    entry.place = idle.extract({entry.lastUse, node});
  }
}

void PrefixTrie::use(Node node) {
  ++nodes[node].users;
  settle(node);
}

void PrefixTrie::drop(Node node, uint64_t now) {
  Entry &entry = nodes[node];
  entry.lastUse = now; // one that is used is not idle
  --entry.users;
  settle(node);
}

std::optional<int32_t> PrefixTrie::evict() {
  if (idle.empty())
    return std::nullopt;
  Node node = idle.begin()->second;
  idle.erase(idle.begin());
  Entry &entry = nodes[node];
  int32_t block = entry.block;
  Node parent = entry.parent;
  nodes[parent].children.erase(entry.self);
  entry = Entry();
  unused.push_back(node);
  --count;
  settle(parent);
  return block;
}

} // namespace knapper::serving
