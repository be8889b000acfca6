// Runs requests through the engine and prints what came, as JSON.
//
//   engine_requests FOLDER REQUESTS.json
//
// REQUESTS.json: {"options": {threads, kv_memory, max_context,
// max_batched_tokens, max_sequences, prefix_cache, dtype, target, cache,
// remote, free (bytes that the remote device says), runs (when it computes:
// "late", "behind", "at_once", see RemoteFaults), draw_in_stream,
// batch_invariant, speculation ("off", "ngram", "draft"),
// speculation_tokens, speculation_measured, draft, record, self_check,
// together (no event is taken before all of its group are submitted)},
// "groups":
// [[request, ...], ...]}; a group's requests are submitted together, the next
// group when all of them have ended ("after": some statistics at that moment).
// A request: {prompt, max_tokens,
// temperature, seed, top_logprobs, prompt_logprobs, ignore_eos, stop_tokens,
// cancel, speculate, timeout (milliseconds), hang_at, lose_at}. hang_at,
// lose_at: the device hangs or is lost when the request's token of this number
// is sent.
//
// "fail_every": [N, ...], of each group: every Nth allocation of the engine's
// thread fails (0: none).
//
// "fewest_bytes": [N, ...], of each group: the remote device has no memory of N
// bytes or more in one piece (0: it has). "warnings" are the log's.
//
// "faults": ["", "lost", "hung", ...], of each group: what happens to the
// device before it. The model runs on the null driver then, and its engine is
// built again. The option step_us: what a step takes there; sink_us: what it
// takes to send an event.
#include "runtime/base/Log.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/testing/RemoteDevice.h"
#include "serving/engine/LastingEngine.h"
#include "serving/engine/LoadEngine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <thread>

using namespace knapper;
using namespace knapper::serving;
using Json = nlohmann::json;

//===----------------------------------------------------------------------===//
// Allocations of the engine's thread that fail
//===----------------------------------------------------------------------===//

namespace {

std::atomic<int64_t> failEvery = 0; ///< 0: none fails
std::atomic<uint64_t> allocations = 0, failures = 0;
thread_local bool inSink = false; ///< a sink throws nothing

/// Whether this is the thread that decides, draws and owns the blocks.
bool isEngineThread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return strcmp(name, "knapper-engine") == 0;
}

void *allocate(size_t bytes) {
  int64_t every = failEvery.load(std::memory_order_relaxed);
  if (every > 0 && !inSink && isEngineThread() &&
      ++allocations % static_cast<uint64_t>(every) == 0) {
    ++failures;
    throw std::bad_alloc();
  }
  if (void *memory = malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t bytes) { return allocate(bytes); }
void *operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void *memory) noexcept { free(memory); }
void operator delete[](void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
void operator delete[](void *memory, size_t) noexcept { free(memory); }

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;
  bool submitted = false; ///< all of the group
  /// As they came: JSON is made when all have ended, not on the engine's
  /// thread.
  struct Answer {
    std::vector<Event> events;
    std::vector<double> times;
    bool toldLost = false; ///< `statistics` said so when the last event came
  };
  std::map<uint64_t, Answer> byRequest;
};

const char *name(FinishReason reason) {
  constexpr const char *names[] = {"none", "stop", "length", "cancelled",
                                   "error"};
  return names[static_cast<size_t>(reason)];
}

Json pairs(const std::vector<TokenLogprob> &list) {
  Json json = Json::array();
  for (const TokenLogprob &entry : list)
    json.push_back({entry.token, entry.logprob});
  return json;
}

void note(Answers &answers, const Engine &engine,
          std::chrono::microseconds pause, Event event) {
  if (pause.count() > 0)
    std::this_thread::sleep_for(pause);
  bool last = event.finish != FinishReason::none;
  EngineStatistics seen;
  if (last)
    seen = engine.statistics();
  std::lock_guard lock(answers.mutex);
  Answers::Answer &answer = answers.byRequest[event.request];
  answer.toldLost = seen.deviceLost || seen.rebuilding || seen.rebuilds > 0;
  answer.times.push_back(now());
  answer.events.push_back(std::move(event));
  if (!last)
    return;
  --answers.open;
  answers.changed.notify_all();
}

