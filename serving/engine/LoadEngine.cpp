#include "serving/engine/LoadEngine.h"

#include "compiler/cache/Cache.h"
#include "runtime/artefact/Format.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/cpu/CpuInfo.h"
#include "runtime/drivers/cuda/CudaDevice.h"
#include "serving/engine/LlmEngine.h"
#include "serving/engine/SelfCheck.h"
#include "serving/engine/TextEncoder.h"
#include "serving/models/DecoderProgram.h"
#include "serving/models/SamplerProgram.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace knapper::serving {
namespace {

bool isGpu(std::string_view target) { return target != "cpu"; }

/// Where the model runs. Before anything is read: without a GPU nothing of it
/// is of use.
Expected<std::shared_ptr<Device>> openDevice(const EngineOptions &options) {
  if (!isGpu(options.target))
    return cpu::device();
  if (options.target != "cuda" && !options.target.starts_with("cuda:"))
    return userError(cat("is '", options.target, "'"), "engine option target",
                     "cpu, cuda, or cuda with its variant: cuda:sm_90a");
  std::shared_ptr<Device> device = cuda::device();
  if (!device)
    return deviceError("no NVIDIA GPU is here",
                       cat("engine option target ", options.target),
                       "a machine with a GPU and its driver, or the target "
                       "cpu");
  return device;
}

Status checkOptions(const EngineOptions &options) {
  auto wrong = [](const char *field, int64_t value, const char *allowed) {
    return userError(cat("is ", value), cat("engine option ", field), allowed);
  };
  if (options.threads < 0)
    return wrong("threads", options.threads, "0 for one a core, or a count");
  if (options.kvMemoryBytes < 0)
    return wrong("kvMemoryBytes", options.kvMemoryBytes, "0, or bytes");
  if (options.maxContext < 0)
    return wrong("maxContext", options.maxContext, "0, or tokens");
  if (options.maxBatchedTokens < 1)
    return wrong("maxBatchedTokens", options.maxBatchedTokens, "1 or more");
  if (options.maxSequences < 1)
    return wrong("maxSequences", options.maxSequences, "1 or more");
  if (options.queueLimit < 1)
    return wrong("queueLimit", options.queueLimit, "1 or more");
  if (options.blockTokens < 16 || options.blockTokens % 16 != 0)
    return wrong("blockTokens", options.blockTokens, "a multiple of 16");
  if (options.speculation.tokens < 1 || options.speculation.tokens > 64)
    return wrong("speculation.tokens", options.speculation.tokens, "1 to 64");
  bool drafts = options.speculation.kind == SpeculationKind::draft;
  if (drafts == options.draftFolder.empty())
    return userError(drafts ? "is missing"
                            : "is there, and nothing asks for it",
                     "engine option draftFolder",
                     "a folder, with speculation by a draft model");
  if (options.dtype != DType::f32 && options.dtype != DType::bf16 &&
      options.dtype != DType::i8 && options.dtype != DType::i4)
    return userError(cat("is ", name(options.dtype)), "engine option dtype",
                     "f32, bf16, i8 or i4");
  if (isGpu(options.target) && options.batchInvariant)
    return userError("is asked for, and on GPUs the order of a sum follows the "
                     "number of rows",
                     "engine option batchInvariant", "target cpu");
  return success();
}

/// What ends an answer: a number or a list of generation_config.json, else of
/// config.json.
Expected<std::vector<int32_t>> endTokens(const std::string &folder) {
  std::vector<int32_t> tokens;
  for (const char *file : {"/generation_config.json", "/config.json"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder + file, ignored))
      continue;
    ASSIGN_OR_RETURN(ConfigReader config, ConfigReader::open(folder + file));
    ASSIGN_OR_RETURN(tokens, config.integers("eos_token_id"));
    if (!tokens.empty())
      break;
  }
  return tokens;
}

int64_t freeMemory() {
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         sysconf(_SC_PAGESIZE);
}

/// What is free on the device, or else in the machine.
int64_t freeMemory(const Device &device) {
  if (std::optional<uint64_t> bytes = device.freeBytes())
    return static_cast<int64_t>(*bytes);
  return freeMemory();
}

