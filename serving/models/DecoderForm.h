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
  /// The matrices of products, where they are inputs, are integers of 8 or 4
  /// bits with scales (ts.packed_dot); 0: as the other weights. Those of
  /// experts stay floats.
  int64_t weightBits = 0;
};

/// A weight that is an input: tensors of the checkpoint, one behind the other.
struct WeightInput {
  enum class Form : uint8_t {
    floats,   ///< of `dtype`
    integers, ///< i8, a matrix' rows as ts.packed_dot reads them
    scales,   ///< f32, of the integers of the input before
  };
  std::vector<std::string> tensors;
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  Form form = Form::floats;
  /// Of integers: their bits, how many share a scale, how many a row has, and
  /// whether the one tensor has rows as columns.
  int64_t bits = 0, group = 0, depth = 0;
  bool transposed = false;
};

/// Elements of a row of `depth` that share a scale: of four bits 128, of eight
/// all of them.
constexpr int64_t weightGroup(int64_t bits, int64_t depth) {
  return bits == 4 ? 128 : depth;
}

} // namespace knapper::serving
