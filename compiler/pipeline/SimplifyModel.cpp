#include "compiler/pipeline/Pack.h"
#include "compiler/pipeline/Table.h"
#include "graph/fold/FoldConstants.h"
#include "graph/layout/ChannelsLast.h"
#include "graph/quantize/ConvertFloat.h"
#include "graph/quantize/QuantisedProducts.h"
#include "graph/quantize/QuantizeWeights.h"
#include "graph/quantize/RoundProducts.h"
#include "graph/quantize/ScaledProducts.h"
#include "graph/quantize/WidenScatter.h"
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/FoldConv.h"
#include "graph/simplify/MergeDots.h"
#include "graph/simplify/MergeNumbers.h"
#include "graph/simplify/Simplify.h"
#include "ir/tensor/BranchesAndLoops.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace knapper {

namespace {

struct Pass {
  const char *name;
  void (*run)(func::FuncOp, const CompileState &, LogicalResult &);
};

/// The passes of the phase, in order, by the names that --disable takes.
constexpr Pass passes[] = {
    {"quantised-products", [](func::FuncOp f, const CompileState &,
                              LogicalResult &) { multiplyQuantised(f); }},
    {"scaled-products", [](func::FuncOp f, const CompileState &,
                           LogicalResult &) { scaleProducts(f); }},
    {"fold-constants", [](func::FuncOp f, const CompileState &,
                          LogicalResult &) { foldConstants(f); }},
    {"simplify", [](func::FuncOp f, const CompileState &,
                    LogicalResult &ok) { ok = simplify(f); }},
    // What shape arithmetic left of masks becomes numbers.
    {"fold-simplified", [](func::FuncOp f, const CompileState &,
                           LogicalResult &) { foldConstants(f); }},
    {"find-composites", [](func::FuncOp f, const CompileState &,
                           LogicalResult &ok) { ok = findComposites(f); }},
    {"merge-numbers", [](func::FuncOp f, const CompileState &,
                         LogicalResult &) { mergeNumbers(f); }},
    {"fold-conv",
     [](func::FuncOp f, const CompileState &, LogicalResult &ok) {
       RewritePatternSet patterns(f.getContext());
       populateFoldConvPatterns(patterns);
       ok = applyPatternsGreedily(f, std::move(patterns));
     }},
    {"layout", [](func::FuncOp f, const CompileState &,
                  LogicalResult &ok) { ok = useChannelsLast(f); }},
    {"merge-dots", [](func::FuncOp f, const CompileState &,
                      LogicalResult &) { mergeDots(f); }},
    {"simplify-again", [](func::FuncOp f, const CompileState &,
                          LogicalResult &ok) { ok = simplify(f); }},
    {"quantize-weights",
     [](func::FuncOp f, const CompileState &state, LogicalResult &) {
       const Options &options = state.options;
       if (!options.weights.empty() && options.weights != "f32")
         quantizeWeights(f, {.bits = options.weights == "int4" ? 4 : 8,
                             .group = options.weightGroup,
                             .asymmetric = options.weightZeroPoints});
     }},
    {"convert-float",
     [](func::FuncOp f, const CompileState &state, LogicalResult &ok) {
       if (state.options.dtype == "bf16")
         ok = convertFloat(f, BFloat16Type::get(f.getContext()));
       else if (state.options.dtype == "f16")
         ok = convertFloat(f, Float16Type::get(f.getContext()));
     }},
    {"widen-scatter", [](func::FuncOp f, const CompileState &,
                         LogicalResult &) { widenScatter(f); }},
    {"round-products",
     [](func::FuncOp f, const CompileState &state, LogicalResult &) {
       if (state.options.allowTf32 && state.targets.front().tf32)
         roundProducts(f);
     }},
    {"fold-constants-again", [](func::FuncOp f, const CompileState &,
                                LogicalResult &) { foldConstants(f); }},
};

} // namespace

std::vector<const char *> disablePasses() {
  std::vector<const char *> names;
  for (const Pass &pass : passes)
    names.push_back(pass.name);
  return names;
}

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

Status simplifyModel(CompileState &state) {
  TRY(checkWeights(state.options));
  std::vector<std::string> disabled = splitList(state.options.disable);
  for (const std::string &name : disabled)
    if (llvm::none_of(passes, [&](const Pass &p) { return p.name == name; })) {
      std::string names;
      for (const Pass &pass : passes)
        names += (names.empty() ? "" : ", ") + std::string(pass.name);
      return userError("there is no pass '" + name + "' to leave out",
                       "option disable", "one of: " + names);
    }
  for (const Pass &pass : passes) {
    if (llvm::is_contained(disabled, pass.name))
      continue;
    LogicalResult ok = mlir::success();
    for (func::FuncOp function : ts::withBodies(state.main()))
      if (mlir::succeeded(ok))
        pass.run(function, state, ok);
    if (mlir::failed(ok))
      return state.diagnostics.empty()
                 ? internalError("failed without a reason",
                                 std::string("pass ") + pass.name)
                 : state.diagnostics.front();
    if (state.options.verifyEach && mlir::failed(verify(*state.module)))
      return internalError("the program is not valid after the pass: " +
                               (state.diagnostics.empty()
                                    ? std::string()
                                    : state.diagnostics.front().message()),
                           std::string("pass ") + pass.name);
  }
  // Bodies of branches and loops that are gone.
  llvm::SmallDenseSet<Operation *> used;
  for (func::FuncOp function : ts::withBodies(state.main()))
    used.insert(function);
  for (auto function :
       llvm::make_early_inc_range(state.module->getOps<func::FuncOp>()))
    if (function.isPrivate() && !used.contains(function))
      function.erase();
  return success();
}

} // namespace knapper
