//===- Translate.h - A model in another format ----------------------------===//
#pragma once

#include "compiler/pipeline/Compile.h"

namespace knapper {

/// The model as portable StableHLO text, or the one that an artefact keeps
/// (KeptSource.h). Every size must be a number (`Options::dims` gives them, an
/// artefact those that it was compiled for). Errors: UserError, with all that
/// StableHLO has no spelling for. Thread-safe.
Expected<std::string> translateModel(const CompileInput &input,
                                     const Options &options);

} // namespace knapper
