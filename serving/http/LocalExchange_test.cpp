#include "serving/http/LocalExchange.h"

#include <gtest/gtest.h>
#include <thread>

namespace knapper::serving {
namespace {

using namespace std::chrono_literals;

TEST(LocalExchange, GivesTheWholeAnswerOnce) {
  auto exchange = std::make_shared<LocalExchange>("/tokenize", "{}");
  exchange->start([](const std::shared_ptr<HttpExchange> &asked) {
    EXPECT_EQ(asked->request().method, "POST");
    EXPECT_EQ(asked->request().body, "{}");
    asked->respond(404, "application/json", "{\"error\": 1}");
  });
  EXPECT_FALSE(exchange->ended());
  auto part = exchange->poll(0ms);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->status, 404);
  EXPECT_EQ(part->text, "{\"error\": 1}");
  EXPECT_TRUE(exchange->ended());
  EXPECT_FALSE(exchange->poll(10s)); // at once
}

TEST(LocalExchange, UnwrapsEvents) {
  auto exchange = std::make_shared<LocalExchange>("/", std::nullopt);
  exchange->start([](const std::shared_ptr<HttpExchange> &asked) {
    EXPECT_EQ(asked->request().method, "GET");
    asked->begin("text/event-stream");
    asked->write("data: {\"a\": 1}\n\n: a comment\n\ndata: {\"b\": 2}\n\n");
    EXPECT_EQ(asked->unsent(), 16u);
    asked->write("data: [DONE]\n\n");
    asked->end();
  });
  EXPECT_EQ(exchange->poll(0ms)->text, "{\"a\": 1}");
  EXPECT_EQ(exchange->poll(0ms)->text, "{\"b\": 2}");
  EXPECT_TRUE(exchange->ended());
}

TEST(LocalExchange, RunsWhatMustNotWaitWithoutAPoll) {
  auto exchange = std::make_shared<LocalExchange>("/", "{}");
  exchange->start([](const auto &) {});
  bool ran = false;
  std::thread([&] { exchange->postSoon([&] { ran = true; }); }).join();
  EXPECT_TRUE(ran);
  exchange->close();
  exchange->postSoon([] { ADD_FAILURE() << "the client is gone"; });
}

TEST(LocalExchange, RunsWhatIsPostedOnThePollingThread) {
  auto exchange = std::make_shared<LocalExchange>("/", "{}");
  exchange->start([](const auto &) {});
  EXPECT_FALSE(exchange->poll(1ms));
  EXPECT_FALSE(exchange->ended());
  std::thread::id ran;
  std::thread other([&] {
    exchange->post([&] {
      ran = std::this_thread::get_id();
      // From within, too.
      exchange->post([&] { exchange->respond(200, "", "late", {}); });
    });
  });
  auto part = exchange->poll(10s);
  other.join();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, "late");
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(LocalExchange, CloseSaysSoOnceAndWakesWhoPolls) {
  auto exchange = std::make_shared<LocalExchange>("/", "{}");
  int gone = 0;
  exchange->start([&](const std::shared_ptr<HttpExchange> &asked) {
    asked->write("data: x\n\n");
    asked->onClosed = [&gone, asked] {
      asked->onClosed = nullptr;
      ++gone;
    };
  });
  EXPECT_EQ(exchange->poll(0ms)->text, "x");
  std::thread other([&] { exchange->close(); });
  EXPECT_FALSE(exchange->poll(10s));
  other.join();
  exchange->close();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(exchange->ended());
  EXPECT_FALSE(exchange->isOpen());
  // A sender may hold a lock of its own that the function takes.
  exchange->post([] { FAIL() << "nobody is there to run it"; });
  exchange->write("data: y\n\n");
  EXPECT_FALSE(exchange->poll(0ms));
}

TEST(LocalExchange, AnAnswerThatIsCompleteIsNotClosed) {
  auto exchange = std::make_shared<LocalExchange>("/", "{}");
  exchange->start([](const std::shared_ptr<HttpExchange> &asked) {
    asked->onClosed = [] { FAIL() << "it has ended"; };
    asked->respond(200, "", "all", {});
  });
  exchange->close();
  EXPECT_TRUE(exchange->ended());
  EXPECT_FALSE(exchange->poll(0ms));
}

} // namespace
} // namespace knapper::serving
