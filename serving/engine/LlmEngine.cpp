#include "serving/engine/LlmEngine.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace knapper::serving {

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

LlmEngine::LlmEngine(std::unique_ptr<ModelRunner> runner,
                     LlmEngineSettings given)
    : settings(std::move(given)), runner(std::move(runner)),
      cache(settings.numBlocks, settings.blockTokens, settings.prefixCache),
      lastProgress(now()), thread([this] { loop(); }) {}

LlmEngine::~LlmEngine() {
  {
    std::lock_guard lock(mutex);
    ending = true;
    woken.notify_all();
  }
  thread.join();
}

//===----------------------------------------------------------------------===//
// Other threads
//===----------------------------------------------------------------------===//

static Status checkSampling(const SamplingOptions &options) {
  auto wrong = [](const char *field, const char *allowed) {
    return userError(cat("is outside of what is allowed"), field, allowed);
  };
  if (!(options.temperature >= 0) || options.temperature > 100)
    return wrong("temperature", "0 to 100");
  if (!(options.topP > 0 && options.topP <= 1))
    return wrong("topP", "above 0, at most 1");
  if (!(options.minP >= 0 && options.minP <= 1))
    return wrong("minP", "0 to 1");
  if (options.topK < 0)
    return wrong("topK", "0 for all, or a count");
  if (!(options.repetitionPenalty > 0) || options.repetitionPenalty > 100)
    return wrong("repetitionPenalty", "above 0, at most 100");
  for (float penalty : {options.frequencyPenalty, options.presencePenalty})
    if (!(penalty >= -2 && penalty <= 2))
      return wrong("frequencyPenalty or presencePenalty", "-2 to 2");
  for (auto [token, bias] : options.bias)
    if (!(bias >= -1000 && bias <= 1000))
      return wrong("bias", "-1000 to 1000");
  return success();
}

static Status checkRequest(const Request &request, const ModelLimits &limits) {
  if (request.prompt.empty())
    return userError("has no tokens", "prompt", "give at least one");
  for (int32_t token : request.prompt)
    if (token < 0 || token >= limits.vocabulary)
      return userError(
          cat("has the token ", token, ", and there are ", limits.vocabulary),
          "prompt", "ids of this model's tokenizer");
  if (request.prompt.size() >= static_cast<size_t>(limits.contextLength))
    return userError(cat("has ", request.prompt.size(),
                         " tokens; the context is ", limits.contextLength,
                         " with the answer"),
                     "prompt", "a shorter prompt");
  if (request.maxTokens < 0)
    return userError(cat("is ", request.maxTokens), "maxTokens",
                     "0 or more tokens");
  if (request.topLogprobs < -1 || request.topLogprobs > 20)
    return userError(cat("is ", request.topLogprobs), "topLogprobs",
                     "-1 for none, or 0 to 20");
  return checkSampling(request.sampling);
}

Expected<uint64_t> LlmEngine::submit(Request request, EventSink sink) {
  TRY(checkRequest(request, settings.limits));
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = request.prompt;
  for (int32_t token : request.prompt)
    ++sequence->counts.prompt[token];
  if (request.grammar)
    sequence->grammar = request.grammar->begin();
  sequence->request = std::move(request);
  sequence->sink = std::move(sink);
  std::lock_guard lock(mutex);
  if (draining || ending)
    return userError("takes no more requests", "draining",
                     "another server, or later");
  if (queued >= settings.queueLimit)
    return userError(cat("has ", queued, " requests that wait"), "queue",
                     "later");
  uint64_t id = sequence->id = nextId++;
  ++queued;
  submitted.push_back(std::move(sequence));
  woken.notify_all();
  return id;
}

void LlmEngine::cancel(uint64_t request) {
  std::lock_guard lock(mutex);
  cancelled.push_back(request);
  woken.notify_all();
}

void LlmEngine::drain() {
  std::lock_guard lock(mutex);
  draining = true;
}

EngineStatistics LlmEngine::statistics() const {
  std::lock_guard lock(mutex);
  EngineStatistics result = published;
  bool busy = result.running > 0 || queued > 0;
  result.waiting = queued;
  result.secondsSinceProgress = busy ? now() - lastProgress : 0;
  return result;
}

