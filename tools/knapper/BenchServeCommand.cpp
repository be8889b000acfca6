#include "runtime/base/Json.h"
#include "tools/knapper/ServeLoad.h"
#include "tools/knapper/Session.h"
#include "tools/knapper/Timing.h"

#include <algorithm>
#include <numeric>

namespace knapper::cli {
namespace {

struct BenchServeArguments {
  ServeLoadOptions load;
  std::string json;
};

struct TimesRow {
  const char *name, *key;
  std::vector<double> seconds;
};

std::vector<TimesRow> rowsOf(const ServeLoadResult &result) {
  TimesRow first{"time to first token", "ttft_ms", {}},
      gaps{"between parts", "itl_ms", {}},
      each{"per token after it", "tpot_ms", {}},
      whole{"whole request", "e2e_ms", {}};
  for (const ServeTimes &times : result.done) {
    if (times.first > 0)
      first.seconds.push_back(times.first);
    gaps.seconds.insert(gaps.seconds.end(), times.gaps.begin(),
                        times.gaps.end());
    if (times.first > 0 && times.completionTokens > 1)
      each.seconds.push_back((times.whole - times.first) /
                             static_cast<double>(times.completionTokens - 1));
    whole.seconds.push_back(times.whole);
  }
  return {first, gaps, each, whole};
}

double meanOf(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

struct Totals {
  int64_t prompt = 0, completion = 0;
  int failed = 0;
  bool counted = true; ///< by the server
};

Totals totalsOf(const ServeLoadResult &result) {
  Totals totals;
  for (const ServeTimes &times : result.done) {
    totals.prompt += times.promptTokens;
    totals.completion += times.completionTokens;
    totals.counted &= times.counted;
  }
  for (const auto &[message, count] : result.failures)
    totals.failed += count;
  return totals;
}

std::string jsonOf(const ServeLoadOptions &load,
                   const ServeLoadResult &result) {
  Totals totals = totalsOf(result);
  JsonWriter writer;
  writer.beginObject();
  writer.field("url", load.url).field("model", result.model);
  writer.field("loop", load.rate > 0 ? "open" : "closed");
  if (load.rate > 0)
    writer.field("rate", load.rate);
  else
    writer.field("concurrency", load.concurrency);
  writer.field("requests", load.requests).field("input_words", load.inputWords);
  writer.field("max_tokens", load.maxTokens).field("seed", load.seed);
  writer.field("completed", static_cast<int64_t>(result.done.size()));
  writer.field("failed", totals.failed).key("failures").beginObject();
  for (const auto &[message, count] : result.failures)
    writer.field(message, count);
  writer.endObject();
  writer.field("seconds", result.seconds)
      .field("most_at_once", result.mostAtOnce);
  writer.field("tokens_counted_by",
               totals.counted ? "server" : "parts of the answers");
  writer.field("prompt_tokens", totals.prompt)
      .field("completion_tokens", totals.completion);
  double seconds = result.seconds;
  writer.field("requests_per_second",
               static_cast<double>(result.done.size()) / seconds);
  writer.field("output_tokens_per_second",
               static_cast<double>(totals.completion) / seconds);
  writer.field("total_tokens_per_second",
               static_cast<double>(totals.prompt + totals.completion) /
                   seconds);
  for (const TimesRow &row : rowsOf(result)) {
    writer.key(row.key);
    if (row.seconds.empty()) {
      writer.null();
      continue;
    }
    writer.beginObject().field("mean", 1e3 * meanOf(row.seconds));
    for (auto [name, share] :
         {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}})
      writer.field(name, 1e3 * quantile(row.seconds, share));
    writer.endObject();
  }
  writer.endObject();
  return writer.take() + "\n";
}

void printTable(const ServeLoadResult &result) {
  Totals totals = totalsOf(result);
  double seconds = result.seconds;
  print(format("%zu requests in %.2f s, %d failed, at most %d at once\n",
               result.done.size(), seconds, totals.failed, result.mostAtOnce));
  print(format("%.2f requests/s, %.1f output tokens/s, %.1f tokens/s with the "
               "prompts (%lld prompt, %lld output%s)\n",
               static_cast<double>(result.done.size()) / seconds,
               static_cast<double>(totals.completion) / seconds,
               static_cast<double>(totals.prompt + totals.completion) / seconds,
               static_cast<long long>(totals.prompt),
               static_cast<long long>(totals.completion),
               totals.counted ? "" : "; parts counted, not tokens"));
  print(format("%-20s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90",
               "p99", "max"));
  for (const TimesRow &row : rowsOf(result))
    if (!row.seconds.empty())
      print(format("%-20s %10.2f %10.2f %10.2f %10.2f %10.2f\n", row.name,
                   1e3 * meanOf(row.seconds), 1e3 * quantile(row.seconds, 0.5),
                   1e3 * quantile(row.seconds, 0.9),
                   1e3 * quantile(row.seconds, 0.99),
                   1e3 * quantile(row.seconds, 1)));
}

Status bench(const BenchServeArguments &arguments) {
  ASSIGN_OR_RETURN(ServeLoadResult result, runServeLoad(arguments.load));
  for (const auto &[message, count] : result.failures)
    fprintf(stderr, "knapper: warning: %d requests failed: %s\n", count,
            printable(message).c_str());
  if (result.done.empty())
    return deviceError("no request was answered", arguments.load.url,
                       "the messages above; --ignore-eos is not known "
                       "everywhere");
  if (arguments.json == "-") {
    print(jsonOf(arguments.load, result));
    return success();
  }
  printTable(result);
  if (!arguments.json.empty())
    return writeFile(arguments.json, jsonOf(arguments.load, result));
  return success();
}

} // namespace

void addBenchServe(CLI::App &app, Session &session) {
  auto arguments = std::make_shared<BenchServeArguments>();
  ServeLoadOptions &load = arguments->load;
  CLI::App *command = app.add_subcommand(
      "bench-serve", "Measures a server of OpenAI's API under load");
  command
      ->add_option("url", load.url,
                   "The server, http://HOST:PORT or https://HOST")
      ->required()
      ->type_name("URL");
  command->add_option("--requests", load.requests, "Requests in all")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  CLI::Option *concurrency =
      command
          ->add_option("--concurrency", load.concurrency,
                       "Clients, each of which sends its next request when its "
                       "last has ended")
          ->check(CLI::Range(1, 4096))
          ->capture_default_str();
  command
      ->add_option("--rate", load.rate,
                   "Requests a second that arrive at random, whether or not "
                   "others have ended; instead of --concurrency")
      ->check(CLI::Range(0.001, 1e6))
      ->excludes(concurrency);
  command
      ->add_option("--input-words", load.inputWords,
                   "Words of a prompt, drawn; about as many tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--max-tokens", load.maxTokens,
                   "Tokens of an answer, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--ignore-eos", load.ignoreEos,
                    "Ask for all of them; not every server knows the field");
  command->add_flag("--chat", load.chat,
                    "Chat completions instead of completions");
  command->add_option("--temperature", load.temperature, "Of the requests")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command->add_option("--seed", load.seed, "Of the prompts and the arrivals")
      ->capture_default_str();
  command->add_option("--model", load.model,
                      "Its name; default: the first that the server lists");
  command
      ->add_option("--api-key", load.key, "Sent as Authorization: Bearer KEY")
      ->type_name("KEY");
  command
      ->add_option("--timeout", load.timeout,
                   "Seconds without a byte after which a request has failed")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command
      ->add_option(
          "--json", arguments->json,
          "Write all figures into this file; - for stdout, without the "
          "table")
      ->type_name("FILE");
  command->footer(
      "For example:\n"
      "  knapper bench-serve http://127.0.0.1:8000 --concurrency 16 "
      "--input-words 128 --max-tokens 64 --ignore-eos\n"
      "  knapper bench-serve http://127.0.0.1:8000 --rate 4 "
      "--json load.json");
  command->callback([&session, arguments] {
    session.action = [arguments] { return bench(*arguments); };
  });
}

} // namespace knapper::cli
