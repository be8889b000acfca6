#include "targets/cuda/EmitPtx.h"

#include "ir/tile/TileDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "targets/cuda/GivenPtx.h"
#include "targets/cuda/Ptx.h"

using namespace mlir;

namespace knapper {

Expected<CompiledImage> emitPtxImage(std::span<const KernelJob> jobs,
                                     const TargetDesc &target,
                                     const DialectRegistry &dialects) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.appendDialectRegistry(dialects);
  context.loadDialect<tile::TileDialect, ub::UBDialect>();
  std::string reason;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (reason.empty())
      reason = diagnostic.str();
    return mlir::success();
  });

  std::string head;
  CompiledImage result;
  result.isa = target.isa;
  // Which kernels follow: the driver compiles only those that a run needs.
  auto add = [&](const std::map<std::string, GpuEntry> &kernels,
                 std::string_view body) {
    result.image.code += "// kernel";
    for (auto &[name, entry] : kernels) {
      result.image.code += " " + name;
      result.image.entries[name] = entry.number();
    }
    result.image.code += "\n";
    result.image.code += body;
  };
  std::pair<unsigned, unsigned> newest = {};
  for (const KernelJob &job : jobs) {
    if (job.given) {
      ASSIGN_OR_RETURN(NamedPtx ptx, namedPtx(job, target.isa));
      newest = std::max(newest, ptx.version);
      add({{job.name, job.given->launch}}, ptx.body);
      continue;
    }
    // One at a time, so that an error names its kernel.
    std::string where = "kernel '" + job.name + "'";
    OwningOpRef<ModuleOp> module = job.build(context, target);
    if (!module)
      return internalError("no tile program: " + reason, where);
    Expected<PtxModule> ptx = emitPtx(*module, target);
    // What the lowering says of an op is a gap of it; all else is a defect.
    if (!ptx && !reason.empty())
      return userError("has no code for GPUs yet: " + reason, where,
                       "compile for --target cpu");
    if (!ptx)
      return ptx.takeError();
    // A module begins with version, target and address size, which differ in
    // the version alone: once is enough.
    std::string_view text = ptx->text;
    size_t body = text.find('\n', text.find(".address_size")) + 1;
    if (head < text.substr(0, body))
      head = text.substr(0, body); // of two versions the newer
    add(ptx->kernels, text.substr(body));
  }
  result.image.code.insert(0, ptxHead(head, newest, target.isa));
  return result;
}

} // namespace knapper
