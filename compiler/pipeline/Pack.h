//===- Pack.h - First and last steps of a compile, and its text forms -----===//
#pragma once

#include "compiler/pipeline/Phases.h"

namespace knapper {

/// Reads the model: ONNX, or tensor IR as text. UserError when it is neither.
Status importModel(CompileState &state);

/// Rewrites the tensor program to its canonical form, in place.
Status simplifyModel(CompileState &state);

/// Evaluates, packs and writes constants, adds code and header, finishes the
/// file. `kernelNames` in the order of the program's kernel indices.
Status packArtefact(CompileState &state,
                    const std::vector<std::string> &kernelNames);

/// The artefact's report section.
std::string reportJson(const CompileState &state);

/// The exec program as JSON.
std::string printProgram(const fb::ProgramT &program);

} // namespace knapper
