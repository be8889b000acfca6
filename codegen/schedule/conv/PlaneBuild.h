//===- PlaneBuild.h - Building what planes are computed by ----------------===//
//
// For the schedules of planes on CPUs: convolutions, depthwise ones and pools.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ConvConfig.h"

namespace knapper {

/// The program of `problem`, which is the kernel's hero as the schedule sees
/// it. None: an error that names `what` the kernel should hold.
template <typename Builder, typename Problem>
mlir::LogicalResult buildPlane(BuildContext &context,
                               std::optional<Problem> problem,
                               llvm::StringRef what) {
  if (!problem)
    return context.kernel.emitOpError("is no ")
           << what << " that this schedule knows";
  mlir::FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, problem->op.getResult());
  auto config = configOf<config::PlaneCpuConfig>(context);
  if (failed(epilogue) || failed(config))
    return mlir::failure();
  return Builder(context, *config, *problem, std::move(*epilogue)).build();
}

} // namespace knapper
