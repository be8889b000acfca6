//===- ScheduleAttr.h - Schedules as attributes ---------------------------===//
//
// The form in which dumps hold schedules and in which they pass from one
// context to another:
//
//   {kind = "pointwise", parameters = {block = 4096, lanes = 64},
//    guard = [[#ts.dim<"k0">, "le", #ts.dim<128>]], grid = #ts.dim<"k0">,
//    grain = #ts.dim<31>, scratch = #ts.dim<0>,
//    packed = [{operand = 1, rows = 64, columns = 8, transposed = false,
//               panel = 32}]}
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/core/Schedule.h"

namespace knapper {

mlir::DictionaryAttr scheduleAttr(const Schedule &schedule,
                                  mlir::MLIRContext *context);

/// Nothing when the attribute has another form.
std::optional<Schedule> scheduleOf(mlir::Attribute attribute);

} // namespace knapper
