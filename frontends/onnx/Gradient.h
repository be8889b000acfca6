//===- Gradient.h - Derivatives inside a model ----------------------------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// The operator Gradient of ai.onnx.preview.training.
mlir::LogicalResult importGradient(Node &n);

} // namespace knapper
