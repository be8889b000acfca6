// What a step's logits become: tokens, and the ends of sequences.
#include "serving/engine/LlmEngine.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace knapper::serving {

void LlmEngine::beginDraws() {
  std::vector<Part *> drawing;
  constexpr size_t ahead = 4;
  for (size_t i = 0; i < current.parts.size(); ++i) {
    if (i + 2 * ahead < current.parts.size())
      current.parts[i + 2 * ahead].sequence->warm();
    if (i + ahead < current.parts.size())
      current.parts[i + ahead].sequence->warmEnds();
    Part &part = current.parts[i];
    if (part.ends() && !part.token && part.sequence->request.maxTokens != 0 &&
        (part.sequence->grammar || !wantsBest(*part.sequence, part.nextRow())))
      drawing.push_back(&part);
  }
  drawing = drawOnDevice(std::move(drawing));
  if (!DrawAhead::pays(drawing.size(), settings.limits.vocabulary))
    return;
  std::vector<int64_t> rows;
  for (Part *part : drawing)
    rows.push_back(part->nextRow());
  // What cannot be fetched is an error of who draws from it.
  if (Status fetched = runner->fetch(rows); !fetched)
    return;
  for (Part *part : drawing)
    addDraw(*part);
  drawAhead.start();
}

void LlmEngine::readDraws() {
  if (runner->drawsFailed())
    return; // they are drawn from the rows
  for (Part &part : current.parts) {
    if (part.draw < 0)
      continue;
    const Sequence &sequence = *part.sequence;
    part.token = drawFromSummary(
        runner->drawSummary(static_cast<size_t>(part.draw)),
        sequence.request.sampling, static_cast<uint64_t>(sequence.length()),
        sequence.request.topLogprobs);
    counters.deviceDraws += part.token.has_value();
  }
}

Expected<Token> LlmEngine::drawAgain(const Sequence &sequence,
                                     const Part &part) {
  ASSIGN_OR_RETURN(std::span<float> logits,
                   runner->drawnRow(static_cast<size_t>(part.draw)));
  return sampleToken(logits, sequence.request.sampling, sequence.counts,
                     static_cast<uint64_t>(sequence.length()),
                     sequence.request.topLogprobs, {});
}

void LlmEngine::checkGuess(Sequence &sequence, const Part &part,
                           int32_t token) {
  bool isRight = runner->drawnToken(static_cast<size_t>(part.draw)) == token;
  // A row that is drawn from again costs this thread more than a wrong guess.
  sequence.wrongGuesses += !isRight || !part.token;
  if (!isRight && early && sequence.preparedPart >= 0)
    next.parts[static_cast<size_t>(sequence.preparedPart)].isOther = true;
}

std::vector<LlmEngine::Part *>
LlmEngine::drawOnDevice(std::vector<Part *> drawing) {
  const DeviceSampler *sampler = runner->deviceSampler();
  if (!sampler)
    return drawing;
  auto position = [](const Part &part) {
    return static_cast<uint64_t>(part.sequence->length());
  };
  std::vector<DeviceSampler::Draw> draws;
  std::vector<Part *> there, left;
  for (Part *part : drawing) {
    const Request &request = part->sequence->request;
    std::optional<std::span<const uint32_t>> allowed = allowedOf(*part);
    if (part->draw >= 0) { // its summary did not tell
      left.push_back(part);
      continue;
    }
    bool hasManyChanges =
        mostLogitChanges(request.sampling, part->sequence->counts) >
        DeviceSampler::kMostChanges;
    if (!allowed || hasManyChanges ||
        !mayUseSummary(request.sampling, request.topLogprobs,
                       sampler->knownLogits(), sampler->knownBest(),
                       settings.limits.vocabulary)) {
      left.push_back(part);
      continue;
    }
    there.push_back(part);
    draws.push_back({part->nextRow(),
                     drawNumbers(request.sampling, position(*part)),
                     logitChanges(request.sampling, part->sequence->counts,
                                  settings.limits.vocabulary),
                     *allowed});
  }
  if (there.empty() || fetchesAll)
    return drawing;
  auto summaries = runner->summarise(draws);
  if (!summaries) {
    // Tokens are drawn all the same, from rows that cost more to fetch.
    fetchesAll = true;
    log(LogLevel::warning,
        cat("the device does not draw tokens: ", summaries.error().message()));
    return drawing;
  }
  for (size_t i = 0; i < there.size(); ++i) {
    Part *part = there[i];
    const Request &request = part->sequence->request;
    part->token = drawFromSummary((*summaries)[i], request.sampling,
                                  position(*part), request.topLogprobs);
    if (part->token)
      ++counters.deviceDraws;
    else
      left.push_back(part);
  }
  // Rows are fetched in their order.
  std::sort(left.begin(), left.end(), [](const Part *a, const Part *b) {
    return a->nextRow() < b->nextRow();
  });
  return left;
}

