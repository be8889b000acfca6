// The passes do not change what a function means: every function of the lit
// tests of graph/simplify, graph/loops, graph/layout and graph/quantize is
// evaluated by the reference before and after them, on random inputs. More
// files may be named on the command line.
#include "graph/fusion/FormKernels.h"
#include "graph/layout/AlignMatrices.h"
#include "graph/layout/ChannelsLast.h"
#include "graph/layout/ConvPhases.h"
#include "graph/layout/GateDots.h"
#include "graph/layout/MergeReducedDims.h"
#include "graph/layout/PackFilters.h"
#include "graph/layout/PadChannels.h"
#include "graph/layout/PlaneLayout.h"
#include "graph/layout/Recurrences.h"
#include "graph/layout/Selections.h"
#include "graph/layout/SplitPools.h"
#include "graph/layout/SplitReductions.h"
#include "graph/layout/SplitScatters.h"
#include "graph/layout/SplitSorts.h"
#include "graph/layout/VectorDots.h"
#include "graph/loops/SimplifyLoops.h"
#include "graph/quantize/ByteMatmuls.h"
#include "graph/quantize/QuantisedMatmuls.h"
#include "graph/quantize/RoundMatmuls.h"
#include "graph/quantize/ScaledMatmuls.h"
#include "graph/quantize/WidenScatter.h"
#include "graph/simplify/FindComposites.h"
#include "graph/simplify/FoldConv.h"
#include "graph/simplify/MatrixDots.h"
#include "graph/simplify/MergeDots.h"
#include "graph/simplify/MergeNumbers.h"
#include "graph/simplify/NarrowDots.h"
#include "graph/simplify/Simplify.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

std::vector<std::string> extraFiles;

std::vector<std::string> testFiles() {
  std::vector<std::string> files = extraFiles;
  for (const char *folder : {"simplify", "loops", "layout", "quantize"})
    for (const auto &entry : std::filesystem::directory_iterator(
             std::string(KNAPPER_SOURCE) + "/graph/" + folder + "/test"))
      if (entry.path().extension() == ".mlir")
        files.push_back(entry.path().string());
  return files;
}

/// The parts of a file, as --split-input-file takes them.
std::vector<OwningOpRef<ModuleOp>> modulesOf(const std::string &file,
                                             MLIRContext &context) {
  std::vector<OwningOpRef<ModuleOp>> modules;
  auto text = llvm::MemoryBuffer::getFile(file);
  EXPECT_TRUE(bool(text)) << file;
  SmallVector<StringRef> parts;
  if (text)
    (*text)->getBuffer().split(parts, "// -----\n");
  for (StringRef part : parts) {
    modules.push_back(parseSourceString<ModuleOp>(part, &context));
    EXPECT_TRUE(modules.back()) << file;
  }
  return modules;
}

/// Numbers of the dtype; integers are 0 and 1 (indices, masks). The first of
/// each row is 1: no mask excludes every key of a row, where parts of an
/// attention and the op may differ (FindComposites.h).
HostTensor randomTensor(DType dtype, ArrayRef<int64_t> dims, uint64_t seed,
                        double scale) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(*elementCountOf(dims));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = HostTensor::isFloat(dtype)             ? normal(engine)
                : dims.empty() || i % dims.back() == 0 ? 1
                                                       : engine() % 2;
  return HostTensor::store<double>(dtype, dims, values);
}

EvaluateContext makeContext(func::FuncOp function) {
  EvaluateContext context;
  int64_t next = 2;
  for (Type type : function.getArgumentTypes()) {
    llvm::SetVector<StringAttr> symbols;
    for (Dim dim : dimsOf(type))
      dim.collectSymbols(symbols);
    for (StringAttr symbol : symbols)
      if (context.symbols.try_emplace(symbol.getValue(), next).second)
        next += 3;
  }
  for (Type type : function.getResultTypes()) {
    llvm::SetVector<StringAttr> symbols;
    for (Dim dim : dimsOf(type))
      dim.collectSymbols(symbols);
    for (StringAttr symbol : symbols)
      context.symbols.try_emplace(symbol.getValue(), 3);
  }
  context.weights = [](WeightOp op) -> Expected<HostTensor> {
    auto type = cast<RankedTensorType>(op.getType());
    double fanIn = type.getRank() > 1 ? type.getDimSize(0) : 1;
    return randomTensor(*dtypeOf(type.getElementType()), type.getShape(),
                        llvm::xxh3_64bits(op.getReference().getName()),
                        1 / std::sqrt(fanIn));
  };
  return context;
}

