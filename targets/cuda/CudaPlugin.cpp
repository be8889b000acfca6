// NVIDIA GPUs as a target.
#include "codegen/schedule/attention/GpuWidenedAttention.h"
#include "codegen/schedule/core/Schedule.h"
#include "codegen/schedule/irregular/GpuRecurrence.h"
#include "codegen/schedule/matmul/GpuPackedMatmul.h"
#include "graph/layout/AlignMatrices.h"
#include "graph/layout/ConvPhases.h"
#include "graph/layout/GateDots.h"
#include "graph/layout/MergeReducedDims.h"
#include "graph/layout/PadChannels.h"
#include "graph/layout/Recurrences.h"
#include "graph/layout/Selections.h"
#include "graph/layout/SplitReductions.h"
#include "graph/layout/SplitSorts.h"
#include "graph/layout/VectorDots.h"
#include "graph/loops/SimplifyLoops.h"
#include "graph/quantize/ByteMatmuls.h"
#include "graph/quantize/PackedMatmuls.h"
#include "graph/simplify/MatrixDots.h"
#include "graph/simplify/NarrowDots.h"
#include "ir/config/GpuTimes.h"
#include "ir/tensor/Decompose.h"
#include "ir/tensor/ScaledDot.h"
#include "targets/Target.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/cuda/EmitPtx.h"
#include "targets/cuda/GivenPtx.h"

using namespace mlir;

namespace knapper {

const Target &cudaTargetPlugin();

namespace {

using func::FuncOp;

void markWideHeads(FuncOp function, const TargetDesc &target) {
  function.walk([&](ts::AttentionOp op) {
    if (hasWideHeads(op, target))
      op->setAttr("ts.narrow_probabilities", UnitAttr::get(op.getContext()));
  });
}

// GPUs read the operands of attention as they lie in memory.
void decompose(FuncOp function, const TargetDesc &target) {
  ts::decomposeAll(function.getBody(), [&](Operation *op) {
    if (auto packed = dyn_cast<ts::PackedDotOp>(op))
      return !takesPackedDot(packed);
    auto attention = dyn_cast<ts::AttentionOp>(op);
    return isa<ts::RopeOp, ts::ScaledDotOp>(op) ||
           (attention && !isTakenWhole(attention, target));
  });
}

SplitModel splitModel(const TargetDesc &target) {
  SplitModel model;
  constexpr config::SplitFigures figures = config::kH200Splits;
  model.leastPart = figures.leastPart;
  model.around = figures.around;
  model.block = figures.block;
  if (target.clusters) {
    model.shared = figures.shared;
    model.start = figures.start;
    model.sharedRow = 8; // CTAs of a portable cluster
    model.leastShared = config::kH200Clusters.leastTile;
    model.mostShared = config::kH200Clusters.mostNarrow;
  }
  model.machine = target;
  return model;
}

void decomposeLongRows(FuncOp function, const TargetDesc &target) {
  SplitModel model = splitModel(target);
  ts::decomposeAll(function.getBody(),
                   [&](Operation *op) { return hasFewLongRows(op, model); });
}

// What a step reads in about the time of two launches.
void reduceGates(FuncOp function, const TargetDesc &target) {
  reduceGateDots(function,
                 int64_t(2 * target.launchSeconds * target.copyBandwidth));
}

/// Matmuls of narrow rows before the loop, however much wider their results
/// are: a launch a step takes longer than reading them.
void batchNarrowRows(FuncOp function, const TargetDesc &) {
  simplifyLoops(function, {.growth = 1024});
  makeMatrixDots(function);
}

auto recurrencesOf(const TargetDesc &target) {
  return [&](ts::RecurrenceOp op) { return takesRecurrence(op, target); };
}

/// A rewrite that asks nothing of the device.
template <auto run> void plain(FuncOp function, const TargetDesc &) {
  run(function);
}

constexpr TargetPass kPreparation[] = {
    {"cuda:mark-wide-heads", markWideHeads},
    {"cuda:pack-matmuls",
     [](FuncOp function, const TargetDesc &) {
       packMatmuls(function, kMostPackedRows, takesPackedDot);
     }},
    {"cuda:decompose", decompose},
    {"cuda:expand-selections", plain<expandSelections>},
    {"cuda:read-widened-operands", plain<readWidenedOperands>},
    {"cuda:expand-for-many-rows",
     [](FuncOp function, const TargetDesc &) {
       expandForManyRows(function, kMostPackedRows);
     }},
    {"cuda:widen-long-rows",
     [](FuncOp function, const TargetDesc &target) {
       widenLongRows(function, splitModel(target));
     }},
    {"cuda:decompose-long-rows", decomposeLongRows},
    {"cuda:split-conv-phases",
     [](FuncOp function, const TargetDesc &) { splitConvPhases(function); }},
    {"cuda:pad-channels", plain<padChannels>},
    {"cuda:expand-recurrences",
     [](FuncOp function, const TargetDesc &target) {
       expandRecurrences(function, recurrencesOf(target));
     }},
    {"cuda:batch-narrow-rows", batchNarrowRows},
    {"cuda:form-recurrences",
     [](FuncOp function, const TargetDesc &target) {
       formRecurrences(function, recurrencesOf(target));
     }},
    {"cuda:reduce-gate-dots", reduceGates},
    {"cuda:align-matrices", plain<alignMatrices>},
    {"cuda:narrow-dots", plain<narrowDots>},
    {"cuda:reduce-vector-dots", plain<reduceVectorDots>},
    {"cuda:merge-reduced-dims", plain<mergeReducedDims>},
    {"cuda:split-reductions",
     [](FuncOp function, const TargetDesc &target) {
       splitReductions(function, splitModel(target));
     }},
    {"cuda:split-sorts",
     [](FuncOp function, const TargetDesc &target) {
       splitSorts(function, {.lines = target.programsForAll()});
     }},
    {"cuda:expand-byte-matmuls", plain<expandByteMatmuls>},
};

class CudaPlugin final : public Target {
public:
  std::string_view name() const override { return "cuda"; }

  Expected<std::vector<TargetDesc>>
  describe(const TargetRequest &request) const override {
    ASSIGN_OR_RETURN(
        TargetDesc target,
        cudaTarget(request.variant.empty() ? "sm_90a" : request.variant));
    target.deterministic = request.deterministic;
    return std::vector<TargetDesc>{std::move(target)};
  }

  std::span<const TargetPass> preparation() const override {
    return kPreparation;
  }

  Expected<std::vector<CompiledImage>>
  emit(std::span<const KernelJob> jobs, std::span<const TargetDesc> targets,
       unsigned, const DialectRegistry &dialects) const override {
    std::vector<CompiledImage> images;
    for (const TargetDesc &target : targets) {
      ASSIGN_OR_RETURN(CompiledImage image,
                       emitPtxImage(jobs, target, dialects));
      images.push_back(std::move(image));
    }
    return images;
  }

  bool runs(const TargetDesc &target, std::string_view isa) const override {
    return runsPtxOf(target.isa, isa);
  }

  std::span<const VendorLibrary> vendorLibraries() const override {
    static constexpr VendorLibrary libraries[] = {VendorLibrary::cublaslt};
    return libraries;
  }

  std::string tuningKey(const TargetDesc &target) const override {
    return "cuda:" + target.isa;
  }
};

} // namespace

const Target &cudaTargetPlugin() {
  static const CudaPlugin plugin;
  return plugin;
}

} // namespace knapper
