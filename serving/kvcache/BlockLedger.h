// Who has which block of keys and values. Every block is in one state:
//
//   free         in the list of free ones
//   owned        by so many sequences; perhaps in the prefix cache as well
//   cached       in the prefix cache, owned by none: evicted when needed
//   quarantined  something was wrong with it; never given out again
//
// A call that does not fit the state of a block (released twice, given out and
// still free, freed while a step runs) quarantines the block and counts a
// fault; the process goes on.
// Used by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace knapper::serving {

class BlockLedger {
public:
  explicit BlockLedger(int32_t blocks);

  int32_t blocks() const { return static_cast<int32_t>(entries.size()); }
  int32_t numFree() const { return static_cast<int32_t>(freeList.size()); }
  int32_t numCached() const { return cachedCount; }
  int32_t numOwned() const { return ownedCount; }
  int32_t numQuarantined() const { return quarantinedCount; }
  uint64_t faults() const { return faultCount; }
  int32_t owners(int32_t block) const;

  /// A free block, now owned once; none if none is free.
  std::optional<int32_t> take();
  /// One owner more of an owned or cached block.
  bool retain(int32_t block);
  /// One owner less. The last one may not go before all steps up to number
  /// `step`, which may write the block, have run.
  bool release(int32_t block, uint64_t step);
  bool release(int32_t block) { return release(block, submitted); }
  /// Around each step of the device, which takes them in order: it may have the
  /// next one before the last has run.
  void beginStep() { ++submitted; }
  void endStep() { ++finished; }
  bool stepIsRunning() const { return submitted != finished; }
  uint64_t stepsSubmitted() const { return submitted; }
  uint64_t stepsFinished() const { return finished; }
  /// An owned block enters the prefix cache.
  bool publish(int32_t block);
  /// A block leaves the prefix cache.
  bool withdraw(int32_t block);
  void quarantine(int32_t block);

  /// Compares the blocks that changed since the last check, and the sums of
  /// all, with what the states say: O(changes). Returns the blocks that were
  /// wrong, which are quarantined now.
  std::vector<int32_t> check();

private:
  enum class State : uint8_t { free, owned, cached, quarantined };
  struct Entry {
    State state = State::free;
    bool published = false, changed = false;
    int32_t owners = 0;
    int32_t place = -1; ///< in the free list
  };
  Entry *at(int32_t block);
  void note(int32_t block);
  void become(int32_t block, State state);
  bool fault(int32_t block);

  std::vector<Entry> entries;
  std::vector<int32_t> freeList, changes;
  int32_t cachedCount = 0, ownedCount = 0, quarantinedCount = 0;
  uint64_t submitted = 0, finished = 0; ///< steps
  uint64_t faultCount = 0;
};

} // namespace knapper::serving