//===----------------------------------------------------------------------===//
// The engine's thread
//===----------------------------------------------------------------------===//

void LlmEngine::loop() {
  while (takeMessages()) {
    double start = now();
    if (!step())
      continue;
    ++counters.steps;
    publishStatistics(now() - start);
  }
  while (!sequences.empty())
    finish(*sequences.begin()->second, FinishReason::cancelled);
}

bool LlmEngine::takeMessages() {
  std::vector<uint64_t> toCancel;
  {
    std::unique_lock lock(mutex);
    woken.wait(lock, [&] {
      return ending || !submitted.empty() || !cancelled.empty() ||
             !sequences.empty();
    });
    if (sequences.empty())
      lastProgress = now(); // nothing was to be done
    for (std::unique_ptr<Sequence> &sequence : submitted) {
      uint64_t id = sequence->id;
      sequences.emplace(id, std::move(sequence));
    }
    submitted.clear();
    toCancel.swap(cancelled);
    if (ending)
      return false;
  }
  for (uint64_t id : toCancel)
    if (auto it = sequences.find(id); it != sequences.end())
      finish(*it->second, FinishReason::cancelled);
  return true;
}

SchedulerState LlmEngine::view() {
  SchedulerState state;
  state.budget = settings.maxBatchedTokens;
  state.blockTokens = settings.blockTokens;
  state.available = cache.available();
  state.maxSequences = settings.maxSequences;
  for (auto &[id, sequence] : sequences) {
    SequenceView view;
    view.id = id;
    view.priority = sequence->request.priority;
    view.tokens = sequence->length();
    view.computed = sequence->computed;
    view.blocks = static_cast<int32_t>(sequence->blocks.blocks.size());
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
    KvCache::Hit hit = cache.look(sequence.tokens);
    view.hitBlocks = hit.blocks;
    view.hitIdle = hit.idle;
  }
  return state;
}

void LlmEngine::admit(Sequence &sequence) {
  sequence.running = true;
  if (!sequence.request.promptLogprobs || sequence.admitted)
    sequence.computed =
        cache.adopt(sequence.tokens, sequence.blocks) * settings.blockTokens;
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
  sequence.computed = 0;
  sequence.running = false;
  ++counters.preemptions;
}

void LlmEngine::addPart(Sequence &sequence, int32_t tokens) {
  // The prefix cache may have more or less of it than when it was looked at.
  tokens = std::min(tokens, sequence.length() - sequence.computed);
  int32_t end = sequence.computed + tokens;
  int32_t blocks = (end + settings.blockTokens - 1) / settings.blockTokens;
  if (tokens <= 0 || !cache.grow(sequence.blocks, blocks))
    return;
  Part part{&sequence, tokens, static_cast<int64_t>(batch.rows.size()), 0};
  auto row = static_cast<int32_t>(parts.size());
  for (int32_t p = sequence.computed; p < end; ++p) {
    batch.tokens.push_back(sequence.tokens[p]);
    batch.position.push_back(p);
    batch.sequence.push_back(row);
    batch.block.push_back(sequence.blocks.blocks[p / settings.blockTokens]);
    batch.offset.push_back(p % settings.blockTokens);
    bool wanted =
        p + 1 == sequence.length() ||
        (sequence.request.promptLogprobs &&
         p + 1 < static_cast<int32_t>(sequence.request.prompt.size()));
    if (wanted)
      batch.rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
  }
  part.rows = static_cast<int64_t>(batch.rows.size()) - part.firstRow;
  parts.push_back(part);
}

void LlmEngine::buildTable() {
  batch.sequences = static_cast<int64_t>(parts.size());
  size_t most = 1;
  for (const Part &part : parts)
    most = std::max(most, part.sequence->blocks.blocks.size());
  // Few widths, so that few sizes are ever planned for.
  size_t width = 4;
  while (width < most)
    width *= 2;
  batch.blocks = static_cast<int64_t>(width);
  batch.table.assign(parts.size() * width, 0);
  for (size_t i = 0; i < parts.size(); ++i)
    std::copy(parts[i].sequence->blocks.blocks.begin(),
              parts[i].sequence->blocks.blocks.end(),
              batch.table.begin() + static_cast<long>(i * width));
  if (batch.rows.empty()) // no size is 0
    batch.rows.push_back(0);
}

