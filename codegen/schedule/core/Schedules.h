// The functions behind the lines of Schedules.def.
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {
#define SCHEDULE(KIND, NAME, UNITS, LENGTH, ...)                               \
  llvm::LogicalResult choose##NAME(ts::KernelOp, const TargetDesc &, Knobs &,  \
                                   llvm::SmallVectorImpl<Schedule> &);         \
  llvm::LogicalResult build##NAME(BuildContext &);
#include "codegen/schedule/core/Schedules.def"
#undef SCHEDULE
} // namespace knapper
