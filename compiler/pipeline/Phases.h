//===- Phases.h - The pipeline as one table -------------------------------===//
//
// Read Phases.cpp from top to bottom to know what happens to a model. The table
// says for each phase its name, the IR level it takes and leaves, the passes it
// runs and the function that does it; --stop-after, --start-from,
// --print-after,
// --dump-dir, timings, verification and the off switches come from it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/exec/ExecProgram.h"
#include "compiler/kernels/KernelSet.h"
#include "compiler/pipeline/Compile.h"
#include "graph/fusion/FusionReport.h"
#include "targets/cpu/Compile.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>
#include <span>

namespace knapper {

/// Everything a compile carries from phase to phase.
struct CompileState {
  CompileState(const CompileInput &input, const Options &options);
  ~CompileState();

  const CompileInput &input;
  const Options &options;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  struct Sources; ///< mapped files behind ts.weight
  std::unique_ptr<Sources> sources;
  std::vector<TargetDesc> targets; ///< best first
  fusion::FusionReport fusionReport;
  KernelSet kernels;
  llvm::DenseMap<mlir::Operation *, KernelUse> uses;
  std::vector<CompiledImage> images;
  ExecProgram exec;
  CompileStats *stats;
  std::string outputPath;
  int outputFd = -1;
  /// First diagnostic, as an Error of ours.
  std::vector<Error> diagnostics;

  mlir::func::FuncOp main();
};

enum class Level { none, tensor, kernel, tile, object, exec, artefact };

struct Phase {
  const char *name;
  Level in, out;
  const char *passes; ///< what it does, in a few words
  Status (*run)(CompileState &);
};

std::span<const Phase> phases();

/// The program after a phase, as text that --start-from can read where the
/// level is tensor or kernel.
std::string printState(CompileState &state, const Phase &phase);

} // namespace knapper
