// Draws the tokens of rows whose logits lie on a device: the program of
// serving/models/SamplerProgram.h. Only its results cross to the host.
#pragma once

#include "runtime/execute/Module.h"
#include "serving/sampling/RowSummary.h"

namespace knapper::serving {

/// Used by one thread.
class DeviceSampler {
public:
  /// Runs once on a row of its own, so that nothing is compiled at the first
  /// draw.
  static Expected<std::unique_ptr<DeviceSampler>>
  create(std::shared_ptr<Module> module, Device &device, int64_t vocabulary,
         int64_t known);

  /// How many of a row's best logits a summary has.
  int64_t knownLogits() const { return known; }

  struct Draw {
    int64_t row;        ///< of the logits
    float scale, share; ///< of summaryScale, summaryShare
  };
  /// `logits`: [rows, vocabulary] f32 on the device, inside `memory`.
  Status run(std::span<const Draw> draws, const float *logits, int64_t rows,
             std::span<const std::byte> memory);
  /// Of the draw with this number, until the next run.
  RowSummary summary(size_t draw) const;

private:
  DeviceSampler() = default;

  std::shared_ptr<Module> module;
  int64_t vocabulary = 0, known = 0;
  std::vector<int32_t> rows;
  std::vector<float> scales, shares, values, logSums, weightSums, drawnLogits;
  std::vector<int64_t> ids, drawn;
  RunResult result;
};

} // namespace knapper::serving
