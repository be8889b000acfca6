// From a Hugging Face folder to an engine: reads config.json,
// generation_config.json and the safetensors files, compiles the model's
// program (or takes it from the compiler's cache) and sizes the pool of keys
// and values.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/device/Device.h"
#include "serving/engine/Engine.h"
#include "serving/speculate/SpeculationOptions.h"

#include <memory>

namespace knapper::serving {

/// How a model is served. Zero: chosen by the engine, as said.
struct EngineOptions {
  /// "cpu", "cuda" (the first GPU) or "cuda:sm_90a" and the like: only that.
  std::string target = "cpu";
  int32_t threads = 0; ///< that compute; 0: one for each core of the process
  /// The type of matmul weights; sums are f32. With bf16 the other operand is
  /// rounded to bf16, too. i8 and i4 have a scale for 64 rows of a column; on
  /// GPUs for a whole column of i8, for 128 rows of i4. Keys and values are
  /// f32; on GPUs they are bf16 with any type but f32.
  DType dtype = DType::f32;
  /// Bytes of the pool of keys and values. 0: a quarter of free memory; on GPUs
  /// seven eighths of what the weights and the rows that are drawn from leave.
  int64_t kvMemoryBytes = 0;
  int32_t maxContext = 0;         ///< tokens of one sequence; 0: the model's
  int32_t maxBatchedTokens = 512; ///< the budget of one step
  int32_t maxSequences = 64;      ///< that run at once
  int32_t queueLimit = 1024;      ///< requests that wait, at most
  int32_t blockTokens = 16;       ///< tokens of one block of keys and values
  bool prefixCache = true;
  /// What is proposed changes no token that is drawn, only how many a step
  /// gives. `draft` needs `draftFolder`, a model of the same vocabulary.
  SpeculationOptions speculation = {};
  std::string draftFolder = {};
  /// A file that gets a line for each decision of the scheduler; "": none. When
  /// it cannot be written any more the log says so, and serving goes on.
  std::string recordFile = {};
  /// Compare the logits of a few tokens with those of the first load before
  /// the engine is given out.
  bool selfCheck = true;
  /// Draw behind a step, in its stream, where the device can, so that the next
  /// step need not wait for the host. False: between steps, to compare with.
  bool drawInStream = true;
  /// The same bits for a request in every batch. On CPUs that is always so.
  bool batchInvariant = false;
  /// Read all weights at the start: their files for the key of the compiled
  /// program, also where hashes are kept from before, and that program's own.
  bool verifyFiles = false;
  std::string cacheFolder = {}; ///< of compiled programs; "": the compiler's
};

/// What a step may take where nobody says otherwise: seconds on GPUs; on CPUs,
/// where a step takes as long as others use the cores, no step hangs: 0.
double hungSecondsOf(std::string_view target);

/// Compiles and loads; returns when the engine takes requests. Blocks for
/// seconds. Errors: user (folder, file or field, with its name), device
/// (memory). A context that the pool cannot hold is made shorter, and the log
/// says so.
/// What was found in generation_config.json as end of sequence stops every
/// request that does not ask for `ignoreEos`.
Expected<std::unique_ptr<Engine>> loadEngine(const std::string &folder,
                                             const EngineOptions &options = {});

/// The same on a device of the target's kind that the caller has.
Expected<std::unique_ptr<Engine>>
loadEngineOn(std::shared_ptr<Device> device, const std::string &folder,
             const EngineOptions &options = {});

} // namespace knapper::serving
