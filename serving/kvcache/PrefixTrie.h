// The prefix cache: full blocks of prompts and answers, found by their tokens.
// A node is a block; its parents are the blocks before it. Tokens themselves
// are compared, not only hashes. Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace knapper::serving {

class PrefixTrie {
public:
  /// A place in the trie; 0 is the beginning of all sequences and no block.
  using Node = int32_t;
  static constexpr Node root = 0;

  explicit PrefixTrie(int32_t blockTokens);

  /// The nodes of the longest known beginning, at most `most`. Sequences of
  /// another salt have none in common.
  std::vector<Node> find(std::span<const int32_t> tokens, size_t most,
                         std::string_view salt = {}) const;
  int32_t blockOf(Node node) const { return nodes[node].block; }

  /// The block of these tokens after `parent`. One that is there stays, with
  /// the block that it has. `tokens`: as many as a block has. `salt`: of what
  /// begins at the root.
  Node insert(Node parent, std::span<const int32_t> tokens, int32_t block,
              std::string_view salt = {});

  /// A sequence uses the node, or no longer does. `now` orders uses.
  void use(Node node);
  void drop(Node node, uint64_t now);

  /// Removes the node that was used longest ago, of those that nobody uses and
  /// nothing follows; its block.
  std::optional<int32_t> evict();

  int32_t size() const { return count; }

private:
  struct Entry {
    Node parent = root;
    int32_t block = -1;
    int32_t users = 0;
    uint64_t lastUse = 0;
    std::map<std::vector<int32_t>, Node> children;
    std::map<std::vector<int32_t>, Node>::iterator self;
    /// Its place among the idle ones, while it is none of them: becoming idle
    /// allocates nothing.
    std::set<std::pair<uint64_t, Node>>::node_type place;
  };
  /// Of a block among its parent's children: first blocks have the salt, too.
  static std::vector<int32_t> keyOf(Node parent, std::span<const int32_t> block,
                                    std::string_view salt);
  Node take();            ///< an entry that is not used
  void settle(Node node); ///< enters it among the idle ones, or takes it out

  size_t blockTokens;
  int32_t count = 0;
  std::deque<Entry> nodes; // entries stay where they are
  std::vector<Node> unused;
  std::set<std::pair<uint64_t, Node>> idle; ///< leaves without users
};

} // namespace knapper::serving
