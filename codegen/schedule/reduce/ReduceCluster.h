//===- ReduceCluster.h - How long rows and columns are shared out ---------===//
// Of GPUs with clusters: internal to ReduceCluster.cpp and ReduceChoose.cpp.
#pragma once

#include "codegen/schedule/reduce/Reduce.h"

namespace knapper {

/// Programs of a cluster (1: none), of so many lanes.
struct Sharing {
  int64_t clusterSize, lanes;
};

/// How the programs of a cluster share the rows of columns. `kernel` has no
/// composites; `columns`: of all rows together, `run` of them beside each
/// other.
Sharing shareColumns(ts::KernelOp kernel, const Space &space, int64_t columns,
                     int64_t run, const TargetDesc &target);

/// How the programs of a cluster share few long rows. Each has one tile, which
/// it holds, or the tiles of a part of the longest reduced dim, which it reads
/// in each pass. `kernel` has no composites.
Sharing shareRow(ts::KernelOp kernel, const Space &space, int64_t rows,
                 unsigned lane, const TargetDesc &target);

/// Bytes of the widest element that the kernel reads.
int64_t widestBytes(ts::KernelOp kernel);

/// How long a row may be for the threads of a GPU's block to hold it.
int64_t mostHeld(ts::KernelOp kernel, const TargetDesc &target);

/// Elements of a tile that each thread of a block gets.
int64_t elementsOfThread(ts::KernelOp kernel, int64_t lanes);

/// Of a run of so many elements, tiles about equal, of at most about `most`, of
/// which no thread gets more elements than its registers hold.
int64_t equalTiles(ts::KernelOp kernel, int64_t length, int64_t most);

} // namespace knapper