/// "cuda:" and the best variant that the GPU runs, or the one asked for.
Expected<std::string> gpuTarget(const EngineOptions &options,
                                const Device &device) {
  std::string isas = device.runnable();
  std::vector<std::string> list = splitList(isas);
  std::string wanted =
      options.target == "cuda"
          ? (list.empty() ? std::string() : std::string(list.front()))
          : options.target.substr(std::string_view("cuda:").size());
  if (std::find(list.begin(), list.end(), wanted) == list.end())
    return userError(cat("is '", options.target, "', and this GPU runs ",
                         isas.empty() ? "none of them" : isas),
                     "engine option target", "cuda, for what runs best here");
  return cat("cuda:", wanted);
}

Expected<Options> compileOptions(const EngineOptions &options,
                                 const Device &device) {
  int32_t threads =
      options.threads > 0 ? options.threads : cpu::availableCores();
  Options compile;
  compile.threads = threads;
  compile.cacheDir = options.cacheFolder;
  compile.verifyFiles = options.verifyFiles;
  if (options.dtype == DType::bf16)
    compile.dtype = "bf16";
  else if (options.dtype != DType::f32)
    compile.weights = options.dtype == DType::i8 ? "int8" : "int4";
  if (isGpu(options.target)) {
    ASSIGN_OR_RETURN(compile.target, gpuTarget(options, device));
    return compile;
  }
  // For this machine alone: what it runs best.
  std::vector<std::string> isas = splitList(cpu::runnableIsas());
  if (isas.empty())
    return userError("has no AVX2", "this processor",
                     "a machine of the last ten years");
  compile.isa = isas.front();
  return compile;
}

Expected<std::shared_ptr<Module>>
loadModule(std::shared_ptr<const Artefact> artefact,
           std::shared_ptr<Device> device, const Options &compile) {
  ModuleOptions module;
  module.threads = compile.threads;
  return Module::load(std::move(artefact), std::move(device), module);
}

/// Where the logits of a program with its weights are kept; "": nowhere.
std::string checkFile(const Artefact &artefact, const EngineOptions &options) {
  std::string folder = options.cacheFolder.empty() ? Cache::defaultFolder()
                                                   : options.cacheFolder;
  if (folder.empty())
    return {};
  // The header has the hashes of all constants.
  std::span<const std::byte> bytes = artefact.bytes();
  if (!artefact.constants().empty())
    bytes = bytes.first(
        static_cast<size_t>(artefact.constants().data() - bytes.data()));
  char name[40];
  snprintf(
      name, sizeof(name), "/checks/%016llx",
      static_cast<unsigned long long>(hashBytes(bytes.data(), bytes.size())));
  return folder + name;
}

/// A decoder that is ready to run, without its pools.
struct LoadedDecoder {
  DecoderConfig config;
  int64_t context = 0; ///< tokens
  std::shared_ptr<Module> module;
  PoolShape shape = {};
  bool bestTokens = false;                ///< the program says them
  std::unique_ptr<DeviceWeights> weights; ///< null: constants of the program
  std::string checkFile;                  ///< "": none
};

/// What draws on a device with memory of its own.
Status addSamplers(ModelRunner &runner, const std::shared_ptr<Device> &device,
                   const EngineOptions &options, int64_t vocabulary) {
  ASSIGN_OR_RETURN(Options compile, compileOptions(options, *device));
  // Logits are float32 whatever the model's weights are.
  compile.dtype.clear();
  compile.weights.clear();
  std::shared_ptr<Module> modules[2];
  for (bool changing : {false, true}) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact,
                     compileSampler(vocabulary, changing, compile));
    ASSIGN_OR_RETURN(modules[changing],
                     loadModule(std::move(artefact), device, compile));
  }
  if (options.drawInStream)
    runner.setStreamSampler(
        std::make_unique<StreamSampler>(device, modules[false], vocabulary));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceSampler> sampler,
                   DeviceSampler::create(std::move(modules[false]),
                                         std::move(modules[true]), *device,
                                         vocabulary));
  runner.setSampler(std::move(sampler));
  return success();
}

