//===- Sources.h - The model's files while it is compiled -----------------===//
#pragma once

#include "compiler/pipeline/Phases.h"
#include "frontends/onnx/ImportOnnx.h"

namespace knapper {

/// What `ts.files` entries without a path refer to.
struct CompileState::Sources {
  OnnxBuffers onnx;
  /// Of StableHLO: the program's bytes, then what the import unpacked.
  std::vector<std::string_view> program;
  std::vector<std::shared_ptr<const std::string>> unpacked;

  llvm::SmallVector<std::string_view> buffers() const {
    llvm::SmallVector<std::string_view> views;
    for (const OnnxBuffers::Buffer &buffer : onnx.files)
      views.push_back(buffer.data);
    views.append(program.begin(), program.end());
    for (const auto &data : unpacked)
      views.push_back(*data);
    return views;
  }
};

} // namespace knapper
