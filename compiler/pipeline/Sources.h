//===- Sources.h - The model's files while it is compiled -----------------===//
#pragma once

#include "compiler/pipeline/Phases.h"
#include "frontends/common/FrontEnd.h"

namespace knapper {

/// What `ts.files` entries without a path refer to.
struct CompileState::Sources {
  ModelBuffers model;

  llvm::SmallVector<std::string_view> buffers() const {
    return llvm::map_to_vector(
        model.files,
        [](const ModelBuffers::Buffer &buffer) { return buffer.data; });
  }
};

} // namespace knapper
