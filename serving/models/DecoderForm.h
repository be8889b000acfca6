// The settings of a decoder's program that the engine chooses, and the weights
// that it hands over as inputs. Includes nothing of the compiler.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace knapper::serving {

struct DecoderForm {
  int64_t blockTokens = 16;
  DType pools = DType::f32; ///< or bf16: what attention multiplies
  bool bestTokens = false;  ///< results, and tokens that are read
  /// On: weights are the program's last inputs, of the pools' type, so that one
  /// program serves all weights of a configuration. Off: they are constants of
  /// the program.
  bool weightInputs = false;
  /// Where weights are inputs: those of matmuls are integers of 8 or 4 bits
  /// with scales (ts.packed_dot); 0: floats, as all others are. Those of
  /// experts are always floats.
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

/// Elements of a row of `depth` that share a scale: 128 of four bits, the whole
/// row of eight.
constexpr int64_t weightGroup(int64_t bits, int64_t depth) {
  return bits == 4 ? 128 : depth;
}

} // namespace knapper::serving
