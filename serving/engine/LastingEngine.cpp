#include "serving/engine/LastingEngine.h"

#include "runtime/base/Log.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>

namespace knapper::serving {
namespace {

using Clock = std::chrono::steady_clock;

/// A request that an engine has.
struct Ticket {
  uint64_t id = 0, number = 0; ///< ours, and the engine's
  std::mutex mutex;            ///< guards `sink`
  EventSink sink;              ///< empty once the last event was sent
};

/// The open requests. A LastingEngine shares it with its engines: one that hung
/// and was given up may send an event after the LastingEngine is gone.
struct Ledger {
  std::mutex mutex; ///< guards what follows
  std::map<uint64_t, std::shared_ptr<Ticket>> tickets;
  EngineStatistics ended; ///< how requests of all engines ended

  void receive(Ticket &ticket, Event event) {
    event.request = ticket.id;
    if (event.finish != FinishReason::none) {
      // Whoever takes the ticket ends the request: the engine that has it here,
      // or `replace`. Both count it before the client hears of it.
      std::lock_guard lock(mutex);
      if (tickets.erase(ticket.id) == 0)
        return; // of an engine that was given up
      countEnd(event);
    }
    std::lock_guard lock(ticket.mutex);
    if (!ticket.sink)
      return; // a replacement has told it
    bool ends = event.finish != FinishReason::none;
    ticket.sink(std::move(event));
    if (ends)
      ticket.sink = nullptr;
  }

private:
  /// Under the mutex.
  void countEnd(const Event &event) {
    switch (event.finish) {
    case FinishReason::none:
      return;
    case FinishReason::stop:
    case FinishReason::length:
      ++ended.finished;
      return;
    case FinishReason::cancelled:
      ++ended.cancelled;
      return;
    case FinishReason::error:
      ++ended.failed;
      ended.deadlinesExceeded +=
          event.error && event.error->where == deadlineError().where;
      return;
    }
  }
};

class LastingEngine final : public Engine {
public:
  LastingEngine(std::unique_ptr<Engine> first, EngineMaker make,
                const LastingEngineOptions &options)
      : options(options), make(std::move(make)), newest(first->limits()),
        engine(std::move(first)), watch([this] { loop(); }) {}

  ~LastingEngine() override {
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    woken.notify_all();
    watch.join();
    // What it still has ends with an event of its own.
    engine.reset();
  }

  ModelLimits limits() const override {
    std::lock_guard lock(mutex);
    return newest;
  }

  Expected<uint64_t> submit(Request request, EventSink sink) override {
    auto ticket = std::make_shared<Ticket>();
    ticket->sink = std::move(sink);
    std::lock_guard lock(mutex);
    if (draining)
      return userError("takes no more requests", "draining");
    // An engine that is lost and not replaced yet would fail it.
    if (!engine || engine->statistics().deviceLost)
      return rebuildingError();
    ticket->id = ++last;
    ledger->tickets.emplace(ticket->id, ticket);
    // The last event may come before this returns; it waits for the mutex.
    auto number =
        engine->submit(std::move(request), [to = ledger, ticket](Event event) {
          to->receive(*ticket, std::move(event));
        });
    if (!number) {
      ledger->tickets.erase(ticket->id);
      return number.takeError();
    }
    ticket->number = *number;
    return ticket->id;
  }

  void cancel(uint64_t request) override {
    std::lock_guard lock(mutex);
    auto it = ledger->tickets.find(request);
    if (it != ledger->tickets.end() && engine)
      engine->cancel(it->second->number);
  }

  void drain() override {
    std::lock_guard lock(mutex);
    draining = true;
    if (engine)
      engine->drain();
  }

  EngineStatistics statistics() const override {
    std::lock_guard lock(mutex);
    return sum(engine ? engine->statistics() : EngineStatistics());
  }

private:
  static Error rebuildingError() {
    return deviceError("the device was lost or hung; the model is loaded again",
                       "rebuilding", "again in some seconds");
  }

