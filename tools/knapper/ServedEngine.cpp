#include "tools/knapper/ServedEngine.h"

#include "serving/engine/LastingEngine.h"
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
  app.add_option("--speculate", speculate,
                 "Verify proposed tokens several at once: off; ngram, from "
                 "what followed the last tokens before; draft, from "
                 "--draft-model. It changes no token, and stops where it "
                 "brings nothing")
      ->check(CLI::IsMember({"off", "ngram", "draft"}))
      ->capture_default_str();
  app.add_option("--draft-model", draftModel,
                 "Folder of a smaller model of the same vocabulary, for "
                 "--speculate draft")
      ->type_name("FOLDER");
  app.add_option("--speculate-tokens", speculateTokens,
                 "Tokens that are proposed at once, at most")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--record", record,
                 "Write every decision of the scheduler into this file, for "
                 "knapper replay")
      ->type_name("FILE");
  app.add_flag("--batch-invariant", batchInvariant,
               "The same bits for a request whatever runs beside it; always "
               "so on CPUs");
  app.add_flag("--verify-files", verifyFiles,
               "Read all weights at the start and compare their hashes, also "
               "where they are known from an earlier start");
  app.add_option("--hung-after", hungAfter,
                 "Seconds of one step after which the engine is taken to hang "
                 "and is built again; 0: never. Default: 4 on GPUs, 0 on CPUs")
      ->check(CLI::Range(0.0, 86400.0));
  // For tests of the server: an engine that repeats the prompt.
  app.add_flag("--null-engine", isNull)->group("");
  app.add_option("--null-step", nullStep)->group("");
  app.add_option("--null-failing", nullFailing)->group("");
  app.add_option("--null-losing", nullLosing)->group("");
  app.add_option("--null-hanging", nullHanging)->group("");
}

Expected<std::unique_ptr<serving::Engine>>
ServedEngine::open(const std::string &folder,
                   const serving::ModelTexts &texts) const {
  serving::LastingEngineOptions options;
  options.hungSeconds =
      hungAfter >= 0 ? hungAfter : serving::hungSecondsOf(target);
  return serving::makeLastingEngine(
      [*this, folder, &texts] { return load(folder, texts); }, options);
}

Expected<std::unique_ptr<serving::Engine>>
ServedEngine::load(const std::string &folder,
                   const serving::ModelTexts &texts) const {
  if (isNull) {
    serving::NullEngineOptions options;
    options.limits = {maxContext ? maxContext : 4096, texts.tokenizer().size(),
                      0};
    options.maxSequences = maxSequences;
    options.queueLimit = queueLimit;
    options.step = std::chrono::microseconds(nullStep);
    options.failingToken = nullFailing;
    options.losingToken = nullLosing;
    options.hangingToken = nullHanging;
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
  options.speculation.kind = serving::parseSpeculation(speculate).value_or(
      serving::SpeculationKind::off);
  options.speculation.tokens = speculateTokens;
  options.draftFolder = draftModel;
  options.batchInvariant = batchInvariant;
  options.recordFile = record;
  options.verifyFiles = verifyFiles;
  if (!draftModel.empty())
    TRY(serving::checkSameTokens(texts, draftModel));
  return serving::loadEngine(folder, options);
}

} // namespace knapper::cli
