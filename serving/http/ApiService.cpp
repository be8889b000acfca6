#include "serving/http/ApiService.h"

#include "runtime/base/Json.h"
#include "serving/http/OpenApi.h"
#include "serving/web/ChatPage.h"

#include <algorithm>
#include <chrono>

namespace knapper::serving {

ApiService::ApiService(Engine &engine, const ModelTexts &texts,
                       ApiServiceOptions given)
    : engine(engine), texts(texts), options(std::move(given)),
      created(std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count()) {
  if (options.textThreads > 0)
    longWork.emplace(LongWork::Limits{.threads = options.textThreads});
}

const std::vector<ApiService::Route> &ApiService::routes() {
  static const std::vector<Route> rows = {
      {"POST", "/v1/chat/completions", true, &ApiService::chatCompletions},
      {"POST", "/v1/completions", true, &ApiService::completions},
      {"POST", "/v1/embeddings", true, &ApiService::embeddings},
      {"GET", "/v1/models", true, &ApiService::models},
      {"POST", "/tokenize", true, &ApiService::tokenize},
      {"POST", "/detokenize", true, &ApiService::detokenize},
      {"GET", "/health/live", false, &ApiService::live},
      {"GET", "/health/ready", false, &ApiService::ready},
      {"GET", "/health/progress", false, &ApiService::progress},
      {"GET", "/metrics", false, &ApiService::metricsText},
      {"GET", "/version", false, &ApiService::version},
      {"GET", "/openapi.json", false, &ApiService::openApiText},
      {"GET", "/", false, &ApiService::page},
  };
  return rows;
}

void ApiService::send(const Exchange &exchange, int status, std::string json) {
  metrics.countResponse(exchange->request().path, status);
  exchange->respond(status, "application/json", std::move(json));
}

void ApiService::refuse(const Exchange &exchange, const ApiError &error) {
  // A path that nobody serves is no label: anyone could make more of them.
  const std::string &path = exchange->request().path;
  bool known = std::any_of(routes().begin(), routes().end(),
                           [&](const Route &row) { return row.path == path; });
  metrics.countResponse(known ? path : "other", error.status);
  HttpHeaders headers;
  if (error.retryAfter)
    headers.push_back({"Retry-After", std::to_string(error.retryAfter)});
  if (!error.allow.empty())
    headers.push_back({"Allow", error.allow});
  if (error.status == 401)
    headers.push_back({"WWW-Authenticate", "Bearer"});
  exchange->respond(error.status, "application/json", error.json(), headers);
}

static std::string lowerCase(std::string text) {
  for (char &c : text)
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  return text;
}

/// "localhost" of "LocalHost:8000", "::1" of "[::1]:8000".
static std::string hostName(const std::string &host) {
  if (host.starts_with("["))
    return lowerCase(host.substr(1, host.find(']') - 1));
  return lowerCase(host.substr(0, host.find(':')));
}

bool ApiService::hostAllowed(const HttpRequest &request) const {
  if (options.anyHost)
    return true;
  std::string name = hostName(request.host);
  if (name == "localhost" || name == "127.0.0.1" || name == "::1")
    return true;
  return std::any_of(
      options.allowedHosts.begin(), options.allowedHosts.end(),
      [&](const std::string &allowed) { return lowerCase(allowed) == name; });
}

/// What stands behind "Bearer", in any case; nothing in another scheme.
static std::string_view keyOf(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size() ||
      !std::equal(scheme.begin(), scheme.end(), authorization.begin(),
                  [](char known, char given) {
                    return given == known || (given >= 'A' && given <= 'Z' &&
                                              given - 'A' + 'a' == known);
                  }))
    return {};
  authorization.remove_prefix(scheme.size());
  while (authorization.starts_with(' '))
    authorization.remove_prefix(1);
  return authorization;
}

/// Takes as long for a wrong key as for the right one.
static bool equalKeys(std::string_view a, std::string_view b) {
  size_t different = a.size() ^ b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i] ^ b[i < b.size() ? i : 0]);
  return different == 0 && !b.empty();
}

int64_t ApiService::keyNumber(const HttpRequest &request) const {
  std::string_view given = keyOf(request.authorization);
  int64_t found = -1;
  for (size_t i = 0; i < options.apiKeys.size(); ++i)
    if (equalKeys(given, options.apiKeys[i]))
      found = static_cast<int64_t>(i);
  return found;
}

bool ApiService::admits(const Exchange &exchange, const Route &route) {
  const HttpRequest &request = exchange->request();
  ApiError error;
  // A page of another site must not talk to us through a user's browser.
  bool foreign = false;
  if (size_t scheme = request.origin.find("://"); scheme != std::string::npos)
    foreign = request.origin.substr(scheme + 3) != request.host;
  else
    foreign = !request.origin.empty();
  if (!hostAllowed(request) || foreign) {
    error.status = 403;
    error.code = foreign ? "foreign_origin" : "unknown_host";
    error.message = foreign ? "pages of other origins are not served"
                            : "the host '" + request.host +
                                  "' is not served; --allowed-host adds one";
    refuse(exchange, error);
    return false;
  }
  if (route.guarded && !options.apiKeys.empty()) {
    if (keyNumber(request) < 0) {
      error.status = 401;
      error.code = "invalid_api_key";
      error.message = "the Authorization header has no valid key";
      refuse(exchange, error);
      return false;
    }
  }
  if (route.method == "POST") {
    std::string type =
        request.contentType.substr(0, request.contentType.find(';'));
    while (!type.empty() && type.back() == ' ')
      type.pop_back();
    if (type != "application/json") {
      error.status = 415;
      error.code = "unsupported_media_type";
      error.message = "the Content-Type must be application/json";
      refuse(exchange, error);
      return false;
    }
  }
  return true;
}

