//===- Advice.h - What would make measured kernels faster -----------------===//
#pragma once

#include "compiler/report/Writer.h"

namespace knapper::report {

/// Gives `times` (Times.h) and each of its kernels "advice", a list of
/// {"kind", "text"}, the first the likeliest to pay:
///   tune      the schedule is the model's choice, and there are others
///   dtype     the kernel computes in f32, and this device has a quicker type
///   int8      the processor multiplies bytes, or the weights are what is read
///   sizes     the kernel was made for sizes that a run gives
///   fusion    a neighbour that was refused, the reason and the modelled time
///   none      nothing of these; always the only one
/// and for the module: gpu (there is one, the module runs on the CPU),
/// outside (most of the time is not in kernels).
void addAdvice(const Json &description, const Json &devices, Json &times);

} // namespace knapper::report
