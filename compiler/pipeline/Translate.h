//===- Translate.h - A model in another format ----------------------------===//
#pragma once

#include "compiler/pipeline/Compile.h"

namespace knapper {

/// The model as portable StableHLO text. Every size must be a number
/// (`Options::dims` gives them). Errors: UserError, with all that StableHLO has
/// no spelling for. Thread-safe.
Expected<std::string> translateModel(const CompileInput &input,
                                     const Options &options);

} // namespace knapper
