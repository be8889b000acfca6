// Runs a decoder's program, one step at a time; owns the pools of keys and
// values.
//
// On a device with memory of its own the pools and the logits stay there: what
// goes in is the step's numbers, what comes out the best token of each row,
// what is drawn from it (DeviceSampler.h), and the logits of those rows that
// are asked for. Sizes are rounded up there, so that few are ever recorded:
// what is added sees no key, and writes to a block that nobody has.
#pragma once

#include "serving/engine/DeviceSampler.h"
#include "serving/engine/DeviceWeights.h"
#include "serving/engine/StreamSampler.h"

namespace knapper::serving {

/// The numbers of one step. See serving/models/DecoderBuilder.h.
struct StepBatch {
  std::vector<int32_t> tokens, position, sequence, block, offset, rows;
  /// Of each token: -1, or the row of the step before whose best token it is,
  /// or `sourceOfDraw`.
  std::vector<int32_t> source;
  static int32_t sourceOfDraw(int32_t draw) { return -2 - draw; }
  /// What is drawn behind the step, where the runner has a StreamSampler.
  StepDraws draws;
  std::vector<int32_t> table; ///< [sequences, blocks]
  int64_t sequences = 0, blocks = 0;
  void clear();
  /// One more token, at a place of a sequence that has this row of the table.
  void add(int32_t token, int32_t place, int32_t row, int32_t itsBlock,
           int32_t itsOffset);
  /// The blocks of each sequence, as rows of one width.
  void setTable(std::span<const std::vector<int32_t> *const> lists);
};

/// Bytes of memory that a block of all layers takes.
struct PoolShape {
  int64_t layers, keyHeads, blockTokens, headWidth;
  DType dtype = DType::f32;
  int64_t blockBytes() const {
    return layers * 2 * keyHeads * blockTokens * headWidth *
           static_cast<int64_t>(byteSize(dtype));
  }
};

/// Used by one thread.
class ModelRunner {
public:
  /// DeviceError if the pools do not fit into memory. `bestTokens`: the program
  /// has them; `weights`: it has these as inputs.
  static Expected<std::unique_ptr<ModelRunner>>
  create(std::shared_ptr<Module> module, std::shared_ptr<Device> device,
         const PoolShape &shape, int64_t numBlocks, int64_t vocabulary,
         bool bestTokens, std::unique_ptr<DeviceWeights> weights = nullptr);
  ~ModelRunner();

  /// Computes the step.
  Status run(const StepBatch &batch) {
    TRY(submit(batch));
    return wait();
  }
  /// Gives the step to the device, behind those that it has: up to
  /// StepQueue::kMostSteps. Logits, rows and best tokens are those of the step
  /// that was waited for last, but logits only until the next is submitted. One
  /// that is not `isAsynchronous` (StepQueue::isFor its device) has computed
  /// the step when this returns.
  Status submit(const StepBatch &batch);
  Status wait();
  /// Steps that were submitted and have not been waited for.
  uint64_t pending() const { return steps ? steps->pending() : 0; }
  bool isAsynchronous() const { return steps != nullptr; }
  /// Of the step that was waited for last: its sampler, or that of the step
  /// before, has failed. What the device drew counts for nothing then; logits,
  /// best tokens and the rows to draw from are sound if `wait` was. If it was
  /// not, the reason may be a token that was none.
  bool drawsFailed() const { return drawsAreNone; }
  /// How long the device waited for the last step, where it knows.
  std::optional<uint64_t> gapNanoseconds() const {
    return steps ? steps->gapNanoseconds() : std::nullopt;
  }
  /// Copies the logits of these rows of the step, in ascending order, to the
  /// host, where the device has memory of its own.
  Status fetch(std::span<const int64_t> rows);
  /// The step's logits of rows [first, first + count); the caller may overwrite
  /// them. Valid until the next call; one fetched row, until the next step.
  Expected<std::span<float>> logits(int64_t first, int64_t count);
  /// The most likely token of a row and its log-probability (not finite where
  /// the logits are not); nothing where the program does not say.
  struct Best {
    int32_t token;
    float logprob;
  };
  std::optional<Best> best(int64_t row) const;
  bool knowsBest() const { return bestTokens; }
  /// What the device says of rows of the step, where it has a sampler.
  Expected<std::span<const RowSummary>>
  summarise(std::span<const DeviceSampler::Draw> draws);
  /// Null: tokens are drawn from `logits`.
  const DeviceSampler *deviceSampler() const { return sampler.get(); }
  void setSampler(std::unique_ptr<DeviceSampler> made) {
    sampler = std::move(made);
  }
  /// Null: a step has no draws. After an error of the sampler neither the step
  /// that is submitted nor a later one has any.
  void setStreamSampler(std::unique_ptr<StreamSampler> made) {
    streamSampler = std::move(made);
  }
  bool drawsInStream() const { return streamSampler && !failedInStream; }
  /// Of the step's draws, where it has any: what the device says, the token
  /// that it gave the next step, and the row, valid until the next call.
  RowSummary drawSummary(size_t draw) const {
    return streamSampler->summary(draw, *steps);
  }
  int64_t drawnToken(size_t draw) const {
    return streamSampler->token(draw, *steps);
  }
  Expected<std::span<float>> drawnRow(size_t draw);
  /// An error where the device takes no more work.
  Status probe();

private:
  ModelRunner() = default;
  Status allocate();
  Status submitQueued(const StepBatch &given);
  Status queueStep(const StepBatch &batch, bool draws);
  /// The program over `numbers`, in the order of its inputs.
  Status runProgram(const StepBatch &batch,
                    std::span<const int32_t *const> numbers, float *logits,
                    const RunOptions &options);
  /// The batch in sizes that come again and again.
  const StepBatch &rounded(const StepBatch &batch);
  Status reserveLogits(int64_t rows);
  /// Of logits, where the device has memory of its own.
  int64_t roomForRows() const;

  std::shared_ptr<Module> module;
  std::shared_ptr<Device> device;
  PoolShape shape = {};
  int64_t numBlocks = 0, vocabulary = 0;
  bool bestTokens = false;
  void wishHugePages();

  bool wishedHugePages = false;
  bool apart = false; ///< the device has memory of its own
  void *memory = nullptr;
  size_t memoryBytes = 0;
  std::unique_ptr<DeviceWeights> weights;
  std::unique_ptr<DeviceSampler> sampler;
  std::unique_ptr<StreamSampler> streamSampler; ///< before what it refers to
  bool samplerFailed = false;  ///< in the submission that is tried
  bool failedInStream = false; ///< in one, and is not asked again
  void distrustDraws(const Error &error);
  /// Steps to be waited for whose draws are none.
  uint64_t distrusted = 0;
  bool drawsAreNone = false; ///< of the step that was waited for last
  std::unique_ptr<DeviceBuffer> pools, deviceLogits;
  std::unique_ptr<DeviceQueue> queue; ///< that fetches logits
  std::unique_ptr<StepQueue> steps;   ///< null: a step runs in its submission
  StepBatch padded;
  std::vector<float> hostLogits, bestLogprobs;
  std::unique_ptr<DeviceBuffer> fetchedLogits; ///< of the host's memory
  std::vector<int64_t> fetchedRows;            ///< one behind the other there
  std::vector<int64_t> bestIds;
  RunResult result;
};

} // namespace knapper::serving
