// Steps that are given to a device one behind the other: numbers go in, best
// tokens come out, and nobody waits before the results are asked for. So the
// device has its next step before the host knows what the last one drew. Its
// tokens stay on the device too, where the next step may read them.
#pragma once

#include "runtime/device/Device.h"

#include <array>
#include <vector>

namespace knapper::serving {

/// Used by one thread. At most two steps are submitted and not waited for.
class StepQueue {
public:
  static constexpr size_t kMostSteps = 2;

  /// Whether the device can have a step while another one runs: it computes
  /// beside its caller, or each step would end in its submission, and its
  /// queues follow a stream, or nothing would keep the steps in order.
  static bool isFor(const Device &device) {
    return device.isAsynchronous() && device.hasStreams();
  }
  /// UserError for a device that it is not for.
  static Expected<std::unique_ptr<StepQueue>>
  create(std::shared_ptr<Device> device);
  ~StepQueue(); ///< waits for what was submitted

  /// Begins a step: room for best tokens of so many rows, and the lists copied
  /// to the device behind the step before.
  Status begin(std::span<const std::vector<int32_t> *const> lists,
               int64_t rows);
  /// Where the device has a list.
  void *list(size_t index) const { return lists[index]; }
  /// Where the step's program leaves best tokens [rows] i64 and their
  /// log-probabilities [rows] f32, and where it finds those tokens of the step
  /// before [capacity] i64.
  void *best() const { return results->address(); }
  void *logprobs() const { return at(sizeof(int64_t)); }
  void *drawn() const { return at(sizeof(int64_t) + sizeof(float)); }
  int64_t capacity() const { return rows; }
  /// Behind them, as many tokens again: those that were drawn otherwise, which
  /// the step leaves there itself.
  void *sampled() const { return at(2 * sizeof(int64_t) + sizeof(float)); }
  /// The memory of all of them, and the stream of the step's commands.
  std::array<std::span<const std::byte>, 2> memory() const;
  void *stream() const { return queue->ownStream(); }
  /// Part of the step, behind what it has so far.
  Status copy(void *to, const void *from, size_t bytes) {
    return queue->copy(to, from, bytes);
  }
  /// What of the host's memory the step may use that begins next, and what the
  /// last one used that was waited for: 0 to kMostSteps - 1.
  size_t nextSlot() const { return submitted % kMostSteps; }
  size_t waitedSlot() const { return (waited + kMostSteps - 1) % kMostSteps; }
  /// Ends the step: what is in `best` and `logprobs` then goes to the host.
  Status end();

  /// Waits for all that was given to the device, also where there is no memory
  /// to wait with at first.
  Status finish();
  /// Waits for the oldest step that nobody has waited for. It stays that where
  /// the device has no memory to wait with (std::bad_alloc).
  Status wait();
  /// Steps that were submitted and not waited for.
  uint64_t pending() const { return submitted - waited; }
  /// Of the last step that was waited for.
  int64_t bestToken(size_t row) const;
  float bestLogprob(size_t row) const;
  /// How long the device had nothing to do before it; nothing where it has no
  /// clock, or for the first one.
  std::optional<uint64_t> gapNanoseconds() const { return gap; }

  /// Room for so many rows, which `begin` makes too.
  Status reserveRows(int64_t count);

private:
  struct Slot {
    std::unique_ptr<DeviceBuffer> numbers, results; ///< of the host's memory
    std::unique_ptr<DeviceEvent> began, ended;
  };
  StepQueue() = default;
  void *at(size_t bytesOfARow) const {
    return static_cast<std::byte *>(results->address()) +
           bytesOfARow * static_cast<size_t>(rows);
  }
  Status reserveNumbers(size_t bytes);
  const std::byte *fetched() const;

  std::shared_ptr<Device> device;
  std::unique_ptr<DeviceQueue> queue;
  std::unique_ptr<DeviceBuffer> numbers, results;
  std::array<Slot, kMostSteps> slots;
  std::vector<void *> lists;
  int64_t rows = 0;
  uint64_t submitted = 0, waited = 0;
  std::unique_ptr<DeviceEvent> lastEnd;
  std::optional<uint64_t> gap;
};

} // namespace knapper::serving
