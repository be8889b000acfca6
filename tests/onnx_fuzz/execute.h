// Compiling and running a model that import accepts.
#pragma once

#include "runtime/base/Error.h"

#include <string>

namespace knapper::fuzz {

/// Compiles an ONNX model (without the cache) and runs it once on one thread:
/// every size is 3, or what its range allows. Inputs and outputs end where
/// memory ends, so that a kernel which reads or writes behind them crashes.
/// Refusing is an error; a model whose tensors would take more than 64 MB is
/// compiled only.
Status compileAndRun(const std::string &model);

} // namespace knapper::fuzz
