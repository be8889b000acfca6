#include "serving/engine/LlmEngine.h"

#include "runtime/base/Text.h"
#include "serving/grammar/ThreadTime.h"
#include "serving/sampling/SamplingBounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <pthread.h>

namespace knapper::serving {

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

LlmEngine::LlmEngine(std::unique_ptr<ModelRunner> runner,
                     LlmEngineSettings given, std::unique_ptr<DraftModel> draft)
    : settings(std::move(given)), runner(std::move(runner)),
      cache(settings.numBlocks, settings.blockTokens, settings.prefixCache),
      masks(maskThreads()),
      speculator(settings.speculation, settings.limits, std::move(draft)),
      // Of each sequence that runs an event a step, and some that end
      // otherwise.
      sender(2 * static_cast<size_t>(settings.maxSequences)),
      lastProgress(now()) {
  posted.reserve(2 * static_cast<size_t>(settings.maxSequences));
  cache.reserveReturns(2 * static_cast<size_t>(settings.maxSequences));
  thread = std::thread([this] { loop(); });
}

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
  auto check = [](const SamplingBound &bound, auto value) -> Status {
    if (bound.holds(value))
      return success();
    return userError("is outside of what is allowed", std::string(bound.field),
                     rangeText(bound.least, bound.most));
  };
  TRY(check(samplingBound("temperature"), options.temperature));
  TRY(check(samplingBound("top_p"), options.topP));
  if (options.topP == 0)
    return userError("is 0", "top_p", "temperature 0: the most likely token");
  TRY(check(samplingBound("min_p"), options.minP));
  TRY(check(samplingBound("top_k"), options.topK));
  TRY(check(samplingBound("frequency_penalty"), options.frequencyPenalty));
  TRY(check(samplingBound("presence_penalty"), options.presencePenalty));
  TRY(check(samplingBound("repetition_penalty"), options.repetitionPenalty));
  for (auto [token, bias] : options.bias)
    TRY(check(samplingBound("logit_bias"), bias));
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
  if (needsPromptCounts(request.sampling))
    for (int32_t token : request.prompt)
      ++sequence->counts.prompt[token];
  sequence->request = std::move(request);
  const Request &given = sequence->request;
  // Of a forced token nobody knows how likely it was.
  constexpr int32_t jump = 32;
  if (given.grammar)
    sequence->grammar.emplace(
        given.grammar->begin(), masks,
        GrammarFollower::Settings{!given.ignoreEos,
                                  given.topLogprobs < 0 ? jump : 0});
  speculator.prepare(*sequence);
  sequence->sink = std::make_shared<const EventSink>(std::move(sink));
  std::lock_guard lock(mutex);
  if (draining || ending)
    return userError("takes no more requests", "draining",
                     "another server, or later");
  if (queued >= settings.queueLimit)
    return userError(cat("has ", queued, " requests that wait"), "queue",
                     "later");
  uint64_t id = sequence->id = nextId++;
  submitted.emplace(id, std::move(sequence));
  if (held == 0 && submitted.size() == 1)
    lastProgress = now(); // nothing was to be done
  ++queued;
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

void LlmEngine::forgetStatistics() {
  std::lock_guard lock(mutex);
  forgetting = true;
  woken.notify_all();
}

EngineStatistics LlmEngine::statistics() const {
  std::lock_guard lock(mutex);
  EngineStatistics result = published;
  bool busy = held > 0 || !submitted.empty();
  result.waiting = queued;
  result.secondsSinceProgress = busy ? now() - lastProgress : 0;
  return result;
}

//===----------------------------------------------------------------------===//
// The engine's thread
//===----------------------------------------------------------------------===//

static Error outOfMemory() {
  return deviceError("out of memory", "engine", "fewer requests at once");
}

void LlmEngine::loop() {
  pthread_setname_np(pthread_self(), "knapper-engine");
  while (takeMessages()) {
    double start = now();
    try {
      endLate();
      if (!step()) {
        announce();
        flush();
        continue;
      }
    } catch (const std::bad_alloc &) {
      giveUp();
    }
    doubtDevice();
    // Who hears of a token finds its step counted.
    ++counters.steps;
    counters.lastStepSeconds = now() - start;
    publishStatistics();
    // A device that needs no help has its next step first.
    if (runner->isAsynchronous() && (early || !sequences.empty()) &&
        !counters.deviceLost)
      continue;
    announce();
    flush();
  }
  while (!sequences.empty())
    finish(*sequences.begin()->second, FinishReason::cancelled);
  abandonSteps();
  flush();
  sender.finish();
}

void LlmEngine::giveUp() {
  drawAhead.clear();
  drawn.clear();
  forgetPrepared();
  abandonSteps();
  // A part that was not taken is computed again. The newest one has the least
  // to lose.
  for (auto &[id, sequence] : sequences)
    sequence->proposed.clear();
  if (!sequences.empty())
    finish(*sequences.rbegin()->second, FinishReason::error, outOfMemory());
}

void LlmEngine::endLate() {
  auto time = std::chrono::steady_clock::now();
  if (time < soonest)
    return;
  std::vector<Sequence *> late;
  soonest = std::chrono::steady_clock::time_point::max();
  for (auto &[id, sequence] : sequences)
    if (sequence->request.deadline <= time)
      late.push_back(sequence.get());
    else
      soonest = std::min(soonest, sequence->request.deadline);
  for (Sequence *sequence : late) {
    ++counters.deadlinesExceeded;
    finish(*sequence, FinishReason::error, deadlineError());
  }
}

void LlmEngine::fail(Sequence &sequence, Error error) {
  doubtful |= error.kind == ErrorKind::device;
  finish(sequence, FinishReason::error, std::move(error));
}

void LlmEngine::doubtDevice() {
  if (!std::exchange(doubtful, false))
    return;
  // A step that found no memory leaves a device that works.
  if (Status status = runner->probe(); !status)
    counters.deviceLost = true;
}

bool LlmEngine::takeMessages() {
  std::vector<uint64_t> toCancel;
  bool forget = false;
  {
    std::unique_lock lock(mutex);
    held = sequences.size();
    woken.wait(lock, [&] {
      return ending || forgetting || !submitted.empty() || !cancelled.empty() ||
             !sequences.empty() || early;
    });
    if (sequences.empty() && !early) { // nothing was to be done
      lastProgress = now();
      lastRun = 0;
    }
    if (!submitted.empty())
      forgetPrepared(); // they may come first
    for (auto &[id, sequence] : submitted)
      soonest = std::min(soonest, sequence->request.deadline);
    sequences.merge(submitted);
    held = sequences.size();
    forget = std::exchange(forgetting, false);
    toCancel.swap(cancelled);
    if (ending)
      return false;
  }
  if (forget) {
    int32_t running = counters.running;
    counters = {};
    counters.running = running;
    publishStatistics();
  }
  for (uint64_t id : toCancel)
    if (auto it = sequences.find(id); it != sequences.end())
      finish(*it->second, FinishReason::cancelled);
  return true;
}

void LlmEngine::whileItRuns() {
  announce();
  flush();
  publishAll();
  prepare();
  submitEarly();
}

Status LlmEngine::submitStep() {
  started = now();
  if (lastRun > 0)
    counters.betweenNanoseconds +=
        static_cast<uint64_t>((started - lastRun) * 1e9);
  return submit(current);
}

Status LlmEngine::submit(Step &step) {
  cache.beginStep();
  try {
    Status status = runner->submit(step.batch);
    if (!status)
      cache.endStep();
    else if (!runner->drawsInStream())
      for (Part &part : step.parts)
        part.draw = -1; // the device could not
    return status;
  } catch (const std::bad_alloc &) {
    cache.endStep();
    throw;
  }
}

Status LlmEngine::waitForStep() {
  Status status;
  uint64_t running = runner->pending();
  try {
    status = runner->wait();
  } catch (const std::bad_alloc &) {
    if (runner->pending() != running) // after it has ended
      cache.endStep();
    throw;
  }
  cache.endStep();
  // Of what was found wrong while the next step was submitted this one is the
  // reason, or shares it. What the device refused is tried again between the
  // steps.
  Status late = std::exchange(earlyStatus, success());
  if (status && !late && late.error().kind != ErrorKind::device)
    status = std::move(late);
  if (lastRun > 0)
    counters.idleNanoseconds += runner->gapNanoseconds().value_or(0);
  lastRun = now();
  return status;
}

void LlmEngine::failStep(Error error) {
  // What the blocks hold now is not known: nothing is published.
  announce();
  for (const Part &part : current.parts) {
    part.sequence->publishable = 0;
    fail(*part.sequence, error);
  }
}

bool LlmEngine::leaveStep() {
  for (const Part &part : std::exchange(current.parts, {}))
    counters.discardedTokens += static_cast<uint64_t>(part.tokens);
  return true;
}

void LlmEngine::abandonSteps() {
  while (cache.blocks().stepIsRunning())
    try {
      (void)waitForStep();
    } catch (const std::bad_alloc &) { // its results are not wanted
    }
  if (std::exchange(early, false))
    for (Part &part : next.parts)
      if (part.sequence)
        part.sequence->preparedPart = -1;
}

bool LlmEngine::step() {
  if (early) {
    useEarly();
  } else {
    if (sequences.empty())
      return false;
    if (speculator.isOn())
      propose();
    uint64_t began = threadNanoseconds();
    bool ready = usePrepared() || decide();
    if (!ready)
      return false;
    addDraws(current);
    counters.prepareNanoseconds += threadNanoseconds() - began;
    // Who has ended hears of it whatever becomes of this step.
    if (!posted.empty())
      flush();
    if (Status status = submitStep(); !status) {
      lastRun = now();
      failStep(status.takeError());
      return true;
    }
  }
  if (runner->isAsynchronous())
    whileItRuns();
  if (Status status = waitForStep(); !status) {
    if (runner->drawsFailed())
      return leaveStep();
    failStep(status.takeError());
    return true;
  }
  if (speculator.isOn() &&
      std::all_of(current.parts.begin(), current.parts.end(),
                  [](const Part &part) { return part.tokens == 1; }))
    speculator.learn(static_cast<int32_t>(current.batch.tokens.size()),
                     lastRun - started);
  try {
    readDraws();
    if (!early)
      beginDraws();
  } catch (const std::bad_alloc &) { // the others are drawn one by one
  }
  for (const Part &part : current.parts) {
    uint64_t id = part.sequence->id;
    try {
      take(part);
    } catch (const std::bad_alloc &) { // of this request alone
      std::erase(drawn, part.sequence);
      if (auto it = sequences.find(id); it != sequences.end())
        finish(*it->second, FinishReason::error, outOfMemory());
    }
  }
  drawAhead.clear();
  settle();
  checkLedger();
  return true;
}

Event &LlmEngine::post(Sequence &sequence) {
  // Where requests end by the hundred outside of steps.
  if (posted.size() == posted.capacity())
    flush();
  EventSender::Item &item = posted.emplace_back();
  item.sink = sequence.sink;
  item.event.request = sequence.id;
  item.event.cachedTokens = sequence.cachedTokens;
  item.event.tokens = std::exchange(sequence.unsent, {});
  item.event.prompt = std::exchange(sequence.promptLogprobs, {});
  return item.event;
}

void LlmEngine::announce() {
  for (auto &[id, sequence] : sequences)
    if (!sequence->unsent.empty())
      post(*sequence);
}

void LlmEngine::flush() {
  if (std::any_of(posted.begin(), posted.end(), [](const auto &item) {
        return item.event.finish != FinishReason::none;
      })) {
    // Who hears that a device failed its request finds the device lost.
    doubtDevice();
    publishStatistics();
  }
  sender.send(posted);
}

void LlmEngine::finish(Sequence &sequence, FinishReason reason, Error error) {
  tryPublish(sequence);
  cache.release(sequence.blocks);
  counters.running -= sequence.running;
  if (sequence.preparedPart >= 0)
    next.parts[static_cast<size_t>(sequence.preparedPart)].sequence = nullptr;
  counters.finished +=
      reason == FinishReason::stop || reason == FinishReason::length;
  counters.failed += reason == FinishReason::error;
  counters.cancelled += reason == FinishReason::cancelled;
  Event &event = post(sequence);
  event.finish = reason;
  if (reason == FinishReason::error)
    event.error = std::move(error);
  if (!sequence.admitted) {
    std::lock_guard lock(mutex);
    --queued;
  }
  sequences.erase(sequence.id);
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
  for (Sequence *sequence : hit) {
    sequence->publishable = 0; // nobody else may have them
    finish(
        *sequence, FinishReason::error,
        internalError("a block of keys and values had two owners", "engine"));
  }
}

void LlmEngine::publishStatistics() {
  counters.blocksTotal = cache.blocks().blocks();
  counters.blocksFree = cache.blocks().numFree();
  counters.blocksCached = cache.blocks().numCached();
  counters.ledgerFaults = cache.blocks().faults();
  std::lock_guard lock(mutex);
  published = counters;
  lastProgress = now();
}

} // namespace knapper::serving
