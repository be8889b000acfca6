//===- ExternalFiles.h - The files that a model keeps its data in ---------===//
#pragma once

#include "frontends/onnx/ImportOnnx.h"

namespace knapper {

/// Paths of the external data of a model, each once, in the order of first use.
/// UserError for a model that cannot be read and for paths that leave the
/// model's folder.
Expected<std::vector<std::string>> onnxExternalFiles(const OnnxSource &source);

} // namespace knapper
