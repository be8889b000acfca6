// The routes of the server: OpenAI's, health, metrics and the chat page.
#pragma once

#include "serving/grammar/GrammarCompiler.h"
#include "serving/http/Embeddings.h"
#include "serving/http/Generation.h"
#include "serving/http/LongWork.h"

namespace knapper::serving {

struct ApiServiceOptions {
  std::string model;                ///< its name in requests
  std::vector<std::string> apiKeys; ///< empty: none is asked for
  /// Names that the Host header may have besides loopback's; with `anyHost`
  /// all.
  std::vector<std::string> allowedHosts;
  bool anyHost = false;
  std::string version;
  /// `ready` says 503 when running sequences got no token for so long.
  double hungSeconds = 30;
  /// A generation ends with an error after so long; 0: none does.
  double requestSeconds = 0;
  std::function<void(const std::string &)> log; ///< a line a request
  /// For answers that are constrained; null: they are refused.
  std::shared_ptr<GrammarCompiler> grammars;
  /// For long texts; 0: they become tokens where `handle` is called.
  int textThreads = 0;
  /// A long text that waits and is read for longer is refused.
  std::chrono::milliseconds longestText{60'000};
};

/// Thread-safe. The engine and the texts must live longer than the exchanges.
class ApiService {
public:
  ApiService(Engine &engine, const ModelTexts &texts,
             ApiServiceOptions options);

  void handle(const std::shared_ptr<HttpExchange> &exchange);
  /// Not ready from now on, new generations are refused. `active` counts those
  /// that were admitted before: they go on, also where they are no tokens yet.
  void drain();
  /// Ends what still runs, with an error that says so. Long texts are given up;
  /// nothing is prepared any more on threads of the service's own.
  void abortAll();
  int64_t active() const { return metrics.active; }
  /// For /metrics.
  std::function<size_t()> connections;

private:
  using Exchange = std::shared_ptr<HttpExchange>;
  struct Route {
    std::string_view method, path;
    bool guarded; ///< by the API keys
    void (ApiService::*answer)(const Exchange &);
  };
  static const std::vector<Route> &routes();

  void chatCompletions(const Exchange &exchange);
  void completions(const Exchange &exchange);
  void embeddings(const Exchange &exchange);
  void models(const Exchange &exchange);
  void openApiText(const Exchange &exchange);
  void tokenize(const Exchange &exchange);
  void detokenize(const Exchange &exchange);
  void live(const Exchange &exchange);
  void ready(const Exchange &exchange);
  void progress(const Exchange &exchange);
  void metricsText(const Exchange &exchange);
  void version(const Exchange &exchange);
  void page(const Exchange &exchange);

  bool admits(const Exchange &exchange, const Route &route);
  /// Which of the API keys a request has; -1: none.
  int64_t keyNumber(const HttpRequest &request) const;
  bool hostAllowed(const HttpRequest &request) const;
  void send(const Exchange &exchange, int status, std::string json);
  void refuse(const Exchange &exchange, const ApiError &error);
  /// What is left of an answer, for the exchange's thread.
  using Rest = std::function<void()>;
  using Stopped = std::function<bool()>;
  enum class Stage : uint8_t {
    request, ///< refused where too many wait, and where it waits too long
    answer   ///< of a request that was admitted: never refused so
  };
  /// Makes the rest of an answer from a text of so many bytes, and runs it:
  /// both here, or where the text is long, on a thread that holds up nobody.
  void prepare(const Exchange &exchange, size_t bytes, Stage stage,
               std::function<Rest(const Stopped &stopped)> make);
  struct LongText;
  /// On a thread for long texts; throws nothing.
  void makeRest(LongText &text, bool unwanted,
                ServerMetrics::Clock::time_point latest);
  using Read = std::optional<GenerationRequest> (*)(const std::string &,
                                                    const RequestContext &,
                                                    ApiError &);
  /// Reads a request for text and starts it.
  void generate(const Exchange &exchange, Read read);
  void start(const Exchange &exchange, GenerationRequest request,
             ServerMetrics::Clock::time_point arrived);
  /// Refuses what the model does not make: text, or vectors.
  bool makes(const Exchange &exchange, bool vectors);
  /// Whether it is refused because the server ends.
  bool refusesAll(const Exchange &exchange);
  RequestContext context(const Stopped &stopped) const {
    return {texts, engine.limits(), options.model, options.grammars != nullptr,
            stopped};
  }
  Rest tokenized(const Exchange &exchange, const Stopped &stopped);
  Rest detokenized(const Exchange &exchange, const Stopped &stopped);
  Rest refusal(const Exchange &exchange, ApiError error) {
    return [this, exchange, error = std::move(error)] {
      refuse(exchange, error);
    };
  }
  Rest answer(const Exchange &exchange, std::string json) {
    auto text = std::make_shared<std::string>(std::move(json));
    return [this, exchange, text] { send(exchange, 200, std::move(*text)); };
  }
  void embed(const Exchange &exchange, EmbeddingRequest request);

  Engine &engine;
  const ModelTexts &texts;
  const ApiServiceOptions options;
  ServerMetrics metrics;
  const int64_t created;
  std::atomic<bool> draining{false}, ending{false};
  std::mutex mutex;
  std::vector<std::weak_ptr<Generation>> generations; ///< under `mutex`
  size_t cleanAt = 64;                                ///< under `mutex`
  std::optional<LongWork> longWork; ///< the last member: it uses the others
};

} // namespace knapper::serving
