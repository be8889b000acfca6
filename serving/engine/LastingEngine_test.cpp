#include "serving/engine/LastingEngine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

using namespace knapper;
using namespace knapper::serving;
using namespace std::chrono_literals;

namespace {

/// What the test has of an engine that the LastingEngine owns.
struct Script {
  std::mutex mutex; ///< guards what follows
  EngineStatistics statistics;
  std::map<uint64_t, EventSink> sinks;

  void update(auto &&change) {
    std::lock_guard lock(mutex);
    change(statistics);
  }
  void end(uint64_t request, FinishReason reason) {
    EventSink sink;
    {
      std::lock_guard lock(mutex);
      sink = sinks.at(request);
    }
    Event event;
    event.request = request;
    event.finish = reason;
    if (reason == FinishReason::error)
      event.error = deviceError("the device is lost");
    sink(std::move(event));
  }
};

/// Does what the test says, and ends what it has when it is destroyed.
class ScriptedEngine final : public Engine {
public:
  explicit ScriptedEngine(std::shared_ptr<Script> script)
      : script(std::move(script)) {}
  ~ScriptedEngine() override {
    for (auto &[id, sink] : script->sinks)
      script->end(id, FinishReason::cancelled);
  }
  ModelLimits limits() const override { return {100, 100, 0}; }
  Expected<uint64_t> submit(Request, EventSink sink) override {
    std::lock_guard lock(script->mutex);
    uint64_t id = script->sinks.size() + 1;
    script->sinks.emplace(id, std::move(sink));
    return id;
  }
  void cancel(uint64_t) override {}
  void drain() override {}
  EngineStatistics statistics() const override {
    std::lock_guard lock(script->mutex);
    return script->statistics;
  }

private:
  std::shared_ptr<Script> script;
};

struct LastingEngineTest : testing::Test {
  std::vector<std::shared_ptr<Script>> scripts; ///< of the engines made
  std::mutex mutex;                             ///< guards `ends`
  std::vector<FinishReason> ends[3];            ///< of each request
  std::unique_ptr<Engine> engine;

  void make(std::chrono::milliseconds look) {
    auto made = makeLastingEngine(
        [this]() -> Expected<std::unique_ptr<Engine>> {
          scripts.push_back(std::make_shared<Script>());
          return std::unique_ptr<Engine>(
              std::make_unique<ScriptedEngine>(scripts.back()));
        },
        {.hungSeconds = 0, .look = look});
    ASSERT_TRUE(made);
    engine = std::move(*made);
  }
  Expected<uint64_t> submit(size_t request) {
    return engine->submit({}, [this, request](Event event) {
      std::lock_guard lock(mutex);
      if (event.finish != FinishReason::none)
        ends[request].push_back(event.finish);
    });
  }
  void waitForRebuild() {
    while (engine->statistics().rebuilds == 0)
      std::this_thread::sleep_for(1ms);
  }
};

// The engine says that the device is lost, and has counted its requests as
// failed, before it tells them: whoever ends them counts them.
TEST_F(LastingEngineTest, AFailureIsToldAndCountedOnce) {
  make(1ms);
  for (size_t i = 0; i < 3; ++i)
    ASSERT_TRUE(submit(i));
  std::shared_ptr<Script> first = scripts.front();
  first->update([](EngineStatistics &s) { s.failed = 1; });
  first->end(1, FinishReason::error);
  EXPECT_EQ(engine->statistics().failed, 1u);
  first->update([](EngineStatistics &s) {
    s.failed = 3;
    s.deviceLost = true;
  });
  waitForRebuild();
  // Too late: they were told by then.
  first->end(2, FinishReason::error);
  EngineStatistics now = engine->statistics();
  EXPECT_EQ(now.failed, 3u);
  EXPECT_EQ(now.cancelled, 0u);
  EXPECT_FALSE(now.deviceLost);
  std::lock_guard lock(mutex);
  for (const std::vector<FinishReason> &list : ends)
    EXPECT_THAT(list, testing::ElementsAre(FinishReason::error));
}

TEST_F(LastingEngineTest, WhoHearsOfAnEndFindsItCounted) {
  make(1h);
  uint64_t finished = 0;
  ASSERT_TRUE(engine->submit(
      {}, [&](Event) { finished = engine->statistics().finished; }));
  scripts.front()->end(1, FinishReason::stop);
  EXPECT_EQ(finished, 1u);
}

// Nobody has looked at the engine yet: it would fail what it is given.
TEST_F(LastingEngineTest, ALostEngineGetsNoRequest) {
  make(1h);
  ASSERT_TRUE(submit(0));
  scripts.front()->update([](EngineStatistics &s) { s.deviceLost = true; });
  auto refused = submit(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "rebuilding");
}

// An engine that hangs ends its step after all others are gone.
TEST_F(LastingEngineTest, AGivenUpEngineOutlivesItsOwner) {
  make(1ms);
  ASSERT_TRUE(submit(0));
  std::shared_ptr<Script> first = scripts.front();
  first->update([](EngineStatistics &s) { s.deviceLost = true; });
  waitForRebuild();
  engine.reset();
  first->end(1, FinishReason::stop);
  EXPECT_THAT(ends[0], testing::ElementsAre(FinishReason::error));
}

} // namespace
