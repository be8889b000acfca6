//===- Table.h - The phase table for help texts ---------------------------===//
#pragma once

#include <vector>

namespace knapper {

struct PhaseHelp {
  const char *name, *does;
};
/// The phases, in order.
std::vector<PhaseHelp> phaseHelp();
/// What --disable takes.
std::vector<const char *> disablePasses();

} // namespace knapper
