// Long texts of the service's own threads: without memory, too late, or of a
// service that ends, only their own answer fails.
#include "serving/engine/Embedder.h"
#include "serving/engine/null/NullEngine.h"
#include "serving/http/ApiService.h"
#include "serving/http/LocalExchange.h"
#include "serving/testing/DamageTest.h"

#include <cstring>
#include <new>
#include <pthread.h>
#include <thread>

namespace {

std::atomic<int64_t> failAt = -1; ///< the allocation that fails; -1: none
std::atomic<int64_t> failing = 0; ///< how many do from there on
std::atomic<int64_t> allocations = 0;
std::atomic<size_t> least = 0; ///< bytes; smaller ones neither fail nor count
std::atomic<pthread_t> other = 0; ///< 0: of the threads for texts

bool mayFail() {
  if (pthread_t chosen = other)
    return pthread_equal(chosen, pthread_self());
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return strcmp(name, "knapper-texts") == 0;
}

void *allocate(size_t bytes) {
  if (int64_t first = failAt; first >= 0 && bytes >= least && mayFail()) {
    int64_t number = allocations++;
    if (number >= first && number < first + failing)
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

namespace knapper::serving {
namespace {

using namespace std::chrono_literals;

/// Another engine, whose requests are kept; with a width, one that makes
/// vectors, when it is told to.
class WatchedEngine final : public Engine, public Embedder {
public:
  explicit WatchedEngine(Engine &engine, int32_t width = 0)
      : engine(engine), vectors(width) {}
  ModelLimits limits() const override { return engine.limits(); }
  Expected<uint64_t> submit(Request request, EventSink sink) override {
    requests.push_back(request);
    return engine.submit(std::move(request), std::move(sink));
  }
  void cancel(uint64_t request) override { engine.cancel(request); }
  void drain() override { engine.drain(); }
  EngineStatistics statistics() const override { return engine.statistics(); }
  Embedder *embedder() override { return vectors ? this : nullptr; }
  Status embed(std::vector<std::vector<int32_t>>, Done done,
               std::shared_ptr<const std::atomic<bool>>) override {
    asked.push_back(std::move(done));
    return success();
  }
  int32_t width() const override { return vectors; }

  std::vector<Request> requests;
  std::vector<Done> asked;

private:
  Engine &engine;
  const int32_t vectors;
};

class LongTexts : public DamageTest {
protected:
  LongTexts() : DamageTest(1) {}
  void SetUp() override {
    DamageTest::SetUp();
    write("tokenizer.json",
          R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 0}}})");
    auto loaded = ModelTexts::load(folder);
    ASSERT_TRUE(loaded) << loaded.error().what;
    texts = std::move(*loaded);
    NullEngineOptions null;
    null.limits.contextLength = 1 << 20;
    engine = makeNullEngine(null);
  }
  void TearDown() override {
    failAt = -1;
    least = 0;
    other = 0;
    DamageTest::TearDown();
  }

  std::unique_ptr<ApiService> service(ApiServiceOptions options = {}) {
    options.textThreads = 1;
    return std::make_unique<ApiService>(*engine, *texts, options);
  }
  static auto ask(const std::string &path, std::string more = {},
                  size_t length = 40'000) {
    return std::make_shared<LocalExchange>(
        path, R"({"prompt": ")" + std::string(length, 'a') + "\"" + more + "}");
  }
  static void start(ApiService &service,
                    const std::shared_ptr<LocalExchange> &exchange) {
    exchange->start([&](const auto &asked) { service.handle(asked); });
  }
  static LocalExchange::Part answer(ApiService &service,
                                    const std::shared_ptr<LocalExchange> &one) {
    start(service, one);
    auto part = one->poll(60s);
    EXPECT_TRUE(part);
    return part.value_or(LocalExchange::Part{0, ""});
  }

  std::unique_ptr<ModelTexts> texts;
  std::unique_ptr<Engine> engine;
};

TEST_F(LongTexts, AFailedAllocationOfTheThreadFailsItsAnswerOnly) {
  auto served = service();
  for (const char *path : {"/tokenize", "/v1/completions"})
    for (int64_t many : {1, 3, 30}) { // what must be told is tried each ms
      int64_t seen = 0, refused = 0;
      for (int64_t first = 0; first <= seen; ++first) {
        auto exchange = ask(path, R"(, "max_tokens": 2)");
        if (path == std::string("/tokenize"))
          exchange = ask(path);
        allocations = 0;
        failing = many;
        failAt = first;
        LocalExchange::Part part = answer(*served, exchange);
        failAt = -1;
        seen = std::min<int64_t>(allocations, 150); // grow as lists do, later
        ASSERT_TRUE(part.status == 200 || part.status == 503) << part.text;
        if (part.status == 503)
          EXPECT_NE(part.text.find("out of memory"), std::string::npos)
              << part.text;
        refused += part.status == 503;
        EXPECT_EQ(served->active(), 0);
      }
      EXPECT_GT(refused, 2) << path;
      EXPECT_EQ(answer(*served, ask("/tokenize")).status, 200);
    }
}

TEST_F(LongTexts, WhatIsReadOfAChatMayFindNoMemory) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": "{% for m in messages %}<tool_call>{{ m.content }}{% for c in m.tool_calls %}{{ c.function.arguments.x }}{% endfor %}{% endfor %}"})");
  auto loaded = ModelTexts::load(folder);
  ASSERT_TRUE(loaded) << loaded.error().what;
  ApiServiceOptions options;
  options.textThreads = 1;
  ApiService served(*engine, **loaded, options);
  const std::string body =
      R"({"max_tokens": 1, "logit_bias": {"0": 1.5}, "stop": ["b", ["c"][0]], "messages": [{"role": "user", "content": [{"type": "text", "text": ")" +
      std::string(40'000, 'a') +
      R"("}]}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": {\"y\": [1, {}]}}"}}]}], )"
      R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "object"}}}}}]})";
  auto exchange = [&](const std::string &text) {
    return std::make_shared<LocalExchange>("/v1/chat/completions", text);
  };
  std::string good = body;
  good.replace(good.find(R"(["c"][0])"), 8, R"("c")");
  LocalExchange::Part part = answer(served, exchange(good));
  ASSERT_EQ(part.status, 200) << part.text;
  for (const std::string &text : {good, body}) {
    int64_t seen = 0, refused = 0;
    for (int64_t first = 0; first <= seen; ++first) {
      auto asked = exchange(text);
      allocations = 0;
      failing = 1;
      failAt = first;
      part = answer(served, asked);
      failAt = -1;
      seen = allocations;
      ASSERT_TRUE(part.status == 200 || part.status == 503 ||
                  (part.status == 400 && text == body))
          << part.text;
      refused += part.status == 503;
      EXPECT_EQ(served.active(), 0);
    }
    EXPECT_GT(refused, 30); // the second text ends at its stops
  }
}

