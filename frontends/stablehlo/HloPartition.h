//===- HloPartition.h - The program of one of several devices -------------===//
//
// A program for several devices is one of whole tensors, in which shard_map and
// pmap are ops (sdy.manual_computation) whose regions compute with parts. Here
// it becomes the program that each device runs, of parts: regions are put in
// place of their ops, and what lies in other parts than an op or a result wants
// is gathered (all_gather) and cut (sdy.part).
//
// This is no partitioner. Outside of the regions only ops of whole tensors, and
// those that compute element by element of tensors in the same parts, are
// taken; others are refused.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloSharding.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Error.h"

namespace knapper {

constexpr int64_t hloMostDevices = 256;

/// How many devices a program is for: its partitions.
int64_t hloDevices(mlir::ModuleOp program);

struct HloPartition {
  llvm::SmallVector<HloSharding> arguments, results; ///< of main
};

/// Rewrites main for one of the program's devices. Argument shardings that the
/// program leaves open are those of the shard_map that reads them, else whole.
/// A program of one device without shard_map stays as it is, and the result is
/// empty.
/// Errors: UserError for what needs a partitioner, all of it at once, for more
/// than hloMostDevices, for replicas, and for what is damaged.
Expected<HloPartition> partitionHlo(mlir::ModuleOp program);

} // namespace knapper