std::optional<std::span<const uint32_t>>
LlmEngine::allowedOf(const Part &part) {
  Sequence &sequence = *part.sequence;
  if (!sequence.grammar)
    return std::span<const uint32_t>();
  auto outcome = sequence.grammar->outcome();
  if (!outcome || !(*outcome)->next.canGoOn ||
      (!(*outcome)->forced.empty() && !sequence.jumped))
    return std::nullopt;
  return (*outcome)->next.allowed;
}

void LlmEngine::addDraw(Part &part) {
  Sequence &sequence = *part.sequence;
  std::optional<std::span<const uint32_t>> allowed = allowedOf(part);
  if (!allowed)
    return;
  auto logits = runner->logits(part.nextRow(), 1);
  if (!logits)
    return;
  part.ahead =
      drawAhead.add({*logits, sequence.request.sampling, sequence.counts,
                     static_cast<uint64_t>(sequence.length()),
                     sequence.request.topLogprobs, *allowed});
}

void LlmEngine::take(const Part &part) {
  Sequence &sequence = *part.sequence;
  if (part.ahead) // it reads what may end here
    drawAhead.finish(*part.ahead);
  int32_t first = sequence.computed;
  sequence.computed += part.tokens;
  auto prompt = static_cast<int32_t>(sequence.request.prompt.size());
  if (first < prompt)
    counters.promptTokens +=
        static_cast<uint64_t>(std::min(part.tokens, prompt - first));
  if (sequence.request.promptLogprobs && first + 1 < prompt) {
    auto rows = runner->logits(part.firstRow, part.rows);
    if (!rows)
      return fail(sequence, rows.takeError());
    readPrompt(sequence, first, part.tokens, *rows);
  }
  if (sequence.computed == sequence.length())
    sample(part);
}

/// Rows are those of positions `first` on whose next token the prompt has.
void LlmEngine::readPrompt(Sequence &sequence, int32_t first, int32_t count,
                           std::span<float> logits) {
  auto vocabulary = static_cast<size_t>(settings.limits.vocabulary);
  auto prompt = static_cast<int32_t>(sequence.request.prompt.size());
  for (int32_t p = first; p < std::min(first + count, prompt - 1); ++p) {
    // A prompt that was preempted is computed again.
    if (p != static_cast<int32_t>(sequence.promptLogprobs.size()))
      continue;
    int32_t token = sequence.tokens[p + 1];
    auto row =
        logits.subspan(static_cast<size_t>(p - first) * vocabulary, vocabulary);
    sequence.promptLogprobs.push_back(
        describeToken(row, token, sequence.request.topLogprobs));
  }
}

bool LlmEngine::stops(const Sequence &sequence, int32_t token) const {
  auto has = [token](const std::vector<int32_t> &list) {
    return std::find(list.begin(), list.end(), token) != list.end();
  };
  return has(sequence.request.stopTokens) ||
         (!sequence.request.ignoreEos && has(settings.endTokens));
}

