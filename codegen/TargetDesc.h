// A device as fusion, schedules and lowering see it: data of Target::describe.
#pragma once

#include "ir/config/Machine.h"
#include "runtime/base/DType.h"

#include <cstdint>
#include <string>

namespace knapper {

/// The value of `Schedule::group` for matmuls of float32 in parts of bf16.
constexpr int64_t kSplitGroup = 8;

/// A machine, and what its instructions can do.
struct TargetDesc : config::Machine {
  std::string isa; // "x86-64-v3", "x86-64-v4", "sm_90a"
  // A program is run by a group of threads with shared memory, and tiles are
  // spread over them; else one core runs it, and tiles are SIMD vectors.
  bool simt = false;
  bool clusters = false; // CTAs of a cluster read each other's shared memory
  bool wgmma = false;    // warpgroup matmuls, operands by TMA
  bool vectorAtomics = false; // one instruction adds four f32 in memory
  // `--deterministic`: results have the same bits in every run. Without it,
  // sums of floats may be formed in memory in any order where that is fastest.
  bool deterministic = false;
  bool tf32 = false; // matmuls of float32 whose operands are rounded to tf32
  // The instruction set that this one adds to; empty: none. What it adds serves
  // matmuls in groups alone (PackedOperand::group; `extendsGroups`: the sum of
  // their sizes, powers of two). All other kernels have the code of `extends`.
  std::string extends;
  int64_t extendsGroups = 0;

  // Registers of one core (CPU) or one thread (GPU).
  unsigned vectorBytes = 0;     // one vector register, or one widest access
  unsigned vectorRegisters = 0; // how many of them
  // One instruction each: tile.lookup of 32 words, tile.scale_by_power.
  bool wordTable = false, powerScale = false;
  bool maskedAccess = false; // masked loads and stores of any width are cheap
  bool byteDots = false;     // four products of bytes added in one instruction
  bool pairDots = false;     // two products of bf16 likewise
  bool tileMatmuls = false;  // both in tile registers (tile.block)
  // `--float32-matmul`: parts of bf16, 2 or 3, into which a float32 may be
  // split for matmuls in tile registers where that is faster; 0: none.
  int64_t floatParts = 0;
  int64_t splitCacheBytes = 0; // of L2, for one side of such a matmul

  /// Elements of `type` in one vector register.
  unsigned lanes(DType type) const {
    return vectorBytes / static_cast<unsigned>(byteSize(type));
  }
};

} // namespace knapper