std::vector<HostTensor> run(func::FuncOp function) {
  EvaluateContext context = makeContext(function);
  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (Type type : function.getArgumentTypes()) {
    auto shape = evaluateShape(type, context.symbols, uint64_t(1) << 30);
    EXPECT_TRUE(bool(shape));
    inputs.push_back(randomTensor(
        *dtypeOf(cast<ShapedType>(type).getElementType()), *shape, seed++, 1));
  }
  auto results = evaluateFunction(function, inputs, context);
  EXPECT_TRUE(bool(results)) << (results ? "" : results.error().message());
  if (!results)
    return {};
  return {results->begin(), results->end()};
}

/// Largest difference over the largest magnitude.
double distance(const HostTensor &a, const HostTensor &b) {
  std::vector<double> x = a.load<double>(), y = b.load<double>();
  if (x.size() != y.size())
    return INFINITY;
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))
      continue;
    if (std::isnan(x[i]) || std::isnan(y[i]))
      return INFINITY;
    worst = std::max(worst, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(x[i]));
  }
  return worst / largest;
}

/// A composite is rounded to 16 bits once where its parts were rounded one by
/// one: two units in the last place.
double tolerance(DType type) {
  switch (type) {
  case DType::bf16:
    return 0x1p-7;
  case DType::f16:
    return 0x1p-10;
  default:
    return 2e-6;
  }
}

/// Of the narrowest type that the function computes in: what is fused is not
/// rounded to it on the way.
double tolerance(func::FuncOp function) {
  double widest = 0;
  auto see = [&](Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    if (auto element = type ? dtypeOf(type.getElementType()) : std::nullopt)
      widest = std::max(widest, tolerance(*element));
  };
  llvm::for_each(function.getArguments(), see);
  function.walk([&](Operation *op) { llvm::for_each(op->getResults(), see); });
  return widest;
}

using Step =
    std::pair<const char *, std::function<LogicalResult(func::FuncOp)>>;

/// `keepPlanes`: as CPUs do (ChannelsLast.h).
std::vector<Step> pipeline(bool keepPlanes) {
  return {{"quantised-matmuls",
           [](func::FuncOp f) {
             multiplyQuantised(f);
             return mlir::success();
           }},
          {"scaled-matmuls",
           [](func::FuncOp f) {
             scaleMatmuls(f);
             return mlir::success();
           }},
          {"simplify", [](func::FuncOp f) { return simplify(f); }},
          {"simplify-loops",
           [](func::FuncOp f) {
             simplifyLoops(f);
             return mlir::success();
           }},
          {"find-composites", [](func::FuncOp f) { return findComposites(f); }},
          {"merge-numbers",
           [](func::FuncOp f) {
             mergeNumbers(f);
             return mlir::success();
           }},
          {"fold-conv",
           [](func::FuncOp f) {
             RewritePatternSet patterns(f.getContext());
             populateFoldConvPatterns(patterns);
             return applyPatternsGreedily(f, std::move(patterns));
           }},
          {"expand-selections",
           [](func::FuncOp f) {
             expandSelections(f);
             return mlir::success();
           }},
          {"split-pools",
           [](func::FuncOp f) {
             splitPools(f);
             return mlir::success();
           }},
          {"few-features",
           [](func::FuncOp f) {
             splitConvPhases(f, phasesPreferPlanes);
             return mlir::success();
           }},
          {"layout",
           [=](func::FuncOp f) {
             return useChannelsLast(f, /*onlyMixing=*/false, keepPlanes);
           }},
          {"conv-phases",
           [](func::FuncOp f) {
             splitConvPhases(f);
             return mlir::success();
           }},
          {"pad-channels",
           [](func::FuncOp f) {
             padChannels(f);
             return mlir::success();
           }},
          {"matrix-dots",
           [](func::FuncOp f) {
             makeMatrixDots(f);
             return mlir::success();
           }},
          {"narrow-dots",
           [](func::FuncOp f) {
             narrowDots(f);
             return mlir::success();
           }},
          {"align-matrices",
           [](func::FuncOp f) {
             alignMatrices(f);
             return mlir::success();
           }},
          {"vector-dots",
           [](func::FuncOp f) {
             reduceVectorDots(f);
             return mlir::success();
           }},
          {"recurrences",
           [](func::FuncOp f) {
             formRecurrences(f, [](RecurrenceOp) { return true; });
             return mlir::success();
           }},
          {"gate-dots",
           [](func::FuncOp f) {
             reduceGateDots(f, 1 << 20);
             return mlir::success();
           }},
          {"merge-reduced-dims",
           [](func::FuncOp f) {
             mergeReducedDims(f);
             return mlir::success();
           }},
          {"split-reductions",
           [](func::FuncOp f) {
             // So that the small tensors of tests are split too.
             splitReductions(f, {.programs = 64,
                                 .tile = 4,
                                 .part = 2,
                                 .leastColumn = 2,
                                 .narrowColumns = 4,
                                 .row = 2,
                                 .lines = 64,
                                 .leastLine = 2,
                                 .around = 1});
             return mlir::success();
           }},
          {"split-reductions of runs",
           [](func::FuncOp f) {
             splitReductions(f, {.programs = 64,
                                 .tile = 4,
                                 .part = 2,
                                 .leastColumn = 2,
                                 .row = 2,
                                 .flatRuns = true});
             return mlir::success();
           }},
          {"split-sorts",
           [](func::FuncOp f) {
             splitSorts(f, {.run = 8, .fewest = 2, .lines = 16, .part = 3});
             return mlir::success();
           }},
          {"split-sorts by digits",
           [](func::FuncOp f) {
             splitSorts(f, {.run = 8, .fewest = 2, .shortest = 8});
             return mlir::success();
           }},
          {"first of lines by reductions",
           [](func::FuncOp f) {
             splitSorts(f, {.lines = 1, .held = 1});
             return mlir::success();
           }},
          {"split-scatters",
           [](func::FuncOp f) {
             splitScatters(f, {.updates = 4, .each = 1, .parts = 4});
             return mlir::success();
           }},
          {"byte-matmuls",
           [](func::FuncOp f) {
             expandByteMatmuls(f);
             return mlir::success();
           }},
          {"widen-scatter",
           [](func::FuncOp f) {
             widenScatter(f);
             return mlir::success();
           }},
          {"round-matmuls",
           [](func::FuncOp f) {
             roundMatmuls(f);
             return mlir::success();
           }},
          {"merge-dots",
           [](func::FuncOp f) {
             mergeDots(f);
             return simplify(f);
           }},
          {"form-kernels",
           [](func::FuncOp f) {
             constexpr config::Machine machine{.keptBytes = 4 << 20,
                                               .fmaFlops = 4e11,
                                               .copyBandwidth = 2e10,
                                               .cacheBandwidth = 1e11,
                                               .launchSeconds = 2e-6};
             return fusion::formKernels(f, machine);
           }},
          {"pack-filters", [](func::FuncOp f) {
             packFilters(f);
             return mlir::success();
           }}};
}

} // namespace

