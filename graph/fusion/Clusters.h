//===- Clusters.h - Ops of a block partitioned into future kernels --------===//
//
// A partition of a block's ops whose quotient graph stays acyclic. Clusters
// stand in a topological order that each merge repairs locally: of the clusters
// between the two, those that depend on the first move behind the merged one.
// If the second depends on the first through one of them, the two cannot merge.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace knapper::fusion {

class Clusters {
public:
  using Id = unsigned;

  /// One cluster an op; `ops` in an order where producers come first.
  /// `dependences`: (before, after) pairs beside those through values.
  Clusters(llvm::ArrayRef<mlir::Operation *> ops,
           llvm::ArrayRef<std::pair<mlir::Operation *, mlir::Operation *>>
               dependences);

  /// Producers first, inside a cluster too.
  llvm::SmallVector<Id> inOrder() const;
  bool alive(Id id) const { return !members[id].empty(); }
  size_t size(Id id) const { return members[id].size(); }
  llvm::SmallVector<mlir::Operation *> ops(Id id) const;
  bool all(Id id, llvm::function_ref<bool(mlir::Operation *)> predicate) const;
  /// Those of two clusters together, producers first.
  llvm::SmallVector<mlir::Operation *> ops(Id first, Id second) const;
  std::optional<Id> of(mlir::Operation *op) const;

  /// Other clusters that use a value of this one, or the reverse; in order of
  /// position.
  llvm::SmallVector<Id> consumers(Id id) const;
  llvm::SmallVector<Id> producers(Id id) const;

  /// Whether one cluster of both leaves the graph acyclic.
  bool mayMerge(Id a, Id b) const;
  /// Merges two clusters for which `mayMerge` holds; the result is the id that
  /// stays.
  Id merge(Id a, Id b);
  /// Takes an op out into a cluster of its own, placed right before or right
  /// after its old one. The caller knows that this is acyclic.
  Id split(mlir::Operation *op, bool before);

private:
  /// Clusters after `a` and up to `b` that depend on `a` other than through
  /// `b`; sets `cycle` when `b` depends on one of them.
  llvm::SmallDenseSet<Id> between(Id a, Id b, bool &cycle) const;
  void renumber(unsigned begin, unsigned end);

  static constexpr Id nobody = ~0u;

  std::vector<mlir::Operation *> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  std::vector<llvm::SmallVector<unsigned, 1>> after, before; // extra edges
  std::vector<Id> clusterOf;                                 // a node
  std::vector<llvm::SmallVector<unsigned, 4>> members;       // sorted nodes
  std::vector<unsigned> position;                            // a cluster
  std::vector<Id> sequence; // alive ones, and `nobody` where one was merged
};

} // namespace knapper::fusion