Json jsonOf(const Answers::Answer &given, double start) {
  Json answer;
  for (size_t i = 0; i < given.events.size(); ++i) {
    const Event &event = given.events[i];
    for (const Token &token : event.tokens) {
      answer["tokens"].push_back(token.id);
      answer["logprobs"].push_back(token.logprob);
      answer["top"].push_back(pairs(token.top));
      answer["times"].push_back(given.times[i] - start);
    }
    for (const Token &token : event.prompt) {
      answer["prompt"].push_back({token.id, token.logprob});
      answer["prompt_top"].push_back(pairs(token.top));
    }
    answer["cached"] = event.cachedTokens;
    if (event.finish == FinishReason::none)
      continue;
    answer["finish"] = name(event.finish);
    if (event.finish == FinishReason::error) {
      answer["error"] = event.error->message();
      answer["told_lost"] = given.toldLost;
    }
  }
  return answer;
}

/// Allows the tokens that are as the one before, modulo `step`; the text may
/// end nowhere.
class EveryToken final : public TokenGrammar {
public:
  EveryToken(uint32_t step, uint32_t vocabulary)
      : step(step), vocabulary(vocabulary) {}
  std::unique_ptr<GrammarCursor> begin() const override {
    return std::make_unique<Cursor>(step, vocabulary);
  }
  size_t bytes() const override { return sizeof(*this); }

private:
  struct Cursor final : GrammarCursor {
    // It may live longer than the grammar.
    Cursor(uint32_t step, uint32_t vocabulary)
        : step(step), vocabulary(vocabulary) {}
    Expected<Next> next(bool ends) override {
      mask.assign((vocabulary + 31) / 32, 0);
      for (uint32_t t = last % step; t < vocabulary; t += step)
        mask[t / 32] |= uint32_t(1) << t % 32;
      return Next{mask, true, false};
    }
    Status accept(int32_t token) override {
      if (token % step != last % step)
        return userError("was not allowed", "grammar");
      last = static_cast<uint32_t>(token) + 1;
      return success();
    }
    bool canEnd() const override { return false; }
    uint32_t step, vocabulary, last = 1;
    std::vector<uint32_t> mask;
  };
  uint32_t step, vocabulary;
};

/// Allows these tokens, one after the other, and then neither a token nor the
/// end.
class DeadEnd final : public TokenGrammar {
public:
  DeadEnd(std::vector<uint32_t> tokens, uint32_t vocabulary)
      : tokens(std::move(tokens)), vocabulary(vocabulary) {}
  std::unique_ptr<GrammarCursor> begin() const override {
    return std::make_unique<Cursor>(tokens, vocabulary);
  }
  size_t bytes() const override { return sizeof(*this); }

private:
  struct Cursor final : GrammarCursor {
    Cursor(const std::vector<uint32_t> &tokens, uint32_t vocabulary)
        : tokens(tokens), vocabulary(vocabulary) {}
    Expected<Next> next(bool) override {
      mask.assign((vocabulary + 31) / 32, 0);
      if (at < tokens.size())
        mask[tokens[at] / 32] |= uint32_t(1) << tokens[at] % 32;
      return Next{mask, at < tokens.size(), false};
    }
    Status accept(int32_t token) override {
      if (at == tokens.size() || tokens[at] != static_cast<uint32_t>(token))
        return userError("was not allowed", "grammar");
      ++at;
      return success();
    }
    bool canEnd() const override { return false; }
    std::vector<uint32_t> tokens;
    uint32_t vocabulary;
    size_t at = 0;
    std::vector<uint32_t> mask;
  };
  std::vector<uint32_t> tokens;
  uint32_t vocabulary;
};

Request requestOf(const Json &json) {
  Request request;
  request.prompt = json["prompt"].get<std::vector<int32_t>>();
  request.maxTokens = json.value("max_tokens", 16);
  request.topLogprobs = json.value("top_logprobs", -1);
  request.promptLogprobs = json.value("prompt_logprobs", false);
  request.ignoreEos = json.value("ignore_eos", false);
  if (json.contains("timeout"))
    request.deadline =
        std::chrono::steady_clock::now() +
        std::chrono::milliseconds(json["timeout"].get<int64_t>());
  request.priority = json.value("priority", 0);
  request.stopTokens = json.value("stop_tokens", std::vector<int32_t>());
  request.sampling.temperature = json.value("temperature", 0.0f);
  request.speculate = json.value("speculate", true);
  request.sampling.seed = json.value("seed", uint64_t(0));
  request.sampling.topK = json.value("top_k", 0);
  request.sampling.topP = json.value("top_p", 1.0f);
  request.sampling.minP = json.value("min_p", 0.0f);
  request.sampling.frequencyPenalty = json.value("frequency_penalty", 0.0f);
  request.sampling.presencePenalty = json.value("presence_penalty", 0.0f);
  request.sampling.repetitionPenalty = json.value("repetition_penalty", 1.0f);
  if (uint32_t step = json.value("every_token", 0u))
    request.grammar = std::make_shared<EveryToken>(step, json["vocabulary"]);
  if (json.contains("dead_end"))
    request.grammar = std::make_shared<DeadEnd>(
        json["dead_end"].get<std::vector<uint32_t>>(), json["vocabulary"]);
  for (const Json &entry : json.value("bias", Json::array()))
    request.sampling.bias[entry[0]] = entry[1];
  return request;
}

