//===- BlockThreads.h - How a tile is spread over the threads of a block --===//
//
// GpuLowering::tileLayout spreads tiles so; schedules ask beforehand how many
// elements a thread will get (codegen/schedule/reduce/ReduceCluster.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cstdint>

namespace knapper::lower {

constexpr int64_t kWarpThreads = 32, kMostBlockThreads = 1024;
constexpr int64_t kAccessBytes = 16;

/// Elements of an access, at most `width` (a power of two), with which a tile
/// of `size` elements fills a warp: shorter tiles have narrower accesses.
inline int64_t accessWidth(int64_t width, int64_t size) {
  while (width > 1 && size % (kWarpThreads * width))
    width /= 2;
  return width;
}

/// Of at most `threads`, as many as have several accesses of `width` elements
/// each of a row of `size`: a block's memory traffic is then many loads, then
/// many stores.
inline int64_t threadsOfRow(int64_t threads, int64_t size, int64_t width) {
  constexpr int64_t accesses = 4;
  while (threads > kWarpThreads && threads * width * accesses > size)
    threads /= 2;
  return threads;
}

/// Of at most `threads`, whole warps whose accesses divide a tile of `size`
/// elements.
inline int64_t threadsThatDivide(int64_t threads, int64_t size, int64_t width) {
  while (threads > kWarpThreads && size % (threads * width))
    threads = std::max<int64_t>(threads / 2 / kWarpThreads, 1) * kWarpThreads;
  return threads;
}

/// Elements of an access, and threads of a program.
struct TileSpread {
  int64_t width, threads;
};

/// How tiles of these sizes lie in the threads of a program. `bytes`: of the
/// widest element in memory, 0: none. `reduces`: rows are held in registers.
/// `access`, `threads`: what the schedule says of them; 0: nothing.
inline TileSpread spreadTiles(int64_t bytes, llvm::ArrayRef<int64_t> sizes,
                              bool reduces, int64_t access = 0,
                              int64_t threads = 0) {
  constexpr int64_t mostAccess = 16, accessOfNone = 4;
  TileSpread spread = {bytes ? kAccessBytes / bytes : accessOfNone,
                       kMostBlockThreads};
  if (access)
    spread.width =
        std::clamp<int64_t>(llvm::bit_floor(uint64_t(access)), 1, mostAccess);
  for (int64_t size : sizes)
    spread.width = accessWidth(spread.width, size);
  // A row is some accesses a thread; other tiles are one access a thread.
  int64_t largest = sizes.empty() ? 0 : *llvm::max_element(sizes);
  if (threads)
    spread.threads =
        std::clamp<int64_t>(threads, kWarpThreads, kMostBlockThreads);
  else if (reduces)
    spread.threads =
        threadsOfRow(bytes == 2 ? kMostBlockThreads / 2 : kMostBlockThreads,
                     largest, spread.width);
  // Whole warps, of any number: of 320 threads 160 are five, of 160 two are.
  spread.threads = spread.threads / kWarpThreads * kWarpThreads;
  for (int64_t size : sizes)
    spread.threads = threadsThatDivide(spread.threads, size, spread.width);
  return spread;
}

} // namespace knapper::lower
