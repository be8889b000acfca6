#include "serving/chat/ModelTexts.h"
#include "serving/tokenizer/Detokenizer.h"
#include "tools/knapper/RemoteChat.h"
#include "tools/knapper/ServedEngine.h"
#include "tools/knapper/Timing.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <random>

namespace knapper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatArguments {
  std::string folder, system, url, apiKey, model;
  ServedEngine engine;
  float temperature = -1, topP = 1;
  int maxTokens = 0;
  uint64_t seed = 0;
};

/// Events of the engine's thread, for the thread that prints.
class EventQueue {
public:
  void put(serving::Event event) {
    std::lock_guard lock(mutex);
    events.push_back(std::move(event));
    changed.notify_one();
  }
  std::vector<serving::Event> take() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::milliseconds(100),
                     [&] { return !events.empty(); });
    return std::exchange(events, {});
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<serving::Event> events;
};

volatile std::sig_atomic_t interrupted = 0;

/// One answer, printed as it comes; its text.
Expected<std::string> answer(serving::Engine &engine,
                             const serving::ModelTexts &texts,
                             std::vector<int32_t> prompt,
                             const ChatArguments &arguments, uint64_t turn) {
  auto length = static_cast<int32_t>(prompt.size());
  int32_t room = engine.limits().contextLength - length;
  if (room <= 0)
    return userError(format("the conversation has %d tokens and the context %d",
                            length, engine.limits().contextLength),
                     {}, "/new begins another");
  serving::Request request;
  request.prompt = std::move(prompt);
  auto recommended = texts.recommended().find("temperature");
  request.sampling.temperature = arguments.temperature >= 0
                                     ? arguments.temperature
                                 : recommended != texts.recommended().end()
                                     ? static_cast<float>(recommended->second)
                                     : 1;
  request.sampling.topP = arguments.topP;
  request.sampling.seed = arguments.seed + turn;
  request.stopTokens = texts.endTokens();
  request.maxTokens =
      arguments.maxTokens ? std::min(arguments.maxTokens, room) : room;
  auto queue = std::make_shared<EventQueue>();
  ASSIGN_OR_RETURN(uint64_t number,
                   engine.submit(std::move(request), [queue](auto event) {
                     queue->put(std::move(event));
                   }));
  serving::Detokenizer stream(texts.tokenizer());
  std::string text;
  auto show = [&](const std::string &part) {
    text += part;
    print(printable(part, /*lines=*/true));
    fflush(stdout);
  };
  Stopwatch watch;
  size_t tokens = 0;
  bool stopping = false;
  while (true) {
    if (interrupted && !stopping) {
      stopping = true;
      engine.cancel(number);
    }
    for (serving::Event &event : queue->take()) {
      for (const serving::Token &token : event.tokens) {
        ++tokens;
        show(stream.push(token.id));
      }
      if (event.finish == serving::FinishReason::none)
        continue;
      show(stream.finish());
      print("\n");
      if (event.finish == serving::FinishReason::error)
        return *event.error;
      fprintf(stderr, "[%zu tokens, %.1f tokens/s%s]\n", tokens,
              static_cast<double>(tokens) / watch.seconds(),
              event.finish == serving::FinishReason::length      ? ", cut"
              : event.finish == serving::FinishReason::cancelled ? ", stopped"
                                                                 : "");
      return text;
    }
  }
}

/// The answer to a conversation; its text.
using Answer =
    std::function<Expected<std::string>(const Json &messages, uint64_t turn)>;

