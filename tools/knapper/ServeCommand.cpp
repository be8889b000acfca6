#include "serving/http/ApiService.h"
#include "serving/http/HttpServer.h"
#include "serving/http/StructuredOutput.h"
#include "tools/knapper/Handover.h"
#include "tools/knapper/ServedEngine.h"
#include "tools/knapper/Timing.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <poll.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace knapper::cli {
namespace {

struct ServeArguments {
  std::string folder, modelName, handover;
  ServedEngine engine;
  serving::HttpServerOptions http;
  std::vector<std::string> apiKeys, allowedHosts;
  double drainSeconds = 30, bodyMiB = 32, requestSeconds = 0, grammarMiB = 256;
  int receiveSeconds = 60, textThreads = 2;
  serving::GrammarLimits grammar;
  bool quiet = false;
};

/// A folder's own name, also of "model/" and ".".
std::string nameOf(const std::string &folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(folder, error);
  return path.filename().string();
}

/// What ends the server: SIGTERM, SIGINT, and SIGHUP of a terminal that
/// closes, unless who started it has it ignored (nohup).
sigset_t endingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction now{};
  if (sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
    sigaddset(&signals, SIGHUP);
  return signals;
}

/// Waits for one of them, for at most so long; blocked in all threads.
bool waitForSignal(double seconds) {
  sigset_t signals = endingSignals();
  timespec limit{static_cast<time_t>(seconds),
                 static_cast<long>((seconds - double(time_t(seconds))) * 1e9)};
  return sigtimedwait(&signals, nullptr, &limit) > 0;
}

/// The keys that clients may use: of the flags and of the environment. One that
/// no header can hold would keep everybody out.
Expected<std::vector<std::string>> apiKeys(std::vector<std::string> given) {
  auto check = [](const std::string &key, const char *where) -> Status {
    auto isBlank = [](char c) { return c == ' ' || c == '\t'; };
    auto isControl = [](unsigned char c) {
      return (c < 0x20 && c != '\t') || c == 0x7f;
    };
    if (key.empty())
      return userError("is empty", where, "a key, or no such flag");
    if (isBlank(key.front()) || isBlank(key.back()) ||
        std::any_of(key.begin(), key.end(), isControl))
      return userError("has a space at an end, a line's end or another control "
                       "character, which no client can send",
                       where, "the key without it");
    return success();
  };
  for (const std::string &key : given)
    TRY(check(key, "--api-key"));
  if (const char *key = getenv("KNAPPER_API_KEY"); key && *key) {
    TRY(check(key, "KNAPPER_API_KEY"));
    given.push_back(key);
  }
  return given;
}

/// A line for stderr, or none: who does not read the log holds up nobody.
void logLine(const std::string &line) {
  constexpr size_t most = 4000; // what a pipe that can be written has room for
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT))
    fprintf(stderr, "%.*s\n", static_cast<int>(std::min(line.size(), most)),
            line.c_str());
}

/// As many descriptors as connections need, or as the system lets us have.
void allowFiles(size_t connections) {
  constexpr rlim_t others = 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  rlim_t wanted = std::min<rlim_t>(connections + others, limit.rlim_max);
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Status serve(ServeArguments &arguments) {
  using namespace knapper::serving;
  sigset_t signals = endingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Stopwatch watch;
  TRY(HttpServer::check(arguments.http));
  ASSIGN_OR_RETURN(std::vector<std::string> keys, apiKeys(arguments.apiKeys));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelTexts> texts,
                   ModelTexts::load(arguments.folder));
  arguments.grammar.cacheBytes =
      static_cast<uint64_t>(arguments.grammarMiB * (1 << 20));
  ASSIGN_OR_RETURN(std::shared_ptr<GrammarCompiler> grammars,
                   startGrammars(*texts, arguments.grammar));
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                   arguments.engine.open(arguments.folder, *texts));
  ApiServiceOptions options;
  options.model = arguments.modelName.empty() ? nameOf(arguments.folder)
                                              : arguments.modelName;
  options.apiKeys = std::move(keys);
  options.allowedHosts = arguments.allowedHosts;
  const std::string &host = arguments.http.host;
  bool loopback =
      host == "localhost" || host == "::1" || host.starts_with("127.");
  options.anyHost = !loopback && options.allowedHosts.empty();
  options.version = knapper_version();
  options.requestSeconds = arguments.requestSeconds;
  options.grammars = std::move(grammars);
  options.textThreads = arguments.textThreads;
  if (!arguments.quiet)
    options.log = logLine;
  ApiService service(*engine, *texts, options);
  arguments.http.headerTime = arguments.http.bodyTime =
      std::chrono::seconds(arguments.receiveSeconds);
  allowFiles(arguments.http.mostConnections);
  arguments.http.largestBody =
      static_cast<size_t>(arguments.bodyMiB * (1 << 20));
  std::unique_ptr<Handover> handover;
  if (!arguments.handover.empty()) {
    ASSIGN_OR_RETURN(handover, Handover::join(arguments.handover));
    arguments.http.listening = handover->takeSocket();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server,
                   HttpServer::start(arguments.http, [&](const auto &exchange) {
                     service.handle(exchange);
                   }));
  service.connections = [&] { return server->connections(); };
  if (handover)
    TRY(handover->offer(server->socket()));
  print(format("Serving %s at %s (context %d tokens, ready after %.2f s)\n",
               printable(options.model).c_str(), server->address().c_str(),
               engine->limits().contextLength, watch.seconds()));
  fflush(stdout);
  if (!texts->hasTemplate())
    fprintf(stderr, "knapper: warning: the folder has no chat template: "
                    "/v1/chat/completions refuses\n");
  while (!waitForSignal(3600)) {
  }

  bool replaced = handover && handover->isReplaced();
  if (replaced) { // clients that are connected are answered still
    server->stopListening();
    server->closeSoon();
  } else {
    service.drain();
  }
  Stopwatch draining;
  // Also for what is written, but not read yet.
  auto answers = [&] {
    return service.active() > 0 || server->answering() > 0;
  };
  // A second signal ends the wait.
  while ((replaced ? server->connections() > 0 : answers()) &&
         draining.seconds() < arguments.drainSeconds)
    if (waitForSignal(0.05))
      break;
  server->stopListening();
  service.abortAll();
  options.grammars->stop(); // what is compiled answers exchanges of the server
  for (int i = 0; i < 40 && answers(); ++i)
    waitForSignal(0.05);
  waitForSignal(0.1); // the last bytes leave
  server->stop();
  engine.reset(); // its sinks post to the server's exchanges
  return success();
}

} // namespace

