//===- Layers.h - The matmuls of a model that integers can compute --------===//
//
// A layer is a node of the main graph that multiplies by constants: MatMul or
// Gemm with a float32 matrix and, of static quantisation, Conv with a float32
// filter. Of such nodes these stay float, each with its reason in `kept`:
//
//   weights are computed        matmuls of two activations, as in attention
//   weights of another type, not finite, or the left side
//   matrices of fewer than 4096 weights
//   the left side is transposed
//   more rows than 32 bits can sum (static quantisation only)
//   the node is named in `keep`
//
// Everything else (lookups, norms, softmax, elementwise, transposed
// convolutions) stays float too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Source.h"

namespace knapper {

struct Layer {
  int node;               ///< of the graph
  std::string name;       ///< the node's; without one "MatMul of 'result'"
  std::string op;         ///< "MatMul", "Gemm", "Conv"
  std::string input;      ///< the activation that it reads
  std::string output;     ///< its result
  std::string weightName; ///< the value that it reads as its weights
  const onnx::TensorProto *weight; ///< of the model
  int64_t rows, columns;           ///< summed over; of the result (features)
  int64_t columnAxis;              ///< of the weight tensor
};

struct KeptNode {
  std::string name, op, why;
};

struct Layers {
  std::vector<Layer> layers;
  std::vector<KeptNode> kept;
};

/// `isStatic`: with activations as bytes. UserError for a name of `keep` that
/// no such node has.
Expected<Layers> findLayers(OnnxFile &file, bool isStatic,
                            const std::vector<std::string> &keep);

} // namespace knapper
