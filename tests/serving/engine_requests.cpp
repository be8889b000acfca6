// Runs requests through the engine and prints what came, as JSON.
//
//   engine_requests FOLDER REQUESTS.json
//
// REQUESTS.json: {"options": {threads, kv_memory, max_context,
// max_batched_tokens, max_sequences, prefix_cache, dtype, target, cache,
// remote}, "groups":
// [[request, ...], ...]}; a group's requests are submitted together, the next
// group when all of them have ended. A request: {prompt, max_tokens,
// temperature, seed, top_logprobs, prompt_logprobs, ignore_eos, stop_tokens,
// cancel_after}.
#include "runtime/testing/RemoteDevice.h"
#include "serving/engine/LoadEngine.h"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>

using namespace knapper;
using namespace knapper::serving;
using Json = nlohmann::json;

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
  /// As they came: JSON is made when all have ended, not on the engine's
  /// thread.
  struct Answer {
    std::vector<Event> events;
    std::vector<double> times;
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

void note(Answers &answers, Event event) {
  std::lock_guard lock(answers.mutex);
  Answers::Answer &answer = answers.byRequest[event.request];
  bool last = event.finish != FinishReason::none;
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
    for (const Json &entry : pairs(event.prompt))
      answer["prompt"].push_back(entry);
    answer["cached"] = event.cachedTokens;
    if (event.finish == FinishReason::none)
      continue;
    answer["finish"] = name(event.finish);
    if (event.finish == FinishReason::error)
      answer["error"] = event.error.message();
  }
  return answer;
}

Request requestOf(const Json &json) {
  Request request;
  request.prompt = json["prompt"].get<std::vector<int32_t>>();
  request.maxTokens = json.value("max_tokens", 16);
  request.topLogprobs = json.value("top_logprobs", -1);
  request.promptLogprobs = json.value("prompt_logprobs", false);
  request.ignoreEos = json.value("ignore_eos", false);
  request.priority = json.value("priority", 0);
  request.stopTokens = json.value("stop_tokens", std::vector<int32_t>());
  request.sampling.temperature = json.value("temperature", 0.0f);
  request.sampling.seed = json.value("seed", uint64_t(0));
  return request;
}

int run(const char *folder, const char *path) {
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
  options.cacheFolder = given.value("cache", "");
  options.dtype = parseDType(given.value("dtype", "f32")).value_or(DType::text);
  double begin = now();
  // The CPU's code on a device that the host cannot look into, as a GPU.
  auto engine = given.value("remote", false)
                    ? loadEngineOn(testing::remoteDevice(), folder, options)
                    : loadEngine(folder, options);
  if (!engine) {
    std::cerr << engine.error().message() << "\n";
    return 1;
  }
  Json result;
  result["load_seconds"] = now() - begin;
  result["context"] = (*engine)->limits().contextLength;
  for (const Json &group : all["groups"]) {
    Answers answers;
    std::vector<uint64_t> ids;
    Json list = Json::array();
    double start = now();
    for (const Json &json : group) {
      {
        std::lock_guard lock(answers.mutex);
        ++answers.open;
      }
      auto id = (*engine)->submit(requestOf(json), [&](Event event) {
        note(answers, std::move(event));
      });
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
    answers.changed.wait(lock, [&] { return answers.open == 0; });
    for (uint64_t id : ids)
      if (id)
        list.push_back(jsonOf(answers.byRequest[id], start));
    result["groups"].push_back(std::move(list));
  }
  EngineStatistics s = (*engine)->statistics();
  result["statistics"] = {{"steps", s.steps},
                          {"preemptions", s.preemptions},
                          {"cached", s.cachedTokens},
                          {"faults", s.ledgerFaults},
                          {"total", s.blocksTotal},
                          {"free", s.blocksFree},
                          {"blocks_cached", s.blocksCached},
                          {"failed", s.failed},
                          {"cancelled", s.cancelled},
                          {"finished", s.finished},
                          {"running", s.running},
                          {"waiting", s.waiting}};
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