  /// Counters go on over all engines; those of `ended` are of what was told to
  /// clients, since an engine that is lost may have counted what it does not
  /// tell any more. Under the mutex.
  EngineStatistics sum(EngineStatistics now) const {
    for (auto field :
         {&EngineStatistics::steps, &EngineStatistics::promptTokens,
          &EngineStatistics::cachedTokens, &EngineStatistics::generatedTokens,
          &EngineStatistics::preemptions, &EngineStatistics::ledgerFaults,
          &EngineStatistics::verifiedTokens, &EngineStatistics::acceptedTokens,
          &EngineStatistics::forcedTokens, &EngineStatistics::deviceDraws,
          &EngineStatistics::preparedSteps, &EngineStatistics::earlySteps,
          &EngineStatistics::discardedTokens,
          &EngineStatistics::idleNanoseconds,
          &EngineStatistics::prepareNanoseconds,
          &EngineStatistics::betweenNanoseconds})
      now.*field += before.*field;
    for (auto field :
         {&EngineStatistics::finished, &EngineStatistics::failed,
          &EngineStatistics::cancelled, &EngineStatistics::deadlinesExceeded})
      now.*field = ledger->ended.*field;
    now.rebuilding = !engine;
    now.rebuilds = rebuilds;
    return now;
  }

  void loop() {
    double hangs = 0, seen = 0;
    auto looked = Clock::now();
    std::unique_lock lock(mutex);
    while (!woken.wait_for(lock, options.look, [&] { return ending; })) {
      EngineStatistics now = engine->statistics();
      auto time = Clock::now();
      // Time in which this thread did not run either, as when the process was
      // stopped, says nothing about the engine.
      constexpr double most = 4;
      double passed = std::chrono::duration<double>(time - looked).count();
      double step = std::chrono::duration<double>(options.look).count();
      looked = time;
      hangs = now.secondsSinceProgress > seen
                  ? hangs + std::min(passed, most * step)
                  : 0;
      seen = now.secondsSinceProgress;
      bool hung = options.hungSeconds > 0 && hangs > options.hungSeconds &&
                  seen > options.hungSeconds;
      if (!now.deviceLost && !hung)
        continue;
      replace(lock, now, hung);
      hangs = seen = 0;
      looked = Clock::now();
    }
  }

  void replace(std::unique_lock<std::mutex> &lock, const EngineStatistics &now,
               bool hung) {
    log(LogLevel::error,
        cat(hung ? "a step of the engine hangs" : "the device is lost",
            ": the model is loaded again; ", ledger->tickets.size(),
            " requests end with an error"));
    before = sum(now);
    std::unique_ptr<Engine> old = std::move(engine);
    auto open = std::exchange(ledger->tickets, {});
    ledger->ended.failed += open.size();
    lock.unlock();
    for (auto &[id, ticket] : open) {
      std::lock_guard its(ticket->mutex);
      if (!ticket->sink)
        continue;
      Event event;
      event.request = id;
      event.finish = FinishReason::error;
      event.error = rebuildingError();
      ticket->sink(std::move(event));
      ticket->sink = nullptr;
    }
    destroy(std::move(old));
    lock.lock();
    build(lock);
  }

  /// Memory of the old engine is wanted by the new one; of one that hangs it
  /// comes back when its step ends.
  static void destroy(std::unique_ptr<Engine> old) {
    auto gone = std::make_shared<std::promise<void>>();
    std::future<void> wait = gone->get_future();
    std::thread([old = std::move(old), gone]() mutable {
      old.reset();
      gone->set_value();
    }).detach();
    wait.wait_for(std::chrono::seconds(1));
  }

  void build(std::unique_lock<std::mutex> &lock) {
    constexpr std::chrono::seconds longest(30);
    std::chrono::seconds pause(1);
    while (!ending) {
      lock.unlock();
      auto made = make();
      lock.lock();
      if (made) {
        engine = std::move(*made);
        newest = engine->limits();
        ++rebuilds;
        if (draining)
          engine->drain();
        log(LogLevel::warning, "the model is loaded again and takes requests");
        return;
      }
      log(LogLevel::error,
          cat("the model cannot be loaded again: ", made.error().message()));
      woken.wait_for(lock, pause, [&] { return ending; });
      pause = std::min(2 * pause, longest);
    }
  }

  const LastingEngineOptions options;
  const EngineMaker make;
  const std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::mutex &mutex = ledger->mutex; ///< guards what follows, too
  std::condition_variable woken;
  ModelLimits newest;
  std::unique_ptr<Engine> engine; ///< null: it is being built
  EngineStatistics before;        ///< of the engines that were
  uint64_t last = 0, rebuilds = 0;
  bool draining = false, ending = false;
  std::thread watch;
};

} // namespace

Expected<std::unique_ptr<Engine>>
makeLastingEngine(EngineMaker make, const LastingEngineOptions &options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> first, make());
  if (first->embedder())
    return first;
  return std::unique_ptr<Engine>(std::make_unique<LastingEngine>(
      std::move(first), std::move(make), options));
}

} // namespace knapper::serving
