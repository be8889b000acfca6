// NVIDIA GPUs as a target.
#include "codegen/schedule/attention/GpuWidenedAttention.h"
#include "codegen/schedule/core/Schedule.h"
#include "codegen/schedule/irregular/GpuRecurrence.h"
#include "codegen/schedule/matmul/GpuPackedMatmul.h"
#include "graph/layout/ConvPhases.h"
#include "graph/layout/GateDots.h"
#include "graph/layout/MergeReducedDims.h"
#include "graph/layout/PadChannels.h"
#include "graph/layout/Recurrences.h"
#include "graph/layout/SplitReductions.h"
#include "graph/layout/SplitSorts.h"
#include "graph/layout/VectorDots.h"
#include "graph/quantize/ByteProducts.h"
#include "graph/quantize/PackedProducts.h"
#include "graph/simplify/NarrowDots.h"
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

  void prepare(func::FuncOp function, const TargetDesc &target) const override {
    function.walk([&](ts::AttentionOp op) {
      if (hasWideHeads(op, target))
        op->setAttr("ts.narrow_probabilities", UnitAttr::get(op.getContext()));
    });
    packProducts(function, kMostPackedRows, takesPackedDot);
    // GPUs read the operands of attention as they lie in memory.
    ts::decomposeAll(function.getBody(), [&](Operation *op) {
      if (auto packed = dyn_cast<ts::PackedDotOp>(op))
        return !takesPackedDot(packed);
      auto attention = dyn_cast<ts::AttentionOp>(op);
      return isa<ts::RopeOp, ts::ScaledDotOp>(op) ||
             (attention && !isTakenWhole(attention, target));
    });
    readWidenedOperands(function);
    expandForManyRows(function, kMostPackedRows);
    SplitModel model;
    model.leastPart = 2048;
    model.around = 1 << 16;
    model.block = 64 << 10;
    if (target.clusters) {
      model.shared = 8192;
      model.sharedRow = 8;
    }
    model.machine = target;
    widenLongRows(function, model);
    ts::decomposeAll(function.getBody(),
                     [&](Operation *op) { return hasFewLongRows(op, model); });
    splitConvPhases(function);
    padChannels(function);
    auto takes = [&](ts::RecurrenceOp op) {
      return takesRecurrence(op, target);
    };
    expandRecurrences(function, takes);
    formRecurrences(function, takes);
    // What a step reads in about the time of two launches.
    reduceGateDots(function,
                   int64_t(2 * target.launchSeconds * target.copyBandwidth));
    narrowDots(function);
    reduceVectorDots(function);
    mergeReducedDims(function);
    splitReductions(function, model);
    splitSorts(function, {.lines = target.programsForAll()});
    expandByteProducts(function);
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
