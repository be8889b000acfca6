// The target that emits nothing: every tile program is built and checked, and
// its entry leads to no code. The driver `null` loads and launches it, so that
// everything around kernels can be run and timed. Copy this file to begin a new
// target (docs/first-target.md).
#include "targets/Target.h"

#include "ir/tile/TileDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;

namespace knapper {

const Target &nullTargetPlugin();

namespace {

class NullPlugin final : public Target {
public:
  std::string_view name() const override { return "null"; }

  Expected<std::vector<TargetDesc>>
  describe(const TargetRequest &request) const override {
    if (!request.variant.empty())
      return userError("there is no variant '" + std::string(request.variant) +
                           "' of the target 'null'",
                       "option target", "null");
    // It runs nothing: figures that a cost model can divide by.
    TargetDesc t;
    t.l1Bytes = t.l2Bytes = t.l3Bytes = t.keptBytes = 32 << 10;
    t.streamBytes = 24 << 20;
    t.fmaFlops = t.copyBandwidth = t.cacheBandwidth = t.coreBandwidth = 1e9;
    t.clock = 1e9;
    t.launchSeconds = 1e-6;
    t.isa = "null";
    t.vectorBytes = 16;
    t.vectorRegisters = 16;
    return std::vector<TargetDesc>{std::move(t)};
  }

  Expected<std::vector<CompiledImage>>
  emit(std::span<const KernelJob> jobs, std::span<const TargetDesc> targets,
       unsigned, const DialectRegistry &dialects) const override {
    MLIRContext context(MLIRContext::Threading::DISABLED);
    context.appendDialectRegistry(dialects);
    context.loadDialect<tile::TileDialect, ub::UBDialect>();
    std::string reason;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      reason = diagnostic.str();
      return mlir::success();
    });
    std::vector<CompiledImage> images;
    for (const TargetDesc &target : targets) {
      CompiledImage &image = images.emplace_back();
      image.isa = target.isa;
      image.image.code = "null";
      image.jobs.resize(jobs.size());
      for (const KernelJob &job : jobs) {
        std::string where = "kernel '" + job.name + "'";
        if (!job.given) {
          OwningOpRef<ModuleOp> program = job.build(context, target);
          if (!program)
            return internalError("no tile program: " + reason, where);
          // Code of `program` would be made here.
        }
        image.image.entries[job.name] = 0;
      }
    }
    return images;
  }

  std::string tuningKey(const TargetDesc &) const override { return "null"; }
};

} // namespace

const Target &nullTargetPlugin() {
  static const NullPlugin plugin;
  return plugin;
}

} // namespace knapper