Status talk(const ChatArguments &arguments, const Answer &answerTo) {
  signal(SIGINT, [](int) { interrupted = 1; });
  Json messages = Json::array();
  auto begin = [&] {
    messages = Json::array();
    if (!arguments.system.empty())
      messages.push_back({{"role", "system"}, {"content", arguments.system}});
  };
  begin();
  fprintf(stderr, "/new begins again, /quit or the end of the input ends, "
                  "Ctrl-C stops an answer\n");
  for (uint64_t turn = 0;; ++turn) {
    fprintf(stderr, "> ");
    std::string line;
    interrupted = 0;
    if (!std::getline(std::cin, line) || line == "/quit")
      return success();
    if (line.empty())
      continue;
    if (line == "/new") {
      begin();
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    Expected<std::string> text = answerTo(messages, turn);
    if (!text) {
      if (text.error().kind != ErrorKind::user)
        return text.takeError();
      fprintf(stderr, "%s\n", text.error().message().c_str());
      messages.erase(messages.size() - 1);
      continue;
    }
    messages.push_back({{"role", "assistant"}, {"content", *text}});
  }
}

/// With another server; what is not given is left to it.
Status chatAt(const ChatArguments &arguments) {
  const char *variable = getenv("KNAPPER_API_KEY");
  std::string key = !arguments.apiKey.empty() ? arguments.apiKey
                    : variable                ? variable
                                              : "";
  return talk(
      arguments,
      [&](const Json &messages, uint64_t turn) -> Expected<std::string> {
        Json body = {{"messages", messages},
                     {"stream", true},
                     {"stream_options", Json{{"include_usage", true}}}};
        if (!arguments.model.empty())
          body["model"] = arguments.model;
        if (arguments.temperature >= 0)
          body["temperature"] = arguments.temperature;
        if (arguments.topP < 1)
          body["top_p"] = arguments.topP;
        if (arguments.maxTokens > 0)
          body["max_tokens"] = arguments.maxTokens;
        if (arguments.seed != 0)
          body["seed"] = arguments.seed + turn;
        Stopwatch watch;
        auto answer = answerFrom(
            arguments.url, key, body,
            [](std::string_view part) {
              print(printable(std::string(part), /*lines=*/true));
              fflush(stdout);
            },
            [] { return interrupted == 0; });
        print("\n");
        if (!answer)
          return answer.takeError();
        if (answer->tokens > 0)
          fprintf(stderr, "[%lld tokens, %.1f tokens/s%s]\n",
                  static_cast<long long>(answer->tokens),
                  static_cast<double>(answer->tokens) / watch.seconds(),
                  answer->finish == "length" ? ", cut" : "");
        else if (interrupted)
          fprintf(stderr, "[stopped]\n");
        return answer->text;
      });
}

Status chat(ChatArguments &arguments) {
  if (arguments.folder.empty() == arguments.url.empty())
    return userError("needs a folder or --url", "knapper chat",
                     "knapper chat ./SmolLM2-135M-Instruct");
  if (!arguments.url.empty())
    return chatAt(arguments);
  ASSIGN_OR_RETURN(std::unique_ptr<serving::ModelTexts> texts,
                   serving::ModelTexts::load(arguments.folder));
  ASSIGN_OR_RETURN(std::unique_ptr<serving::Engine> engine,
                   arguments.engine.open(arguments.folder, *texts));
  if (arguments.seed == 0)
    arguments.seed = std::random_device()();
  return talk(
      arguments,
      [&](const Json &messages, uint64_t turn) -> Expected<std::string> {
        ASSIGN_OR_RETURN(serving::ChatPrompt prompt,
                         texts->encodeChat({{"messages", messages},
                                            {"add_generation_prompt", true}}));
        return answer(*engine, *texts, std::move(prompt.tokens), arguments,
                      turn);
      });
}

} // namespace

void addChat(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<ChatArguments>();
  CLI::App *command =
      app.add_subcommand("chat", "Talks with a language model in the terminal");
  command
      ->add_option("folder", arguments->folder,
                   "A Hugging Face folder: config.json, safetensors, "
                   "tokenizer.json; or --url")
      ->type_name("FOLDER");
  command
      ->add_option("--url", arguments->url,
                   "A server of OpenAI's API to talk with instead, such as "
                   "http://127.0.0.1:8000/v1")
      ->type_name("URL");
  command
      ->add_option("--api-key", arguments->apiKey,
                   "The key that the server asks for; also in KNAPPER_API_KEY")
      ->type_name("KEY");
  command->add_option("--model", arguments->model,
                      "The model's name at the server");
  command->add_option("--system", arguments->system, "The system prompt");
  command
      ->add_option("--temperature", arguments->temperature,
                   "0: the most likely token always; default: what the model "
                   "recommends, or 1")
      ->check(CLI::Range(0.0, 2.0));
  command
      ->add_option("--top-p", arguments->topP,
                   "Sample from the most likely tokens of this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--max-tokens", arguments->maxTokens,
                   "Tokens of an answer; 0: what the context has room for")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--seed", arguments->seed,
                   "Of the sampling; 0: another each time")
      ->capture_default_str();
  arguments->engine.addTo(*command);
  command->footer(
      "For example:\n"
      "  knapper chat ./SmolLM2-135M-Instruct --system 'Be brief.'");
  command->callback([&session, arguments] {
    session.action = [arguments] { return chat(*arguments); };
  });
}

} // namespace knapper::cli
