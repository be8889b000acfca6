// Draws the tokens of a step behind its program, in the same stream: the next
// step reads them on the device. What the device says of each row goes to the
// host, where the draw is finished as if it had been made there: the device's
// token is a guess, and the row is kept for the case that the summary does not
// tell.
#pragma once

#include "runtime/execute/Module.h"
#include "serving/engine/StepQueue.h"
#include "serving/sampling/RowSummary.h"

namespace knapper::serving {

/// The draws of a step, list by list; numbers of 32 bits.
struct StepDraws {
  std::vector<int32_t> rows, scales, shares, topKs, topPs, depths;
  static constexpr size_t kLists = 6;

  void clear();
  /// `row`: of the step's logits, ascending.
  void add(int32_t row, const DrawNumbers &numbers);
  size_t size() const { return rows.size(); }
  std::array<const std::vector<int32_t> *, kLists> lists() const {
    return {&rows, &scales, &shares, &topKs, &topPs, &depths};
  }
};

/// Used by one thread.
class StreamSampler {
public:
  /// `program`: the one of serving/models/SamplerProgram.h that changes
  /// nothing.
  StreamSampler(std::shared_ptr<Device> device, std::shared_ptr<Module> program,
                int64_t vocabulary);

  /// The logits of a step on the device, inside `memory`.
  struct Logits {
    const float *address;
    int64_t rows;
    std::span<const std::byte> memory;
  };
  /// Of the device, for so many draws a step: their rows, by far the most.
  static int64_t memoryBytes(int64_t draws, int64_t vocabulary);
  /// Room for the draws of the next step. What of them is in `padded` then has
  /// sizes that come again and again.
  Status reserve(const StepDraws &draws, StepQueue &steps);
  StepDraws padded;
  /// Gives the draws to the device, behind what the step has so far. `lists`:
  /// where the device has `padded`. What the step before has drawn stays: after
  /// an error this step may be submitted again without draws.
  Status submit(std::span<const int32_t *const> lists, const Logits &logits,
                StepQueue &steps);
  /// Keeps what was drawn: the tokens for the next step, the rest for the host.
  Status keep(const Logits &logits, StepQueue &steps);

  /// Of the step that was waited for last.
  RowSummary summary(size_t draw, const StepQueue &steps) const;
  int64_t token(size_t draw, const StepQueue &steps) const;
  /// Where the device has the row that it drew from.
  const float *keptRow(size_t draw, const StepQueue &steps) const;
  /// Of draws of any step that was submitted.
  Status check() { return program->checkStreams(); }

private:
  /// A row takes up to 2 MB of a program's memory.
  static constexpr size_t kTogether = 64;

  /// Where in a group's results each list begins.
  struct Layout {
    size_t ids, drawn, tokens, values, logSums, weightSums, margins, logits,
        bytes;
  };
  Status runGroup(size_t group, std::span<const int32_t *const> lists,
                  const Logits &logits, StepQueue &steps);
  const std::byte *groupOf(size_t draw, const StepQueue &steps) const;

  std::shared_ptr<Device> device;
  std::shared_ptr<Module> program;
  int64_t vocabulary, known;
  Layout layout;
  std::unique_ptr<DeviceBuffer> results;
  struct Slot {
    std::unique_ptr<DeviceBuffer> results; ///< of the host's memory
    std::unique_ptr<DeviceBuffer> rows;    ///< of the device's
  };
  std::array<Slot, StepQueue::kMostSteps> slots;
  std::vector<int32_t> drawnRows; ///< of the step that is submitted
  RunResult result;
};

} // namespace knapper::serving
