#include "compiler/pipeline/Phases.h"
#include "compiler/exec/Origin.h"
#include "compiler/kernels/ScheduleAttr.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Table.h"
#include "compiler/pipeline/TensorText.h"
#include "compiler/registration/Registration.h"
#include "graph/fusion/Constants.h"
#include "graph/fusion/FormKernels.h"
#include "graph/fusion/Signature.h"
#include "graph/memory/InPlace.h"
#include "graph/memory/OrderKernels.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/IndexLimit.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/base/Log.h"
#include "runtime/base/Text.h"
#include "runtime/operators/TextOperators.h"
#include "tune/Records.h"
#include <thread>

using namespace mlir;

namespace knapper {
namespace {

Status formKernels(CompileState &state) {
  const config::Machine &machine = state.targets.front();
  for (func::FuncOp function : ts::withBodies(state.main()))
    if (mlir::failed(
            fusion::formKernels(function, machine, &state.fusionReport)))
      return passFailed(state);
  return success();
}

/// Operands as the target's schedules read them.
Status arrangeOperands(CompileState &state) {
  for (func::FuncOp function : ts::withBodies(state.main()))
    state.target->arrange(function, state.targets.front());
  return success();
}

Status orderKernels(CompileState &state) {
  for (func::FuncOp function : ts::withBodies(state.main()))
    memory::orderKernels(function);
  return success();
}

Status findEqualKernels(CompileState &state) {
  collectKernels(state);
  return success();
}

/// A user kernel that stands for no kernel of the model does nothing.
void warnOfUserKernels(const CompileState &state) {
  for (const UserKernel &user : state.userKernels)
    if (user.target == state.target->name() &&
        llvm::none_of(state.kernels.kernels, [&](const UniqueKernel &unique) {
          return unique.signature == user.signature;
        }))
      log(LogLevel::warning,
          cat("user kernel '", user.name, "': the model has no kernel ",
              user.signature, " for ", user.target));
}

/// By how much a library won.
void sayGain(UniqueKernel &unique) {
  char text[80];
  snprintf(text, sizeof text,
           ": %.2f times as fast as our schedule when it was measured",
           unique.gain);
  for (VendorOffer &offer : unique.vendorOffers)
    if (offer.taken)
      offer.why += text;
}

/// How each kernel is cut into programs: by its record, else by the model.
Status chooseSchedules(CompileState &state) {
  tune::Records records;
  if (!state.options.records.empty()) {
    ASSIGN_OR_RETURN(tune::Records read,
                     tune::Records::read(state.options.records));
    records = std::move(read);
  }
  ASSIGN_OR_RETURN(std::vector<VendorLibrary> vendors,
                   vendorsOf(state.options));
  std::string target = state.target->tuningKey(state.targets.front());
  for (UniqueKernel &unique : state.kernels.kernels) {
    const tune::Record *record = records.find(unique.signature, target);
    Knobs knobs(record ? record->choice : tune::Choice());
    auto choose = [&]() -> Status {
      FailureOr<SmallVector<Schedule>> schedules =
          chooseSchedules(unique.kernel, state.targets.front(), knobs);
      if (mlir::failed(schedules)) {
        // What no schedule knows is a limit of this version, not a defect of
        // it.
        Error error = passFailed(state).takeError();
        error.kind = ErrorKind::user;
        error.hint = "compute this operation outside the model, or in another "
                     "element type";
        return error;
      }
      unique.setSchedules(std::move(*schedules));
      TRY(chooseUserKernel(unique, state.userKernels, *state.target,
                           state.targets, knobs));
      return chooseVendor(unique, vendors, state.options, *state.target,
                          state.targets.front(), knobs);
    };
    const SmallVector<bool> constants = unique.constants;
    TRY(choose());
    const UserKernel *user = userKernelOf(state, unique);
    bool always =
        user ? user->always : unique.vendor && state.options.vendorAlways;
    if (record && always) {
      ++state.stats->recordsStale; // of what does not run
    } else if (record && knobs.fits()) {
      unique.recorded = true;
      unique.gain = record->gain;
      sayGain(unique);
      ++state.stats->recordsUsed;
    } else if (record) {
      // Half a record was never measured.
      ++state.stats->recordsStale;
      knobs = Knobs();
      unique.offers.clear();
      unique.userKernel.clear();
      unique.vendorOffers.clear();
      unique.vendor.reset();
      unique.constants = constants; // which a library's choice cleared
      unique.kernel = findKernel(*unique.module, constants);
      TRY(choose());
    }
    unique.knobs = knobs.all();
  }
  warnOfUserKernels(state);
  return success();
}

Status dropTargets(CompileState &state) {
  dropEqualTargets(state);
  return success();
}

/// For dumps: the first of equal kernels holds the schedules of all.
Status attachSchedules(CompileState &state) {
  llvm::DenseSet<unsigned> seen;
  Builder b(state.context.get());
  state.forEachKernel([&](ts::KernelOp kernel) {
    unsigned index = state.uses.find(kernel)->second.kernel;
    const UniqueKernel &unique = state.kernels.kernels[index];
    kernel.setSignature(unique.signature);
    kernel.removeSchedulesAttr();
    kernel->removeAttr(kUserKernelAttr);
    kernel->removeAttr(kVendorAttr);
    if (unique.vendor)
      kernel->setAttr(kVendorAttr,
                      b.getStringAttr(name(unique.vendor->library)));
    if (const UserKernel *user = userKernelOf(state, unique)) {
      kernel->setAttr(kUserKernelAttr, b.getStringAttr(user->name));
      memory::setInPlace(kernel, user->inPlace);
    }
    if (seen.insert(index).second)
      kernel.setSchedulesAttr(ArrayAttr::get(
          kernel.getContext(),
          llvm::map_to_vector(unique.schedules, [&](const Schedule &schedule) {
            return Attribute(scheduleAttr(schedule, kernel.getContext()));
          })));
  });
  return success();
}

/// A target knows a kernel by its function, the user knows the model's nodes.
void nameNodes(CompileState &state, Error &error) {
  StringRef where = error.where;
  std::string nodes;
  state.forEachKernel([&](ts::KernelOp kernel) {
    auto use = state.uses.find(kernel);
    if (use == state.uses.end())
      return;
    const UniqueKernel &unique = state.kernels.kernels[use->second.kernel];
    for (size_t i = 0; nodes.empty() && i < unique.schedules.size(); ++i)
      if (where.contains("'" + unique.functionName(i) + "'"))
        nodes = kernelOrigin(kernel);
  });
  if (!nodes.empty())
    error.where += ", which computes " + nodes;
}

Status emitCode(CompileState &state) {
  std::span<const KernelJob> jobs = state.jobs;
  unsigned threads = state.options.threads
                         ? static_cast<unsigned>(state.options.threads)
                         : std::max(1u, std::thread::hardware_concurrency());
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  if (!jobs.empty()) {
    Expected<std::vector<CompiledImage>> images =
        state.target->emit(jobs, state.targets, threads, registry);
    if (state.input.cancel.isWished())
      return cancelledCompile();
    if (!images) {
      Error error = images.takeError();
      // Programs of a file, or schedules of one that no builder takes.
      if (!state.tilePrograms.empty() || state.options.startFrom == "tile")
        error.kind = ErrorKind::user;
      nameNodes(state, error);
      return error;
    }
    state.images = std::move(*images);
  }
  state.stats->kernels += state.kernels.kernels.size();
  state.stats->variants += jobs.size() * state.targets.size();
  for (const CompiledImage &image : state.images)
    state.stats->variantCpuSeconds += image.times.total();
  return success();
}

/// Every symbol is a dim of an input, or read from a buffer.
Status checkSizesAreGiven(const fb::ProgramT &program) {
  std::vector<bool> given;
  for (const auto &symbol : program.symbols)
    given.push_back(symbol->from_buffer);
  for (const auto &input : program.inputs)
    for (uint32_t dim : input->dims)
      if (program.values[dim].op() == fb::ScalarOp::symbol)
        given[program.values[dim].imm()] = true;
  for (auto [symbol, isGiven] : llvm::zip(program.symbols, given))
    if (!isGiven)
      return userError("no input has the size '" + symbol->name + "'",
                       "the model",
                       "fix it (--dim " + symbol->name +
                           "=...), or make it a dim of an input");
  return success();
}

Status planMemory(CompileState &state) {
  FailureOr<ExecProgram> exec =
      buildExecProgram(state.main(), state.kernels, state.uses);
  if (mlir::failed(exec))
    return passFailed(state);
  state.exec = std::move(*exec);
  state.stats->launches += state.uses.size();
  ASSIGN_OR_RETURN(bool text, isText(state.input, state.options));
  if (!text) {
    ASSIGN_OR_RETURN(const FrontEnd *frontEnd,
                     frontEndOf(state.input, state.options));
    if (frontEnd->givesExternalTypes())
      return success();
  }
  for (func::FuncOp function : ts::withBodies(state.main()))
    function.walk([&](ts::ExternalOp op) {
      state.stats->externals |= op.getDomain() != kHostDomain;
    });
  return success();
}

Status checkSizes(CompileState &state) {
  return checkSizesAreGiven(*state.exec.program);
}

Status packOne(CompileState &state) {
  CompileState *only = &state;
  return packArtefact({&only, 1});
}

} // namespace

Status listPrograms(CompileState &state) {
  for (const UniqueKernel &unique : state.kernels.kernels) {
    if (const UserKernel *user = userKernelOf(state, unique)) {
      GivenCode &code = state.given.emplace_back(user->code);
      ts::KernelOp kernel = unique.kernel;
      code.numBuffers = kernel.getInputs().size() + kernel.getNumResults();
      code.numSymbols = unique.symbols.size();
      state.jobs.push_back({unique.functionName(0), nullptr, &code});
      continue;
    }
    for (size_t i = 0; i < unique.schedules.size(); ++i)
      state.jobs.push_back(
          {unique.functionName(i),
           [&state, &unique, i](MLIRContext &context,
                                const TargetDesc &target) {
             return state.input.cancel.isWished()
                        ? OwningOpRef<ModuleOp>()
                        : tileProgram(state, unique, i, context, target);
           },
           nullptr, codeLength(unique.schedules[i])});
  }
  return success();
}

Error cancelledCompile() {
  return userError("the compile was cancelled", "compile");
}

Status passFailed(CompileState &state) {
  if (!state.diagnostics.empty())
    return state.diagnostics.front();
  return internalError("failed without a reason");
}

std::span<const TargetPass> stepsOf(const Pass &pass, const Target &target) {
  return pass.steps ? pass.steps(target) : std::span<const TargetPass>();
}

std::span<const Phase> phases() {
  using L = Level;
  static constexpr Pass import[] = {{"import-model", importModel}};
  static constexpr Pass fuse[] = {
      {"prepare-for-target", nullptr, false,
       [](const Target &target) { return target.preparation(); }},
      {"form-kernels", formKernels},
      {"arrange-operands", arrangeOperands},
      {"order-kernels", orderKernels},
  };
  static constexpr Pass schedule[] = {
      {"find-equal-kernels", findEqualKernels},
      {"choose-schedules", chooseSchedules},
      {"drop-equal-targets", dropTargets},
      {"attach-schedules", attachSchedules},
  };
  static constexpr Pass tile[] = {{"list-programs", listPrograms}};
  static constexpr Pass emit[] = {{"emit-code", emitCode}};
  static constexpr Pass plan[] = {
      {"plan-memory", planMemory},
      {"check-sizes", checkSizes},
  };
  static constexpr Pass pack[] = {{"pack-artefact", packOne}};
  static const Phase table[] = {
      {"import", L::none, L::tensor, "front end", import},
      {"simplify", L::tensor, L::tensor,
       "algebra, composites, merged matmuls, layout, dtype", simplifyPasses()},
      {"fuse", L::tensor, L::kernel,
       "regions that become one launch, in an order that keeps memory low",
       fuse},
      {"schedule", L::kernel, L::scheduled,
       "equal kernels once, tile sizes, guards", schedule},
      // (A dump of this phase builds and prints the programs.)
      {"tile", L::scheduled, L::tile, "what one program of each grid does",
       tile},
      {"emit", L::tile, L::object,
       "vectors, machine code and link for every instruction set", emit},
      {"plan", L::object, L::exec, "buffers, live ranges, size arithmetic",
       plan},
      {"pack", L::exec, L::artefact, "constants packed, file written", pack},
  };
  return table;
}

std::vector<PhaseHelp> phaseHelp() {
  std::vector<PhaseHelp> rows;
  for (const Phase &phase : phases()) {
    PhaseHelp &row = rows.emplace_back(PhaseHelp{phase.name, phase.does, {}});
    for (const Pass &pass : phase.passes) {
      row.passes.push_back(pass.name);
      for (const Target *target : allTargets())
        for (const TargetPass &step : stepsOf(pass, *target))
          row.passes.push_back(step.name);
    }
  }
  return rows;
}

std::vector<const char *> optionalPasses() {
  std::vector<const char *> names;
  for (const Phase &phase : phases())
    for (const Pass &pass : phase.passes)
      if (pass.isOptional)
        names.push_back(pass.name);
  return names;
}

const Phase *findPhase(std::string_view name) {
  for (const Phase &phase : phases())
    if (phase.name == name)
      return &phase;
  return nullptr;
}

const UserKernel *userKernelOf(const CompileState &state,
                               const UniqueKernel &unique) {
  auto found = llvm::find_if(state.userKernels, [&](const UserKernel &kernel) {
    return kernel.name == unique.userKernel;
  });
  return found == state.userKernels.end() ? nullptr : &*found;
}

OwningOpRef<ModuleOp> tileProgram(const CompileState &state,
                                  const UniqueKernel &unique, size_t index,
                                  MLIRContext &context,
                                  const TargetDesc &target) {
  if (!state.tilePrograms.empty())
    return parseSourceString<ModuleOp>(
        state.tilePrograms.at({target.isa, unique.functionName(index)}),
        &context);
  OwningOpRef<Operation *> source =
      fusion::parseCanonicalKernel(unique.text, &context);
  if (!source)
    return {};
  ts::KernelOp kernel = findKernel(*source, unique.constants);
  // Sizes belong to a context: the schedule comes over as text.
  std::optional<Schedule> schedule =
      scheduleOf(parseAttribute(unique.scheduleTexts[index], &context));
  if (!schedule)
    return {};
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  FailureOr<tile::FuncOp> function =
      buildTileProgram(builder, kernel, *schedule, target,
                       unique.functionName(index), unique.symbols);
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

void dropEqualTargets(CompileState &state) {
  auto grouped = [&](int64_t groups) {
    return llvm::any_of(state.kernels.kernels, [&](const UniqueKernel &k) {
      return llvm::any_of(k.schedules, [&](const Schedule &schedule) {
        return (schedule.group & groups) != 0;
      });
    });
  };
  std::vector<std::string> names;
  for (const TargetDesc &target : state.targets)
    names.push_back(target.isa);
  std::erase_if(state.targets, [&](const TargetDesc &target) {
    return llvm::is_contained(names, target.extends) &&
           !grouped(target.extendsGroups);
  });
}

void collectKernels(CompileState &state) {
  state.forEachKernel([&](ts::KernelOp kernel) {
    SmallVector<bool> constants;
    for (Value input : kernel.getInputs())
      constants.push_back(fusion::isConstantExpression(input));
    state.uses[kernel] = state.kernels.add(kernel, constants);
  });
}

void CompileState::forEachKernel(llvm::function_ref<void(ts::KernelOp)> visit) {
  for (func::FuncOp function : ts::withBodies(main()))
    function.walk(visit);
}

func::FuncOp CompileState::main() {
  return module->lookupSymbol<func::FuncOp>("main");
}

} // namespace knapper
