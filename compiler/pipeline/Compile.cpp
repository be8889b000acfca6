#include "compiler/pipeline/Compile.h"
#include "compiler/exec/Origin.h"
#include "compiler/pipeline/CacheKey.h"
#include "compiler/pipeline/KeptSource.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Phases.h"
#include "compiler/pipeline/Sources.h"
#include "compiler/pipeline/Table.h"
#include "compiler/registration/Registration.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/Headroom.h"
#include "runtime/base/Log.h"
#include <chrono>

using namespace mlir;

namespace knapper {

CompileState::CompileState(const CompileInput &input, const Options &options)
    : input(input), options(options),
      context(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)),
      sources(std::make_unique<Sources>()) {
  if (input.userKernels)
    userKernels = *input.userKernels;
  DialectRegistry registry;
  registerAllKnapperDialects(registry);
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
}
CompileState::~CompileState() = default;

namespace {

// What a phase may need beside weights.
constexpr uint64_t kPhaseMemory = uint64_t(64) << 20;

bool isPass(std::string_view name) {
  for (const PhaseHelp &phase : phaseHelp())
    if (llvm::is_contained(phase.passes, name))
      return true;
  return false;
}

/// --start-from takes a phase, the others a pass too.
Status checkPhaseName(std::string_view option, const std::string &value) {
  bool isStart = option == "start-from";
  if (value.empty() || findPhase(value) || (!isStart && isPass(value)) ||
      (option == "print-after" && value == "all"))
    return success();
  std::string names;
  for (const Phase &phase : phases())
    names += (names.empty() ? "" : ", ") + std::string(phase.name);
  return userError("there is no phase '" + value + "'",
                   "option " + std::string(option),
                   "one of: " + names +
                       (isStart ? "" : ", or a pass (knapper compile --help)"));
}

/// Of bf16, that matmuls of float32 may be made of; 0: they stay float32.
int64_t partsOfFloat32(const Options &options) {
  return options.float32Matmul == "bf16x6"   ? 3
         : options.float32Matmul == "bf16x3" ? 2
                                             : 0;
}

/// `several`: `--isa` may be meant for another one of the targets.
Status chooseTargets(CompileState &state, bool several) {
  TRY(checkTargets(allTargets()));
  std::string_view wanted = state.options.target;
  size_t colon = wanted.find(':');
  std::string_view name = wanted.substr(0, colon);
  state.target = findTarget(name);
  if (!state.target) {
    std::string names;
    for (const Target *target : allTargets())
      names += (names.empty() ? "" : ", ") + std::string(target->name());
    return userError("there is no target '" + std::string(name) + "'",
                     "option target", "one of: " + names);
  }
  bool isaGiven = state.options.isa != Options().isa;
  if (isaGiven && !state.target->takesIsas() && !several)
    return userError("'" + state.options.isa + "' is for CPUs", "option isa",
                     "name the GPU in the target: cuda:sm_90a");
  TargetRequest request;
  if (colon != std::string_view::npos)
    request.variant = wanted.substr(colon + 1);
  if (state.target->takesIsas())
    request.isas = splitList(state.options.isa);
  request.floatParts = partsOfFloat32(state.options);
  request.deterministic = state.options.deterministic;
  if (state.target->takesIsas() && request.isas.empty())
    return userError("no instruction set is given", "option isa",
                     "leave it out for all");
  ASSIGN_OR_RETURN(std::vector<TargetDesc> targets,
                   state.target->describe(request));
  state.targets = std::move(targets);
  return success();
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

Status verifyProgram(CompileState &state, const char *after) {
  if (!state.options.verifyEach || !state.module ||
      mlir::succeeded(verify(*state.module)))
    return success();
  return internalError("the program is not valid after it" +
                           (state.diagnostics.empty()
                                ? std::string()
                                : ": " + state.diagnostics.front().message()),
                       std::string("pass ") + after);
}

/// Prints and ends where the options say, after a phase or a pass of that name.
/// True: this was the end.
bool showProgram(CompileState &state, const Phase &phase,
                 std::string_view name) {
  const Options &options = state.options;
  bool isPhase = name == phase.name;
  bool stop = options.stopAfter == name;
  bool print =
      options.printAfter == name || (isPhase && options.printAfter == "all");
  if (!stop && !print)
    return false;
  std::string text = phase.out == Level::artefact && stop
                         ? std::string()
                         : printState(state, phase);
  if (print)
    log(LogLevel::info, "after " + std::string(name) + ":\n" + text);
  if (stop)
    state.stats->stopped = std::move(text);
  return stop;
}

/// Runs the target's steps on the entry, then on the bodies that its branches
/// and loops have afterwards: a step may give loops others. True: the options
/// ended the compile, at a step.
class Preparation {
public:
  Preparation(CompileState &state, const Phase &phase,
              std::span<const TargetPass> steps)
      : state(state), phase(phase), steps(steps), seconds(steps.size()) {}

  Expected<bool> run(PhaseTime &time) {
    std::string_view stop = state.options.stopAfter;
    auto last = llvm::find_if(
        steps, [&](const TargetPass &step) { return step.name == stop; });
    bool stops = last != steps.end();
    if (stops)
      steps = steps.first(last - steps.begin() + 1);
    TRY(prepare(state.main()));
    for (auto [step, taken] : llvm::zip(steps, seconds))
      time.passes.push_back({step.name, taken});
    return stops && showProgram(state, phase, stop);
  }

private:
  Status prepare(func::FuncOp function) {
    if (!function || !prepared.insert(function).second)
      return success();
    for (auto [step, taken] : llvm::zip(steps, seconds)) {
      auto start = std::chrono::steady_clock::now();
      step.run(function, state.targets.front());
      taken += secondsSince(start);
      TRY(verifyProgram(state, step.name));
      if (function == state.main() && step.name != state.options.stopAfter)
        showProgram(state, phase, step.name);
    }
    Status status = success();
    function.walk([&](Operation *op) {
      for (func::FuncOp body : ts::bodiesOf(op))
        if (status)
          status = prepare(body);
    });
    return status;
  }

  CompileState &state;
  const Phase &phase;
  std::span<const TargetPass> steps;
  std::vector<double> seconds; ///< of each step
  llvm::SmallPtrSet<Operation *, 8> prepared;
};

/// Runs a phase's passes. True: the options ended it.
Expected<bool> runPhase(CompileState &state, const Phase &phase,
                        const std::vector<std::string> &disabled,
                        PhaseTime &time) {
  for (const Pass &pass : phase.passes) {
    if (llvm::is_contained(disabled, pass.name))
      continue;
    if (pass.steps) {
      Preparation steps(state, phase, pass.steps(*state.target));
      ASSIGN_OR_RETURN(bool ended, steps.run(time));
      if (ended || showProgram(state, phase, pass.name))
        return true;
      continue;
    }
    auto start = std::chrono::steady_clock::now();
    if (Status done = pass.run(state); !done) {
      Error error = done.takeError();
      if (error.kind == ErrorKind::internal && error.where.empty())
        error.where = std::string("pass ") + pass.name;
      return error;
    }
    time.passes.push_back({pass.name, secondsSince(start)});
    TRY(verifyProgram(state, pass.name));
    if (pass.name != std::string_view(phase.name) &&
        showProgram(state, phase, pass.name))
      return true;
  }
  return false;
}

/// Runs the phases from `first` on, to `end` or to where the options say. True:
/// the options ended it.
Expected<bool> runPhasesOf(CompileState &state, const Phase *first,
                           const Phase *end, const std::string &suffix,
                           const ProgressFn &progress) {
  const Options &options = state.options;
  std::vector<std::string> disabled = splitList(options.disable);
  int number = 0, total = static_cast<int>(phases().size());
  for (const Phase &phase : phases()) {
    ++number;
    if (first && &phase < first)
      continue;
    if (&phase == end)
      break;
    if (progress)
      progress(phase.name, number - 1, total);
    if (state.input.cancel.isWished())
      return cancelledCompile();
    auto start = std::chrono::steady_clock::now();
    state.diagnostics.clear();
    TRY(checkHeadroom(kPhaseMemory));
    PhaseTime time{phase.name + suffix, 0};
    ASSIGN_OR_RETURN(bool ended, runPhase(state, phase, disabled, time));
    time.seconds = secondsSince(start);
    state.stats->phases.push_back(std::move(time));
    if (!ended && !options.dumpDir.empty() && phase.out != Level::artefact)
      TRY(writeDump(state, phase, printState(state, phase)));
    if (ended || showProgram(state, phase, phase.name))
      return true;
  }
  return false;
}

/// A compile for one kind of device.
struct Part {
  Part(const CompileInput &input, Options given)
      : options(std::move(given)), state(input, options),
        // Diagnostics become Errors; nothing is printed behind the caller's
        // back.
        handler(state.context.get(), [this](Diagnostic &d) {
          if (d.getSeverity() == DiagnosticSeverity::Error)
            state.diagnostics.push_back(
                internalError(d.str(), originText(d.getLocation())));
          return mlir::success();
        }) {}

  Options options;
  CompileState state;
  ScopedDiagnosticHandler handler;
};

/// Fusion and schedules depend on the kind of device: each gets a program of
/// its own.
Expected<std::vector<std::unique_ptr<Part>>>
makeParts(const CompileInput &input, const Options &options) {
  std::vector<std::string> targets = splitList(options.target);
  if (targets.size() > 1)
    for (auto [name, value] : {std::pair<const char *, const std::string &>(
                                   "stop-after", options.stopAfter),
                               {"start-from", options.startFrom},
                               {"print-after", options.printAfter},
                               {"dump-dir", options.dumpDir}})
      if (!value.empty())
        return userError("one target at a time can be looked at",
                         std::string("option ") + name,
                         "give one target, or leave this out");
  std::vector<std::unique_ptr<Part>> parts;
  for (const std::string &target : targets) {
    Options own = options;
    own.target = target;
    parts.push_back(std::make_unique<Part>(input, std::move(own)));
    TRY(chooseTargets(parts.back()->state, targets.size() > 1));
  }
  return parts;
}

/// Runs the phases, without the cache.
Expected<int> runPhases(const CompileInput &input, const Options &options,
                        const std::string &outputPath, CompileStats *stats,
                        const ProgressFn &progress) {
  TRY(checkHeadroom(kPhaseMemory));
  for (auto [name, value] : {std::pair<const char *, const std::string &>(
                                 "stop-after", options.stopAfter),
                             {"start-from", options.startFrom},
                             {"print-after", options.printAfter}})
    TRY(checkPhaseName(name, value));
  TRY(checkOptions(options));
  TRY(checkKeepsSource(input, options));
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Part>> parts,
                   makeParts(input, options));
  const Phase *first = findPhase(options.startFrom);
  if (first && first->in >= Level::scheduled && !options.records.empty())
    return userError("schedules are chosen before the phase '" +
                         options.startFrom + "'",
                     "option records", "start from an earlier phase");
  bool several = parts.size() > 1;
  const Phase *pack = findPhase("pack");
  std::vector<CompileState *> states;
  for (const std::unique_ptr<Part> &part : parts) {
    CompileState &state = part->state;
    states.push_back(&state);
    state.stats = stats;
    state.outputPath = outputPath;
    if (first)
      TRY(resume(state, *first));
    ASSIGN_OR_RETURN(
        bool ended,
        runPhasesOf(state, first, several ? pack : nullptr,
                    several ? " (" + part->options.target + ")" : std::string(),
                    progress));
    if (ended)
      return state.outputFd;
  }
  if (several) {
    if (progress)
      progress(pack->name, static_cast<int>(phases().size()) - 1,
               static_cast<int>(phases().size()));
    if (input.cancel.isWished())
      return cancelledCompile();
    auto start = std::chrono::steady_clock::now();
    TRY(packArtefact(states));
    stats->phases.push_back({pack->name, secondsSince(start)});
  }
  int total = static_cast<int>(phases().size());
  if (progress)
    progress("done", total, total);
  return states.front()->outputFd;
}

} // namespace

Expected<CompileInput> withUserKernels(const CompileInput &input,
                                       const Options &options) {
  CompileInput whole = input;
  if (options.kernels.empty() || whole.userKernels)
    return whole;
  ASSIGN_OR_RETURN(std::vector<UserKernel> kernels,
                   readUserKernels(options.kernels));
  whole.userKernels =
      std::make_shared<const std::vector<UserKernel>>(std::move(kernels));
  return whole;
}

Expected<int> compileModel(const CompileInput &input, const Options &options,
                           const std::string &outputPath, CompileStats *stats,
                           const ProgressFn &progress) {
  CompileStats own;
  stats = stats ? stats : &own;
  ASSIGN_OR_RETURN(CompileInput whole, withUserKernels(input, options));
  ASSIGN_OR_RETURN(bool cacheable, isCacheable(whole, options));
  return cacheable ? compileThroughCache(whole, options, outputPath, *stats,
                                         progress, runPhases)
                   : runPhases(whole, options, outputPath, stats, progress);
}

} // namespace knapper