/// Whether the layout of planes can make a difference.
static bool readsWindows(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        return isa<ConvOp, PoolOp>(op) ? WalkResult::interrupt()
                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

static void expectSameMeaning(bool keepPlanes) {
  DialectRegistry registry;
  registry.insert<TsDialect, func::FuncDialect>();
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  int functions = 0;
  for (const std::string &file : testFiles()) {
    // Files of parts have names that stand in several of them.
    std::vector<OwningOpRef<ModuleOp>> modules = modulesOf(file, context);
    for (OwningOpRef<ModuleOp> &module : modules)
      for (func::FuncOp function : module->getOps<func::FuncOp>()) {
        if (function
                .isPrivate()) // A body: a part of the function that runs it.
          continue;
        if (keepPlanes && !readsWindows(function))
          continue;
        SCOPED_TRACE(file + " @" + function.getName().str());
        std::vector<HostTensor> before = run(function);
        const double allowed = tolerance(function);
        for (auto &[name, step] : pipeline(keepPlanes)) {
          SCOPED_TRACE(name);
          SmallVector<std::string> parts; // a step may erase a body
          for (func::FuncOp part : withBodies(function))
            parts.push_back(part.getName().str());
          for (const std::string &part : parts)
            if (auto left = module->lookupSymbol<func::FuncOp>(part))
              ASSERT_TRUE(succeeded(step(left)));
          ASSERT_TRUE(succeeded(verify(*module)));
          std::vector<HostTensor> after = run(function);
          ASSERT_EQ(before.size(), after.size());
          for (size_t i = 0; i < before.size(); ++i)
            EXPECT_LE(distance(before[i], after[i]), allowed) << "result " << i;
        }
        ++functions;
      }
  }
  EXPECT_GT(functions, 20);
}

TEST(SameMeaning, EveryPass) { expectSameMeaning(/*keepPlanes=*/false); }
TEST(SameMeaning, EveryPassOfPlanes) { expectSameMeaning(/*keepPlanes=*/true); }

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  extraFiles.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
