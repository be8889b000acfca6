// Ops that move elements, at places known now.
#include "frontends/stablehlo/HloNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

LogicalResult importBroadcast(HloNode &n) {
  RankedTensorType type = n.resultType();
  if (!type)
    return failure();
  SmallVector<int64_t> at = n.dims("broadcast_dimensions", type.getRank()),
                       own = n.shape(n[0]);
  if (n.failed())
    return failure();
  if (at.size() != own.size())
    return n.damaged("names " + Twine(at.size()) + " dims of rank " +
                     Twine(own.size()));
  for (size_t i = 0; i < at.size(); ++i)
    if (own[i] != 1 && own[i] != type.getDimSize(at[i]))
      return n.damaged("broadcasts " + Twine(own[i]) + " to " +
                       Twine(type.getDimSize(at[i])));
  // Dims in another order are transposed first.
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, at.size()));
  llvm::sort(order, [&](int64_t a, int64_t b) { return at[a] < at[b]; });
  SmallVector<int64_t> sorted;
  for (int64_t i : order)
    sorted.push_back(at[i]);
  return n.out(n.broadcastAt(n.transpose(n[0], order), sorted, n.resultDims()));
}

LogicalResult importReshape(HloNode &n) {
  return n.out(n.reshape(n[0], n.resultDims()));
}

LogicalResult importTranspose(HloNode &n) {
  int64_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> permutation = n.dims("permutation", rank);
  if (static_cast<int64_t>(permutation.size()) != rank)
    return n.damaged("permutes another number of dims");
  return n.out(n.transpose(n[0], permutation));
}

LogicalResult importSlice(HloNode &n) {
  SmallVector<int64_t> own = n.shape(n[0]);
  size_t rank = own.size();
  SmallVector<int64_t> starts = n.integers("start_indices", rank),
                       limits = n.integers("limit_indices", rank),
                       steps = n.integers("strides", rank), counts;
  if (n.failed())
    return failure();
  for (size_t i = 0; i < rank; ++i) {
    if (starts[i] < 0 || limits[i] < starts[i] || limits[i] > own[i] ||
        steps[i] < 1)
      return n.damaged("takes " + Twine(starts[i]) + ":" + Twine(limits[i]) +
                       ":" + Twine(steps[i]) + " of " + Twine(own[i]));
    counts.push_back(llvm::divideCeil(limits[i] - starts[i], steps[i]));
    if (counts.back() == 0)
      starts[i] = 0;
    if (counts.back() <= 1)
      steps[i] = 1;
  }
  return n.out(n.slice(n[0], starts, counts, steps));
}

LogicalResult importConcatenate(HloNode &n) {
  int64_t dim = n.dimension("dimension", ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  return n.out(n.make<ts::ConcatOp>(ValueRange(n.operands), dim));
}

LogicalResult importPad(HloNode &n) {
  size_t rank = ts::rankOf(n[0]);
  SmallVector<int64_t> low = n.integers("edge_padding_low", rank),
                       high = n.integers("edge_padding_high", rank),
                       interior = n.integers("interior_padding", rank);
  if (ts::rankOf(n[1]) != 0)
    return n.damaged("pads with what is no scalar");
  constexpr int64_t most = int64_t(1) << 40;
  for (size_t i = 0; i < rank; ++i)
    if (std::abs(low[i]) > most || std::abs(high[i]) > most ||
        interior[i] < 0 || interior[i] > most)
      return n.damaged("its pads are out of range");
  return n.out(n.pad(n[0], n[1], low, high, interior));
}

LogicalResult importReverse(HloNode &n) {
  SmallVector<int64_t> dims = n.dims("dimensions", ts::rankOf(n[0]));
  return n.out(n.reverse(n[0], dims));
}

/// Results are the operands.
LogicalResult importPassed(HloNode &n) {
  if (n.size() != n.results.size())
    return n.damaged("has as many results as operands");
  for (size_t i = 0; i < n.size(); ++i)
    if (mlir::failed(n.out(n[i], i)))
      return failure();
  return mlir::success();
}

constexpr HloRow rows[] = {
    {"broadcast_in_dim", 1, importBroadcast},
    {"concatenate", 1, importConcatenate},
    {"optimization_barrier", 0, importPassed},
    {"pad", 2, importPad},
    {"reshape", 1, importReshape},
    {"reverse", 1, importReverse},
    // Of sdy, on one device.
    {"reshard", 1, importPassed},
    {"sharding_constraint", 1, importPassed},
    {"slice", 1, importSlice},
    {"transpose", 1, importTranspose},
    {"unrealized_conversion_cast", 1, importPassed},
};

} // namespace

llvm::ArrayRef<HloRow> hloShapeRows() { return rows; }

} // namespace knapper
