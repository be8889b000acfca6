// Which recurrent cells run as one kernel on a GPU.
#pragma once

#include "codegen/TargetDesc.h"
#include "ir/tensor/Recurrence.h"

namespace knapper {

/// Whether `gpu_recurrence` computes it, and in less time than a launch a step
/// takes.
bool takesRecurrence(ts::RecurrenceOp op, const TargetDesc &target);

} // namespace knapper
