#include "graph/fusion/Clusters.h"
#include "ir/tensor/BranchesAndLoops.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace knapper::fusion;

/// Between the labels of neighbours at first.
static constexpr uint64_t room = uint64_t(1) << 32;

bool knapper::fusion::keepsItsPlace(Operation *op) {
  if (isa<ts::ExternalOp>(op))
    return !isMemoryEffectFree(op);
  if (!isa<ts::IfOp, ts::LoopOp>(op))
    return false;
  return llvm::any_of(ts::bodiesOf(op), [](func::FuncOp body) {
    return body && !body.isDeclaration() &&
           llvm::any_of(body.getBody().getOps(),
                        [](Operation &inner) { return keepsItsPlace(&inner); });
  });
}

Clusters::Clusters(ArrayRef<Operation *> ops,
                   ArrayRef<std::pair<Operation *, Operation *>> dependences)
    : nodes(ops.begin(), ops.end()) {
  after.resize(nodes.size());
  before.resize(nodes.size());
  for (unsigned i = 0; i < nodes.size(); ++i) {
    indexOf[nodes[i]] = i;
    clusterOf.push_back(i);
    members.push_back({i});
    position.push_back((i + 1) * room);
    sequence.emplace_hint(sequence.end(), position.back(), i);
  }
  for (auto [first, second] : dependences) {
    after[indexOf.lookup(first)].push_back(indexOf.lookup(second));
    before[indexOf.lookup(second)].push_back(indexOf.lookup(first));
  }
  readEdges();
}