bool LlmEngine::step() {
  if (sequences.empty())
    return false;
  StepDecision decision = scheduleStep(view());
  for (uint64_t id : decision.preempted)
    preempt(*sequences[id]);
  for (uint64_t id : decision.admitted)
    admit(*sequences[id]);
  batch.clear();
  parts.clear();
  for (const StepDecision::Part &part : decision.parts)
    addPart(*sequences[part.id], part.tokens);
  if (parts.empty()) {
    // Only lost blocks bring this about: the oldest would wait for ever.
    if (decision.preempted.empty() && decision.admitted.empty())
      finish(*sequences.begin()->second, FinishReason::error,
             deviceError("the pool of keys and values has no room for it",
                         "engine", "a larger pool"));
    return false;
  }
  buildTable();
  if (Status status = runner->run(batch); !status) {
    // What the blocks hold now is not known: nothing is published.
    Error error = status.takeError();
    for (const Part &part : parts)
      finish(*part.sequence, FinishReason::error, error);
    return true;
  }
  for (const Part &part : parts)
    take(part);
  checkLedger();
  return true;
}

void LlmEngine::take(const Part &part) {
  Sequence &sequence = *part.sequence;
  int32_t first = sequence.computed;
  sequence.computed += part.tokens;
  auto prompt = static_cast<int32_t>(sequence.request.prompt.size());
  if (first < prompt)
    counters.promptTokens +=
        static_cast<uint64_t>(std::min(part.tokens, prompt - first));
  if (sequence.request.promptLogprobs && first + 1 < prompt) {
    auto rows = runner->logits(part.firstRow, part.rows);
    if (!rows)
      return finish(sequence, FinishReason::error, rows.takeError());
    readPrompt(sequence, first, part.tokens, *rows);
  }
  if (sequence.computed == sequence.length())
    sample(sequence, part.firstRow + part.rows - 1);
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
    sequence.promptLogprobs.push_back({token, logSoftmaxAt(row, token)});
  }
}

bool LlmEngine::stops(const Sequence &sequence, int32_t token) const {
  auto has = [token](const std::vector<int32_t> &list) {
    return std::find(list.begin(), list.end(), token) != list.end();
  };
  return has(sequence.request.stopTokens) ||
         (!sequence.request.ignoreEos && has(settings.endTokens));
}

/// Whether the most likely token is what is drawn.
static bool takesBest(const Request &request) {
  const SamplingOptions &options = request.sampling;
  return options.temperature <= 0 && options.frequencyPenalty == 0 &&
         options.presencePenalty == 0 && options.repetitionPenalty == 1 &&
         options.bias.empty() && !request.grammar && request.topLogprobs <= 0;
}

Expected<Token> LlmEngine::draw(Sequence &sequence, int64_t row) {
  const Request &request = sequence.request;
  // What is not finite is for sampleToken to say.
  if (takesBest(request))
    if (auto best = runner->best(row); best && std::isfinite(best->logprob))
      return Token{
          best->token, request.topLogprobs == 0 ? best->logprob : 0, {}};
  ASSIGN_OR_RETURN(std::span<float> logits, runner->logits(row, 1));
  return sampleToken(logits, request.sampling, sequence.counts,
                     static_cast<uint64_t>(sequence.length()),
                     request.topLogprobs, sequence.next.allowed);
}