TEST_F(LongTexts, AFailedAllocationBeforeTheThreadLeavesNothingBehind) {
  auto served = service();
  EXPECT_EQ(answer(*served, ask("/tokenize")).status, 200); // has its thread
  int64_t threw = 0;
  for (int64_t first = 0;; ++first) {
    auto exchange = ask("/tokenize");
    other = pthread_self();
    allocations = 0;
    failing = 1;
    failAt = first;
    bool fails = false;
    try {
      start(*served, exchange);
    } catch (const std::bad_alloc &) {
      fails = true;
    }
    bool reached = allocations > first;
    failAt = -1;
    threw += fails;
    if (!fails)
      EXPECT_TRUE(exchange->poll(60s));
    exchange->close(); // as a connection does then
    exchange.reset();
    EXPECT_EQ(served->active(), 0) << first;
    if (!reached)
      break;
  }
  EXPECT_GT(threw, 5);
}

TEST_F(LongTexts, WhatWaitsTooLongIsToldSo) {
  ApiServiceOptions options;
  options.longestText = 0ms;
  auto served = service(options);
  LocalExchange::Part part = answer(*served, ask("/tokenize"));
  EXPECT_EQ(part.status, 503);
  EXPECT_NE(part.text.find("deadline_exceeded"), std::string::npos);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, WhatTakesTooLongIsEnded) {
  ApiServiceOptions options;
  options.longestText = 20ms;
  auto served = service(options);
  LocalExchange::Part part =
      answer(*served, ask("/v1/completions", "", 30 << 20));
  EXPECT_EQ(part.status, 503);
  EXPECT_NE(part.text.find("deadline_exceeded"), std::string::npos)
      << part.text.substr(0, 300);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, TheDeadlineOfARequestCountsFromItsArrival) {
  auto served = service();
  LocalExchange::Part part =
      answer(*served, ask("/v1/completions", R"(, "timeout": 0.0001)"));
  EXPECT_EQ(part.status, 503) << part.text.substr(0, 300);
  EXPECT_NE(part.text.find("deadline_exceeded"), std::string::npos);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, AServiceThatEndsSaysSoAlsoToWhoComesLater) {
  auto served = service();
  auto waits = ask("/tokenize", "", 8 << 20);
  start(*served, waits);
  served->abortAll();
  auto told = waits->poll(60s);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->status == 503 || told->status == 200);
  LocalExchange::Part part = answer(*served, ask("/tokenize"));
  EXPECT_EQ(part.status, 503);
  EXPECT_NE(part.text.find("shutting_down"), std::string::npos) << part.text;
  EXPECT_EQ(served->active(), 0);
}

