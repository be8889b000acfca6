//===- Machine.h - How fast a device is, and what it holds ----------------===//
//
// What fusion, the cuts of reductions, the choice of schedules and their cost
// models know of a device's speed. Each target has one table of it
// (targets/<name>/<Name>Machine.cpp), where every figure has its source;
// nothing else has figures of a device. Reports compare with what the drivers
// measure when a program is timed (runtime/drivers: peaks), not with these.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <bit>
#include <cstdint>

namespace knapper::config {

struct Machine {
  unsigned cores = 1; ///< of a GPU: SMs

  // Memory, in bytes.
  int64_t l1Bytes = 0;   ///< of a core; GPU: shared memory of an SM
  int64_t l2Bytes = 0;   ///< CPU: of a core
  int64_t l3Bytes = 0;   ///< shared by all cores
  int64_t keptBytes = 0; ///< a tensor of at most this is still in a cache when
                         ///< the kernel after reads it
  int64_t streamBytes = 0; ///< results of more than this are found in no cache
                           ///< by their readers: stores go past the caches

  // Of all cores together, per second.
  double fmaFlops = 0;       ///< f32, an FMA counts two
  double copyBandwidth = 0;  ///< bytes read + written, from memory
  double cacheBandwidth = 0; ///< the same within the last-level cache

  double coreBandwidth = 0; ///< bytes per second that one core alone reads
  double clock = 0;         ///< Hz, while all cores multiply
  double launchSeconds = 0; ///< from one kernel's end to the next one's start
  double readSeconds = 0;   ///< GPU: until memory answers, while others read

  /// What a matmul hands to another kernel is rounded to the type that a model
  /// is stored in: the bytes cost more than the conversions.
  bool roundsStored = false;

  /// How many programs give all cores work where their number can be doubled
  /// only: the power of two that is nearest.
  constexpr int64_t programsForAll() const {
    int64_t below = std::bit_floor(cores);
    return cores * double(cores) > 2.0 * double(below * below) ? 2 * below
                                                               : below;
  }
};

} // namespace knapper::config
