// The blocks of keys and values of sequences: taken, shared with the prefix
// cache, published when full, given back. Owns the ledger and the trie. Used by
// the engine's thread alone. A call that throws std::bad_alloc has changed
// nothing; giving back never allocates.
#pragma once

#include "serving/kvcache/BlockLedger.h"
#include "serving/kvcache/PrefixTrie.h"

namespace knapper::serving {

/// What a sequence holds. The first `nodes.size()` blocks are in the trie.
struct BlockList {
  std::vector<int32_t> blocks;
  std::vector<PrefixTrie::Node> nodes;
};

class KvCache {
public:
  KvCache(int32_t blocks, int32_t blockTokens, bool prefixes)
      : ledger(blocks), trie(blockTokens), blockTokens(blockTokens),
        prefixes(prefixes) {}

  int32_t blocksFor(int32_t tokens) const {
    return (tokens + blockTokens - 1) / blockTokens;
  }
  /// Blocks that `grow` can give: free ones, and cached ones that it evicts.
  int32_t available() const { return ledger.numFree() + ledger.numCached(); }
  /// How many blocks of the tokens' beginning are cached, and of these how many
  /// count as available now. At least one token is left to compute. Sequences
  /// share blocks with those of the same salt only.
  struct Hit {
    int32_t blocks = 0, idle = 0;
  };
  Hit look(std::span<const int32_t> tokens, std::string_view salt = {}) const;
  /// Moves the cached blocks of the beginning into an empty list: how many.
  int32_t adopt(std::span<const int32_t> tokens, BlockList &list,
                std::string_view salt = {});
  /// More blocks, up to `count`; false (and as before) if there are too few.
  bool grow(BlockList &list, int32_t count);
  enum class Published : uint8_t {
    unmoved, ///< the list's blocks are those that it had
    moved,   ///< another sequence was first: the list has its blocks now
    waits    ///< the same, but a step runs on the list's: again behind it
  };
  /// Enters the full blocks of these tokens, whose keys are all computed.
  Published publish(std::span<const int32_t> tokens, BlockList &list,
                    std::string_view salt = {});
  /// At once, or, while steps run that were submitted so far, once they have
  /// run. Keeps up to `reserveReturns` lists without allocating.
  void release(BlockList &list);
  void reserveReturns(size_t lists) { returning.reserve(lists); }

  /// Around each step of the device: see BlockLedger::beginStep.
  void beginStep() { ledger.beginStep(); }
  void endStep();
  /// See BlockLedger::check.
  std::vector<int32_t> check() { return ledger.check(); }
  const BlockLedger &blocks() const { return ledger; }

private:
  size_t usableBlocks(size_t tokens) const {
    return tokens == 0 ? 0 : (tokens - 1) / static_cast<size_t>(blockTokens);
  }

  /// Of a sequence that has ended while a step ran that may write its blocks.
  struct Returning {
    BlockList list;
    uint64_t step; ///< the last one that may
  };
  void giveBack(BlockList &list, uint64_t step);

  BlockLedger ledger;
  PrefixTrie trie;
  std::vector<Returning> returning; ///< oldest first
  int32_t blockTokens;
  bool prefixes;
  uint64_t clock = 0;
};

} // namespace knapper::serving
