// Runs a decoder's program, one step at a time; owns the pools of keys and
// values.
#pragma once

#include "runtime/execute/Module.h"

namespace knapper::serving {

/// The numbers of one step. See serving/models/DecoderBuilder.h.
struct StepBatch {
  std::vector<int32_t> tokens, position, sequence, block, offset, rows;
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
  int64_t blockBytes() const {
    return layers * 2 * keyHeads * blockTokens * headWidth *
           static_cast<int64_t>(sizeof(float));
  }
};

/// Used by one thread.
class ModelRunner {
public:
  /// DeviceError if the pools do not fit into memory.
  static Expected<std::unique_ptr<ModelRunner>>
  create(std::shared_ptr<Module> module, const PoolShape &shape,
         int64_t numBlocks, int64_t vocabulary);
  ~ModelRunner();

  /// Computes the step; the logits [rows, vocabulary] are the runner's, until
  /// the next step.
  Expected<std::span<float>> run(const StepBatch &batch);

private:
  ModelRunner() = default;

  std::shared_ptr<Module> module;
  PoolShape shape = {};
  int64_t numBlocks = 0, vocabulary = 0;
  void *memory = nullptr;
  size_t memoryBytes = 0;
  std::vector<float> logits;
  RunResult result;
};

} // namespace knapper::serving
