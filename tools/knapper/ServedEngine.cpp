#include "tools/knapper/ServedEngine.h"

#include "serving/engine/LoadEngine.h"
#include "serving/engine/null/NullEngine.h"

namespace knapper::cli {

void ServedEngine::addTo(CLI::App &app) {
  app.add_option("--threads", threads,
                 "Threads that compute; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--dtype", dtype, "Type of the weights: f32, bf16, i8 or i4")
      ->check(CLI::IsMember({"f32", "bf16", "i8", "i4"}))
      ->capture_default_str();
  app.add_option("--target", target,
                 "Where the model runs: cpu, cuda, or cuda with its variant "
                 "(cuda:sm_90a)")
      ->capture_default_str();
  app.add_option("--max-context", maxContext,
                 "Tokens of a prompt and its answer, at most; 0: the model's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--kv-memory", kvMemory,
                 "Memory for keys and values in GiB; 0: a quarter of what is "
                 "free")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max-sequences", maxSequences, "Sequences that run at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--max-batched-tokens", maxBatchedTokens,
                 "Tokens of one step of the engine")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--queue-limit", queueLimit,
                 "Requests that wait; more are refused")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", noPrefixCache,
               "Compute the keys and values of equal prefixes again");
  // For tests of the server: an engine that repeats the prompt.
  app.add_flag("--null-engine", isNull)->group("");
  app.add_option("--null-step", nullStep)->group("");
  app.add_option("--null-failing", nullFailing)->group("");
}

Expected<std::unique_ptr<serving::Engine>>
ServedEngine::open(const std::string &folder, int32_t vocabulary) const {
  if (isNull) {
    serving::NullEngineOptions options;
    options.limits = {maxContext ? maxContext : 4096, vocabulary, 0};
    options.maxSequences = maxSequences;
    options.queueLimit = queueLimit;
    options.step = std::chrono::microseconds(nullStep);
    options.failingToken = nullFailing;
    return serving::makeNullEngine(options);
  }
  serving::EngineOptions options;
  options.threads = threads;
  options.target = target;
  options.dtype = parseDType(dtype).value_or(DType::f32);
  options.kvMemoryBytes = static_cast<int64_t>(kvMemory * (1 << 30));
  options.maxContext = maxContext;
  options.maxBatchedTokens = maxBatchedTokens;
  options.maxSequences = maxSequences;
  options.queueLimit = queueLimit;
  options.prefixCache = !noPrefixCache;
  return serving::loadEngine(folder, options);
}

} // namespace knapper::cli
