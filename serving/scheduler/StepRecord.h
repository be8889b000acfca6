// Decisions of the scheduler as lines of text: a header, then a line a step
// with the state and what was decided.
#pragma once

#include "runtime/base/Error.h"
#include "serving/scheduler/Scheduler.h"

#include <string>
#include <string_view>

namespace knapper::serving {

struct StepRecord {
  SchedulerState state;
  StepDecision decision;
};

/// The first line of a file; its number counts forms.
inline constexpr std::string_view kStepRecordHeader = "knapper-steps 1";

/// Without the end of the line.
std::string toLine(const SchedulerState &state, const StepDecision &decision);
/// UserError for what is no such line.
Expected<StepRecord> readStepRecord(std::string_view line);

/// Whether both decide the same, in the same order.
bool areEqual(const StepDecision &a, const StepDecision &b);

} // namespace knapper::serving