/// Some 2,000 tokens with their log-probabilities.
constexpr const char *longAnswer =
    R"(, "max_tokens": 200, "ignore_eos": true, "n": 10, "logprobs": 2)";

TEST_F(LongTexts, ALongAnswerIsWrittenByTheThread) {
  auto served = service();
  ASSERT_EQ(answer(*served, ask("/tokenize")).status, 200); // has its thread
  least = 32 << 10;
  allocations = 0;
  failing = 1000;
  failAt = 0;
  LocalExchange::Part part =
      answer(*served, ask("/v1/completions", longAnswer, 10));
  failAt = -1;
  EXPECT_EQ(part.status, 503);
  EXPECT_NE(part.text.find("out of memory"), std::string::npos) << part.text;
  EXPECT_EQ(served->active(), 0);
  part = answer(*served, ask("/v1/completions", longAnswer, 10));
  EXPECT_EQ(part.status, 200);
  EXPECT_GT(part.text.size(), 32u << 10);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, ThreadsWithoutAnyMemoryForAWhileStillAnswer) {
  auto served = service();
  ASSERT_EQ(answer(*served, ask("/tokenize")).status, 200); // has its thread
  constexpr const char *echo =
      R"(, "max_tokens": 1, "n": 2, "logprobs": 2, "echo": true, "stream": true)";
  for (const auto &exchange :
       {ask("/tokenize"), ask("/v1/completions", longAnswer, 10),
        ask("/v1/completions", echo, 3000)}) {
    allocations = 0;
    failing = 30; // the work's, then those that hand over what became of it
    failAt = 0;
    LocalExchange::Part part = answer(*served, exchange);
    std::string all = part.text;
    while (auto more = exchange->poll(60s))
      all += more->text;
    failAt = -1;
    EXPECT_GE(allocations, 30);
    EXPECT_NE(all.find("out of memory"), std::string::npos) << all;
    EXPECT_EQ(served->active(), 0);
  }
}

