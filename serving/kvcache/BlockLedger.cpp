#include "serving/kvcache/BlockLedger.h"

namespace knapper::serving {

BlockLedger::BlockLedger(int32_t blocks) : entries(blocks > 0 ? blocks : 0) {
  // Nothing allocates later: a block must not be lost for want of memory.
  freeList.reserve(entries.size());
  changes.reserve(entries.size());
  for (int32_t block = this->blocks(); block-- > 0;) {
    entries[block].place = static_cast<int32_t>(freeList.size());
    freeList.push_back(block);
  }
}

BlockLedger::Entry *BlockLedger::at(int32_t block) {
  return block >= 0 && block < blocks() ? &entries[block] : nullptr;
}

int32_t BlockLedger::owners(int32_t block) const {
  return block >= 0 && block < blocks() ? entries[block].owners : 0;
}

void BlockLedger::note(int32_t block) {
  if (!entries[block].changed)
    changes.push_back(block);
  entries[block].changed = true;
}

void BlockLedger::become(int32_t block, State state) {
  Entry &entry = entries[block];
  note(block);
  auto count = [&](State of) -> int32_t * {
    switch (of) {
    case State::owned:
      return &ownedCount;
    case State::cached:
      return &cachedCount;
    case State::quarantined:
      return &quarantinedCount;
    case State::free:
      break;
    }
    return nullptr;
  };
  if (entry.state == State::free && state != State::free) {
    // The last one of the list takes its place.
    int32_t last = freeList.back();
    freeList[entry.place] = last;
    entries[last].place = entry.place;
    freeList.pop_back();
    entry.place = -1;
  } else if (entry.state != State::free && state == State::free) {
    entry.place = static_cast<int32_t>(freeList.size());
    freeList.push_back(block);
  }
  if (int32_t *before = count(entry.state))
    --*before;
  if (int32_t *after = count(state))
    ++*after;
  entry.state = state;
}

bool BlockLedger::fault(int32_t block) {
  ++faultCount;
  quarantine(block);
  return false;
}

void BlockLedger::quarantine(int32_t block) {
  if (at(block) && entries[block].state != State::quarantined)
    become(block, State::quarantined);
}

std::optional<int32_t> BlockLedger::take() {
  if (freeList.empty())
    return std::nullopt;
  int32_t block = freeList.back();
  become(block, State::owned);
  entries[block].owners = 1;
  return block;
}

bool BlockLedger::retain(int32_t block) {
  Entry *entry = at(block);
  if (!entry || (entry->state != State::owned && entry->state != State::cached))
    return fault(block);
  if (entry->state == State::cached)
    become(block, State::owned);
  ++entry->owners;
  note(block);
  return true;
}

bool BlockLedger::release(int32_t block, uint64_t step) {
  Entry *entry = at(block);
  if (entry && entry->state == State::quarantined)
    return false; // its fault is counted
  if (!entry || entry->state != State::owned || entry->owners < 1)
    return fault(block);
  note(block);
  if (--entry->owners == 0 && step > finished)
    return fault(block);
  if (entry->owners == 0)
    become(block, entry->published ? State::cached : State::free);
  return true;
}

bool BlockLedger::publish(int32_t block) {
  Entry *entry = at(block);
  if (!entry || entry->state != State::owned || entry->published)
    return fault(block);
  entry->published = true;
  note(block);
  return true;
}

bool BlockLedger::withdraw(int32_t block) {
  Entry *entry = at(block);
  if (entry && entry->state == State::quarantined)
    return false;
  if (!entry || !entry->published)
    return fault(block);
  entry->published = false;
  note(block);
  if (entry->state == State::cached)
    become(block, State::free);
  return true;
}

std::vector<int32_t> BlockLedger::check() {
  std::vector<int32_t> wrong;
  for (int32_t block : changes) {
    Entry &entry = entries[block];
    entry.changed = false;
    bool listed = entry.place >= 0 && entry.place < numFree() &&
                  freeList[entry.place] == block;
    bool right = false;
    switch (entry.state) {
    case State::free:
      right = listed && entry.owners == 0 && !entry.published;
      break;
    case State::owned:
      right = !listed && entry.owners > 0;
      break;
    case State::cached:
      right = !listed && entry.owners == 0 && entry.published;
      break;
    case State::quarantined:
      continue;
    }
    if (!right)
      wrong.push_back(block);
  }
  changes.clear();
  for (int32_t block : wrong)
    fault(block);
  if (numFree() + ownedCount + cachedCount + quarantinedCount != blocks())
    ++faultCount;
  return wrong;
}

} // namespace knapper::serving