void LlmEngine::sample(const Part &part) {
  Sequence &sequence = *part.sequence;
  int32_t proposed = part.proposed;
  if (sequence.request.maxTokens == 0)
    return finish(sequence, FinishReason::length);
  int32_t right = 0;
  for (int32_t i = 0;; ++i) {
    std::optional<int32_t> token =
        draw(sequence, part.nextRow() + i, i == 0 ? &part : nullptr);
    if (!token)
      return;
    if (sequence.jumped || i == proposed || *token != sequence.proposed[i])
      break;
    // Its key is there: the next row is the right one.
    ++sequence.computed;
    ++right;
  }
  counters.verifiedTokens += static_cast<uint64_t>(proposed);
  counters.acceptedTokens += static_cast<uint64_t>(right);
  speculator.learn(sequence, proposed, right);
  drawn.push_back(&sequence);
}

bool LlmEngine::wantsBest(const Sequence &sequence, int64_t row) const {
  if (sequence.request.topLogprobs > 0 || !drawsBest(sequence.request.sampling))
    return false;
  auto best = runner->best(row);
  // What is not finite is for sampleToken to say.
  return best && std::isfinite(best->logprob);
}

Expected<Token> LlmEngine::tokenOf(Sequence &sequence, int64_t row,
                                   std::span<const uint32_t> allowed) {
  const Request &request = sequence.request;
  if (allowed.empty() && wantsBest(sequence, row)) {
    auto best = runner->best(row);
    return Token{best->token, request.topLogprobs == 0 ? best->logprob : 0, {}};
  }
  if (early) // whose best is no number, and the row is not there any more
    return notFiniteError();
  ASSIGN_OR_RETURN(std::span<float> logits, runner->logits(row, 1));
  return sampleToken(logits, request.sampling, sequence.counts,
                     static_cast<uint64_t>(sequence.length()),
                     request.topLogprobs, allowed);
}

std::optional<int32_t> LlmEngine::draw(Sequence &sequence, int64_t row,
                                       const Part *begun) {
  std::span<const uint32_t> allowed;
  if (sequence.grammar) {
    auto outcome = sequence.grammar->outcome();
    if (!outcome) {
      finish(sequence, FinishReason::error, outcome.takeError());
      return std::nullopt;
    }
    if (!(*outcome)->forced.empty() && !sequence.jumped) {
      if (!jump(sequence, row, **outcome))
        return std::nullopt;
      return sequence.tokens.back();
    }
    if (endsHere(sequence, (*outcome)->next))
      return std::nullopt;
    allowed = (*outcome)->next.allowed;
  }
  Expected<Token> token =
      begun && begun->token       ? Expected<Token>(*begun->token)
      : begun && begun->ahead     ? drawAhead.take(*begun->ahead)
      : begun && begun->draw >= 0 ? drawAgain(sequence, *begun)
                                  : tokenOf(sequence, row, allowed);
  if (!token) {
    fail(sequence, token.takeError());
    return std::nullopt;
  }
  if (begun && begun->draw >= 0)
    checkGuess(sequence, *begun, token->id);
  mayPublish(sequence);
  int32_t id = token->id;
  if (!commit(sequence, std::move(*token)))
    return std::nullopt;
  if (sequence.grammar) {
    sequence.jumped = false;
    if (Status taken = sequence.grammar->accept(id); !taken) {
      finish(sequence, FinishReason::error, taken.takeError());
      return std::nullopt;
    }
  }
  if (sequence.answer() >= sequence.request.maxTokens ||
      sequence.length() >= settings.limits.contextLength) {
    // A text that is complete here has stopped by itself.
    if (sequence.grammar && sequence.grammar->canEnd()) {
      auto outcome = sequence.grammar->outcome();
      if (outcome && (*outcome)->forced.empty() &&
          endsHere(sequence, (*outcome)->next))
        return std::nullopt;
    }
    finish(sequence, FinishReason::length);
    return std::nullopt;
  }
  return id;
}

Expected<bool> LlmEngine::isFinite(int64_t row) {
  if (auto best = runner->best(row))
    return std::isfinite(best->logprob);
  ASSIGN_OR_RETURN(std::span<float> logits, runner->logits(row, 1));
  return areFinite(logits);
}