void ApiService::handle(const Exchange &exchange) {
  const HttpRequest &request = exchange->request();
  const Route *other = nullptr;
  bool head = request.method == "HEAD";
  for (const Route &route : routes()) {
    // The one model has a path of its own, too.
    bool isModel = route.path == "/v1/models" &&
                   request.path == "/v1/models/" + options.model;
    if (route.path != request.path && !isModel)
      continue;
    if (route.method == (head ? "GET" : request.method)) {
      if (admits(exchange, route))
        (this->*route.answer)(exchange);
      return;
    }
    other = &route;
  }
  ApiError error;
  error.status = other ? 405 : 404;
  error.code = other ? "method_not_allowed" : "not_found";
  error.message = other ? "this path takes " + std::string(other->method)
                        : "there is no such path";
  if (other)
    error.allow = other->method == "GET" ? "GET, HEAD" : other->method;
  refuse(exchange, error);
}

bool ApiService::makes(const Exchange &exchange, bool vectors) {
  if ((engine.embedder() != nullptr) == vectors)
    return true;
  ApiError error;
  error.code = "unsupported_model";
  error.param = "model";
  error.message = vectors ? "the model '" + options.model +
                                "' makes text, and no embeddings"
                          : "the model '" + options.model +
                                "' makes embeddings (/v1/embeddings), and no "
                                "text";
  refuse(exchange, error);
  return false;
}

void ApiService::models(const Exchange &exchange) {
  bool alone = exchange->request().path != "/v1/models";
  JsonWriter writer;
  if (!alone)
    writer.beginObject().field("object", "list").key("data").beginArray();
  writer.beginObject()
      .field("id", options.model)
      .field("object", "model")
      .field("created", created)
      .field("owned_by", "knapper")
      .field("max_model_len", engine.limits().contextLength);
  writer.key("default_sampling").beginObject();
  for (const auto &[name, value] : texts.recommended())
    writer.field(name, value);
  writer.endObject().endObject();
  if (!alone)
    writer.endArray().endObject();
  send(exchange, 200, writer.take());
}

void ApiService::live(const Exchange &exchange) {
  send(exchange, 200, "{\"status\":\"live\"}");
}

void ApiService::ready(const Exchange &exchange) {
  EngineStatistics now = engine.statistics();
  bool hung = now.secondsSinceProgress > options.hungSeconds;
  bool lost = now.deviceLost || now.rebuilding;
  if (!draining && !hung && !lost) {
    send(exchange, 200, "{\"status\":\"ready\"}");
    return;
  }
  ApiError error;
  error.status = 503;
  error.retryAfter = 5;
  error.code = draining ? "shutting_down" : lost ? "engine_rebuilding" : "hung";
  error.message = draining ? "the server is shutting down"
                  : lost   ? "the device was lost; the model is loaded again"
                           : "the engine made no progress for " +
                                 std::to_string(int(now.secondsSinceProgress)) +
                                 " seconds";
  refuse(exchange, error);
}

void ApiService::progress(const Exchange &exchange) {
  EngineStatistics now = engine.statistics();
  JsonWriter writer;
  writer.beginObject()
      .field("status", draining ? "draining" : "serving")
      .field("active", static_cast<int64_t>(metrics.active))
      .field("running", now.running)
      .field("waiting", now.waiting)
      .field("steps", now.steps)
      .field("generated_tokens", now.generatedTokens)
      .field("seconds_since_progress", now.secondsSinceProgress)
      .endObject();
  send(exchange, 200, writer.take());
}

void ApiService::metricsText(const Exchange &exchange) {
  metrics.countResponse("/metrics", 200);
  exchange->respond(
      200, "text/plain; version=0.0.4; charset=utf-8",
      metrics.text(engine.statistics(), connections ? connections() : 0));
}

void ApiService::version(const Exchange &exchange) {
  JsonWriter writer;
  writer.beginObject().field("version", options.version).endObject();
  send(exchange, 200, writer.take());
}

void ApiService::openApiText(const Exchange &exchange) {
  send(exchange, 200, openApi(options.version));
}

void ApiService::page(const Exchange &exchange) {
  metrics.countResponse("/", 200);
  exchange->respond(200, "text/html; charset=utf-8", std::string(chatPage()),
                    {{"Content-Security-Policy", chatPagePolicy()},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}});
}

void ApiService::drain() {
  // The engine goes on: it gets what was admitted and becomes tokens still.
  draining = true;
}

void ApiService::abortAll() {
  draining = ending = true;
  engine.drain();
  if (longWork)
    longWork->stop();
  std::vector<std::shared_ptr<Generation>> all;
  {
    std::lock_guard lock(mutex);
    for (auto &weak : generations)
      if (auto generation = weak.lock())
        all.push_back(std::move(generation));
  }
  for (auto &generation : all)
    generation->abortLater();
}

} // namespace knapper::serving
