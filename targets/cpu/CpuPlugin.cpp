// x86-64 CPUs as a target.
#include "graph/layout/PackFilters.h"
#include "graph/layout/Recurrences.h"
#include "graph/layout/SplitReductions.h"
#include "graph/layout/SplitScatters.h"
#include "graph/layout/VectorDots.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "targets/Target.h"
#include "targets/cpu/CompileKernels.h"
#include "targets/cpu/CpuTarget.h"

namespace knapper {

const Target &cpuTargetPlugin();

namespace {

void decompose(mlir::func::FuncOp function, const TargetDesc &) {
  ts::decomposeAll(function.getBody(), [](mlir::Operation *op) {
    if (mlir::isa<ts::PackedDotOp>(op))
      return true; // no packed form of what is no constant
    auto paged = mlir::dyn_cast<ts::PagedAttentionOp>(op);
    return paged && !ts::elementTypeOf(paged.getQuery()).isF32();
  });
}

/// That keep the cores busy, also of a machine larger than the one described.
constexpr int64_t kPrograms = 8;

// A sum of everything would be one program, on one core; narrow columns leave
// most of a register empty.
void splitForCores(mlir::func::FuncOp function, const TargetDesc &) {
  splitReductions(function, {.programs = kPrograms,
                             .tile = 64,
                             .leastColumn = 512,
                             .wide = 64,
                             .narrow = 0,
                             .far = 1024,
                             .narrowColumns = 0,
                             .row = 64,
                             .lines = 0,
                             .flatRuns = true});
}

using mlir::func::FuncOp;

constexpr TargetPass kPreparation[] = {
    {"cpu:decompose", decompose},
    {"cpu:expand-recurrences",
     [](FuncOp function, const TargetDesc &) {
       expandRecurrences(function, [](ts::RecurrenceOp) { return false; });
     }},
    {"cpu:reduce-vector-dots",
     [](FuncOp function, const TargetDesc &) { reduceVectorDots(function); }},
    {"cpu:split-scatters",
     [](FuncOp function, const TargetDesc &) { splitScatters(function); }},
    {"cpu:split-reductions", splitForCores},
};

class CpuPlugin final : public Target {
public:
  std::string_view name() const override { return "cpu"; }
  bool takesIsas() const override { return true; }

  Expected<std::vector<TargetDesc>>
  describe(const TargetRequest &request) const override {
    std::vector<std::string> isas = request.isas;
    if (isas.empty())
      isas.assign(cpuIsas().begin(), cpuIsas().end());
    std::vector<TargetDesc> targets;
    for (const std::string &isa : isas) {
      ASSIGN_OR_RETURN(TargetDesc target, cpuTarget(isa));
      if (llvm::any_of(targets, [&](const TargetDesc &other) {
            return other.isa == isa;
          }))
        return userError("'" + isa + "' is given twice", "option isa",
                         "name each instruction set once");
      if (target.tileMatmuls)
        target.floatParts = request.floatParts;
      targets.push_back(std::move(target));
    }
    return targets;
  }

  std::span<const TargetPass> preparation() const override {
    return kPreparation;
  }

  void arrange(mlir::func::FuncOp function,
               const TargetDesc &target) const override {
    packFilters(function,
                {.l2Bytes = target.l2Bytes,
                 .programs = std::max<int64_t>(kPrograms, 2 * target.cores)});
  }

  Expected<std::vector<CompiledImage>>
  emit(std::span<const KernelJob> jobs, std::span<const TargetDesc> targets,
       unsigned threads, const mlir::DialectRegistry &dialects) const override {
    return compileKernels(jobs, targets, threads, &dialects);
  }

  bool runs(const TargetDesc &target, std::string_view isa) const override {
    // Each but the last extends those after it.
    auto isas = cpuIsas();
    return std::find(std::find(isas.begin(), isas.end(), target.isa),
                     isas.end(), isa) != isas.end();
  }

  std::span<const VendorLibrary> vendorLibraries() const override {
    static constexpr VendorLibrary libraries[] = {VendorLibrary::onednn};
    return libraries;
  }

  std::string tuningKey(const TargetDesc &) const override { return "cpu"; }
};

} // namespace

const Target &cpuTargetPlugin() {
  static const CpuPlugin plugin;
  return plugin;
}

} // namespace knapper
