#include "serving/kvcache/PrefixTrie.h"

namespace knapper::serving {

PrefixTrie::PrefixTrie(int32_t blockTokens)
    : blockTokens(static_cast<size_t>(blockTokens)), nodes(1) {}

std::vector<PrefixTrie::Node> PrefixTrie::find(std::span<const int32_t> tokens,
                                               size_t most) const {
  std::vector<Node> found;
  Node at = root;
  while (found.size() < most && tokens.size() >= blockTokens) {
    auto block = tokens.first(blockTokens);
    auto it = nodes[at].children.find(
        std::vector<int32_t>(block.begin(), block.end()));
    if (it == nodes[at].children.end())
      break;
    at = it->second;
    found.push_back(at);
    tokens = tokens.subspan(blockTokens);
  }
  return found;
}

PrefixTrie::Node PrefixTrie::insert(Node parent,
                                    std::span<const int32_t> tokens,
                                    int32_t block) {
  auto [it, isNew] = nodes[parent].children.emplace(
      std::vector<int32_t>(tokens.begin(), tokens.end()), Node(0));
  if (!isNew)
    return it->second;
  Node node = 0;
  if (unused.empty()) {
    node = static_cast<Node>(nodes.size());
    nodes.emplace_back();
  } else {
    node = unused.back();
    unused.pop_back();
    nodes[node] = Entry();
  }
  it->second = node;
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
  if (entry.users == 0 && entry.children.empty())
    idle.emplace(entry.lastUse, node);
  else
    idle.erase({entry.lastUse, node});
}

void PrefixTrie::use(Node node) {
  ++nodes[node].users;
  settle(node);
}

void PrefixTrie::drop(Node node, uint64_t now) {
  Entry &entry = nodes[node];
  idle.erase({entry.lastUse, node});
  entry.lastUse = now;
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
