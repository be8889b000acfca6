#include "serving/engine/DrawAhead.h"

namespace knapper::serving {

bool DrawAhead::pays(size_t rows, int64_t vocabulary) {
  // Some ten microseconds of work.
  constexpr int64_t least = 1 << 16;
  return rows > 1 && static_cast<int64_t>(rows) * vocabulary >= least;
}

size_t DrawAhead::add(const Draw &draw) {
  entries.push_back(std::make_unique<Entry>(draw));
  return entries.size() - 1;
}

void DrawAhead::work(Entry &entry) {
  const Draw &draw = entry.draw;
  try {
    entry.token = sampleToken(draw.logits, draw.options, draw.counts,
                              draw.position, draw.topLogprobs, draw.allowed);
  } catch (const std::bad_alloc &) { // only this sequence fails
    entry.token =
        deviceError("out of memory", "engine", "fewer requests at once");
  }
}

void DrawAhead::start() {
  auto shares = static_cast<size_t>(workers.count()) + 1;
  size_t count = entries.size();
  for (size_t share = 0; share < shares; ++share) {
    size_t from = count * share / shares, to = count * (share + 1) / shares;
    if (from == to)
      continue;
    auto job = std::make_shared<MaskWorkers::Job>([this, from, to] {
      for (size_t i = from; i < to; ++i)
        work(*entries[i]);
    });
    for (size_t i = from; i < to; ++i)
      entries[i]->job = job;
    // The first is the caller's, which needs it first.
    if (share > 0)
      workers.add(job);
  }
}

void DrawAhead::finish(size_t number) {
  Entry &entry = *entries[number];
  if (entry.job)
    workers.finish(*entry.job);
  else if (!entry.token)
    work(entry);
}

Expected<Token> DrawAhead::take(size_t number) {
  finish(number);
  return std::move(*entries[number]->token);
}

void DrawAhead::clear() {
  for (auto &entry : entries)
    if (entry->job)
      workers.finish(*entry->job);
  entries.clear();
}

} // namespace knapper::serving
