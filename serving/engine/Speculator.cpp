#include "serving/engine/Speculator.h"

#include <algorithm>
#include <chrono>

namespace knapper::serving {

/// Now and then a step without proposals says what it takes today.
static constexpr int32_t kPlainEvery = 128;
static constexpr int32_t kTrial = 2; ///< tokens of a trial

void Speculator::prepare(Sequence &sequence) const {
  if (options.kind == SpeculationKind::lookup && sequence.request.speculate) {
    sequence.lookup.emplace();
    sequence.lookup->extend(sequence.tokens);
  }
}

/// Proposals that could ever be of use.
int32_t Speculator::room(const Sequence &sequence) const {
  if (!sequence.request.speculate || sequence.jumped)
    return 0;
  // The token that is drawn anyway is not proposed.
  int32_t left = std::min(sequence.request.maxTokens - sequence.answer(),
                          limits.contextLength - sequence.length()) -
                 1;
  return std::clamp(left, 0, options.tokens);
}

void Speculator::propose(std::span<Sequence *const> decoding, int32_t others,
                         KvCache &cache, int32_t budget) {
  for (Sequence *sequence : decoding)
    sequence->proposed.clear();
  if (!isOn() || decoding.empty())
    return;
  if (options.measured && sincePlain >= kPlainEvery) {
    sincePlain = 0;
    return;
  }
  if (options.kind == SpeculationKind::draft)
    draftAhead(decoding, others, cache, budget);
  else
    lookUp(decoding, others);
  bool any =
      std::any_of(decoding.begin(), decoding.end(),
                  [](const Sequence *s) { return !s->proposed.empty(); });
  sincePlain = any ? sincePlain + 1 : 0;
}

void Speculator::lookUp(std::span<Sequence *const> decoding, int32_t others) {
  std::vector<Proposal> proposals;
  std::vector<Sequence *> asked;
  for (Sequence *sequence : decoding) {
    int32_t most = room(*sequence);
    if (most == 0 || !sequence->lookup)
      continue;
    sequence->lookup->extend(sequence->tokens);
    sequence->proposed = sequence->lookup->propose(sequence->tokens, most);
    if (sequence->proposed.empty())
      continue;
    proposals.push_back({sequence->acceptance.rate(),
                         static_cast<int32_t>(sequence->proposed.size())});
    asked.push_back(sequence);
  }
  if (asked.empty() || !options.measured)
    return;
  std::vector<int32_t> chosen = chooseVerified(
      proposals, others + static_cast<int32_t>(decoding.size()), times);
  for (size_t i = 0; i < asked.size(); ++i) {
    int32_t count = chosen[i];
    if (count == 0 && asked[i]->acceptance.pass())
      count = kTrial;
    asked[i]->proposed.resize(
        static_cast<size_t>(std::min<int32_t>(count, proposals[i].tokens)));
  }
}

void Speculator::draftAhead(std::span<Sequence *const> decoding, int32_t others,
                            KvCache &cache, int32_t budget) {
  std::vector<Sequence *> asked;
  std::vector<double> rates;
  for (Sequence *sequence : decoding)
    if (room(*sequence) > 0 && draft->serves(*sequence)) {
      asked.push_back(sequence);
      rates.push_back(sequence->acceptance.rate());
    }
  if (asked.empty())
    return;
  int32_t all = others + static_cast<int32_t>(decoding.size());
  int32_t rounds = options.measured ? chooseRounds(rates, all, options.tokens,
                                                   times, draftTimes)
                                    : options.tokens;
  if (rounds == 0) {
    std::erase_if(asked, [](Sequence *s) { return !s->acceptance.pass(); });
    rounds = std::min(kTrial, options.tokens);
  }
  for (Sequence *sequence : asked) {
    int32_t most = std::min(rounds, room(*sequence));
    // Blocks for its keys: those that no other sequence may need now.
    int32_t blocks = cache.blocksFor(sequence->length() + most);
    auto held = static_cast<int32_t>(sequence->blocks.blocks.size());
    if (cache.available() - (blocks - held) >
        static_cast<int32_t>(decoding.size()))
      cache.grow(sequence->blocks, blocks);
    sequence->proposed.reserve(static_cast<size_t>(most));
  }
  draft->propose(asked, rounds, budget, draftTimes);
  for (Sequence *sequence : asked) {
    auto most = static_cast<size_t>(room(*sequence));
    if (sequence->proposed.size() > most)
      sequence->proposed.resize(most);
  }
}

void Speculator::learn(Sequence &sequence, int32_t verified, int32_t right) {
  if (verified > 0)
    sequence.acceptance.add(verified, right);
  // Keys of tokens that were wrong are of no use to the draft model.
  sequence.drafted = std::min(sequence.drafted, sequence.computed);
}

} // namespace knapper::serving
