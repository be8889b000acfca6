#include "tools/knapper/ServeLoad.h"

#include "runtime/base/Text.h"
#include "serving/http/HttpClient.h"
#include "tools/knapper/ServerEvents.h"
#include "tools/knapper/Timing.h"

#include <atomic>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;
using serving::HttpClient;
using serving::HttpUrl;

/// Words that most vocabularies have as one token.
constexpr const char *kWords[] = {
    "time",    "year",   "people", "way",     "day",    "man",    "thing",
    "world",   "life",   "hand",   "part",    "child",  "eye",    "place",
    "work",    "week",   "case",   "point",   "number", "group",  "fact",
    "house",   "water",  "money",  "story",   "month",  "book",   "power",
    "game",    "line",   "end",    "city",    "name",   "team",   "idea",
    "body",    "back",   "face",   "level",   "office", "door",   "health",
    "person",  "art",    "war",    "history", "party",  "result", "change",
    "morning", "reason", "girl",   "food",    "moment", "air",    "force"};

std::string drawnText(std::mt19937_64 &draw, int words) {
  std::string text;
  for (int i = 0; i < words; ++i)
    text += cat(i ? " " : "", kWords[draw() % std::size(kWords)]);
  return text;
}

std::string messageOf(const Json &error) {
  if (error.is_object() && error.contains("message") &&
      error["message"].is_string())
    return error["message"].get<std::string>();
  return error.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What a stream of events says, with times.
class EventReader {
public:
  EventReader(const Stopwatch &watch, double start, ServeTimes &times)
      : watch(watch), start(start), times(times) {}

  void push(std::string_view part) { events.push(part); }
  std::string error;
  std::string rest() const { return events.rest(); }

private:
  void take(std::string_view text) {
    if (text == "[DONE]")
      return;
    Json event = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) {
      error = "an event is no JSON object";
      return;
    }
    if (event.contains("error")) {
      error = messageOf(event["error"]);
      return;
    }
    if (auto usage = event.find("usage");
        usage != event.end() && usage->is_object()) {
      times.promptTokens = usageCount(*usage, "prompt_tokens");
      times.completionTokens = usageCount(*usage, "completion_tokens");
      times.counted = true;
    }
    if (hasText(event))
      arrived();
  }
  static bool hasText(const Json &event) {
    auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty() ||
        !choices->front().is_object())
      return false;
    const Json &choice = choices->front();
    auto isText = [](const Json &object, const char *name) {
      auto it = object.find(name);
      return it != object.end() && it->is_string() &&
             !it->get_ref<const std::string &>().empty();
    };
    auto delta = choice.find("delta");
    return isText(choice, "text") ||
           (delta != choice.end() && delta->is_object() &&
            (isText(*delta, "content") || isText(*delta, "reasoning_content")));
  }
  void arrived() {
    double now = watch.seconds();
    if (parts++ == 0)
      times.first = now - start;
    else
      times.gaps.push_back(now - latest);
    latest = now;
    if (!times.counted)
      ++times.completionTokens;
  }

  const Stopwatch &watch;
  double start, latest = 0;
  ServeTimes &times;
  int64_t parts = 0;
  ServerEvents events{[this](std::string_view text) { take(text); }};
};

class Load {
public:
  Load(const ServeLoadOptions &options, HttpUrl url, std::string model)
      : options(options), url(std::move(url)) {
    result.model = std::move(model);
  }

