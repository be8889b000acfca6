// A schedule's typed configuration, read from its text form.
#pragma once

#include "codegen/schedule/core/Schedule.h"
#include "ir/config/Fields.h"

namespace knapper {

/// An error at the kernel where the parameters are not those of `Config`: they
/// come from a dump that somebody edited, too.
template <class Config>
llvm::FailureOr<Config> configOf(const BuildContext &context) {
  Config config;
  std::string problem = config::parse(context.schedule.parameters, config);
  if (problem.empty())
    return config;
  context.kernel->emitOpError("the schedule '")
      << context.schedule.kind << "' " << problem;
  return mlir::failure();
}

} // namespace knapper
