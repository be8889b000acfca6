//===- Clusters.h - Ops of a block partitioned into future kernels --------===//
//
// A partition of a block's ops into clusters. The graph of clusters stays
// acyclic. Caller: formKernels.
//
// Clusters are kept in a topological order. A merge of two clusters repairs it
// locally: of the clusters between them, those that depend on the first move
// behind the merged one. If the second depends on the first through one of
// them, the two cannot merge.
//
// The order is given by integer labels with gaps between them, so that a merge
// relabels only the clusters that move. Edges are stored for each cluster, so
// the cost of a search is the number of clusters that it visits. A block of ten
// thousand ops with long-lived values costs as much for each op as a short
// block.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <vector>

namespace knapper::fusion {

/// Whether the op, or an op in its bodies, has side effects (random numbers,
/// printing). Such ops keep their order.
bool keepsItsPlace(mlir::Operation *op);

/// Used by one thread.
class Clusters {
public:
  using Id = unsigned;

  /// One cluster for each op. `ops`: producers first. `dependences`: (before,
  /// after) pairs in addition to those through values.
  Clusters(llvm::ArrayRef<mlir::Operation *> ops,
           llvm::ArrayRef<std::pair<mlir::Operation *, mlir::Operation *>>
               dependences);

  /// All clusters, producers first.
  llvm::SmallVector<Id> inOrder() const;
  bool alive(Id id) const { return !members[id].empty(); }
  size_t size(Id id) const { return members[id].size(); }
  llvm::SmallVector<mlir::Operation *> ops(Id id) const;
  bool all(Id id, llvm::function_ref<bool(mlir::Operation *)> predicate) const;
  /// The ops of two clusters together, producers first.
  llvm::SmallVector<mlir::Operation *> ops(Id first, Id second) const;
  std::optional<Id> of(mlir::Operation *op) const;

  /// Other clusters that use a value of this one (consumers) or whose values
  /// this one uses (producers), in order of position.
  llvm::SmallVector<Id> consumers(Id id) const { return others(id, below); }
  llvm::SmallVector<Id> producers(Id id) const { return others(id, above); }
  /// Reads all edges from the ops again. Call it after `split` and after
  /// operands have changed, before the next query.
  void readEdges();

  /// Whether one cluster of both leaves the graph acyclic.
  bool mayMerge(Id a, Id b);
  /// Merges two clusters for which `mayMerge` holds; the result is the id that
  /// stays.
  Id merge(Id a, Id b);
  /// Moves an op into a cluster of its own, directly before or after its old
  /// one. The caller guarantees that the graph stays acyclic.
  Id split(mlir::Operation *op, bool before);

private:
  using Label = uint64_t;
  /// A node of each neighbour, at least one a cluster: `clusterOf` says which
  /// cluster that node is in now.
  using Edges = std::vector<llvm::SmallVector<unsigned, 4>>;

  /// The clusters that the edges lead to; in order of position.
  llvm::SmallVector<Id> others(Id id, const Edges &edges) const;
  /// The same in any order, perhaps with some more than once.
  template <typename Visit>
  void eachOther(Id id, const Edges &edges, Visit visit) const;
  void uniteEdges(Id into, Id from, Edges &edges);
  void readEdges(unsigned node);
  /// A cluster that depends on `a`, and `b`, which comes later, on it.
  std::optional<Id> findBetween(Id a, Id b);
  /// Clusters before `b` that depend on `a`, which precedes it, other than
  /// through `b`.
  llvm::SmallDenseSet<Id> between(Id a, Id b) const;
  /// Places clusters, in this order, right behind a position.
  void place(llvm::ArrayRef<Id> ids, Label behind);
  /// The same, with new labels for all: there was no room.
  void relabel(llvm::ArrayRef<Id> ids, Label behind);

  std::vector<mlir::Operation *> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  std::vector<llvm::SmallVector<unsigned, 1>> after, before; // extra edges
  std::vector<Id> clusterOf;                                 // a node
  std::vector<llvm::SmallVector<unsigned, 4>> members;       // sorted nodes
  Edges below, above;                                        // a cluster
  std::vector<Label> position;                               // a cluster
  std::map<Label, Id> sequence;                              // alive ones
  llvm::DenseMap<std::pair<Id, Id>, unsigned> standsBetween; // a node
  /// Of a cluster: the last search that met it from its first and second end.
  std::vector<unsigned> seenIn[2];
  unsigned searches = 0;
};

} // namespace knapper::fusion
