#include "compiler/pipeline/Phases.h"
#include "compiler/exec/Origin.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Table.h"
#include "compiler/registration/Registration.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/FormKernels.h"
#include "graph/fusion/Signature.h"
#include "graph/memory/InPlace.h"
#include "graph/memory/OrderKernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "targets/cpu/CpuTarget.h"
#include <thread>

using namespace mlir;

namespace knapper {
namespace {

/// A failed step with whatever MLIR said about it.
Status failed(CompileState &state, StringRef phase) {
  if (!state.diagnostics.empty())
    return state.diagnostics.front();
  return internalError("phase " + phase.str() + " failed without a reason");
}

Status runImport(CompileState &state) { return importModel(state); }

Status runSimplify(CompileState &state) { return simplifyModel(state); }

Status runFuse(CompileState &state) {
  fusion::MachineModel machine;
  if (mlir::failed(
          fusion::formKernels(state.main(), machine, &state.fusionReport)))
    return failed(state, "fuse");
  memory::orderKernels(state.main());
  return success();
}

/// Equal kernels once, and how each is cut into programs.
Status runSchedule(CompileState &state) {
  state.main().walk([&](ts::KernelOp kernel) {
    SmallVector<bool> constants;
    for (Value input : kernel.getInputs())
      constants.push_back(fusion::isConstantExpression(input));
    state.uses[kernel] = state.kernels.add(kernel, constants);
  });
  for (UniqueKernel &unique : state.kernels.kernels) {
    FailureOr<SmallVector<Schedule>> schedules =
        chooseSchedules(unique.kernel, state.targets.front());
    if (mlir::failed(schedules)) {
      // What no schedule knows is a limit of this version, not a defect of it.
      Error error = failed(state, "schedule").takeError();
      error.kind = ErrorKind::user;
      error.hint = "compute this operation outside the model, or in another "
                   "element type";
      return error;
    }
    unique.schedules = std::move(*schedules);
  }
  return success();
}

std::string kernelName(const UniqueKernel &unique, size_t index) {
  return unique.schedules[index].kind + "_" + unique.signature +
         (unique.schedules.size() > 1 ? "_" + std::to_string(index) : "");
}

/// Tile programs of one unique kernel and schedule, in any context.
OwningOpRef<ModuleOp> buildTile(const UniqueKernel &unique, size_t index,
                                MLIRContext &context,
                                const TargetDesc &target) {
  OwningOpRef<Operation *> source =
      fusion::parseCanonicalKernel(unique.text, &context);
  if (!source)
    return {};
  ts::KernelOp kernel = findKernel(*source, unique.constants);
  // Sizes belong to a context, so the schedule is chosen again in this one:
  // the choice is a function of the kernel and the target alone.
  TargetDesc chosenFor = *cpuTarget(cpuIsas().front());
  FailureOr<SmallVector<Schedule>> schedules =
      chooseSchedules(kernel, chosenFor);
  if (mlir::failed(schedules) || index >= schedules->size())
    return {};
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  FailureOr<tile::FuncOp> function =
      buildTileProgram(builder, kernel, (*schedules)[index], target,
                       kernelName(unique, index), unique.symbols);
  if (mlir::failed(function))
    return {};
  // What the plan may do with this kernel's result.
  for (unsigned input : memory::inPlaceInputs(kernel))
    function->setMayAlias(input, kernel.getInputs().size());
  // The lowering trusts its input; a defect of a builder ends here.
  if (mlir::failed(verify(*module)))
    return {};
  return module;
}

/// Only for people: the programs are built again, in worker contexts, by emit.
Status runTile(CompileState &state) { return success(); }

Status runEmit(CompileState &state) {
  std::vector<KernelJob> jobs;
  for (const UniqueKernel &unique : state.kernels.kernels)
    for (size_t i = 0; i < unique.schedules.size(); ++i)
      jobs.push_back(
          {kernelName(unique, i),
           [&unique, i](MLIRContext &context, const TargetDesc &target) {
             return buildTile(unique, i, context, target);
           }});
  unsigned threads = state.options.threads
                         ? static_cast<unsigned>(state.options.threads)
                         : std::max(1u, std::thread::hardware_concurrency());
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  if (!jobs.empty()) {
    Expected<std::vector<CompiledImage>> images =
        compileKernels(jobs, state.targets, threads, &registry);
    if (!images)
      return images.takeError();
    state.images = std::move(*images);
  }
  state.stats->kernels = state.kernels.kernels.size();
  state.stats->variants = jobs.size() * state.targets.size();
  for (const CompiledImage &image : state.images)
    state.stats->variantCpuSeconds += image.times.total();
  return success();
}

Status runPlan(CompileState &state) {
  FailureOr<ExecProgram> exec =
      buildExecProgram(state.main(), state.kernels, state.uses);
  if (mlir::failed(exec))
    return failed(state, "plan");
  state.exec = std::move(*exec);
  state.stats->launches = state.uses.size();
  return success();
}

Status runPack(CompileState &state) {
  std::vector<std::string> names;
  for (const UniqueKernel &unique : state.kernels.kernels)
    for (size_t i = 0; i < unique.schedules.size(); ++i)
      names.push_back(kernelName(unique, i));
  return packArtefact(state, names);
}

} // namespace

std::span<const Phase> phases() {
  using L = Level;
  static constexpr Phase table[] = {
      {"import", L::none, L::tensor, "front end", runImport},
      {"simplify", L::tensor, L::tensor,
       "algebra, composites, merged products, layout, dtype", runSimplify},
      {"fuse", L::tensor, L::kernel,
       "regions that become one launch, in an order that keeps memory low",
       runFuse},
      {"schedule", L::kernel, L::kernel,
       "equal kernels once, tile sizes, guards", runSchedule},
      {"tile", L::kernel, L::tile, "what one program of each grid does",
       runTile},
      {"emit", L::tile, L::object,
       "vectors, machine code and link for every instruction set", runEmit},
      {"plan", L::kernel, L::exec, "buffers, live ranges, size arithmetic",
       runPlan},
      {"pack", L::exec, L::artefact, "constants packed, file written", runPack},
  };
  return table;
}

std::vector<PhaseHelp> phaseHelp() {
  std::vector<PhaseHelp> rows;
  for (const Phase &phase : phases())
    rows.push_back({phase.name, phase.passes});
  return rows;
}

std::string printState(CompileState &state, const Phase &phase) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  switch (phase.out) {
  case Level::none:
    break;
  case Level::tensor:
  case Level::kernel:
    state.module->print(stream, OpPrintingFlags().enableDebugInfo(true, false));
    if (StringRef(phase.name) == "schedule")
      for (const UniqueKernel &unique : state.kernels.kernels)
        for (const Schedule &schedule : unique.schedules)
          stream << "// " << unique.signature << " "
                 << stringifyHero(ts::KernelOp(unique.kernel).getHero()) << ": "
                 << schedule.label() << " when " << schedule.guard.str()
                 << ", grid " << schedule.grid.str() << "\n";
    break;
  case Level::tile:
    for (const TargetDesc &target : state.targets)
      for (const UniqueKernel &unique : state.kernels.kernels)
        for (size_t i = 0; i < unique.schedules.size(); ++i) {
          stream << "// " << target.isa << "\n";
          if (OwningOpRef<ModuleOp> module =
                  buildTile(unique, i, *state.context, target))
            module->print(stream);
          else
            stream << "// no tile program: see the errors\n";
        }
    break;
  case Level::object:
    for (const CompiledImage &image : state.images)
      for (auto &[name, entry] : image.image.entries)
        stream << image.isa << " " << name << " at " << entry << "\n";
    break;
  case Level::exec:
  case Level::artefact:
    text = printProgram(*state.exec.program);
    break;
  }
  return text;
}

func::FuncOp CompileState::main() {
  return module->lookupSymbol<func::FuncOp>("main");
}

} // namespace knapper
