//===- ReduceCluster.h - How a cluster shares long rows and columns -------===//
// For GPUs with clusters. Internal to ReduceCluster.cpp and ReduceChoose.cpp.
#pragma once

#include "codegen/schedule/reduce/Reduce.h"

namespace knapper {

/// Programs of a cluster (1: no cluster), and lanes of a tile of each.
struct Sharing {
  int64_t clusterSize, lanes;
};

/// How the programs of a cluster share the rows of a column reduction. `kernel`
/// has no composites. `columns`: number of columns, of which `run` are
/// neighbours in memory.
Sharing shareColumns(ts::KernelOp kernel, const Space &space, int64_t columns,
                     int64_t run, const TargetDesc &target);

/// How the programs of a cluster share few long rows. A program either keeps
/// its one tile in registers, or reads the tiles of its part of the longest
/// reduced dim again in each pass. `kernel` has no composites.
Sharing shareRow(ts::KernelOp kernel, const Space &space, int64_t rows,
                 unsigned lane, const TargetDesc &target);

/// Bytes of the widest element that the kernel reads.
int64_t widestBytes(ts::KernelOp kernel);

/// Elements of the longest row that the threads of one CTA keep in registers.
int64_t mostHeld(ts::KernelOp kernel, const TargetDesc &target);

/// Elements of a tile of `lanes` that each thread of a CTA has.
int64_t elementsOfThread(ts::KernelOp kernel, int64_t lanes);

/// Elements of a tile if a run of `length` is cut into about equal tiles of
/// about `most` elements at most, and no thread has more elements than its
/// registers hold.
int64_t equalTiles(ts::KernelOp kernel, int64_t length, int64_t most);

} // namespace knapper