TEST_F(LongTexts, ALongAnswerThatCannotBeWrittenCountsAsRefused) {
  std::string log;
  ApiServiceOptions options;
  options.log = [&](const std::string &line) { log += line + "\n"; };
  auto served = service(options);
  ASSERT_EQ(answer(*served, ask("/tokenize")).status, 200); // has its thread
  least = 32 << 10;
  allocations = 0;
  failing = 1000;
  failAt = 0;
  EXPECT_EQ(answer(*served, ask("/v1/completions", longAnswer, 10)).status,
            503);
  failAt = -1;
  EXPECT_NE(log.find("end=early"), std::string::npos) << log;
  auto asked = std::make_shared<LocalExchange>("/metrics", std::nullopt);
  std::string metrics = answer(*served, asked).text;
  EXPECT_NE(metrics.find(R"(path="/v1/completions",status="503"} 1)"),
            std::string::npos)
      << metrics;
  EXPECT_EQ(metrics.find(R"(path="/v1/completions",status="200")"),
            std::string::npos)
      << metrics;
}

TEST_F(LongTexts, AnEchoWaitsUntilTheOneBeforeIsTaken) {
  auto served = service();
  constexpr size_t choices = 8;
  auto exchange = ask(
      "/v1/completions",
      R"(, "max_tokens": 1, "ignore_eos": true, "n": 8, "echo": true, "stream": true)",
      600'000);
  start(*served, exchange);
  size_t most = 0, ends = 0, bytes = 0;
  while (auto part = exchange->poll(60s)) {
    bytes += part->text.size();
    most = std::max(most, part->text.size() + exchange->unsent());
    for (size_t at = 0; (at = part->text.find(R"("finish_reason":"length")",
                                              at)) != std::string::npos;
         ++at)
      ++ends;
  }
  EXPECT_EQ(ends, choices);
  EXPECT_GT(bytes, choices * 1'200'000);
  EXPECT_LT(most, 4u << 20);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, ALongAnswerIsTheSameWithoutThreads) {
  auto served = service();
  ApiService plain(*engine, *texts, {});
  for (const char *more :
       {longAnswer,
        R"(, "max_tokens": 5, "n": 3, "seed": 1, "logprobs": 1, "echo": true)",
        R"(, "max_tokens": 0, "logprobs": 5, "echo": true)"})
    for (size_t length : {10, 3000}) {
      auto choices = [](LocalExchange::Part part) {
        EXPECT_EQ(part.status, 200) << part.text.substr(0, 300);
        size_t begin = part.text.find("\"choices\"");
        return part.text.substr(std::min(begin, part.text.size()));
      };
      std::string here =
          choices(answer(plain, ask("/v1/completions", more, length)));
      EXPECT_EQ(here,
                choices(answer(*served, ask("/v1/completions", more, length))));
    }
}

TEST_F(LongTexts, ChoicesShareThePromptsLogProbabilities) {
  WatchedEngine watched(*engine);
  ApiService served(watched, *texts, {});
  for (const char *stream : {"false", "true"}) {
    watched.requests.clear();
    auto exchange = std::make_shared<LocalExchange>(
        "/v1/completions",
        std::string(
            R"({"prompt": ["aaa", "aaaa"], "n": 2, "max_tokens": 1, "echo": true, "logprobs": 0, "ignore_eos": true, "stream": )") +
            stream + "}");
    start(served, exchange);
    std::string all;
    while (auto part = exchange->poll(60s))
      all += part->text;
    ASSERT_EQ(watched.requests.size(), 4u);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(watched.requests[i].promptLogprobs, i % 2 == 0);
    for (const char *tokens :
         {R"("tokens":[" a"," a"," a"," a"],"token_logprobs":[null,)",
          R"("tokens":[" a"," a"," a"," a"," a"],"token_logprobs":[null,)",
          R"("text_offset":[0,1,3,5,7])"}) {
      size_t count = 0;
      for (size_t at = 0; (at = all.find(tokens, at)) != std::string::npos;
           ++at)
        ++count;
      EXPECT_EQ(count, 2u) << tokens << all;
    }
  }
}

TEST_F(LongTexts, AStreamsLongPromptIsWrittenByTheThread) {
  auto served = service();
  ASSERT_EQ(answer(*served, ask("/tokenize")).status, 200); // has its thread
  constexpr size_t length = 3000, choices = 3;
  constexpr const char *more =
      R"(, "max_tokens": 2, "ignore_eos": true, "n": 3, "logprobs": 2, "echo": true, "stream": true)";
  for (bool fails : {true, false}) {
    auto exchange = ask("/v1/completions", more, length);
    least = 32 << 10;
    allocations = 0;
    failing = 1000;
    failAt = fails ? 0 : -1;
    start(*served, exchange);
    std::string all;
    while (auto part = exchange->poll(60s))
      all += part->text;
    failAt = -1;
    auto count = [&](std::string_view text) {
      size_t found = 0;
      for (size_t at = 0; (at = all.find(text, at)) != std::string::npos; ++at)
        ++found;
      return found;
    };
    EXPECT_EQ(count("out of memory"), fails ? 1u : 0u);
    EXPECT_EQ(count(R"("finish_reason":"length")"), fails ? 0 : choices);
    EXPECT_EQ(count("[null,-"), fails ? 0 : choices); // once each
    EXPECT_EQ(count(R"("text_offset":[0,1,3,5,7,)"), fails ? 0 : choices);
    EXPECT_EQ(served->active(), 0);
  }
}

TEST_F(LongTexts, WhatWasAdmittedIsFinishedByAServiceThatDrains) {
  auto served = service();
  auto admitted = ask("/v1/completions", R"(, "max_tokens": 2)", 400'000);
  start(*served, admitted);
  served->drain();
  EXPECT_EQ(served->active(), 1);
  auto refused = ask("/v1/completions", "", 8 << 20);
  start(*served, refused);
  auto told = refused->poll(0s); // at once: nobody tokenises it
  ASSERT_TRUE(told);
  EXPECT_EQ(told->status, 503);
  EXPECT_NE(told->text.find("shutting_down"), std::string::npos);
  auto part = admitted->poll(60s);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->status, 200) << part->text.substr(0, 300);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, AnAdmittedEmbeddingIsNeverRefused) {
  WatchedEngine vectors(*engine, 8000);
  ApiServiceOptions options;
  options.textThreads = 1;
  ApiService served(vectors, *texts, options);
  auto asked =
      std::make_shared<LocalExchange>("/v1/embeddings", R"({"input": "aa"})");
  start(served, asked);
  ASSERT_EQ(vectors.asked.size(), 1u);
  std::vector<std::shared_ptr<LocalExchange>> others;
  for (int i = 0; i < 70; ++i)
    start(served, others.emplace_back(ask("/tokenize", "", 2 << 20)));
  auto refused = others.back()->poll(0s);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  served.drain();
  vectors.asked[0](std::vector<float>(8000, 0.5f));
  auto part = asked->poll(60s);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->status, 200) << part->text.substr(0, 300);
  for (const auto &other : others)
    other->close();
}

TEST_F(LongTexts, TokensThatTakeTooLongAreGivenUp) {
  ApiServiceOptions options;
  options.longestText = 20ms;
  auto served = service(options);
  std::string tokens = "0";
  for (int i = 0; i < 5'000'000; ++i)
    tokens += ",0";
  LocalExchange::Part part =
      answer(*served, std::make_shared<LocalExchange>(
                          "/detokenize", "{\"tokens\": [" + tokens + "]}"));
  EXPECT_EQ(part.status, 503);
  EXPECT_NE(part.text.find("deadline_exceeded"), std::string::npos)
      << part.text.substr(0, 300);
  EXPECT_EQ(served->active(), 0);
}

TEST_F(LongTexts, WhoLeavesIsAnsweredNothing) {
  auto served = service();
  auto first = ask("/v1/completions", "", 8 << 20),
       second = ask("/v1/completions");
  start(*served, first);
  start(*served, second);
  second->close();
  first->close();
  for (int i = 0; i < 6000 && served->active() > 0; ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(served->active(), 0);
  EXPECT_EQ(engine->statistics().generatedTokens, 0u);
}

} // namespace
} // namespace knapper::serving
