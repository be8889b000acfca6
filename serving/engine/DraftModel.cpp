#include "serving/engine/DraftModel.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace knapper::serving {

int32_t DraftModel::tokenAt(const Sequence &sequence, int32_t place) const {
  return place < sequence.length()
             ? sequence.tokens[place]
             : sequence.proposed[place - sequence.length()];
}

void DraftModel::add(Sequence &sequence, int32_t end, bool wanted) {
  auto row = static_cast<int32_t>(parts.size());
  for (int32_t p = sequence.drafted; p < end; ++p)
    batch.add(tokenAt(sequence, p), p, row,
              sequence.blocks.blocks[p / blockTokens], p % blockTokens);
  if (wanted)
    batch.rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
  sequence.drafted = end;
  parts.push_back({&sequence, wanted});
}

std::optional<int32_t> DraftModel::tokenOf(const Sequence &sequence,
                                           int64_t row) {
  const SamplingOptions &sampling = sequence.request.sampling;
  if (drawsBest(sampling))
    if (auto best = runner->best(row); best && std::isfinite(best->logprob))
      return best->token;
  auto logits = runner->logits(row, 1);
  if (!logits)
    return std::nullopt;
  auto token = sampleToken(*logits, sampling, sequence.counts,
                           static_cast<uint64_t>(sequence.drafted), -1);
  return token ? std::optional(token->id) : std::nullopt;
}

bool DraftModel::run(StepTimes &times) {
  std::vector<const std::vector<int32_t> *> lists;
  for (const Part &part : parts)
    lists.push_back(&part.sequence->blocks.blocks);
  batch.setTable(lists);
  auto start = std::chrono::steady_clock::now();
  Status status = runner->run(batch);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!status) {
    for (const Part &part : parts) // what their keys are is not known
      part.sequence->drafted = 0;
    return false;
  }
  if (batch.tokens.size() == parts.size())
    times.add(static_cast<int32_t>(parts.size()), took.count());
  int64_t row = 0;
  for (const Part &part : parts) {
    if (!part.wanted)
      continue;
    Sequence &sequence = *part.sequence;
    if (std::optional<int32_t> token = tokenOf(sequence, row++))
      sequence.proposed.push_back(*token);
  }
  return true;
}

void DraftModel::propose(std::span<Sequence *const> sequences, int32_t rounds,
                         int32_t budget, StepTimes &times) {
  std::vector<Sequence *> open;
  for (int32_t round = 0; round < rounds; ++round) {
    batch.clear();
    parts.clear();
    int32_t left = budget;
    std::vector<Sequence *> next;
    for (Sequence *sequence : round == 0 ? sequences : std::span(open)) {
      auto known =
          sequence->length() + static_cast<int32_t>(sequence->proposed.size());
      auto places =
          static_cast<int32_t>(sequence->blocks.blocks.size()) * blockTokens;
      int32_t end = std::min(
          {known, sequence->drafted + left, places, limits.contextLength});
      if (end <= sequence->drafted)
        continue;
      left -= end - sequence->drafted;
      bool wanted = end == known;
      add(*sequence, end, wanted);
      if (wanted)
        next.push_back(sequence);
    }
    if (parts.empty() || !run(times))
      return;
    open = std::move(next);
    // Logits that are no numbers propose nothing, and end it.
    std::erase_if(open, [](Sequence *s) {
      return s->drafted !=
             s->length() + static_cast<int32_t>(s->proposed.size()) - 1;
    });
  }
}

} // namespace knapper::serving
