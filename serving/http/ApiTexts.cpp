// The routes that read texts. Long ones become tokens on threads of their own,
// so that connections of the same thread wait for none.
#include "runtime/base/Json.h"
#include "serving/engine/Embedder.h"
#include "serving/http/ApiService.h"

#include <algorithm>

namespace knapper::serving {

using Json = FieldReader::Json;
using Clock = ServerMetrics::Clock;

/// A text that waits for a thread, becomes tokens, or has become them.
struct ApiService::LongText {
  LongText(ApiService &service, const Exchange &exchange,
           std::function<Rest(const Stopped &)> make)
      : exchange(exchange), make(std::move(make)), active(service.metrics),
        rest(service.refusal(
            exchange, ApiError::from(deviceError("out of memory", "the server",
                                                 "fewer requests at once")))) {}
  const Exchange exchange;
  std::function<Rest(const Stopped &)> make;
  std::optional<ActiveRequest> active;
  /// The thread's, then the exchange's. It says at first what is said where no
  /// memory is left to say it.
  Rest rest;
  /// The client. Apart, so that the exchange does not hold itself.
  const std::shared_ptr<std::atomic<bool>> gone =
      std::make_shared<std::atomic<bool>>(false);
};

void ApiService::prepare(const Exchange &exchange, size_t bytes, Stage stage,
                         std::function<Rest(const Stopped &)> make) {
  if (!longWork || bytes <= LongWork::brief) {
    make({})();
    return;
  }
  auto text = std::make_shared<LongText>(*this, exchange, std::move(make));
  exchange->onClosed = [this, gone = text->gone] {
    *gone = true;
    ++metrics.clientsGone;
  };
  auto latest = stage == Stage::answer ? Clock::time_point::max()
                                       : Clock::now() + options.longestText;
  auto job = [this, text, latest](bool unwanted) {
    makeRest(*text, unwanted, latest);
    text->exchange->postSurely([text] {
      text->exchange->onClosed = nullptr;
      if (text->exchange->isOpen())
        std::exchange(text->rest, nullptr)();
      text->active.reset(); // what was started counts for itself
    });
  };
  if (stage == Stage::answer ? longWork->addAnswer(job)
                             : longWork->add(bytes, job))
    return;
  exchange->onClosed = nullptr;
  if (stage == Stage::answer && !ending) { // there is no thread
    text->make({})();
    return;
  }
  text->active.reset();
  refuse(exchange,
         ApiError::from(
             ending ? userError("the server is shutting down", "draining")
                    : userError("too many long texts wait", "queue")));
}

void ApiService::makeRest(LongText &text, bool unwanted,
                          Clock::time_point latest) {
  try {
    auto isLate = [latest] { return Clock::now() >= latest; };
    Stopped stopped = [this, &text, isLate] {
      return *text.gone || ending || isLate();
    };
    if (unwanted || ending)
      text.rest = refusal(
          text.exchange,
          ApiError::from(userError("the server is shutting down", "draining")));
    else if (isLate())
      text.rest = refusal(text.exchange,
                          ApiError::from(userError(
                              "waited too long for its turn", "deadline")));
    else if (!*text.gone)
      text.rest = text.make(stopped);
  } catch (const std::exception &) { // what it says at first
  }
  text.make = nullptr;
}

bool ApiService::refusesAll(const Exchange &exchange) {
  if (!draining)
    return false;
  refuse(exchange,
         ApiError::from(userError("the server is shutting down", "draining")));
  return true;
}

void ApiService::generate(const Exchange &exchange, Read read) {
  // Counted before it is asked whether the server drains: who drains waits for
  // all that was told no.
  ActiveRequest admitted(metrics);
  if (!makes(exchange, false) || refusesAll(exchange))
    return;
  auto make = [this, exchange, read,
               arrived = Clock::now()](const Stopped &stopped) -> Rest {
    ApiError error;
    auto request = read(exchange->request().body, context(stopped), error);
    if (!request)
      return refusal(exchange, std::move(error));
    auto given = std::make_shared<GenerationRequest>(std::move(*request));
    if (!options.apiKeys.empty())
      given->salt = std::to_string(keyNumber(exchange->request()));
    return [this, exchange, given, arrived] {
      start(exchange, std::move(*given), arrived);
    };
  };
  prepare(exchange, exchange->request().body.size(), Stage::request,
          std::move(make));
}

void ApiService::start(const Exchange &exchange, GenerationRequest request,
                       Clock::time_point arrived) {
  auto generation = std::make_shared<Generation>(
      Generation::Environment{engine, texts, metrics, options.model,
                              options.log, options.grammars.get(),
                              options.requestSeconds,
                              longWork ? &*longWork : nullptr},
      exchange, std::move(request), arrived);
  {
    std::lock_guard lock(mutex);
    if (generations.size() >= cleanAt) {
      std::erase_if(generations, [](auto &weak) { return weak.expired(); });
      cleanAt = 2 * generations.size() + 64;
    }
    generations.push_back(generation);
  }
  generation->start();
}

void ApiService::chatCompletions(const Exchange &exchange) {
  generate(exchange, readChatRequest);
}

void ApiService::completions(const Exchange &exchange) {
  generate(exchange, readCompletionRequest);
}

void ApiService::embeddings(const Exchange &exchange) {
  ActiveRequest admitted(metrics);
  if (!makes(exchange, true) || refusesAll(exchange))
    return;
  auto make = [this, exchange](const Stopped &stopped) -> Rest {
    ApiError error;
    auto request =
        readEmbeddingRequest(exchange->request().body, context(stopped),
                             engine.embedder()->width(), error);
    if (!request)
      return refusal(exchange, std::move(error));
    auto given = std::make_shared<EmbeddingRequest>(std::move(*request));
    return [this, exchange, given] { embed(exchange, std::move(*given)); };
  };
  prepare(exchange, exchange->request().body.size(), Stage::request,
          std::move(make));
}

void ApiService::embed(const Exchange &exchange, EmbeddingRequest request) {
  auto active =
      std::make_shared<std::optional<ActiveRequest>>(std::in_place, metrics);
  auto asked = std::make_shared<EmbeddingRequest>(std::move(request));
  auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->onClosed = [this, gone] {
    *gone = true;
    ++metrics.clientsGone;
  };
  auto answered = [this, exchange, asked,
                   active](Expected<std::vector<float>> made) mutable {
    // The answer's text is made where texts are made.
    auto vectors =
        std::make_shared<Expected<std::vector<float>>>(std::move(made));
    exchange->post([this, exchange, asked, active, vectors] {
      constexpr size_t digits = 12; // about, of a number
      if (exchange->isOpen() && !*vectors)
        refuse(exchange, ApiError::from(vectors->error(), "input"));
      else if (exchange->isOpen())
        prepare(exchange, digits * (*vectors)->size(), Stage::answer,
                [this, exchange, asked, vectors](const Stopped &) {
                  return answer(exchange, embeddingAnswer(*asked, **vectors,
                                                          options.model));
                });
      active->reset(); // a long answer counts for itself
    });
  };
  Status taken =
      engine.embedder()->embed(asked->texts, std::move(answered), gone);
  if (!taken) {
    active->reset();
    refuse(exchange, ApiError::from(taken.error(), "input"));
  }
}

void ApiService::tokenize(const Exchange &exchange) {
  prepare(exchange, exchange->request().body.size(), Stage::request,
          [this, exchange](const Stopped &stopped) {
            return tokenized(exchange, stopped);
          });
}

void ApiService::detokenize(const Exchange &exchange) {
  prepare(exchange, exchange->request().body.size(), Stage::request,
          [this, exchange](const Stopped &stopped) {
            return detokenized(exchange, stopped);
          });
}

ApiService::Rest ApiService::tokenized(const Exchange &exchange,
                                       const Stopped &stopped) {
  ApiError error;
  std::optional<Json> json = parseBody(exchange->request().body, error);
  if (!json)
    return refusal(exchange, std::move(error));
  FieldReader fields(*json);
  fields.checkNames({{"model", {}},
                     {"prompt", {}},
                     {"messages", {}},
                     {"add_special_tokens", {}},
                     {"add_generation_prompt", {}},
                     {"chat_template_kwargs", {}},
                     {"return_token_strs", {}}});
  checkModel(fields, options.model);
  std::vector<int32_t> ids;
  auto keep = [&](Expected<std::vector<int32_t>> made, const char *name) {
    if (made)
      ids = std::move(*made);
    else
      fields.fail(ApiError::from(made.error(), name));
  };
  EncodeOptions encode;
  encode.stopped = stopped;
  encode.addSpecialTokens = fields.flag("add_special_tokens", true);
  if (std::optional<std::string> prompt = fields.text("prompt"))
    keep(texts.tokenizer().encode(*prompt, encode), "prompt");
  else if (!fields.find("messages"))
    fields.fail("prompt", "or 'messages' must be there");
  else if (auto variables = chatVariables(fields)) {
    auto chat = texts.encodeChat(*variables, stopped);
    if (chat)
      ids = std::move(chat->tokens);
    else
      fields.fail(ApiError::from(chat.error(), "messages"));
  }
  bool strings = fields.flag("return_token_strs", false);
  if (fields.failure())
    return refusal(exchange, *fields.failure());
  JsonWriter writer;
  writer.beginObject()
      .field("count", static_cast<uint64_t>(ids.size()))
      .field("max_model_len", engine.limits().contextLength);
  writer.key("tokens").beginArray();
  for (int32_t id : ids)
    writer.value(id);
  writer.endArray();
  if (strings) {
    writer.key("token_strs").beginArray();
    for (int32_t id : ids)
      writer.value(texts.tokenizer().tokenText(id));
    writer.endArray();
  }
  return answer(exchange, writer.endObject().take());
}

ApiService::Rest ApiService::detokenized(const Exchange &exchange,
                                         const Stopped &stopped) {
  ApiError error;
  std::optional<Json> json = parseBody(exchange->request().body, error);
  if (!json)
    return refusal(exchange, std::move(error));
  FieldReader fields(*json);
  fields.checkNames(
      {{"model", {}}, {"tokens", {}}, {"skip_special_tokens", {}}});
  checkModel(fields, options.model);
  std::vector<int32_t> ids = fields.tokens("tokens");
  if (!fields.find("tokens"))
    fields.fail("tokens", "is missing");
  int32_t most = std::max(texts.tokenizer().size(), engine.limits().vocabulary);
  auto unknown = std::find_if(ids.begin(), ids.end(),
                              [&](int32_t id) { return id >= most; });
  if (unknown != ids.end())
    fields.fail("tokens", "holds " + std::to_string(*unknown) +
                              ", which is not in the vocabulary");
  bool skip = fields.flag("skip_special_tokens", false);
  if (fields.failure())
    return refusal(exchange, *fields.failure());
  Expected<std::string> text = texts.tokenizer().decode(ids, skip, stopped);
  if (!text)
    return refusal(exchange, ApiError::from(text.error(), "tokens"));
  JsonWriter writer;
  writer.beginObject().field("prompt", *text);
  return answer(exchange, writer.endObject().take());
}

} // namespace knapper::serving
