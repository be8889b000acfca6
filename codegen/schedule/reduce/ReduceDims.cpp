// The dims of a reduction as few as they can be: neighbours that every tensor
// of the kernel has side by side, or not at all, are one dim. Tiles lie along a
// dim: of rows of [4144, 7] columns seven of their lanes would have work. On
// CPUs only kept dims, of columns: a loop for each reduced dim adds up more
// exactly (ReduceLoops.cpp).
#include "codegen/schedule/reduce/Reduce.h"
#include "ir/tensor/Decompose.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

class DimsOfKernel {
public:
  DimsOfKernel(ts::KernelOp kernel, const Space &space, bool joinsReduced)
      : kernel(kernel), space(space), joinsReduced(joinsReduced) {}

  /// Changes the types of the kernel's values; nothing where it cannot.
  void merge();

private:
  using Places = SmallVector<int64_t>; ///< of a tensor's dims in the space

  bool note(Value value, const Places &at);
  bool visit(Operation &op);
  bool findPlaces();
  bool canJoin(unsigned begin, unsigned d) const;
  bool isReduced(int64_t d) const {
    return llvm::is_contained(space.reduced, d);
  }

  ts::KernelOp kernel;
  const Space &space;
  const bool joinsReduced;
  DenseMap<Value, Places> places;
  bool changed = false;
};

} // namespace

/// False where the value is known to have other places.
bool DimsOfKernel::note(Value value, const Places &at) {
  auto [it, inserted] = places.try_emplace(value, at);
  changed |= inserted;
  return it->second == at && int64_t(at.size()) == ts::rankOf(value);
}

bool DimsOfKernel::visit(Operation &op) {
  if (isa<ts::ReduceOp, ts::ArgReduceOp>(op)) {
    Places all, kept;
    for (int64_t d = 0, rank = space.dims.size(); d < rank; ++d) {
      all.push_back(d);
      if (!isReduced(d))
        kept.push_back(d);
    }
    return note(op.getOperand(0), all) && note(op.getResult(0), kept);
  }
  if (isa<ts::ElementwiseOpInterface, ts::DimCastOp>(op)) {
    SmallVector<Value> values(op.getOperands());
    llvm::append_range(values, op.getResults());
    for (Value value : values) {
      auto known = places.find(value);
      if (known == places.end())
        continue;
      Places at = known->second;
      return llvm::all_of(values, [&](Value other) { return note(other, at); });
    }
    return true;
  }
  if (auto spread = dyn_cast<ts::BroadcastOp>(op)) {
    auto known = places.find(spread.getResult());
    if (known == places.end())
      return true;
    Places at;
    for (int64_t d : spread.getDims())
      at.push_back(known->second[d]);
    return note(spread.getInput(), at);
  }
  return isa<ts::YieldOp>(op) || (isa<ts::ConstantOp, ts::SizeOp>(op) &&
                                  ts::rankOf(op.getResult(0)) == 0);
}

bool DimsOfKernel::findPlaces() {
  do {
    changed = false;
    for (Operation &op : llvm::reverse(kernel.getBody().front()))
      if (!visit(op))
        return false;
  } while (changed);
  auto isKnown = [&](Value value) {
    return places.contains(value) || ts::rankOf(value) == 0;
  };
  for (Operation &op : kernel.getBody().front())
    if (!llvm::all_of(op.getResults(), isKnown))
      return false;
  return llvm::all_of(kernel.getBody().getArguments(), isKnown);
}

/// Whether dim `d` becomes one with those from `begin` on, which are one. A
/// tensor has all of them as the space has them, all of size 1, or none: of
/// [1, 1, 5] in a space of [3, 1, 5] the last two are whole, and all three are
/// not.
bool DimsOfKernel::canJoin(unsigned begin, unsigned d) const {
  if (isReduced(d) != isReduced(begin) || (isReduced(d) && !joinsReduced))
    return false;
  for (auto &[value, at] : places) {
    SmallVector<Dim> dims = ts::dimsOf(value);
    unsigned count = 0;
    bool isWhole = true, isOnes = true;
    for (auto [i, place] : llvm::enumerate(at)) {
      if (place < int64_t(begin) || place > int64_t(d))
        continue;
      // In the space's order, next to each other.
      if (place != int64_t(begin + count) || (count && at[i - 1] != place - 1))
        return false;
      ++count;
      isWhole &= dims[i] == space.dims[place];
      isOnes &= dims[i].isConstant(1);
    }
    if (count && (count != d - begin + 1 || !(isWhole || isOnes)))
      return false;
  }
  return true;
}

void DimsOfKernel::merge() {
  if (!findPlaces())
    return;
  SmallVector<int64_t> become{0}; // of each dim of the space
  unsigned begin = 0;
  for (unsigned d = 1; d < space.dims.size(); ++d) {
    bool joins = canJoin(begin, d);
    if (!joins)
      begin = d;
    become.push_back(become.back() + !joins);
  }
  if (become.back() + 1 == int64_t(become.size()))
    return;
  auto merged = [&](const Places &at) {
    SmallVector<int64_t> result;
    for (int64_t d : at)
      if (result.empty() || result.back() != become[d])
        result.push_back(become[d]);
    return result;
  };
  Builder b(kernel.getContext());
  for (Operation &op : kernel.getBody().front()) {
    if (auto reduce = dyn_cast<ts::ReduceOp>(op))
      reduce.setDims(merged(Places(space.reduced)));
    else if (auto index = dyn_cast<ts::ArgReduceOp>(op))
      index.setDim(become[index.getDim()]);
    auto spread = dyn_cast<ts::BroadcastOp>(op);
    if (!spread)
      continue;
    // (An operand without dims stays so.)
    SmallVector<int64_t> from, to = merged(places.lookup(spread.getResult()));
    if (ts::rankOf(spread.getInput()))
      for (int64_t d : merged(places.lookup(spread.getInput())))
        from.push_back(llvm::find(to, d) - to.begin());
    spread.setDims(from);
  }
  for (auto &[value, at] : places) {
    SmallVector<Dim> dims, own = ts::dimsOf(value);
    for (auto [i, d] : llvm::enumerate(at))
      if (i > 0 && become[at[i - 1]] == become[d])
        dims.back() = dims.back() * own[i];
      else
        dims.push_back(own[i]);
    Value other = value;
    other.setType(
        ts::tensorType(kernel.getContext(), dims, ts::elementTypeOf(value)));
  }
}

OwningOpRef<ts::KernelOp> asReductions(ts::KernelOp kernel,
                                       const TargetDesc &target) {
  OwningOpRef<ts::KernelOp> copy = kernel.clone();
  ts::decomposeAll(copy->getBody());
  FailureOr<Space> space = commonSpace(*copy);
  if (failed(space) || space->dims.empty())
    return copy;
  bool isRow = llvm::is_contained(space->reduced, int64_t(laneDim(*space)));
  if (target.simt || !isRow)
    DimsOfKernel(*copy, *space, target.simt).merge();
  return copy;
}

} // namespace knapper
