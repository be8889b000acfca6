//===- Windows.h - Strides, dilations and pads of sliding windows ---------===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// What Conv, Col2Im and the pools say about their windows; one entry a spatial
/// dim.
struct Windows {
  llvm::SmallVector<int64_t> window, strides, dilations;
  llvm::SmallVector<ts::Dim> low, high;
};

/// Reads strides, dilations, pads and auto_pad for an input [N, C, spatial...].
/// `window` are the kernel's sizes. Nothing (and an error of the node) when
/// they do not fit.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window);
/// The same for windows over dims of the given sizes, as many as `window`.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window,
                                   llvm::ArrayRef<ts::Dim> sizes);

} // namespace knapper
