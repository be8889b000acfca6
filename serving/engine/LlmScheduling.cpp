// What the next step computes: decided between two steps, or while the step
// before it runs.
#include "serving/engine/LlmEngine.h"

#include "runtime/base/Text.h"
#include "serving/grammar/ThreadTime.h"

#include <algorithm>

namespace knapper::serving {

template <typename PlaceOf> SchedulerState LlmEngine::view(PlaceOf &&placeOf) {
  SchedulerState state;
  state.budget = settings.maxBatchedTokens;
  state.blockTokens = settings.blockTokens;
  state.available = cache.available();
  state.maxSequences = settings.maxSequences;
  for (auto &[id, sequence] : sequences) {
    std::optional<Place> place = placeOf(*sequence);
    if (!place)
      continue;
    SequenceView view;
    view.id = id;
    view.priority = sequence->request.priority;
    view.tokens = place->length;
    view.computed = place->computed;
    view.blocks = static_cast<int32_t>(sequence->blocks.blocks.size());
    view.proposed = static_cast<int32_t>(sequence->proposed.size());
    (sequence->running ? state.running : state.waiting).push_back(view);
  }
  // Only those that may be admitted are looked up in the prefix cache.
  auto room = static_cast<size_t>(std::max<int64_t>(
      0, settings.maxSequences - static_cast<int64_t>(state.running.size())));
  std::stable_sort(state.waiting.begin(), state.waiting.end(),
                   [](const SequenceView &a, const SequenceView &b) {
                     return a.priority < b.priority;
                   });
  state.waiting.resize(std::min(state.waiting.size(), room));
  for (SequenceView &view : state.waiting) {
    const Sequence &sequence = *sequences[view.id];
    if (sequence.request.promptLogprobs && !sequence.admitted)
      continue; // every position's logits are wanted
    KvCache::Hit hit = cache.look(sequence.tokens, sequence.request.salt);
    view.hitBlocks = hit.blocks;
    view.hitIdle = hit.idle;
  }
  return state;
}

void LlmEngine::admit(Sequence &sequence) {
  sequence.running = true;
  ++counters.running;
  sequence.drafted = 0;
  if (!sequence.request.promptLogprobs || sequence.admitted)
    sequence.computed =
        cache.adopt(sequence.tokens, sequence.blocks, sequence.request.salt) *
        settings.blockTokens;
  if (!sequence.admitted) {
    sequence.admitted = true;
    sequence.cachedTokens = sequence.computed;
    counters.cachedTokens += static_cast<uint64_t>(sequence.computed);
    std::lock_guard lock(mutex);
    --queued;
  }
}

void LlmEngine::preempt(Sequence &sequence) {
  cache.release(sequence.blocks);
  sequence.computed = sequence.publishable = 0;
  sequence.publishWaits = false;
  --counters.running;
  sequence.running = false;
  sequence.drafted = 0;
  sequence.proposed.clear();
  ++counters.preemptions;
}

void LlmEngine::addPart(Step &step, Sequence &sequence, Place from,
                        int32_t tokens, int32_t proposed) {
  // The prefix cache may have more or less of it than when it was looked at.
  tokens = std::min(tokens, from.length - from.computed);
  int32_t end = from.computed + tokens;
  if (end < from.length)
    proposed = 0;
  if (tokens <= 0 ||
      !cache.grow(sequence.blocks, cache.blocksFor(end + proposed)))
    return;
  StepBatch &batch = step.batch;
  Part part{&sequence,
            from,
            tokens,
            proposed,
            static_cast<int64_t>(batch.rows.size()),
            0};
  auto row = static_cast<int32_t>(step.parts.size());
  auto prompt = static_cast<int32_t>(sequence.request.prompt.size());
  for (int32_t p = from.computed; p < end + proposed; ++p) {
    int32_t token = 0;
    if (p < sequence.length())
      token = sequence.tokens[p];
    else if (p < from.length)
      part.unknown = static_cast<int64_t>(batch.tokens.size());
    else
      token = sequence.proposed[p - from.length];
    batch.add(token, p, row, sequence.blocks.blocks[p / settings.blockTokens],
              p % settings.blockTokens);
    if (p + 1 >= from.length ||
        (sequence.request.promptLogprobs && p + 1 < prompt))
      batch.rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
  }
  part.rows = static_cast<int64_t>(batch.rows.size()) - part.firstRow;
  step.parts.push_back(std::move(part));
}

void LlmEngine::addTable(Step &step) {
  std::vector<const std::vector<int32_t> *> lists;
  lists.reserve(step.parts.size());
  for (const Part &part : step.parts)
    lists.push_back(&part.sequence->blocks.blocks);
  step.batch.setTable(lists);
}

void LlmEngine::propose() {
  std::vector<Sequence *> decoding;
  int32_t others = 0;
  for (auto &[id, sequence] : sequences) {
    if (sequence->decodes())
      decoding.push_back(sequence.get());
    else
      others += sequence->length() - sequence->computed;
  }
  others = std::min(others, settings.maxBatchedTokens);
  speculator.propose(decoding, others, cache, settings.maxBatchedTokens);
}

bool LlmEngine::decide() {
  publishAll();
  auto placeOf = [](const Sequence &sequence) {
    return std::optional<Place>({sequence.computed, sequence.length()});
  };
  current.state = view(placeOf);
  current.decision = scheduleStep(current.state);
  const StepDecision &decision = current.decision;
  if (settings.record)
    settings.record->write(current.state, decision);
  for (uint64_t id : decision.preempted)
    preempt(*sequences[id]);
  for (uint64_t id : decision.admitted)
    admit(*sequences[id]);
  current.batch.clear();
  current.parts.clear();
  for (const StepDecision::Part &part : decision.parts) {
    Sequence &sequence = *sequences[part.id];
    addPart(current, sequence, *placeOf(sequence), part.tokens, part.proposed);
  }
  if (current.parts.empty()) {
    // Only lost blocks bring this about: the oldest would wait for ever.
    if (decision.preempted.empty() && decision.admitted.empty())
      finish(*sequences.begin()->second, FinishReason::error,
             deviceError("the pool of keys and values has no room for it",
                         "engine", "a larger pool"));
    return false;
  }
  addTable(current);
  return true;
}

//===----------------------------------------------------------------------===//
// While the step before runs
//===----------------------------------------------------------------------===//

std::optional<LlmEngine::Place> LlmEngine::placeBehind(const Sequence &sequence,
                                                       const Part *part) const {
  if (!part)
    return Place{sequence.computed, sequence.length()};
  Place place{part->from.computed + part->tokens, part->from.length};
  if (!part->ends())
    return place;
  ++place.length;
  bool ends = sequence.answer() + 1 >= sequence.request.maxTokens ||
              place.length >= settings.limits.contextLength;
  return ends ? std::nullopt : std::optional(place);
}

void LlmEngine::prepare() {
  uint64_t began = threadNanoseconds();
  try {
    prepared = decideNext();
  } catch (const std::bad_alloc &) { // it is decided when this one is over
    next.parts.clear();
  }
  for (size_t i = 0; prepared && i < next.parts.size(); ++i) {
    next.parts[i].sequence->preparedPart = static_cast<int32_t>(i);
    next.parts[i].sequence->movedBlocks = false;
  }
  counters.prepareNanoseconds += threadNanoseconds() - began;
}

bool LlmEngine::decideNext() {
  // What is proposed follows from the tokens.
  if (speculator.isOn())
    return false;
  // By the sequences' numbers, as `view` goes through them.
  std::vector<const Part *> running;
  running.reserve(current.parts.size());
  for (const Part &part : current.parts) {
    part.sequence->row = !part.ends()     ? -1
                         : part.draw >= 0 ? StepBatch::sourceOfDraw(part.draw)
                                          : part.nextRow();
    running.push_back(&part);
  }
  auto before = [](const Part *part, uint64_t id) {
    return part->sequence->id < id;
  };
  std::sort(running.begin(), running.end(), [&](const Part *a, const Part *b) {
    return before(a, b->sequence->id);
  });
  auto placeOf = [&](const Sequence &sequence) {
    auto at =
        std::lower_bound(running.begin(), running.end(), sequence.id, before);
    bool runs = at != running.end() && (*at)->sequence == &sequence;
    return placeBehind(sequence, runs ? *at : nullptr);
  };
  next.state = view(placeOf);
  next.decision = scheduleStep(next.state);
  next.batch.clear();
  next.parts.clear();
  // Between steps there may be more room.
  if (!next.decision.preempted.empty() || !next.decision.admitted.empty())
    return false;
  for (const StepDecision::Part &part : next.decision.parts) {
    Sequence &sequence = *sequences[part.id];
    addPart(next, sequence, *placeOf(sequence), part.tokens, 0);
    sequence.unsent.reserve(1); // the device would wait for the memory
  }
  if (next.parts.empty())
    return false;
  addTable(next);
  preparedSequences = sequences.size();
  preparedWaiting =
      std::any_of(sequences.begin(), sequences.end(),
                  [](const auto &entry) { return !entry.second->running; });
  return true;
}

bool LlmEngine::takesBest(const Sequence &sequence) {
  return !sequence.grammar && sequence.request.topLogprobs <= 0 &&
         drawsBest(sequence.request.sampling);
}

bool LlmEngine::drawsInStream(const Sequence &sequence) const {
  const Request &request = sequence.request;
  if (!runner->drawsInStream() || sequence.grammar || takesBest(sequence) ||
      request.maxTokens == 0 || changesLogits(request.sampling))
    return false;
  const DeviceSampler &sampler = *runner->deviceSampler();
  // Where most guesses are wrong a step in two would be for nothing.
  constexpr int32_t spacing = 16;
  return sequence.wrongGuesses * spacing <= sequence.answer() + spacing &&
         mayUseSummary(request.sampling, request.topLogprobs,
                       sampler.knownLogits(), sampler.knownBest(),
                       settings.limits.vocabulary);
}

void LlmEngine::addDraws(Step &step) {
  step.batch.draws.clear();
  for (Part &part : step.parts) {
    part.draw = -1;
    if (!part.ends() || part.proposed > 0 || !drawsInStream(*part.sequence))
      continue;
    part.draw = static_cast<int32_t>(step.batch.draws.size());
    step.batch.draws.add(static_cast<int32_t>(part.nextRow()),
                         drawNumbers(part.sequence->request.sampling,
                                     static_cast<uint64_t>(part.from.length)));
  }
}

bool LlmEngine::mayRunEarly() const {
  // The logits of the step that runs are gone when the next one begins. Where
  // the sampler has failed since, its draws are no tokens to begin it with.
  auto leavesNone = [this](const Part &part) {
    const Sequence &sequence = *part.sequence;
    return part.proposed == 0 && !sequence.request.promptLogprobs &&
           (!part.ends() || takesBest(sequence) ||
            (part.draw >= 0 && runner->drawsInStream()));
  };
  return prepared && runner->isAsynchronous() && runner->knowsBest() &&
         std::all_of(current.parts.begin(), current.parts.end(), leavesNone);
}

void LlmEngine::submitEarly() {
  if (!mayRunEarly())
    return;
  for (const Part &part : next.parts)
    if (part.unknown >= 0)
      next.batch.source[static_cast<size_t>(part.unknown)] =
          static_cast<int32_t>(part.sequence->row);
  try {
    addDraws(next);
    earlyStatus = submit(next);
  } catch (const std::bad_alloc &) { // there may be memory between two steps
    return forgetPrepared();
  }
  if (!earlyStatus)
    return forgetPrepared();
  if (settings.record)
    settings.record->write(next.state, next.decision);
  prepared = false;
  early = true;
  ++counters.preparedSteps;
  ++counters.earlySteps;
}

void LlmEngine::useEarly() {
  std::swap(current, next);
  early = false;
  started = lastRun;
  std::erase_if(current.parts, [&](const Part &part) {
    Sequence *sequence = part.sequence;
    if (sequence) {
      sequence->preparedPart = -1;
      // Always so; what is computed for another place is another's text.
      if (!part.isOther &&
          part.from == Place{sequence->computed, sequence->length()})
        return false;
    }
    counters.discardedTokens += static_cast<uint64_t>(part.tokens);
    return true;
  });
}

void LlmEngine::forgetPrepared() {
  if (!std::exchange(prepared, false))
    return;
  for (Part &part : next.parts)
    if (part.sequence)
      part.sequence->preparedPart = -1;
}

bool LlmEngine::usePrepared() {
  if (!prepared)
    return false;
  forgetPrepared();
  bool ended = false;
  for (const Part &part : next.parts) {
    const Sequence *sequence = part.sequence;
    ended |= !sequence;
    if (sequence && part.from != Place{sequence->computed, sequence->length()})
      return false; // a grammar gave it more than one token
  }
  // Who waits may have what those had that ended.
  if (preparedWaiting && sequences.size() != preparedSequences)
    return false;
  if (ended) {
    next.batch.clear();
    for (Part &part : std::exchange(next.parts, {}))
      if (part.sequence)
        addPart(next, *part.sequence, part.from, part.tokens, 0);
    if (next.parts.empty())
      return false;
    addTable(next);
  }
  auto width = static_cast<size_t>(next.batch.blocks);
  for (size_t i = 0; i < next.parts.size(); ++i) {
    Part &part = next.parts[i];
    if (part.unknown >= 0)
      next.batch.tokens[static_cast<size_t>(part.unknown)] =
          part.sequence->tokens.back();
    const std::vector<int32_t> &blocks = part.sequence->blocks.blocks;
    if (part.sequence->movedBlocks)
      std::copy(blocks.begin(), blocks.end(),
                next.batch.table.begin() + static_cast<long>(i * width));
  }
  if (settings.record)
    settings.record->write(next.state, next.decision);
  // A copy: runs between the same addresses need fewer checks.
  current.batch = next.batch;
  current.parts.swap(next.parts);
  ++counters.preparedSteps;
  return true;
}

} // namespace knapper::serving
