// libknapper: language models, over the engine and the service of `serve`.
#include "capi/Handles.h"
#include "knapper/llm.h"
#include "runtime/base/DType.h"
#include "serving/engine/LastingEngine.h"
#include "serving/engine/LoadEngine.h"
#include "serving/http/ApiService.h"
#include "serving/http/LocalExchange.h"
#include "serving/http/StructuredOutput.h"

#include <algorithm>
#include <filesystem>
#include <optional>

using namespace knapper;
using namespace knapper::serving;

namespace {

struct Served {
  std::unique_ptr<ModelTexts> texts;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ApiService> service;
  /// The engine's last events go to the service.
  ~Served() { engine.reset(); }
};

std::string nameOf(const char *folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(folder, error);
  return path.filename().string();
}

Expected<EngineOptions> engineOptions(const knapper_llm_options &given) {
  EngineOptions options;
  auto set = [](auto &field, auto value) {
    if (value != 0)
      field = value;
  };
  set(options.threads, given.threads);
  set(options.maxContext, given.max_context);
  set(options.maxBatchedTokens, given.max_batched_tokens);
  set(options.maxSequences, given.max_sequences);
  set(options.queueLimit, given.queue_limit);
  set(options.kvMemoryBytes, given.kv_memory_bytes);
  if (given.no_prefix_cache != 0 && given.no_prefix_cache != 1)
    return userError("is neither 0 nor 1",
                     "knapper_llm_options no_prefix_cache",
                     "1 to compute equal prefixes again");
  options.prefixCache = given.no_prefix_cache == 0;
  if (given.verify_files != 0 && given.verify_files != 1)
    return userError("is neither 0 nor 1", "knapper_llm_options verify_files",
                     "1 to read all weights");
  options.verifyFiles = given.verify_files == 1;
  if (given.dtype) {
    std::optional<DType> dtype = parseDType(given.dtype);
    if (!dtype)
      return userError(std::string("is '") + given.dtype + "'",
                       "knapper_llm_options dtype", "f32, bf16, i8 or i4");
    options.dtype = *dtype;
  }
  if (given.speculate) {
    auto kind = parseSpeculation(given.speculate);
    if (!kind)
      return userError(std::string("is '") + given.speculate + "'",
                       "knapper_llm_options speculate", "off, ngram or draft");
    options.speculation.kind = *kind;
  }
  set(options.speculation.tokens, given.speculate_tokens);
  if (given.draft_model)
    options.draftFolder = given.draft_model;
  if (given.target)
    options.target = given.target;
  if (given.cache_dir)
    options.cacheFolder = given.cache_dir;
  return options;
}

Expected<LastingEngineOptions>
lastingOptions(const knapper_llm_options &given) {
  constexpr double longest = 86400;
  LastingEngineOptions options;
  if (!(given.hung_after <= longest))
    return userError("is " + std::to_string(given.hung_after),
                     "knapper_llm_options hung_after",
                     "seconds, at most 86400; below 0 for never");
  options.hungSeconds =
      given.hung_after > 0 ? given.hung_after
      : given.hung_after < 0
          ? 0
          : hungSecondsOf(given.target ? given.target : "cpu");
  return options;
}

Status notNull(const void *pointer, const char *name) {
  if (pointer)
    return success();
  return userError("is NULL", name);
}

} // namespace

struct knapper_llm {
  std::shared_ptr<Served> served;
};

struct knapper_llm_request {
  std::shared_ptr<Served> served; ///< outlives the exchange
  std::shared_ptr<LocalExchange> exchange;
  std::string data; ///< of the latest part
  int32_t status = 0;
  std::atomic<bool> cancelled{false};
};

