// What every function of the C API that takes a model reads first.
#pragma once

#include "capi/Handles.h"
#include "compiler/pipeline/Compile.h"
#include "ir/tensor/reference/HostTensor.h"

namespace knapper::capi {

struct ModelRequest {
  knapper_compile_options options; ///< the caller's, at the size that we know
  CompileInput input;
  Options settings; ///< of the environment and `options`
};

/// `function` names the caller in errors.
Expected<ModelRequest> readRequest(const knapper_compile_options *given,
                              const char *function);

/// A view of the caller's memory, which outlives it. UserError, with `where`,
/// for what is no tensor and for fewer bytes than the shape needs.
Expected<ts::HostTensor> borrowTensor(const knapper_tensor &tensor,
                                      const std::string &where);

} // namespace knapper::capi
