// A schedule's typed configuration, read from its text form.
#pragma once

#include "codegen/schedule/core/Schedule.h"
#include "ir/config/DeviceLimits.h"
#include "ir/config/Fields.h"

namespace knapper {

/// Threads, registers, shared memory and CTAs of a cluster that one CTA of a
/// GPU can have; of a CPU, a core's registers.
inline config::Limits limitsOf(const TargetDesc &target) {
  if (target.simt)
    return config::nvidiaLimits(target.l1Bytes, target.clusters);
  config::Limits limits;
  limits.registerBytes = int64_t(target.vectorBytes) * target.vectorRegisters;
  return limits;
}

/// An error at the kernel where the parameters are not those of `Config`: they
/// come from a dump that somebody edited, too.
template <class Config>
llvm::FailureOr<Config> configOf(const BuildContext &context) {
  Config config;
  std::string problem = config::parse(context.schedule.parameters, config);
  if constexpr (requires(config::Limits limits) { config.fits(limits); })
    if (problem.empty() && !config.fits(limitsOf(context.target)))
      problem = "takes more threads, registers, shared memory or CTAs of a "
                "cluster than " +
                context.target.isa + " has";
  if (problem.empty())
    return config;
  context.kernel->emitOpError("the schedule '")
      << context.schedule.kind << "' " << problem;
  return mlir::failure();
}

} // namespace knapper
