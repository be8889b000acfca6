//===- QuantisedModel.h - ONNX models made for and by quantisation --------===//
//
// Static: around a layer y = x w
//
//   QuantizeLinear(x) -> DequantizeLinear --\
//   DequantizeLinear(w as i8) ---------------> MatMul, Gemm or Conv -> y
//
// with one scale (and zero point) for x, which layers that read the same x
// share, and a scale a column (a feature) of w: largest |w| / 127. Biases stay
// float.
//
// Weights only: w alone, in blocks of rows of a column that share a scale (and
// a zero point), as QuantizeWeights.h rounds them: DequantizeLinear with
// block_size, of opset 21.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/calibrate/Layers.h"
#include "compiler/calibrate/Ranges.h"
#include "frontends/onnx/Edit.h"

#include <map>

namespace knapper {

/// How weights are stored alone.
struct BlockFormat {
  int bits = 8;       ///< 8 or 4
  int64_t group = 64; ///< rows of a column; positive
  bool asymmetric = false;
};

/// What the values that layers read are stored as, by name.
using Steps = std::map<std::string, StepChoice>;

/// Adds nodes that give the quantised operands of layers.
class QuantisedOperands {
public:
  QuantisedOperands(OnnxFile &file, OnnxEdit &edit) : file(file), edit(edit) {}

  /// The layer's input, rounded; its nodes come before the first layer that
  /// reads it.
  std::string activation(const Layer &layer, StepChoice steps, bool isSigned);
  /// Its weights, i8 with a scale a column.
  Expected<std::string> columns(const Layer &layer);
  /// Its weights in blocks.
  Expected<std::string> blocks(const Layer &layer, const BlockFormat &format);

private:
  std::map<std::string, std::string> activations, weights; ///< what they became
  OnnxFile &file;
  OnnxEdit &edit;
};

/// Checks that the model's operators may be read as those of an opset that has
/// what is written, and says so in the edit: 13 for static quantisation, 21 for
/// blocks. UserError, naming the version and what to do.
Status raiseOpset(const OnnxFile &file, OnnxEdit &edit, bool hasBlocks);

} // namespace knapper
