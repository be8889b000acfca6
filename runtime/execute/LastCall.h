// What a run may take over from the run before it.
#pragma once

#include "knapper/knapper.h"
#include "runtime/base/ShortList.h"

#include <cstdint>
#include <span>
#include <vector>

namespace knapper {

/// Outputs and the dims of all of them: those of most models are few.
using TensorList = ShortList<knapper_tensor, 2>;
using ShapeList = ShortList<int64_t, 8>;

/// The tensors of a call: programs call again and again with the same ones.
/// What was found out about them (that they are of the signature, that none
/// overlaps, what kernels get) is then still right. One list, so that a call
/// looks at few cache lines: its kernels fill the caches with other things.
class LastCall {
public:
  void forget() { words.clear(); }
  /// `made`: the outputs that the run gave, each in the memory of `outputs`.
  void note(std::span<const knapper_tensor> inputs,
            std::span<const knapper_tensor> outputs,
            std::span<const knapper_tensor> made);
  /// Whether these are the noted ones; if so, `made` and the shapes of these
  /// are what that run gave.
  bool repeats(std::span<const knapper_tensor> inputs,
               std::span<const knapper_tensor> outputs, TensorList &made,
               ShapeList &shapes) const;

private:
  // Data, bytes, dtype and rank, dims of each input; data, bytes, dtype and
  // rank of each output as given, then bytes, dtype, rank and dims that it had.
  std::vector<uint64_t> words;
  size_t inputs = 0, outputs = 0, dims = 0; // dims: of all outputs
};

} // namespace knapper
