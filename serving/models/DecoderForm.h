// What of a decoder's program is the engine's to say, and what the engine has
// to give it. Free of the compiler.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace knapper::serving {

struct DecoderForm {
  int64_t blockTokens = 16;
  DType pools = DType::f32; ///< or bf16: what attention multiplies
  bool bestTokens = false;
  /// Weights are inputs of the program, of the pools' type, behind all others:
  /// it is the same for all weights of a configuration. Else they are constants
  /// of it.
  bool weightInputs = false;
};

/// A weight that is an input: tensors of the checkpoint, one behind the other.
struct WeightInput {
  std::vector<std::string> tensors;
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
};

} // namespace knapper::serving
