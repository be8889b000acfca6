// Draws the tokens of rows whose logits lie on a device: the programs of
// serving/models/SamplerProgram.h. Only their results cross to the host.
#pragma once

#include "runtime/execute/Module.h"
#include "serving/sampling/LogitChanges.h"
#include "serving/sampling/RowSummary.h"

namespace knapper::serving {

/// Used by one thread.
class DeviceSampler {
public:
  struct Draw {
    int64_t row; ///< of the logits
    DrawNumbers numbers = {};
    std::vector<LogitChange> changes = {};
    /// A bit a token that may be drawn; empty: all may.
    std::span<const uint32_t> allowed = {};
    bool isChanged() const { return !changes.empty() || !allowed.empty(); }
  };

  /// `plain`, `changing`: the two programs. Runs each once on a row of its own,
  /// so that nothing is compiled at the first draw.
  static Expected<std::unique_ptr<DeviceSampler>>
  create(std::shared_ptr<Module> plain, std::shared_ptr<Module> changing,
         Device &device, int64_t vocabulary);

  /// How many logits to draw from, and of those given, a summary has.
  int64_t knownLogits() const;
  int64_t knownBest() const;

  /// Of a draw: rows with more changes cost more than to fetch them does.
  static constexpr size_t kMostChanges = 1024;

  /// What the draws' rows hold, in their order; valid until the next run.
  /// `logits`: [rows, vocabulary] f32 on the device, inside `memory`.
  Expected<std::span<const RowSummary>> run(std::span<const Draw> draws,
                                            const float *logits, int64_t rows,
                                            std::span<const std::byte> memory);

private:
  /// A row takes up to 2 MB of a program's memory.
  static constexpr size_t kMostRows = 64;

  /// Results of rows that one program drew from together.
  struct Results {
    std::vector<float> values, logSums, weightSums, drawnMargins, drawnLogits,
        given, drawnGiven, bestGiven;
    std::vector<int64_t> ids, drawn, guesses, bestIds;
  };
  struct Logits {
    const float *address;
    int64_t rows;
    std::span<const std::byte> memory;
  };
  DeviceSampler() = default;
  Status runTogether(std::span<const Draw *const> draws, bool changing,
                     const Logits &logits, Results &to);
  RowSummary summaryOf(const Results &from, size_t row, bool changing) const;

  std::shared_ptr<Module> plain, changing;
  int64_t vocabulary = 0;
  std::vector<Results> results;
  std::vector<RowSummary> summaries;
  std::vector<int32_t> rows, topKs, tokens;
  std::vector<uint32_t> masks;
  std::vector<float> scales, shares, topPs, depths, biases, repetitions,
      penalties;
  RunResult result;
};

} // namespace knapper::serving
