#include "frontends/stablehlo/HloIndices.h"
#include "frontends/stablehlo/HloComplex.h"

using namespace mlir;

namespace knapper {

SmallVector<int64_t> HloWindows::placed() const {
  SmallVector<int64_t> dims = indexed;
  for (size_t i = 0; i < operand.size(); ++i)
    if (sizes[i] != operand[i] &&
        !llvm::is_contained(indexed, static_cast<int64_t>(i)))
      dims.push_back(static_cast<int64_t>(i));
  return dims;
}

std::optional<HloWindows> readHloWindows(HloNode &n, ArrayRef<int64_t> sizes,
                                         StringRef batchOfOperand,
                                         StringRef batchOfIndices,
                                         StringRef map, unsigned indexOperand) {
  HloWindows w;
  w.operand = hloOwnShape(n, 0);
  w.sizes.assign(sizes.begin(), sizes.end());
  SmallVector<int64_t> given = n.shape(n[indexOperand]);
  auto rank = static_cast<int64_t>(given.size());
  auto ofOperand = static_cast<int64_t>(w.operand.size());
  int64_t vector = n.integer("index_vector_dim");
  SmallVector<int64_t> named = n.dims(map, ofOperand),
                       paired = n.dims(batchOfOperand, ofOperand),
                       with = n.dims(batchOfIndices, rank);
  if (n.failed())
    return std::nullopt;
  if (vector < 0 || vector > rank || paired.size() != with.size() ||
      llvm::is_contained(with, vector) ||
      llvm::any_of(paired, [&](int64_t dim) {
        return llvm::is_contained(named, dim);
      })) {
    (void)n.damaged("its dims of indices do not fit");
    return std::nullopt;
  }
  int64_t entries = vector < rank ? given[vector] : 1;
  if (entries != static_cast<int64_t>(named.size())) {
    (void)n.damaged("its index vectors have " + Twine(entries) +
                    " entries for " + Twine(named.size()) + " dims");
    return std::nullopt;
  }
  for (int64_t i = 0; i < rank; ++i)
    if (i != vector)
      w.batch.push_back(given[i]);
  Type i64 = n.b.getI64Type();
  Value indices = n.asIndex(n[indexOperand]);
  for (auto [i, dim] : llvm::enumerate(named)) {
    Value begin = indices;
    if (vector < rank)
      begin =
          n.reshapeTo(n.sliceDim(indices, vector, n.dim(i), n.dim(1)), w.batch);
    w.indexed.push_back(dim);
    w.begins.push_back(begin);
  }
  w.named = named.size();
  for (auto [dim, of] : llvm::zip(paired, with)) {
    if (w.operand[dim] != given[of] || sizes[dim] != 1) {
      (void)n.damaged("its batching dims differ");
      return std::nullopt;
    }
    w.indexed.push_back(dim);
    w.begins.push_back(n.iota(w.batch, of - (of > vector), i64));
  }
  if (n.failed())
    return std::nullopt;
  return w;
}

Value hloPlaces(HloNode &n, const HloWindows &w) {
  Type i64 = n.b.getI64Type();
  SmallVector<int64_t> placed = w.placed(), grid = w.batch, ofBatch;
  for (size_t i = 0; i < w.batch.size(); ++i)
    ofBatch.push_back(static_cast<int64_t>(i));
  for (int64_t dim : placed)
    grid.push_back(w.sizes[dim]);
  SmallVector<ts::Dim> dims;
  for (int64_t size : grid)
    dims.push_back(n.dim(size));
  SmallVector<int64_t> single = grid;
  single.push_back(1);
  SmallVector<Value> components;
  for (auto [i, dim] : llvm::enumerate(placed)) {
    Value place;
    if (i < w.begins.size())
      place = n.broadcastAt(w.begins[i], ofBatch, dims);
    if (!place || w.sizes[dim] > 1) {
      Value within =
          n.iota(grid, static_cast<int64_t>(w.batch.size() + i), i64);
      place = place ? n.add(place, within) : within;
    }
    components.push_back(n.reshapeTo(place, single));
  }
  return n.make<ts::ConcatOp>(ValueRange(components),
                              static_cast<int64_t>(grid.size()));
}

} // namespace knapper
