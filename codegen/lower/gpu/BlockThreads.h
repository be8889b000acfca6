//===- BlockThreads.h - How a tile is spread over the threads of a block --===//
//
// GpuLowering::layout spreads tiles so; schedules ask beforehand how many
// elements a thread will get (codegen/schedule/reduce/ReduceChoose.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

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

} // namespace knapper::lower