SmallVector<Clusters::Id> Clusters::inOrder() const {
  return llvm::map_to_vector(sequence,
                             [](const auto &entry) { return entry.second; });
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

void Clusters::readEdges() {
  standsBetween.clear();
  below.assign(members.size(), {});
  above.assign(members.size(), {});
  for (unsigned node = 0; node < nodes.size(); ++node)
    readEdges(node);
}

void Clusters::readEdges(unsigned node) {
  Id id = clusterOf[node];
  for (Operation *user : nodes[node]->getUsers())
    if (auto it = indexOf.find(user); it != indexOf.end())
      below[id].push_back(it->second);
  llvm::append_range(below[id], after[node]);
  for (Value operand : nodes[node]->getOperands())
    if (auto it = indexOf.find(operand.getDefiningOp()); it != indexOf.end())
      above[id].push_back(it->second);
  llvm::append_range(above[id], before[node]);
}

SmallVector<Clusters::Id> Clusters::others(Id id, const Edges &edges) const {
  SmallVector<Id> found;
  eachOther(id, edges, [&](Id other) { found.push_back(other); });
  llvm::sort(found, [&](Id a, Id b) { return position[a] < position[b]; });
  found.erase(llvm::unique(found), found.end());
  return found;
}

template <typename Visit>
void Clusters::eachOther(Id id, const Edges &edges, Visit visit) const {
  for (unsigned node : edges[id])
    if (clusterOf[node] != id)
      visit(clusterOf[node]);
}

/// The node of each cluster that stays is any of its nodes: all of them are in
/// one cluster for good, but for those that `split` takes out.
void Clusters::uniteEdges(Id into, Id from, Edges &edges) {
  SmallVector<unsigned, 4> all = std::move(edges[from]);
  llvm::append_range(all, edges[into]);
  edges[from].clear();
  edges[into].clear();
  llvm::SmallDenseSet<Id> seen{into};
  for (unsigned node : all)
    if (seen.insert(clusterOf[node]).second)
      edges[into].push_back(node);
}

llvm::SmallDenseSet<Clusters::Id> Clusters::between(Id a, Id b) const {
  llvm::SmallDenseSet<Id> found;
  SmallVector<Id> work{a};
  while (!work.empty())
    eachOther(work.pop_back_val(), below, [&](Id next) {
      if (position[next] < position[b] && found.insert(next).second)
        work.push_back(next);
    });
  return found;
}

bool Clusters::mayMerge(Id a, Id b) {
  if (position[a] > position[b])
    std::swap(a, b);
  // What once stood between them does so until it is part of one of them.
  auto known = standsBetween.find({a, b});
  if (known != standsBetween.end()) {
    Id third = clusterOf[known->second];
    if (third != a && third != b)
      return false;
  }
  std::optional<Id> third = findBetween(a, b);
  if (third)
    standsBetween[{a, b}] = members[*third].front();
  return !third;
}

std::optional<Clusters::Id> Clusters::findBetween(Id a, Id b) {
  // From both ends, in turns: the end with fewer ways ends the search, and each
  // goes on where it has come closest to the other.
  ++searches;
  for (std::vector<unsigned> &seen : seenIn)
    seen.resize(members.size(), 0);
  std::vector<std::pair<Label, Id>> work[2]; // heaps, the closest on top
  std::optional<Id> met;
  auto expand = [&](unsigned side, Id id) {
    eachOther(id, side ? above : below, [&](Id next) {
      if (position[next] <= position[a] || position[next] >= position[b] ||
          seenIn[side][next] == searches)
        return;
      if (seenIn[1 - side][next] == searches)
        met = next;
      seenIn[side][next] = searches;
      work[side].push_back({side ? ~position[next] : position[next], next});
      std::push_heap(work[side].begin(), work[side].end());
    });
  };
  expand(0, a);
  expand(1, b);
  for (unsigned side = 0; !met && !work[side].empty(); side = 1 - side) {
    std::pop_heap(work[side].begin(), work[side].end());
    Id id = work[side].back().second;
    work[side].pop_back();
    expand(side, id);
  }
  return met;
}

Clusters::Id Clusters::merge(Id a, Id b) {
  if (position[a] > position[b])
    std::swap(a, b);
  llvm::SmallDenseSet<Id> behind = between(a, b);
  SmallVector<Id> moved(behind.begin(), behind.end());
  llvm::sort(moved, [&](Id a, Id b) { return position[a] < position[b]; });
  moved.insert(moved.begin(), a);
  for (Id id : moved)
    sequence.erase(position[id]);
  sequence.erase(position[b]);
  place(moved, position[b]);

  SmallVector<unsigned, 4> all;
  std::merge(members[a].begin(), members[a].end(), members[b].begin(),
             members[b].end(), std::back_inserter(all));
  for (unsigned node : members[b])
    clusterOf[node] = a;
  members[a] = std::move(all);
  members[b].clear();
  uniteEdges(a, b, below);
  uniteEdges(a, b, above);
  return a;
}

Clusters::Id Clusters::split(Operation *op, bool placeBefore) {
  unsigned node = indexOf.lookup(op);
  Id old = clusterOf[node], id = members.size();
  llvm::erase(members[old], node);
  members.push_back({node});
  position.push_back(0);
  clusterOf[node] = id;
  below.emplace_back();
  above.emplace_back();
  Label behind = position[old];
  if (placeBefore) {
    auto it = sequence.find(behind);
    behind = it == sequence.begin() ? 0 : std::prev(it)->first;
  }
  place({id}, behind);
  return id;
}

void Clusters::place(ArrayRef<Id> ids, Label behind) {
  auto next = sequence.upper_bound(behind);
  Label end =
      next == sequence.end() ? behind + (ids.size() + 1) * room : next->first;
  if (end < behind || end - behind <= ids.size()) {
    relabel(ids, behind);
    return;
  }
  Label step = (end - behind) / (ids.size() + 1);
  for (Id id : ids) {
    behind += step;
    position[id] = behind;
    sequence.emplace_hint(next, behind, id);
  }
}

void Clusters::relabel(ArrayRef<Id> ids, Label behind) {
  SmallVector<Id> all = inOrder();
  auto place =
      llvm::partition_point(all, [&](Id id) { return position[id] <= behind; });
  all.insert(place, ids.begin(), ids.end());
  sequence.clear();
  for (auto [i, id] : llvm::enumerate(all)) {
    position[id] = (i + 1) * room;
    sequence.emplace_hint(sequence.end(), position[id], id);
  }
}
