#include "codegen/schedule/core/Schedule.h"
#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Table.h"
#include "graph/fold/FoldConstants.h"
#include "graph/layout/ChannelsLast.h"
#include "graph/layout/ConvPhases.h"
#include "graph/layout/PlaneLayout.h"
#include "graph/layout/SplitPools.h"
#include "graph/layout/Transforms.h"
#include "graph/loops/SimplifyLoops.h"
#include "graph/quantize/ConvertFloat.h"
#include "graph/quantize/QuantisedMatmuls.h"
#include "graph/quantize/QuantizeWeights.h"
#include "graph/quantize/RoundMatmuls.h"
#include "graph/quantize/ScaledMatmuls.h"
#include "graph/quantize/WidenScatter.h"
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/FoldConv.h"
#include "graph/simplify/MatrixDots.h"
#include "graph/simplify/MergeDots.h"
#include "graph/simplify/MergeNumbers.h"
#include "graph/simplify/Simplify.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/IndexLimit.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace knapper {

namespace {

/// A pass of a function, on the entry and on the bodies that it runs.
template <auto run> Status onEach(CompileState &state) {
  for (func::FuncOp function : ts::withBodies(state.main()))
    if (mlir::failed(run(function, state)))
      return passFailed(state);
  return success();
}

/// A pass that asks for no options.
template <auto run>
LogicalResult plain(func::FuncOp function, const CompileState &) {
  if constexpr (std::is_same_v<decltype(run(function)), LogicalResult>)
    return run(function);
  else
    run(function);
  return mlir::success();
}

// Functions with arguments that have defaults.
constexpr auto fold = [](func::FuncOp function) { foldConstants(function); };
constexpr auto merge = [](func::FuncOp function) { mergeDots(function); };
constexpr auto loops = [](func::FuncOp function) { simplifyLoops(function); };

LogicalResult foldConvs(func::FuncOp function, const CompileState &) {
  RewritePatternSet patterns(function.getContext());
  populateFoldConvPatterns(patterns);
  return applyPatternsGreedily(function, std::move(patterns));
}

LogicalResult quantiseWeights(func::FuncOp function,
                              const CompileState &state) {
  const Options &options = state.options;
  if (!options.weights.empty() && options.weights != "f32")
    quantizeWeights(function, {.bits = options.weights == "int4" ? 4 : 8,
                               .group = options.weightGroup,
                               .asymmetric = options.weightZeroPoints});
  return mlir::success();
}

LogicalResult convertFloats(func::FuncOp function, const CompileState &state) {
  MLIRContext *context = function.getContext();
  if (state.options.dtype == "bf16")
    return convertFloat(function, BFloat16Type::get(context));
  if (state.options.dtype == "f16")
    return convertFloat(function, Float16Type::get(context));
  return mlir::success();
}

LogicalResult splitLargePools(func::FuncOp function,
                              const CompileState &state) {
  const std::string &dtype = state.options.dtype;
  // Threads read windows of one channel as fast as those of several.
  if (!state.targets.front().simt)
    splitPools(function, /*maximaOnly=*/dtype == "bf16" || dtype == "f16");
  return mlir::success();
}

LogicalResult arrangeChannels(func::FuncOp function,
                              const CompileState &state) {
  bool threads = state.targets.front().simt;
  if (!threads)
    splitConvPhases(function, phasesPreferPlanes);
  // What is to be converted is as wide as that only behind this phase.
  bool converts =
      state.options.dtype == "bf16" || state.options.dtype == "f16";
  return useChannelsLast(
      function, /*onlyMixing=*/threads, /*keepPlanes=*/!threads,
      [&](ts::ConvOp op) {
        return !(converts && ts::elementTypeOf(op.getInput()).isF32()) &&
               isTakenDirectly(op, state.targets.front());
      });
}

LogicalResult chooseTransforms(func::FuncOp function,
                               const CompileState &state) {
  lowerTransforms(function, /*passes=*/!state.targets.front().simt);
  return mlir::success();
}

LogicalResult roundToTf32(func::FuncOp function, const CompileState &state) {
  if (state.options.allowTf32 && state.targets.front().tf32)
    roundMatmuls(function);
  return mlir::success();
}

Status markLimits(CompileState &state) {
  ts::markIndexLimits(state.main());
  return success();
}

/// Bodies of branches and loops that are gone.
Status dropUnusedBodies(CompileState &state) {
  llvm::SmallDenseSet<Operation *> used;
  for (func::FuncOp function : ts::withBodies(state.main()))
    used.insert(function);
  for (auto function :
       llvm::make_early_inc_range(state.module->getOps<func::FuncOp>()))
    if (function.isPrivate() && !used.contains(function))
      function.erase();
  return success();
}

constexpr Pass passes[] = {
    {"transforms", onEach<chooseTransforms>},
    {"quantised-matmuls", onEach<plain<multiplyQuantised>>, true},
    {"scaled-matmuls", onEach<plain<scaleMatmuls>>, true},
    {"fold-constants", onEach<plain<fold>>, true},
    {"simplify", onEach<plain<simplify>>, true},
    // What shape arithmetic left of masks becomes numbers.
    {"fold-simplified", onEach<plain<fold>>, true},
    {"simplify-loops", onEach<plain<loops>>, true},
    {"find-composites", onEach<plain<findComposites>>, true},
    {"merge-numbers", onEach<plain<mergeNumbers>>, true},
    {"fold-conv", onEach<foldConvs>, true},
    {"split-pools", onEach<splitLargePools>, true},
    {"layout", onEach<arrangeChannels>, true},
    {"matrix-dots", onEach<plain<makeMatrixDots>>, true},
    {"merge-dots", onEach<plain<merge>>, true},
    {"simplify-again", onEach<plain<simplify>>, true},
    {"quantize-weights", onEach<quantiseWeights>, true},
    {"convert-float", onEach<convertFloats>, true},
    {"widen-scatter", onEach<plain<widenScatter>>, true},
    {"round-matmuls", onEach<roundToTf32>, true},
    {"fold-constants-again", onEach<plain<fold>>, true},
    {"drop-unused-bodies", dropUnusedBodies},
    {"mark-index-limits", markLimits},
};

} // namespace

std::span<const Pass> simplifyPasses() { return passes; }

/// The options of weights fit together.
static Status checkWeights(const Options &options) {
  if (options.weights.empty() || options.weights == "f32")
    return success();
  int64_t group = options.weightGroup;
  if (group < 1 || (options.weights == "int4" && group % 2))
    return userError("a group of " + std::to_string(group) + " rows of " +
                         options.weights + " weights",
                     "option weight-group",
                     "a positive number, even for int4: 32, 64 or 128");
  return success();
}

Status checkOptions(const Options &options) {
  TRY(checkWeights(options));
  if (Expected<std::vector<VendorLibrary>> vendors = vendorsOf(options);
      !vendors)
    return vendors.takeError();
  std::vector<const char *> names = optionalPasses();
  for (const std::string &name : splitList(options.disable))
    if (!llvm::is_contained(names, name))
      return userError("there is no pass '" + name + "' to leave out",
                       "option disable", "one of: " + llvm::join(names, ", "));
  return success();
}

} // namespace knapper
