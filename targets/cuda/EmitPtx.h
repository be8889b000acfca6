// Kernels of a compile as PTX.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

/// The `emit` phase for a GPU: all jobs in one PTX module, whose text is the
/// image and whose entries are GpuEntry numbers. What has no
/// lowering for GPUs is a UserError that names the kernel.
Expected<CompiledImage> emitPtxImage(std::span<const KernelJob> jobs,
                                     const TargetDesc &target,
                                     const mlir::DialectRegistry &dialects);

} // namespace knapper
