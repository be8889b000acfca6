// Slices at places that only the run knows.
#include "frontends/stablehlo/HloNode.h"

using namespace mlir;

namespace knapper {
namespace {

/// The scalars that say where, one a dim.
std::optional<SmallVector<Value>> starts(HloNode &n, size_t first,
                                         size_t rank) {
  if (n.size() != first + rank) {
    (void)n.damaged("has " + Twine(n.size() - first) + " starts for rank " +
                    Twine(rank));
    return std::nullopt;
  }
  SmallVector<Value> values;
  for (size_t i = 0; i < rank; ++i) {
    values.push_back(n.asIndex(n[first + i]));
    if (!values.back() || ts::rankOf(values.back()) != 0) {
      (void)n.damaged("a start is no scalar");
      return std::nullopt;
    }
  }
  return values;
}

LogicalResult importDynamicSlice(HloNode &n) {
  size_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> sizes = n.integers("slice_sizes", rank);
  std::optional<SmallVector<Value>> at = starts(n, 1, rank);
  if (!at || n.failed())
    return failure();
  return n.out(n.slicedAt(n[0], *at, sizes));
}

/// A scatter along the dims that the update does not fill; these come first.
LogicalResult importDynamicUpdateSlice(HloNode &n) {
  SmallVector<ts::Dim> own = ts::dimsOf(n[0]), part = ts::dimsOf(n[1]);
  size_t rank = own.size();
  std::optional<SmallVector<Value>> at = starts(n, 2, rank);
  if (!at || n.failed())
    return failure();
  if (part.size() != rank)
    return n.damaged("its ranks differ");
  Type i64 = n.b.getI64Type();
  SmallVector<int64_t> order, window;
  SmallVector<Value> firsts;
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    if (part[i] == own[i])
      continue;
    std::optional<int64_t> size = part[i].asConstant(),
                           whole = own[i].asConstant();
    if (!size)
      return n.unsupported("an update of a size that only a call knows, which "
                           "is not all of the operand's");
    if (whole && *size > *whole)
      return n.damaged("writes " + Twine(*size) + " of " + Twine(*whole) +
                       " elements");
    empty |= *size == 0;
    order.push_back(static_cast<int64_t>(i));
    window.push_back(*size);
    firsts.push_back(n.binary<ts::MinOp>(
        n.binary<ts::MaxOp>((*at)[i], n.integerScalar(0, i64)),
        n.sizeScalar(own[i] - part[i], i64)));
  }
  if (order.empty())
    return n.out(n[1]);
  if (empty)
    return n.out(n[0]);
  size_t moved = order.size();
  for (size_t i = 0; i < rank; ++i)
    if (part[i] == own[i])
      order.push_back(static_cast<int64_t>(i));
  SmallVector<int64_t> back(rank), grid = window;
  for (size_t i = 0; i < rank; ++i)
    back[order[i]] = static_cast<int64_t>(i);
  grid.push_back(1);
  SmallVector<Value> components;
  for (size_t i = 0; i < moved; ++i)
    components.push_back(
        n.add(n.iota(grid, static_cast<int64_t>(i), i64), firsts[i]));
  Value indices =
      n.make<ts::ConcatOp>(ValueRange(components), static_cast<int64_t>(moved));
  Value result =
      n.make<ts::ScatterNdOp>(n.transpose(n[0], order), indices,
                              n.transpose(n[1], order), ts::ReduceKindAttr());
  return n.out(n.transpose(result, back));
}

constexpr HloRow rows[] = {
    {"dynamic_slice", 1, importDynamicSlice},
    {"dynamic_update_slice", 2, importDynamicUpdateSlice},
};

} // namespace

llvm::ArrayRef<HloRow> hloDynamicRows() { return rows; }

} // namespace knapper