knapper_error *knapper_llm_load(const char *folder,
                                const knapper_llm_options *options,
                                knapper_llm **out) {
  return capi::guarded([&]() -> Status {
    TRY(notNull(folder, "folder"));
    TRY(notNull(out, "out"));
    *out = nullptr;
    knapper_llm_options defaults = {};
    defaults.size = sizeof(defaults);
    ASSIGN_OR_RETURN(
        knapper_llm_options given,
        capi::readOptions(options, defaults, "knapper_llm_options"));
    ASSIGN_OR_RETURN(EngineOptions how, engineOptions(given));
    auto served = std::make_shared<Served>();
    ASSIGN_OR_RETURN(served->texts, ModelTexts::load(folder));
    if (given.draft_model)
      TRY(checkSameTokens(*served->texts, given.draft_model));
    ApiServiceOptions service;
    ASSIGN_OR_RETURN(service.grammars, startGrammars(*served->texts));
    ASSIGN_OR_RETURN(LastingEngineOptions lasting, lastingOptions(given));
    ASSIGN_OR_RETURN(served->engine, makeLastingEngine(
                                         [how, place = std::string(folder)] {
                                           return loadEngine(place, how);
                                         },
                                         lasting));
    service.model = given.model_name ? given.model_name : nameOf(folder);
    service.version = knapper_version();
    served->service = std::make_unique<ApiService>(
        *served->engine, *served->texts, std::move(service));
    *out = new knapper_llm{std::move(served)};
    return success();
  });
}

void knapper_llm_release(knapper_llm *llm) { delete llm; }

int32_t knapper_llm_context(const knapper_llm *llm) {
  return llm ? llm->served->engine->limits().contextLength : 0;
}

knapper_error *knapper_llm_submit(knapper_llm *llm, const char *path,
                                  const char *body, knapper_llm_request **out) {
  return capi::guarded([&]() -> Status {
    TRY(notNull(llm, "llm"));
    TRY(notNull(path, "path"));
    TRY(notNull(out, "out"));
    *out = nullptr;
    auto request = std::make_unique<knapper_llm_request>();
    request->served = llm->served;
    request->exchange = std::make_shared<LocalExchange>(
        path, body ? std::optional<std::string>(body) : std::nullopt);
    request->exchange->start(
        [&](const std::shared_ptr<HttpExchange> &exchange) {
          llm->served->service->handle(exchange);
        });
    *out = request.release();
    return success();
  });
}

knapper_error *knapper_llm_poll(knapper_llm_request *request,
                                int64_t milliseconds, knapper_llm_part *out) {
  return capi::guarded([&]() -> Status {
    TRY(notNull(request, "request"));
    TRY(notNull(out, "out"));
    if (out->size != sizeof(knapper_llm_part))
      return userError("the size of knapper_llm_part is not this version's",
                       "knapper_llm_part",
                       "initialise the struct with its *_INIT macro");
    // As good as for ever, and no overflow of the clock.
    constexpr int64_t longest = int64_t(1000) * 60 * 60 * 24 * 365;
    if (milliseconds < 0 || milliseconds > longest)
      milliseconds = longest;
    auto part =
        request->exchange->poll(std::chrono::milliseconds(milliseconds));
    out->data = nullptr;
    out->bytes = 0;
    if (part) {
      request->data = std::move(part->text);
      request->status = part->status;
      out->state = KNAPPER_LLM_PART;
      out->data = request->data.c_str();
      out->bytes = request->data.size();
    } else if (request->cancelled) {
      out->state = KNAPPER_LLM_CANCELLED;
    } else {
      out->state =
          request->exchange->ended() ? KNAPPER_LLM_END : KNAPPER_LLM_WAITING;
    }
    out->status = request->status;
    return success();
  });
}

void knapper_llm_cancel(knapper_llm_request *request) {
  if (!request || request->exchange->ended())
    return;
  if (knapper_error *error = capi::guarded([&]() -> Status {
        request->cancelled = true;
        request->exchange->close();
        return success();
      }))
    knapper_error_release(error);
}

void knapper_llm_request_release(knapper_llm_request *request) {
  if (!request)
    return;
  if (knapper_error *error = capi::guarded([&]() -> Status {
        request->exchange->close();
        return success();
      }))
    knapper_error_release(error);
  delete request;
}
