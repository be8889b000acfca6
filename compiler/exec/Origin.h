//===- Origin.h - Locations as text for people ----------------------------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include <string>

namespace knapper {

/// The user's name for what is at this location: an ONNX node, file:line.
std::string originText(mlir::Location location);

/// The nodes that a kernel computes, in order, each once, cut to a readable
/// length.
std::string kernelOrigin(ts::KernelOp kernel);

} // namespace knapper
