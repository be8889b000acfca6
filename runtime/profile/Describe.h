// What a module is and what its runs cost, as JSON.
#pragma once

#include "runtime/execute/Module.h"

#include <span>
#include <string>

namespace knapper {

/// Signature, symbols, targets, kernels, launches with their choices, memory,
/// and under "report" what the compiler embedded (absent if nothing).
std::string describeModule(const Module &module);

/// Runs once with a clock around every launch:
/// {"launches": [{"kernel", "origin", "schedule", "executions", "ns", "flops",
/// "bytes"}], "events": [{"launch", "start_ns", "ns", "flops", "bytes"}],
/// "total_ns", "isa"}. A launch's figures are those of all its executions; the
/// events are these executions, in order, counted from the first one's start,
/// "launch" being an index into "launches".
Expected<std::string> profileModule(Module &module,
                                    std::span<const knapper_tensor> inputs);
/// The same of a run with outputs and options of the caller's.
Expected<std::string> profileRun(Module &module,
                                 std::span<const knapper_tensor> inputs,
                                 std::span<const knapper_tensor> outputs,
                                 RunResult &result, RunOptions options);

} // namespace knapper
