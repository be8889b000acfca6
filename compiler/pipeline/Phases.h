//===- Phases.h - The pipeline as one table -------------------------------===//
//
// Read Phases.cpp from top to bottom to know what happens to a model. The table
// says for each phase its name, the IR level it takes and leaves, and its
// passes in the order in which they run. --stop-after, --start-from,
// --print-after,
// --dump-dir, --disable, timings and verification come from it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/exec/ExecProgram.h"
#include "compiler/kernels/KernelSet.h"
#include "compiler/kernels/UserKernels.h"
#include "compiler/kernels/VendorKernels.h"
#include "compiler/pipeline/Compile.h"
#include "graph/fusion/FusionReport.h"
#include "targets/Target.h"
#include "llvm/ADT/DenseMap.h"
#include <deque>
#include <map>
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
  const Target *target = nullptr;  ///< the kind of device
  std::vector<TargetDesc> targets; ///< of it, best first
  fusion::FusionReport fusionReport;
  KernelSet kernels;
  llvm::DenseMap<mlir::Operation *, KernelUse> uses;
  std::span<const UserKernel> userKernels; ///< of --kernels; of `input`
  /// Tile programs that a dump brought, by instruction set and function; built
  /// from the schedules when empty.
  std::map<std::pair<std::string, std::string>, std::string> tilePrograms;
  std::vector<KernelJob> jobs; ///< a tile program or given code each
  std::deque<GivenCode> given; ///< of jobs
  std::vector<CompiledImage> images;
  ExecProgram exec;
  CompileStats *stats;
  std::string outputPath;
  int outputFd = -1;
  /// First diagnostic, as an Error of ours.
  std::vector<Error> diagnostics;

  mlir::func::FuncOp main();
  /// The kernels of the entry and of the bodies that it runs.
  void forEachKernel(llvm::function_ref<void(ts::KernelOp)> visit);
};

/// What there is after a phase; from `scheduled` on, with what was before.
enum class Level {
  none,
  tensor,
  kernel,
  scheduled,
  tile,
  object,
  exec,
  artefact
};

/// One step of a phase.
struct Pass {
  const char *name; ///< of --stop-after, --print-after, --disable and timings
  Status (*run)(CompileState &);
  bool isOptional = false; ///< whether --disable may leave it out
  /// What the target does in it, instead of `run`: rows of their own.
  std::span<const TargetPass> (*steps)(const Target &) = nullptr;
};

struct Phase {
  const char *name;
  Level in, out;
  const char *does; ///< in a few words
  std::span<const Pass> passes;
};

std::span<const Phase> phases();
std::span<const TargetPass> stepsOf(const Pass &pass, const Target &target);
/// Those of the phase `simplify` (SimplifyModel.cpp).
std::span<const Pass> simplifyPasses();
/// The error of a pass that failed: what MLIR said about it. The pass's name is
/// filled in by whoever runs it.
Status passFailed(CompileState &state);
/// UserError where the options of a compile do not fit together.
Status checkOptions(const Options &options);

/// The error of a compile that somebody wished to end.
Error cancelledCompile();

/// The phase of that name, or null.
const Phase *findPhase(std::string_view name);

/// The tile program of a schedule, in any context: what a dump brought, or
/// built now. Null after a diagnostic. Thread-safe for different contexts.
mlir::OwningOpRef<mlir::ModuleOp>
tileProgram(const CompileState &state, const UniqueKernel &unique, size_t index,
            mlir::MLIRContext &context, const TargetDesc &target);

/// Leaves out targets that would hold the same code as another one, once the
/// kernels have schedules.
void dropEqualTargets(CompileState &state);

/// The attribute of a ts.kernel that names the user kernel taken for it.
inline constexpr const char *kUserKernelAttr = "ts.user_kernel";

/// The attribute of a ts.kernel that names the library taken for it.
inline constexpr const char *kVendorAttr = "ts.vendor";

/// The user kernel that was taken for `unique`, or null.
const UserKernel *userKernelOf(const CompileState &state,
                               const UniqueKernel &unique);

/// Fills `jobs`: each worker of emit builds the programs that it lowers, in its
/// own context.
Status listPrograms(CompileState &state);

/// Finds the kernels of the program and which are equal.
void collectKernels(CompileState &state);

} // namespace knapper