void LlmEngine::sample(Sequence &sequence, int64_t row) {
  if (sequence.request.maxTokens == 0)
    return finish(sequence, FinishReason::length);
  // Of the first token; the others' were found when the one before was drawn.
  if (sequence.grammar && sequence.next.allowed.empty() &&
      !lookAhead(sequence, {}))
    return;
  Expected<Token> token = draw(sequence, row);
  if (!token)
    return finish(sequence, FinishReason::error, token.takeError());
  // Not before: what follows keys that are no numbers is none either.
  cache.publish(
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.computed)),
      sequence.blocks);
  ++counters.generatedTokens;
  if (stops(sequence, token->id))
    return finish(sequence, FinishReason::stop);
  sequence.tokens.push_back(token->id);
  ++sequence.counts.answer[token->id];
  std::vector<Token> tokens{std::move(*token)};
  if (sequence.grammar) {
    if (Status taken = sequence.grammar->accept(tokens[0].id); !taken)
      return finish(sequence, FinishReason::error, taken.takeError(),
                    std::move(tokens));
    if (!lookAhead(sequence, tokens))
      return;
  }
  if (sequence.answer() >= sequence.request.maxTokens ||
      sequence.length() >= settings.limits.contextLength)
    return finish(sequence, FinishReason::length, {}, std::move(tokens));
  Event event;
  event.tokens = std::move(tokens);
  send(sequence, std::move(event));
}

/// What may follow in the grammar; false where the sequence ends here, with
/// `tokens` as its last.
bool LlmEngine::lookAhead(Sequence &sequence,
                          const std::vector<Token> &tokens) {
  auto next = sequence.grammar->next(!sequence.request.ignoreEos);
  if (!next)
    finish(sequence, FinishReason::error, next.takeError(), tokens);
  else if (next->canGoOn)
    return sequence.next = *next, true;
  else if (next->canEnd)
    finish(sequence, FinishReason::stop, {}, tokens);
  else
    finish(sequence, FinishReason::error,
           userError("allows no token of the model here", "grammar",
                     "another grammar"),
           tokens);
  return false;
}

void LlmEngine::describe(const Sequence &sequence, Event &event) const {
  event.request = sequence.id;
  event.cachedTokens = sequence.cachedTokens;
  event.prompt = sequence.promptLogprobs;
}

void LlmEngine::send(Sequence &sequence, Event event) {
  describe(sequence, event);
  sequence.promptLogprobs.clear();
  sequence.sink(std::move(event));
}

void LlmEngine::finish(Sequence &sequence, FinishReason reason, Error error,
                       std::vector<Token> tokens) {
  cache.release(sequence.blocks);
  counters.finished +=
      reason == FinishReason::stop || reason == FinishReason::length;
  counters.failed += reason == FinishReason::error;
  counters.cancelled += reason == FinishReason::cancelled;
  Event event;
  event.finish = reason;
  event.error = std::move(error);
  event.tokens = std::move(tokens);
  describe(sequence, event);
  EventSink sink = std::move(sequence.sink);
  if (!sequence.admitted) {
    std::lock_guard lock(mutex);
    --queued;
  }
  sequences.erase(sequence.id);
  // Who has the last event sees the sequence's blocks free.
  publishStatistics(-1);
  sink(std::move(event));
}

void LlmEngine::checkLedger() {
  std::vector<int32_t> wrong = cache.check();
  if (wrong.empty())
    return;
  // What such a block holds may be another sequence's.
  std::vector<Sequence *> hit;
  for (auto &[id, sequence] : sequences)
    if (std::any_of(wrong.begin(), wrong.end(), [&](int32_t block) {
          return std::find(sequence->blocks.blocks.begin(),
                           sequence->blocks.blocks.end(),
                           block) != sequence->blocks.blocks.end();
        }))
      hit.push_back(sequence.get());
  for (Sequence *sequence : hit)
    finish(
        *sequence, FinishReason::error,
        internalError("a block of keys and values had two owners", "engine"));
}

void LlmEngine::publishStatistics(double seconds) {
  int32_t running = 0;
  for (auto &[id, sequence] : sequences)
    running += sequence->running;
  counters.running = running;
  counters.blocksTotal = cache.blocks().blocks();
  counters.blocksFree = cache.blocks().numFree();
  counters.blocksCached = cache.blocks().numCached();
  counters.ledgerFaults = cache.blocks().faults();
  if (seconds >= 0)
    counters.lastStepSeconds = seconds;
  std::lock_guard lock(mutex);
  published = counters;
  lastProgress = now();
}

} // namespace knapper::serving
