//===- WindowAttributes.h - The attributes of sliding windows -------------===//
#pragma once

#include "frontends/common/Windows.h"
#include "frontends/onnx/Node.h"

namespace knapper {

/// Reads strides, dilations, pads and auto_pad for an input [N, C, spatial...].
/// `window` are the kernel's sizes. Nothing (and an error of the node) when
/// they do not fit.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window);
/// The same for windows over dims of the given sizes, as many as `window`.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window,
                                   llvm::ArrayRef<ts::Dim> sizes);

/// An error where a window is so much larger than the padded dim that the
/// number of windows is negative. `roundsUp`: a partly filled one counts.
mlir::LogicalResult requireWindows(Node &n, const Windows &w,
                                   bool roundsUp = false);

} // namespace knapper
