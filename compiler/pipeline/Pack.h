//===- Pack.h - First and last steps of a compile, and its text forms -----===//
#pragma once

#include "compiler/pipeline/Phases.h"

namespace knapper {

/// Reads the model: ONNX, or tensor IR as text. UserError when it is neither.
Status importModel(CompileState &state);

/// Evaluates, packs and writes constants, adds code and header, finishes the
/// file. A state is a program for one kind of device, all of one model; where
/// the file goes and what was done are the first state's.
Status packArtefact(std::span<CompileState *const> states);

/// The program after a phase, as text that --start-from=<next phase> reads;
/// objects beside it (`objectFile`).
std::string printState(CompileState &state, const Phase &phase);
/// Writes printState into the folder of --dump-dir.
Status writeDump(CompileState &state, const Phase &phase,
                 const std::string &text);
/// "04_schedule.mlir"
std::string dumpName(const Phase &phase);
/// "06_emit.x86-64-v4.elf"
std::string objectFile(llvm::StringRef isa);

/// Reads what the phase before `first` left in a dump. UserError when it is not
/// that, or was edited into something that does not fit together.
Status resume(CompileState &state, const Phase &first);

/// The artefact's report section.
std::string reportJson(const CompileState &state);

/// The exec program as JSON.
std::string printProgram(const fb::ProgramT &program);
/// What printProgram wrote; UserError when it is not.
Expected<std::unique_ptr<fb::ProgramT>> parseProgram(const std::string &text,
                                                     const std::string &where);

} // namespace knapper
