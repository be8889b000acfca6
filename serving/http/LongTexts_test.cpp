// Long texts of the service's own threads: without memory, too late, or of a
// service that ends, only their own answer fails.
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
  least = 1024; // the JSON library's destructors allocate small ones
  for (const char *path : {"/tokenize", "/v1/completions"})
    for (int64_t many : {1, 3, 1000}) {
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
