//===- Table.h - The phase table for help texts ---------------------------===//
#pragma once

#include <vector>

namespace knapper {

struct PhaseHelp {
  const char *name, *does;
  std::vector<const char *> passes; ///< in order
};
/// The phases, in order.
std::vector<PhaseHelp> phaseHelp();
/// What --disable takes.
std::vector<const char *> optionalPasses();

} // namespace knapper
