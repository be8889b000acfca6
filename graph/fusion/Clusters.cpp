#include "graph/fusion/Clusters.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace knapper::fusion;

Clusters::Clusters(ArrayRef<Operation *> ops,
                   ArrayRef<std::pair<Operation *, Operation *>> dependences)
    : nodes(ops.begin(), ops.end()) {
  after.resize(nodes.size());
  before.resize(nodes.size());
  for (unsigned i = 0; i < nodes.size(); ++i) {
    indexOf[nodes[i]] = i;
    clusterOf.push_back(i);
    members.push_back({i});
    position.push_back(i);
    sequence.push_back(i);
  }
  for (auto [first, second] : dependences) {
    after[indexOf.lookup(first)].push_back(indexOf.lookup(second));
    before[indexOf.lookup(second)].push_back(indexOf.lookup(first));
  }
}

SmallVector<Clusters::Id> Clusters::inOrder() const {
  return llvm::to_vector(
      llvm::make_filter_range(sequence, [](Id id) { return id != nobody; }));
}

bool Clusters::all(Id id,
                   llvm::function_ref<bool(Operation *)> predicate) const {
  return llvm::all_of(members[id],
                      [&](unsigned i) { return predicate(nodes[i]); });
}

SmallVector<Operation *> Clusters::ops(Id id) const {
  return llvm::map_to_vector(members[id], [&](unsigned i) { return nodes[i]; });
}

SmallVector<Operation *> Clusters::ops(Id first, Id second) const {
  SmallVector<unsigned> all;
  std::merge(members[first].begin(), members[first].end(),
             members[second].begin(), members[second].end(),
             std::back_inserter(all));
  return llvm::map_to_vector(all, [&](unsigned i) { return nodes[i]; });
}

std::optional<Clusters::Id> Clusters::of(Operation *op) const {
  auto it = indexOf.find(op);
  if (it == indexOf.end())
    return std::nullopt;
  return clusterOf[it->second];
}

SmallVector<Clusters::Id> Clusters::consumers(Id id) const {
  SmallVector<Id> found;
  for (unsigned node : members[id]) {
    for (Operation *user : nodes[node]->getUsers())
      if (std::optional<Id> other = of(user))
        found.push_back(*other);
    for (unsigned other : after[node])
      found.push_back(clusterOf[other]);
  }
  llvm::sort(found, [&](Id a, Id b) { return position[a] < position[b]; });
  found.erase(llvm::unique(found), found.end());
  llvm::erase(found, id);
  return found;
}

SmallVector<Clusters::Id> Clusters::producers(Id id) const {
  SmallVector<Id> found;
  for (unsigned node : members[id]) {
    for (Value operand : nodes[node]->getOperands())
      if (Operation *op = operand.getDefiningOp())
        if (std::optional<Id> other = of(op))
          found.push_back(*other);
    for (unsigned other : before[node])
      found.push_back(clusterOf[other]);
  }
  llvm::sort(found, [&](Id a, Id b) { return position[a] < position[b]; });
  found.erase(llvm::unique(found), found.end());
  llvm::erase(found, id);
  return found;
}

llvm::SmallDenseSet<Clusters::Id> Clusters::between(Id a, Id b,
                                                    bool &cycle) const {
  llvm::SmallDenseSet<Id> found;
  SmallVector<Id> work;
  cycle = false;
  for (Id next : consumers(a))
    if (next != b && position[next] < position[b] && found.insert(next).second)
      work.push_back(next);
  while (!work.empty())
    for (Id next : consumers(work.pop_back_val())) {
      cycle |= next == b;
      if (position[next] < position[b] && found.insert(next).second)
        work.push_back(next);
    }
  return found;
}

bool Clusters::mayMerge(Id a, Id b) const {
  if (position[a] > position[b])
    std::swap(a, b);
  bool cycle;
  between(a, b, cycle);
  return !cycle;
}

Clusters::Id Clusters::merge(Id a, Id b) {
  if (position[a] > position[b])
    std::swap(a, b);
  bool cycle;
  llvm::SmallDenseSet<Id> behind = between(a, b, cycle);
  unsigned from = position[a], to = position[b];
  SmallVector<Id> window;
  for (unsigned i = from + 1; i < to; ++i)
    if (sequence[i] != nobody && !behind.contains(sequence[i]))
      window.push_back(sequence[i]);
  window.push_back(a);
  for (unsigned i = from + 1; i < to; ++i)
    if (sequence[i] != nobody && behind.contains(sequence[i]))
      window.push_back(sequence[i]);
  // Only what stands between the two moves, to the window's end: a merge costs
  // their distance, not the block's length.
  unsigned first = to + 1 - window.size();
  std::fill(sequence.begin() + from, sequence.begin() + first, nobody);
  llvm::copy(window, sequence.begin() + first);
  renumber(first, to + 1);

  SmallVector<unsigned, 4> all;
  std::merge(members[a].begin(), members[a].end(), members[b].begin(),
             members[b].end(), std::back_inserter(all));
  for (unsigned node : members[b])
    clusterOf[node] = a;
  members[a] = std::move(all);
  members[b].clear();
  return a;
}

Clusters::Id Clusters::split(Operation *op, bool placeBefore) {
  unsigned node = indexOf.lookup(op);
  Id old = clusterOf[node], id = members.size();
  llvm::erase(members[old], node);
  members.push_back({node});
  position.push_back(0);
  clusterOf[node] = id;
  unsigned at = position[old] + (placeBefore ? 0 : 1);
  sequence.insert(sequence.begin() + at, id);
  renumber(at, sequence.size());
  return id;
}

void Clusters::renumber(unsigned begin, unsigned end) {
  for (unsigned i = begin; i < end; ++i)
    if (sequence[i] != nobody)
      position[sequence[i]] = i;
}
