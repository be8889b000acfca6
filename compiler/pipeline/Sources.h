//===- Sources.h - The model's files while it is compiled -----------------===//
#pragma once

#include "compiler/pipeline/Phases.h"
#include "frontends/onnx/Import.h"

namespace knapper {

/// What `ts.files` entries without a path refer to.
struct CompileState::Sources {
  OnnxBuffers onnx;

  llvm::SmallVector<std::string_view> buffers() const {
    llvm::SmallVector<std::string_view> views;
    for (const OnnxBuffers::Buffer &buffer : onnx.files)
      views.push_back(buffer.data);
    return views;
  }
};

} // namespace knapper
