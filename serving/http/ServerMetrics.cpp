#include "serving/http/ServerMetrics.h"

#include <cstdio>

namespace knapper::serving {

void LatencyHistogram::add(double seconds) {
  size_t i = 0;
  while (i < bounds.size() && seconds > bounds[i])
    ++i;
  counts[i].fetch_add(1, std::memory_order_relaxed);
  microseconds.fetch_add(static_cast<uint64_t>(seconds * 1e6),
                         std::memory_order_relaxed);
}

static void appendHead(std::string &text, const char *name, const char *help,
                       const char *type) {
  text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name +
          " " + type + "\n";
}

void LatencyHistogram::appendTo(std::string &text, const char *name,
                                const char *help) const {
  appendHead(text, name, help, "histogram");
  uint64_t sum = 0;
  char line[160];
  for (size_t i = 0; i <= bounds.size(); ++i) {
    sum += counts[i].load(std::memory_order_relaxed);
    char bound[32] = "+Inf";
    if (i < bounds.size())
      snprintf(bound, sizeof(bound), "%g", bounds[i]);
    snprintf(line, sizeof(line), "%s_bucket{le=\"%s\"} %llu\n", name, bound,
             static_cast<unsigned long long>(sum));
    text += line;
  }
  snprintf(line, sizeof(line), "%s_sum %.6f\n%s_count %llu\n", name,
           microseconds.load(std::memory_order_relaxed) * 1e-6, name,
           static_cast<unsigned long long>(sum));
  text += line;
}

void ServerMetrics::countResponse(const std::string &path, int status) {
  std::lock_guard lock(mutex);
  ++responses[{path, status}];
}

std::string ServerMetrics::text(const EngineStatistics &engine,
                                size_t connections) const {
  std::string text;
  auto add = [&](const char *name, const char *help, const char *type,
                 double value) {
    appendHead(text, name, help, type);
    char line[128];
    snprintf(line, sizeof(line), "%s %.15g\n", name, value);
    text += line;
  };
  auto count = [&](const char *name, const char *help, uint64_t value) {
    add(name, help, "counter", static_cast<double>(value));
  };
  auto gauge = [&](const char *name, const char *help, double value) {
    add(name, help, "gauge", value);
  };
  appendHead(text, "knapper_http_responses_total",
             "Answers by path and status.", "counter");
  {
    std::lock_guard lock(mutex);
    for (const auto &[key, value] : responses)
      text += "knapper_http_responses_total{path=\"" + key.first +
              "\",status=\"" + std::to_string(key.second) + "\"} " +
              std::to_string(value) + "\n";
  }
  gauge("knapper_http_connections", "Open connections.",
        static_cast<double>(connections));
  gauge("knapper_requests_active",
        "Generations, embeddings and long texts that are not over.",
        static_cast<double>(active));
  count("knapper_requests_abandoned_total",
        "Generations, embeddings and long texts whose client went before the "
        "end.",
        clientsGone);
  count("knapper_prompt_tokens_total", "Tokens of prompts of ended requests.",
        promptTokens);
  count("knapper_completion_tokens_total",
        "Tokens of answers of ended requests.", completionTokens);
  firstToken.appendTo(text, "knapper_time_to_first_token_seconds",
                      "From a request's arrival to its first token.");
  betweenTokens.appendTo(text, "knapper_time_between_tokens_seconds",
                         "Between two events of a sequence.");
  wholeRequest.appendTo(text, "knapper_request_seconds",
                        "From a request's arrival to the end of its answer.");
  count("knapper_engine_steps_total", "Steps of the engine.", engine.steps);
  count("knapper_engine_prepared_steps_total",
        "Steps that were decided while the step before them ran.",
        engine.preparedSteps);
  count("knapper_engine_early_steps_total",
        "Of them, those that the device had before the step before them ended.",
        engine.earlySteps);
  count("knapper_engine_discarded_tokens_total",
        "Tokens that such steps computed for requests that had ended.",
        engine.discardedTokens);
  add("knapper_engine_prepare_seconds_total",
      "Processor time in which steps were decided and written down.", "counter",
      static_cast<double>(engine.prepareNanoseconds) * 1e-9);
  add("knapper_engine_between_steps_seconds_total",
      "Time from the end of a step on the device to the next one that was to "
      "be done and that the device did not have yet.",
      "counter", static_cast<double>(engine.betweenNanoseconds) * 1e-9);
  add("knapper_engine_device_idle_seconds_total",
      "Time between two steps by the clock of the device, where it has one.",
      "counter", static_cast<double>(engine.idleNanoseconds) * 1e-9);
  count("knapper_engine_prompt_tokens_total", "Prompt tokens computed.",
        engine.promptTokens);
  count("knapper_engine_cached_tokens_total",
        "Prompt tokens found in the prefix cache.", engine.cachedTokens);
  count("knapper_engine_generated_tokens_total", "Tokens generated.",
        engine.generatedTokens);
  count("knapper_engine_verified_tokens_total",
        "Proposed tokens that were verified.", engine.verifiedTokens);
  count("knapper_engine_accepted_tokens_total",
        "Of them, those that were right.", engine.acceptedTokens);
  count("knapper_engine_forced_tokens_total",
        "Tokens that a grammar decided alone.", engine.forcedTokens);
  count("knapper_engine_device_draws_total",
        "Tokens that the device drew, so that no row of logits was fetched.",
        engine.deviceDraws);
  count("knapper_engine_preemptions_total", "Sequences put back to wait.",
        engine.preemptions);
  count("knapper_engine_finished_total", "Sequences that ended.",
        engine.finished);
  count("knapper_engine_failed_total", "Sequences that failed.", engine.failed);
  count("knapper_engine_cancelled_total", "Sequences that were cancelled.",
        engine.cancelled);
  count("knapper_engine_deadlines_exceeded_total",
        "Sequences that their deadline ended.", engine.deadlinesExceeded);
  count("knapper_engine_rebuilds_total",
        "Engines that were built again after the device was lost or hung.",
        engine.rebuilds);
  count("knapper_engine_ledger_faults_total",
        "Blocks that the ledger had to quarantine.", engine.ledgerFaults);
  gauge("knapper_engine_running", "Sequences that run.", engine.running);
  gauge("knapper_engine_waiting", "Sequences that wait.", engine.waiting);
  gauge("knapper_engine_blocks", "Blocks of keys and values.",
        static_cast<double>(engine.blocksTotal));
  gauge("knapper_engine_blocks_free", "Of them, free.",
        static_cast<double>(engine.blocksFree));
  gauge("knapper_engine_blocks_cached", "Of them, kept for prefixes.",
        static_cast<double>(engine.blocksCached));
  gauge("knapper_engine_last_step_seconds", "Duration of the latest step.",
        engine.lastStepSeconds);
  return text;
}

} // namespace knapper::serving
