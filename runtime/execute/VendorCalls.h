// Launches that a vendor's library computes. A library is never needed: where
// it does not lie, or has no such matmul, the launch's next choice runs, which
// is compiled code.
#pragma once

#include "runtime/execute/Binding.h"

#include <string>
#include <vector>

namespace knapper {

/// What became of a library that a program would call.
struct VendorUse {
  VendorLibrary library;
  uint32_t launches = 0; ///< that have a choice of it
  std::string opened;    ///< version and place; empty: it was not
  std::string why;       ///< it was not opened
};

/// Opens the libraries of the program's choices. Drops the choices of those
/// that cannot be opened, one line of the log for each library, and of launches
/// whose sizes only the run knows.
std::vector<VendorUse> openLibraries(Program &program, Device &device);

/// Whether a library may be asked for it: sizes above zero that 2^60 operations
/// do, no stride or offset below zero, a bias of one row, results apart.
bool isPossible(const VendorMatmul &matmul);

/// Makes the calls of a binding. A launch whose matmul its library refuses
/// takes the next choice, which the log says.
Status prepareCalls(const Program &program, Device &device, int32_t threads,
                    Binding &binding);

/// UserError where a matmul would reach outside an argument: `bytes` are those
/// of each buffer.
Status checkReach(const Program::Matmul &matmul, const Program::Launch &launch,
                  std::span<const int64_t> values,
                  std::span<const uint64_t> bytes);

} // namespace knapper