void addServe(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App *command = app.add_subcommand(
      "serve", "Serves a language model over HTTP, as OpenAI's API");
  command
      ->add_option("folder", arguments->folder,
                   "A Hugging Face folder: config.json, safetensors, "
                   "tokenizer.json")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--host", arguments->http.host, "Address to listen at")
      ->capture_default_str();
  command
      ->add_option("--port", arguments->http.port,
                   "Port; 0: any that is free, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      ->add_option(
          "--api-key", arguments->apiKeys,
          "A key that requests must carry (Authorization: Bearer KEY); "
          "may be repeated; also in KNAPPER_API_KEY")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command
      ->add_option("--allowed-host", arguments->allowedHosts,
                   "A name that the Host header may have; may be repeated. "
                   "Default: loopback's names, or any where --host is another")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--tls-cert", arguments->http.certificate,
                   "HTTPS by this certificate, a PEM file: the server's own, "
                   "then those of who signed it")
      ->type_name("FILE");
  command
      ->add_option("--tls-key", arguments->http.key,
                   "The private key of --tls-cert, a PEM file")
      ->type_name("FILE");
  command->add_option("--served-model-name", arguments->modelName,
                      "The model's name in requests; default: the folder's");
  command
      ->add_option("--drain", arguments->drainSeconds,
                   "How long running requests may go on after SIGTERM")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"s", 1}, {"m", 60}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE, "SECONDS"))
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--handover", arguments->handover,
                   "A socket in the file system by which a server that is "
                   "started with the same path takes over this one's port: no "
                   "request is refused in between")
      ->type_name("PATH");
  command
      ->add_option("--grammar-timeout", arguments->grammar.seconds,
                   "Processor time that the grammar of a request may compile")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"s", 1}, {"m", 60}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE, "SECONDS"))
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--grammar-cache", arguments->grammarMiB,
                   "Compiled grammars that are kept, in MiB; others are "
                   "compiled again")
      ->check(CLI::Range(0.0, 1048576.0))
      ->capture_default_str();
  command
      ->add_option("--max-body", arguments->bodyMiB,
                   "The largest request in MiB")
      ->check(CLI::Range(0.001, 1024.0))
      ->capture_default_str();
  command
      ->add_option("--receive-timeout", arguments->receiveSeconds,
                   "Seconds that the header of a request may take, also a "
                   "connection without one, and then its body")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command
      ->add_option("--request-timeout", arguments->requestSeconds,
                   "Seconds from a request's arrival after which it ends with "
                   "an error, whatever longer time it asks for; 0: none")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--max-connections", arguments->http.mostConnections,
                   "Connections at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--http-threads", arguments->http.threads,
                   "Threads that parse, tokenise and write")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      ->add_option("--text-threads", arguments->textThreads,
                   "Threads that read and tokenise requests of more than 32 "
                   "KiB; 64 wait for them at most")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_flag("--quiet", arguments->quiet,
                    "Do not log a line for each request");
  arguments->engine.addTo(*command);
  command->footer("For example:\n"
                  "  knapper serve ./SmolLM2-135M-Instruct --port 8000\n"
                  "  curl http://127.0.0.1:8000/v1/chat/completions -H "
                  "'Content-Type: application/json' \\\n"
                  "    -d '{\"messages\": [{\"role\": \"user\", \"content\": "
                  "\"Hello\"}]}'");
  command->callback([&session, arguments] {
    session.action = [arguments] { return serve(*arguments); };
  });
}

} // namespace knapper::cli
