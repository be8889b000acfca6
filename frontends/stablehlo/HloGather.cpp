// Windows read at places that only the run knows; these are clamped, as XLA
// does it.
#include "frontends/stablehlo/HloIndices.h"

using namespace mlir;

namespace knapper {
namespace {

LogicalResult importGather(HloNode &n) {
  auto rank = static_cast<size_t>(ts::rankOf(n[0]));
  RankedTensorType type = n.resultType();
  SmallVector<int64_t> sizes = n.integers("slice_sizes", rank),
                       collapsed = n.dims("collapsed_slice_dims", rank);
  if (!type || n.failed())
    return failure();
  std::optional<HloWindows> w =
      readHloWindows(n, sizes, "operand_batching_dims",
                     "start_indices_batching_dims", "start_index_map");
  if (!w)
    return failure();
  SmallVector<int64_t> dropped = collapsed;
  llvm::append_range(dropped, n.dims("operand_batching_dims", rank));
  SmallVector<int64_t> offsets = n.dims("offset_dims", type.getRank());
  if (n.failed())
    return failure();
  for (size_t i = 0; i < rank; ++i) {
    bool gone = llvm::is_contained(dropped, static_cast<int64_t>(i));
    if (sizes[i] < 0 || sizes[i] > w->operand[i] || (gone && sizes[i] != 1))
      return n.damaged("its windows do not fit the operand");
  }
  if (offsets.size() + dropped.size() != rank ||
      offsets.size() + w->batch.size() != static_cast<size_t>(type.getRank()))
    return n.damaged("its result has another rank than its windows");
  Type i64 = n.b.getI64Type();
  for (auto [begin, dim] : llvm::zip(w->begins, w->indexed))
    begin =
        n.binary<ts::MinOp>(n.binary<ts::MaxOp>(begin, n.integerScalar(0, i64)),
                            n.integerScalar(w->operand[dim] - sizes[dim], i64));
  SmallVector<int64_t> placed = w->placed(), order = placed;
  for (size_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(placed, static_cast<int64_t>(i)))
      order.push_back(static_cast<int64_t>(i));
  // [batch..., windows of `order`...], of which the dropped dims are 1
  Value read;
  if (placed.empty()) {
    SmallVector<ts::Dim> dims;
    SmallVector<int64_t> at;
    for (int64_t size : w->batch)
      dims.push_back(n.dim(size));
    for (size_t i = 0; i < rank; ++i) {
      at.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(n.dim(w->operand[i]));
    }
    read = n.broadcastAt(n[0], at, dims);
  } else if (placed.size() == 1) {
    Value places = hloPlaces(n, *w);
    SmallVector<int64_t> flat = w->batch;
    flat.push_back(sizes[placed[0]]);
    read = n.make<ts::GatherOp>(n.transpose(n[0], order),
                                n.reshapeTo(places, flat), uint64_t(0));
  } else {
    read = n.make<ts::GatherNdOp>(n.transpose(n[0], order), hloPlaces(n, *w),
                                  uint64_t(0));
  }
  SmallVector<int64_t> shape = w->batch, kept;
  for (int64_t dim : order)
    if (!llvm::is_contained(dropped, dim)) {
      kept.push_back(dim);
      shape.push_back(sizes[dim]);
    }
  read = n.reshapeTo(read, shape);
  // Windows go to `offsets` in the operand's order, the batch around them.
  SmallVector<int64_t> ranked = kept, permutation(type.getRank(), -1);
  llvm::sort(ranked);
  llvm::sort(offsets);
  for (auto [dim, at] : llvm::zip(ranked, offsets))
    permutation[at] = static_cast<int64_t>(w->batch.size()) +
                      (llvm::find(kept, dim) - kept.begin());
  int64_t next = 0;
  for (int64_t &each : permutation)
    if (each < 0)
      each = next++;
  return n.out(n.transpose(read, permutation));
}

constexpr HloRow rows[] = {
    {"gather", 2, importGather},
};

} // namespace

llvm::ArrayRef<HloRow> hloGatherRows() { return rows; }

} // namespace knapper
