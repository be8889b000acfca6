//===- WindowAttributes.h - The attributes of sliding windows -------------===//
#pragma once

#include "frontends/common/Windows.h"
#include "frontends/onnx/Node.h"

namespace knapper {

/// What windows need of the input's dims: `fit`: an error where a window is so
/// much larger than the padded dim that the number of windows is negative;
/// `fitRoundedUp`: the same where a partly filled one counts; `spread`:
/// nothing, for the windows lie in the result.
enum class WindowsMust { fit, fitRoundedUp, spread };

/// Reads strides, dilations, pads and auto_pad for an input [N, C, spatial...].
/// `window` are the kernel's sizes. Nothing (and an error of the node) when
/// they do not fit.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window,
                                   WindowsMust must = WindowsMust::fit);
/// The same for windows over dims of the given sizes, as many as `window`,
/// whose number the caller judges.
std::optional<Windows> readWindows(Node &n, llvm::ArrayRef<int64_t> window,
                                   llvm::ArrayRef<ts::Dim> sizes);

} // namespace knapper