  ServeLoadResult run() {
    std::vector<std::thread> threads;
    if (options.rate > 0) {
      std::mt19937_64 draw(options.seed);
      std::exponential_distribution<double> pause(options.rate);
      double at = 0;
      for (int i = 0; i < options.requests; ++i, at += pause(draw)) {
        std::this_thread::sleep_for(
            std::chrono::duration<double>(at - watch.seconds()));
        threads.emplace_back([this, i] {
          std::unique_ptr<HttpClient> client;
          one(i, client);
        });
      }
    } else {
      std::atomic<int> next = 0;
      for (int i = 0; i < std::min(options.concurrency, options.requests); ++i)
        threads.emplace_back([this, &next] {
          std::unique_ptr<HttpClient> client;
          for (int n; (n = next++) < options.requests;)
            one(n, client);
        });
      for (std::thread &thread : threads)
        thread.join();
      threads.clear();
    }
    for (std::thread &thread : threads)
      thread.join();
    result.seconds = watch.seconds();
    return std::move(result);
  }

private:
  std::string body(int number) const {
    std::mt19937_64 draw(options.seed * 1000003 +
                         static_cast<uint64_t>(number));
    std::string text = drawnText(draw, options.inputWords);
    Json fields{{"model", result.model},
                {"max_tokens", options.maxTokens},
                {"temperature", options.temperature},
                {"stream", true},
                {"stream_options", {{"include_usage", true}}}};
    if (options.ignoreEos)
      fields["ignore_eos"] = true;
    if (options.chat)
      fields["messages"] = {{{"role", "user"}, {"content", text}}};
    else
      fields["prompt"] = text;
    return fields.dump();
  }

  void one(int number, std::unique_ptr<HttpClient> &client) {
    std::string text = body(number);
    {
      std::lock_guard lock(mutex);
      result.mostAtOnce = std::max(result.mostAtOnce, ++running);
    }
    ServeTimes times;
    times.start = watch.seconds();
    std::string failure = ask(text, times, client);
    times.whole = watch.seconds() - times.start;
    std::lock_guard lock(mutex);
    --running;
    if (failure.empty())
      result.done.push_back(std::move(times));
    else
      ++result.failures[failure];
  }

  /// The error, or nothing.
  std::string ask(const std::string &text, ServeTimes &times,
                  std::unique_ptr<HttpClient> &client) {
    if (!client || !client->isOpen()) {
      auto made = HttpClient::connect(url, options.timeout);
      if (!made)
        return made.error().what;
      client = std::move(*made);
    }
    EventReader reader(watch, times.start, times);
    auto status = client->send(
        options.chat ? "/v1/chat/completions" : "/v1/completions", text,
        options.key, [&](std::string_view part) { reader.push(part); });
    if (!status)
      return status.error().what;
    if (*status != 200) {
      Json answer = Json::parse(reader.rest(), nullptr, false);
      bool isError = answer.is_object() && answer.contains("error");
      return cat("status ", *status, isError ? ": " : "",
                 isError ? messageOf(answer["error"]) : std::string());
    }
    return reader.error;
  }

  const ServeLoadOptions &options;
  const HttpUrl url;
  Stopwatch watch;
  std::mutex mutex;
  int running = 0;        ///< under `mutex`
  ServeLoadResult result; ///< under `mutex`, but for its model
};

/// The name of the first model.
Expected<std::string> firstModel(const ServeLoadOptions &options,
                                 const HttpUrl &url) {
  ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client,
                   HttpClient::connect(url, options.timeout));
  std::string text;
  ASSIGN_OR_RETURN(int status,
                   client->send("/v1/models", "", options.key,
                                [&](std::string_view part) { text += part; }));
  Json answer = Json::parse(text, nullptr, false);
  if (status == 200 && answer.is_object() && answer.contains("data") &&
      answer["data"].is_array() && !answer["data"].empty() &&
      answer["data"][0].is_object() && answer["data"][0].contains("id") &&
      answer["data"][0]["id"].is_string())
    return answer["data"][0]["id"].get<std::string>();
  return deviceError(
      cat("/v1/models answers with status ", status, " and names no model"),
      options.url, "--model names one, --api-key opens the list");
}

} // namespace

Expected<ServeLoadResult> runServeLoad(const ServeLoadOptions &options) {
  ASSIGN_OR_RETURN(HttpUrl url, HttpUrl::parse(options.url));
  // Bases as OpenAI's clients take them.
  if (url.prefix.ends_with("/v1"))
    url.prefix.resize(url.prefix.size() - 3);
  std::string model = options.model;
  if (model.empty()) {
    ASSIGN_OR_RETURN(model, firstModel(options, url));
  }
  return Load(options, std::move(url), std::move(model)).run();
}

} // namespace knapper::cli
