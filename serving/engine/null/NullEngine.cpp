#include "serving/engine/null/NullEngine.h"

#include "serving/grammar/GrammarFollower.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace knapper::serving {
namespace {

class NullEngine : public Engine {
public:
  explicit NullEngine(const NullEngineOptions &options)
      : options(options), thread([this] { loop(); }) {}

  ~NullEngine() override {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  ModelLimits limits() const override { return options.limits; }

  Expected<uint64_t> submit(Request request, EventSink sink) override {
    if (request.prompt.empty())
      return userError("the prompt is empty", "prompt");
    for (int32_t token : request.prompt)
      if (token < 0 || token >= options.limits.vocabulary)
        return userError("token " + std::to_string(token) +
                             " is not in the vocabulary",
                         "prompt");
    if (static_cast<int64_t>(request.prompt.size()) >=
        options.limits.contextLength)
      return userError("the prompt is longer than the context", "prompt");
    std::lock_guard lock(mutex);
    if (draining)
      return userError("the engine takes no more requests", "draining");
    if (static_cast<int32_t>(waiting.size()) >= options.queueLimit)
      return userError("the queue is full", "queue");
    uint64_t number = ++last;
    Sequence &sequence = waiting.emplace_back();
    sequence.number = number;
    if (request.grammar)
      sequence.grammar = std::make_unique<GrammarFollower>(
          request.grammar->begin(), masks,
          GrammarFollower::Settings{!request.ignoreEos});
    sequence.request = std::move(request);
    sequence.sink = std::make_shared<const EventSink>(std::move(sink));
    changed.notify_all();
    return number;
  }

  void cancel(uint64_t request) override {
    std::lock_guard lock(mutex);
    cancelled.push_back(request);
    changed.notify_all();
  }

  void drain() override {
    std::lock_guard lock(mutex);
    draining = true;
  }

  EngineStatistics statistics() const override {
    std::lock_guard lock(mutex);
    EngineStatistics now = statisticsNow;
    now.running = static_cast<int32_t>(running.size());
    now.waiting = static_cast<int32_t>(waiting.size());
    if (!running.empty())
      now.secondsSinceProgress =
          std::chrono::duration<double>(Clock::now() - progress).count();
    return now;
  }

private:
  using Clock = std::chrono::steady_clock;
  using Sink = std::shared_ptr<const EventSink>;
  struct Sequence {
    uint64_t number = 0;
    Request request;
    Sink sink;
    int32_t made = 0;
    std::unique_ptr<GrammarFollower> grammar;
  };

  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return stopping || !running.empty() || !waiting.empty();
      });
      if (stopping)
        break;
      std::vector<std::pair<Sink, Event>> events = step();
      lock.unlock();
      while (hanging)
        std::this_thread::sleep_for(std::chrono::hours(1));
      for (auto &[sink, event] : events)
        (*sink)(std::move(event));
      if (options.step.count() > 0)
        std::this_thread::sleep_for(options.step);
      lock.lock();
    }
    for (auto *list : {&running, &waiting})
      for (Sequence &sequence : *list)
        (*sequence.sink)({.request = sequence.number,
                          .tokens = {},
                          .finish = FinishReason::cancelled,
                          .error = {},
                          .prompt = {}});
  }

  static bool holds(const Sequence &sequence, int32_t token) {
    const std::vector<int32_t> &prompt = sequence.request.prompt;
    return token >= 0 &&
           std::find(prompt.begin(), prompt.end(), token) != prompt.end();
  }

  /// Under the mutex.
  std::vector<std::pair<Sink, Event>> step() {
    std::vector<std::pair<Sink, Event>> events;
    auto finished = [&](Sequence &sequence, FinishReason reason) {
      ++(reason == FinishReason::cancelled ? statisticsNow.cancelled
         : reason == FinishReason::error   ? statisticsNow.failed
                                           : statisticsNow.finished);
      sequence.number = 0;
    };
    for (auto *list : {&running, &waiting})
      for (Sequence &sequence : *list)
        if (std::find(cancelled.begin(), cancelled.end(), sequence.number) !=
            cancelled.end()) {
          Event event;
          event.request = sequence.number;
          event.finish = FinishReason::cancelled;
          events.emplace_back(sequence.sink, std::move(event));
          finished(sequence, FinishReason::cancelled);
        }
    cancelled.clear();
    auto fails = [&](Sequence &sequence, Error error) {
      Event event;
      event.request = sequence.number;
      event.finish = FinishReason::error;
      event.error = std::move(error);
      events.emplace_back(sequence.sink, std::move(event));
      finished(sequence, FinishReason::error);
    };
    for (auto *list : {&running, &waiting})
      for (Sequence &sequence : *list)
        if (sequence.number != 0 && sequence.request.deadline <= Clock::now()) {
          ++statisticsNow.deadlinesExceeded;
          fails(sequence, deadlineError());
        }
    std::erase_if(waiting, [](const Sequence &s) { return s.number == 0; });
    while (!waiting.empty() &&
           static_cast<int32_t>(running.size()) < options.maxSequences) {
      auto next =
          std::min_element(waiting.begin(), waiting.end(),
                           [](const Sequence &a, const Sequence &b) {
                             return a.request.priority < b.request.priority;
                           });
      statisticsNow.promptTokens += next->request.prompt.size();
      running.push_back(std::move(*next));
      waiting.erase(next);
    }
    for (const Sequence &sequence : running) {
      hanging |= holds(sequence, options.hangingToken);
      statisticsNow.deviceLost |= holds(sequence, options.losingToken);
    }
    if (hanging)
      return events;
    for (Sequence &sequence : running)
      if (sequence.number != 0 && statisticsNow.deviceLost)
        fails(sequence, deviceError("the device is lost", "the null engine"));
      else if (sequence.number != 0)
        events.emplace_back(sequence.sink, advance(sequence, finished));
    std::erase_if(running, [](const Sequence &s) { return s.number == 0; });
    ++statisticsNow.steps;
    progress = Clock::now();
    return events;
  }

  /// The token itself, or the next that is allowed, from 0 again behind the
  /// last. Some token is.
  static int32_t nextAllowed(std::span<const uint32_t> allowed, int32_t id) {
    auto at = static_cast<size_t>(id);
    size_t word = at / 32 < allowed.size() ? at / 32 : 0;
    uint32_t bits = allowed[word];
    if (at / 32 == word)
      bits &= ~0u << (at % 32);
    while (bits == 0) {
      word = word + 1 < allowed.size() ? word + 1 : 0;
      bits = allowed[word];
    }
    return static_cast<int32_t>(word * 32) + std::countr_zero(bits);
  }

  /// Changes the token to one that is allowed; false: the sequence ends before
  /// it, as `event` says.
  static bool follow(Sequence &sequence, int32_t &id, Event &event) {
    auto outcome = sequence.grammar->outcome();
    if (!outcome) {
      event.finish = FinishReason::error;
      event.error = outcome.takeError();
      return false;
    }
    const GrammarCursor::Next &next = (*outcome)->next;
    Status taken;
    if (next.canGoOn) {
      id = nextAllowed(next.allowed, id);
      const std::vector<int32_t> &ends = sequence.request.stopTokens;
      if (std::find(ends.begin(), ends.end(), id) != ends.end())
        return true;
      taken = sequence.grammar->accept(id);
      if (taken)
        return true;
    }
    event.finish =
        taken && next.canEnd ? FinishReason::stop : FinishReason::error;
    if (!taken)
      event.error = taken.takeError();
    else if (!next.canEnd)
      event.error = userError("allows no token of the model here", "grammar");
    return false;
  }

  template <typename Finished>
  Event advance(Sequence &sequence, Finished &&finished) {
    const Request &request = sequence.request;
    const std::vector<int32_t> &prompt = request.prompt;
    auto said = [&](int32_t id, size_t place) {
      Token token{id, -static_cast<float>(1 + place % 8) / 8, {}};
      for (int32_t i = 0; i < request.topLogprobs; ++i)
        token.top.push_back(
            {(id + i) % options.limits.vocabulary, token.logprob - float(i)});
      return token;
    };
    Event event;
    event.request = sequence.number;
    if (sequence.made == 0 && request.promptLogprobs)
      for (size_t i = 1; i < prompt.size(); ++i)
        event.prompt.push_back(said(prompt[i], i));
    size_t place = static_cast<size_t>(sequence.made++);
    if (place >= 2 && options.failingToken >= 0 &&
        std::find(prompt.begin(), prompt.end(), options.failingToken) !=
            prompt.end()) {
      event.finish = FinishReason::error;
      event.error = internalError("the null engine was told to fail");
      finished(sequence, event.finish);
      return event;
    }
    int32_t id = prompt[place % prompt.size()];
    if (sequence.grammar && !follow(sequence, id, event)) {
      finished(sequence, event.finish);
      return event;
    }
    const std::vector<int32_t> &stops = request.stopTokens;
    if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
      event.finish = FinishReason::stop;
      finished(sequence, event.finish);
      return event;
    }
    event.tokens.push_back(said(id, place));
    ++statisticsNow.generatedTokens;
    if (sequence.made >= request.maxTokens ||
        static_cast<int64_t>(prompt.size()) + sequence.made >=
            options.limits.contextLength) {
      event.finish = FinishReason::length;
      finished(sequence, event.finish);
    }
    return event;
  }

  const NullEngineOptions options;
  MaskWorkers masks{maskThreads()}; ///< before the sequences, which use it
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Sequence> running, waiting;
  std::vector<uint64_t> cancelled;
  EngineStatistics statisticsNow;
  Clock::time_point progress = Clock::now();
  uint64_t last = 0;
  bool draining = false, stopping = false, hanging = false;
  std::thread thread; // the last member: it uses the others
};

} // namespace

std::unique_ptr<Engine> makeNullEngine(const NullEngineOptions &options) {
  return std::make_unique<NullEngine>(options);
}

} // namespace knapper::serving