/// `most`: tokens of the context; 0: the model's.
Expected<LoadedDecoder> loadDecoder(const std::shared_ptr<Device> &device,
                                    const std::string &folder,
                                    const EngineOptions &options,
                                    int64_t most) {
  LoadedDecoder made;
  ASSIGN_OR_RETURN(made.config, readDecoderConfig(folder));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
  made.context = made.config.contextLength;
  if (most > 0)
    made.context = std::min<int64_t>(made.context, most);
  made.config.rope.servedLength = static_cast<double>(made.context);
  ASSIGN_OR_RETURN(Options compile, compileOptions(options, *device));
  DecoderForm form;
  form.blockTokens = options.blockTokens;
  // Where logits would have to be fetched.
  form.weightInputs = !device->addressesHost();
  // And where the next step reads the tokens.
  made.bestTokens = form.bestTokens =
      form.weightInputs || StepQueue::isFor(*device);
  bool integers = options.dtype == DType::i8 || options.dtype == DType::i4;
  if (isGpu(options.target))
    form.pools = integers ? DType::bf16 : options.dtype;
  if (integers && form.weightInputs) {
    // Made as they are uploaded; the rest of the program is in floats.
    form.weightBits = options.dtype == DType::i8 ? 8 : 4;
    compile.weights.clear();
    if (form.pools == DType::bf16)
      compile.dtype = "bf16";
  }
  ASSIGN_OR_RETURN(DecoderProgram program,
                   compileDecoder(made.config, checkpoint, form, compile));
  // A program without its weights is that of others too.
  if (!form.weightInputs)
    made.checkFile = checkFile(*program.artefact, options);
  ASSIGN_OR_RETURN(made.module,
                   loadModule(std::move(program.artefact), device, compile));
  if (form.weightInputs) {
    ASSIGN_OR_RETURN(made.weights,
                     DeviceWeights::load(*device, checkpoint,
                                         std::move(program.weights),
                                         compile.threads));
  }
  made.shape = {made.config.layers, made.config.keyHeads, options.blockTokens,
                made.config.headWidth, form.pools};
  return made;
}

/// The model that proposes tokens, if one is asked for.
Expected<std::optional<LoadedDecoder>>
loadDraft(const std::shared_ptr<Device> &device, const LoadedDecoder &model,
          const EngineOptions &options) {
  if (options.speculation.kind != SpeculationKind::draft)
    return std::optional<LoadedDecoder>();
  ASSIGN_OR_RETURN(LoadedDecoder draft, loadDecoder(device, options.draftFolder,
                                                    options, model.context));
  if (draft.config.vocabulary != model.config.vocabulary)
    return userError(cat("has ", draft.config.vocabulary,
                         " tokens, and the model that is served has ",
                         model.config.vocabulary),
                     options.draftFolder,
                     "a draft model of the same vocabulary");
  return std::optional<LoadedDecoder>(std::move(draft));
}

Expected<std::unique_ptr<Engine>> loadEncoder(const std::string &folder,
                                              const EngineOptions &options,
                                              std::shared_ptr<Device> device) {
  ASSIGN_OR_RETURN(EncoderConfig config, readEncoderConfig(folder));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(folder));
  ASSIGN_OR_RETURN(Options compile, compileOptions(options, *device));
  ASSIGN_OR_RETURN(std::shared_ptr<const Artefact> artefact,
                   compileEncoder(config, checkpoint, compile));
  ASSIGN_OR_RETURN(std::shared_ptr<Module> loaded,
                   loadModule(std::move(artefact), device, compile));
  int64_t context = config.longest;
  if (options.maxContext > 0)
    context = std::min<int64_t>(context, options.maxContext);
  TextEncoder::Settings settings;
  settings.limits = {static_cast<int32_t>(context),
                     static_cast<int32_t>(config.vocabulary),
                     static_cast<int32_t>(config.width)};
  settings.maxBatchedTokens = options.maxBatchedTokens;
  settings.queueLimit = options.queueLimit;
  return std::unique_ptr<Engine>(
      std::make_unique<TextEncoder>(std::move(loaded), settings));
}

} // namespace

double hungSecondsOf(std::string_view target) { return isGpu(target) ? 4 : 0; }

Expected<std::unique_ptr<Engine>> loadEngine(const std::string &folder,
                                             const EngineOptions &options) {
  TRY(checkOptions(options));
  ASSIGN_OR_RETURN(std::shared_ptr<Device> device, openDevice(options));
  return loadEngineOn(std::move(device), folder, options);
}