/// What the log warns of, for as long as this is there.
struct Warnings {
  Warnings() {
    auto add = [](void *user, knapper_log_level, const char *text) {
      auto *self = static_cast<Warnings *>(user);
      bool before = std::exchange(inSink, true);
      std::lock_guard lock(self->mutex);
      self->texts.emplace_back(text);
      inSink = before;
    };
    setLogCallback(add, this, LogLevel::warning);
  }
  ~Warnings() { setLogCallback(nullptr, nullptr, LogLevel::off); }
  std::mutex mutex;
  std::vector<std::string> texts;
};

int run(const char *folder, const char *path) {
  Warnings warnings;
  Json all = Json::parse(std::ifstream(path));
  Json given = all.value("options", Json::object());
  EngineOptions options;
  options.threads = given.value("threads", 0);
  options.kvMemoryBytes = given.value("kv_memory", int64_t(0));
  options.maxContext = given.value("max_context", 0);
  options.maxBatchedTokens = given.value("max_batched_tokens", 512);
  options.maxSequences = given.value("max_sequences", 64);
  options.queueLimit = given.value("queue_limit", 1024);
  options.prefixCache = given.value("prefix_cache", true);
  options.target = given.value("target", "cpu");
  options.batchInvariant = given.value("batch_invariant", false);
  options.cacheFolder = given.value("cache", "");
  options.dtype = parseDType(given.value("dtype", "f32")).value_or(DType::text);
  options.speculation.kind = parseSpeculation(given.value("speculation", "off"))
                                 .value_or(SpeculationKind::off);
  options.speculation.tokens = given.value("speculation_tokens", 8);
  options.speculation.measured = given.value("speculation_measured", true);
  options.selfCheck = given.value("self_check", false);
  options.recordFile = given.value("record", "");
  options.drawInStream = given.value("draw_in_stream", true);
  options.draftFolder = given.value("draft", "");
  double begin = now();
  // The CPU's code on a device that the host cannot look into, as a GPU.
  std::vector<std::string> faults =
      all.value("faults", std::vector<std::string>());
  std::shared_ptr<null::Faults> device;
  uint64_t failed = 0; ///< devices
  auto remote = std::make_shared<testing::RemoteFaults>();
  remote->freeBytes = given.value("free", uint64_t(0));
  using Runs = testing::RemoteFaults::Runs;
  const std::string runs = given.value("runs", "late");
  remote->runs = runs == "at_once"  ? Runs::atOnce
                 : runs == "behind" ? Runs::behind
                                    : Runs::late;
  auto load = [&]() -> Expected<std::unique_ptr<Engine>> {
    if (given.value("remote", false))
      return loadEngineOn(testing::remoteDevice(remote), folder, options);
    return loadEngine(folder, options);
  };
  auto loadNull = [&] {
    device = std::make_shared<null::Faults>();
    device->runMicroseconds = given.value("step_us", int64_t(0));
    return loadEngineOn(null::faultyDevice(device), folder, options);
  };
  constexpr double hung = 0.5;
  auto engine = faults.empty()
                    ? load()
                    : makeLastingEngine(loadNull, {.hungSeconds = hung});
  if (!engine) {
    std::cerr << engine.error().message() << "\n";
    return 1;
  }
  Json result;
  result["load_seconds"] = now() - begin;
  result["context"] = (*engine)->limits().contextLength;
  std::chrono::microseconds pause(given.value("sink_us", int64_t(0)));
  const bool together = given.value("together", false);
  std::vector<int64_t> failing =
      all.value("fail_every", std::vector<int64_t>());
  std::vector<uint64_t> fewest =
      all.value("fewest_bytes", std::vector<uint64_t>());
  std::vector<int64_t> sound =
      all.value("sound_launches", std::vector<int64_t>());
  for (const Json &group : all["groups"]) {
    size_t turn = result["groups"].size();
    remote->fewestBytes = turn < fewest.size() ? fewest[turn] : 0;
    if (turn < sound.size()) {
      remote->failingLaunches = given.value("failing_launches", int64_t(1));
      remote->soundLaunches = sound[turn];
    }
    failEvery = turn < failing.size() ? failing[turn] : 0;
    if (turn < faults.size()) {
      // `device` is the newest engine's when all that were told to fail are
      // gone.
      for (int i = 0; (*engine)->statistics().rebuilds < failed; ++i) {
        if (i == 10000) {
          std::cerr << "the engine is not built again\n";
          return 1;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      device->lost = faults[turn] == "lost";
      device->hung = faults[turn] == "hung";
      failed += !faults[turn].empty();
    }
    Answers answers;
    std::vector<uint64_t> ids;
    Json list = Json::array();
    double start = now();
    for (const Json &json : group) {
      {
        std::lock_guard lock(answers.mutex);
        ++answers.open;
      }
      // A group with one of them is the last one: nothing waits for the next
      // engine.
      auto left = json.value("hang_at", int64_t(0)),
           lost = json.value("lose_at", int64_t(0));
      auto sink = [&, left, lost, its = device](Event event) mutable {
        inSink = true;
        if (together) {
          std::unique_lock lock(answers.mutex);
          answers.changed.wait(lock, [&] { return answers.submitted; });
        }
        auto tokens = static_cast<int64_t>(event.tokens.size());
        if (left > 0 && (left -= tokens) <= 0)
          its->hung = true;
        if (lost > 0 && (lost -= tokens) <= 0)
          its->lost = true;
        note(answers, **engine, pause, std::move(event));
        inSink = false;
      };
      auto id = (*engine)->submit(requestOf(json), std::move(sink));
      if (!id) {
        std::lock_guard lock(answers.mutex);
        --answers.open;
      } else if (json.value("cancel", false)) {
        (*engine)->cancel(*id);
      }
      ids.push_back(id ? *id : 0);
      if (!id)
        list.push_back({{"refused", id.error().message()}});
    }
    std::unique_lock lock(answers.mutex);
    answers.submitted = true;
    answers.changed.notify_all();
    answers.changed.wait(lock, [&] { return answers.open == 0; });
    for (uint64_t id : ids)
      if (id)
        list.push_back(jsonOf(answers.byRequest[id], start));
    result["groups"].push_back(std::move(list));
    EngineStatistics s = (*engine)->statistics();
    result["after"].push_back(
        {{"steps", s.steps},
         {"early", s.earlySteps},
         {"launches", remote->launches.load()},
         {"idle_us", static_cast<double>(s.idleNanoseconds) * 1e-3}});
  }
  failEvery = 0;
  result["failures"] = failures.load();
  result["refused"] = remote->refused.load();
  // A step that was submitted early ends behind the last answer.
  constexpr auto most = std::chrono::milliseconds(100);
  const auto end = std::chrono::steady_clock::now() + most;
  EngineStatistics s = (*engine)->statistics();
  while (s.blocksFree + s.blocksCached != s.blocksTotal &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s = (*engine)->statistics();
  }
  result["statistics"] = {
      {"steps", s.steps},
      {"prepared", s.preparedSteps},
      {"early", s.earlySteps},
      {"discarded", s.discardedTokens},
      {"idle_us", static_cast<double>(s.idleNanoseconds) * 1e-3},
      {"prepare_us", static_cast<double>(s.prepareNanoseconds) * 1e-3},
      {"between_us", static_cast<double>(s.betweenNanoseconds) * 1e-3},
      {"verified", s.verifiedTokens},
      {"accepted", s.acceptedTokens},
      {"generated", s.generatedTokens},
      {"device_draws", s.deviceDraws},
      {"preemptions", s.preemptions},
      {"cached", s.cachedTokens},
      {"faults", s.ledgerFaults},
      {"total", s.blocksTotal},
      {"free", s.blocksFree},
      {"blocks_cached", s.blocksCached},
      {"failed", s.failed},
      {"late", s.deadlinesExceeded},
      {"rebuilds", s.rebuilds},
      {"cancelled", s.cancelled},
      {"finished", s.finished},
      {"running", s.running},
      {"waiting", s.waiting}};
  engine->reset();
  result["warnings"] = warnings.texts;
  std::cout << result << "\n";
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "engine_requests FOLDER REQUESTS.json\n";
    return 2;
  }
  return run(argv[1], argv[2]);
}