bool LlmEngine::jump(Sequence &sequence, int64_t row,
                     const GrammarFollower::Outcome &outcome) {
  Expected<bool> finite = isFinite(row);
  if (!finite) {
    fail(sequence, finite.takeError());
    return false;
  }
  if (!*finite) {
    finish(sequence, FinishReason::error, notFiniteError());
    return false;
  }
  mayPublish(sequence);
  for (const int32_t &token : outcome.forced) {
    if (!commit(sequence, {token, 0, {}}))
      return false;
    ++counters.forcedTokens;
    if (sequence.answer() >= sequence.request.maxTokens ||
        sequence.length() >= settings.limits.contextLength) {
      // A text that is complete here has stopped by itself; what could not go
      // on has come to its length before.
      bool isLast = &token == &outcome.forced.back();
      if (!isLast || !outcome.next.canEnd || !endsHere(sequence, outcome.next))
        finish(sequence, FinishReason::length);
      return false;
    }
  }
  sequence.jumped = true;
  return !endsHere(sequence, outcome.next);
}

bool LlmEngine::commit(Sequence &sequence, Token token) {
  ++counters.generatedTokens;
  if (stops(sequence, token.id)) {
    finish(sequence, FinishReason::stop);
    return false;
  }
  sequence.tokens.push_back(token.id);
  if (needsAnswerCounts(sequence.request.sampling))
    ++sequence.counts.answer[token.id];
  sequence.unsent.push_back(std::move(token));
  return true;
}

/// Not before a token was drawn: what follows keys that are no numbers is none
/// either.
void LlmEngine::mayPublish(Sequence &sequence) {
  sequence.publishable = sequence.computed;
  if (!runner->isAsynchronous() || sequence.publishWaits)
    publish(sequence);
}

void LlmEngine::publish(Sequence &sequence) {
  std::vector<int32_t> before;
  size_t published = sequence.blocks.nodes.size();
  // Those that are published already stay.
  if (sequence.drafted > 0)
    before.assign(sequence.blocks.blocks.begin() +
                      static_cast<std::ptrdiff_t>(published),
                  sequence.blocks.blocks.end());
  auto known = std::span(sequence.tokens)
                   .first(static_cast<size_t>(sequence.publishable));
  KvCache::Published result =
      cache.publish(known, sequence.blocks, sequence.request.salt);
  sequence.publishWaits = result == KvCache::Published::waits;
  sequence.movedBlocks |= result == KvCache::Published::moved;
  // Another sequence's block need not have the draft model's keys.
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] != sequence.blocks.blocks[published + i]) {
      sequence.drafted =
          std::min(sequence.drafted,
                   static_cast<int32_t>(published + i) * settings.blockTokens);
      break;
    }
}

void LlmEngine::tryPublish(Sequence &sequence) {
  try {
    publish(sequence);
  } catch (const std::bad_alloc &) {
  }
}

void LlmEngine::publishAll() {
  if (!runner->isAsynchronous())
    return; // it was done at once
  for (auto &[id, sequence] : sequences)
    tryPublish(*sequence);
}

bool LlmEngine::endsHere(Sequence &sequence, const GrammarCursor::Next &next) {
  if (next.canGoOn)
    return false;
  if (next.canEnd)
    finish(sequence, FinishReason::stop);
  else
    finish(sequence, FinishReason::error,
           userError("allows no token of the model here", "grammar",
                     "another grammar"));
  return true;
}

void LlmEngine::settle() {
  for (Sequence *sequence : std::exchange(drawn, {})) {
    // Masks of texts that cannot end here are filled while the next step runs.
    if (sequence->grammar && !sequence->jumped && sequence->grammar->canEnd()) {
      auto outcome = sequence->grammar->outcome();
      if (!outcome) {
        finish(*sequence, FinishReason::error, outcome.takeError());
        continue;
      }
      if ((*outcome)->forced.empty())
        endsHere(*sequence, (*outcome)->next);
    }
  }
}

} // namespace knapper::serving
