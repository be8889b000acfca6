// The weights of a checkpoint in a device's memory, as inputs of a program.
#pragma once

#include "runtime/execute/Module.h"
#include "serving/models/Checkpoint.h"
#include "serving/models/DecoderForm.h"

namespace knapper::serving {

/// Owns the memory. Immutable; any thread may read it.
class DeviceWeights {
public:
  /// Reads the tensors from their files and converts them to the inputs' types,
  /// on `threads` threads. DeviceError where they do not fit.
  static Expected<std::unique_ptr<DeviceWeights>>
  load(Device &device, const Checkpoint &checkpoint,
       std::vector<WeightInput> inputs, int32_t threads);

  std::span<const knapper_tensor> tensors() const { return list; }
  /// Where all of them lie.
  std::span<const std::byte> memory() const {
    return {static_cast<const std::byte *>(buffer->address()), buffer->bytes()};
  }

private:
  DeviceWeights() = default;

  std::vector<WeightInput> inputs; ///< whose shapes `list` points to
  std::unique_ptr<DeviceBuffer> buffer;
  std::vector<knapper_tensor> list;
};

} // namespace knapper::serving