Expected<std::unique_ptr<Engine>> loadEngineOn(std::shared_ptr<Device> device,
                                               const std::string &folder,
                                               const EngineOptions &options) {
  TRY(checkOptions(options));
  ASSIGN_OR_RETURN(bool encodes, isEncoder(folder));
  if (encodes)
    return loadEncoder(folder, options, std::move(device));
  ASSIGN_OR_RETURN(std::vector<int32_t> ends, endTokens(folder));
  ASSIGN_OR_RETURN(LoadedDecoder model,
                   loadDecoder(device, folder, options, options.maxContext));
  ASSIGN_OR_RETURN(std::optional<LoadedDecoder> draft,
                   loadDraft(device, model, options));
  int64_t context = model.context;
  int64_t blockBytes =
      model.shape.blockBytes() + (draft ? draft->shape.blockBytes() : 0);
  LlmEngineSettings settings;
  // No more than all sequences that may run could fill.
  int64_t bytes = options.kvMemoryBytes;
  if (bytes == 0) {
    // A GPU's weights are placed already; a step needs memory too.
    int64_t free = freeMemory(*device);
    if (!device->addressesHost() && options.drawInStream)
      free -=
          std::min(free, StreamSampler::memoryBytes(options.maxSequences,
                                                    model.config.vocabulary));
    bytes = isGpu(options.target) ? free / 8 * 7 : free / 4;
  }
  int64_t most = (context + options.blockTokens - 1) / options.blockTokens *
                 options.maxSequences;
  int64_t blocks = bytes / blockBytes;
  if (options.kvMemoryBytes == 0)
    blocks = std::min(blocks, most);
  blocks = std::min<int64_t>(blocks, INT32_MAX / 2);
  if (blocks < 2)
    return userError(cat("holds ", blocks, " blocks of ", blockBytes, " bytes"),
                     "engine option kvMemoryBytes", "more memory");
  // One block is kept for the token behind the last full block.
  int64_t held = blocks * options.blockTokens;
  if (context > held) {
    log(LogLevel::warning,
        cat(folder, ": the context is ", held, " tokens, not ", context,
            ": the pool of keys and values holds no more"));
    context = held;
  }
  settings.limits = {static_cast<int32_t>(context),
                     static_cast<int32_t>(model.config.vocabulary),
                     static_cast<int32_t>(model.config.width)};
  settings.numBlocks = static_cast<int32_t>(blocks);
  settings.blockTokens = options.blockTokens;
  settings.maxBatchedTokens = options.maxBatchedTokens;
  settings.maxSequences = options.maxSequences;
  settings.queueLimit = options.queueLimit;
  settings.prefixCache = options.prefixCache;
  settings.endTokens = std::move(ends);
  settings.speculation = options.speculation;
  if (!options.recordFile.empty()) {
    ASSIGN_OR_RETURN(settings.record, StepLog::create(options.recordFile));
  }
  auto run = [&](LoadedDecoder &one) {
    return ModelRunner::create(std::move(one.module), device, one.shape, blocks,
                               one.config.vocabulary, one.bestTokens,
                               std::move(one.weights));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> runner, run(model));
  if (!device->addressesHost())
    TRY(addSamplers(*runner, device, options, model.config.vocabulary));
  std::unique_ptr<DraftModel> proposing;
  if (draft) {
    ASSIGN_OR_RETURN(std::unique_ptr<ModelRunner> its, run(*draft));
    ModelLimits limits = settings.limits;
    limits.contextLength = static_cast<int32_t>(
        std::min<int64_t>(limits.contextLength, draft->context));
    proposing = std::make_unique<DraftModel>(std::move(its), limits,
                                             options.blockTokens);
  }
  auto engine = std::make_unique<LlmEngine>(
      std::move(runner), std::move(settings), std::move(proposing));
  if (options.selfCheck && !model.checkFile.empty()) {
    TRY(selfCheck(*engine, model.checkFile));
    engine->forgetStatistics();
  }
  return std::unique_ptr<Engine>(std::move(engine));
}

} // namespace knapper::serving
