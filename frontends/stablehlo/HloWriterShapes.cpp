// Ops that make and move elements, as StableHLO's text.
#include "frontends/stablehlo/HloWriter.h"

using namespace mlir;

namespace knapper {
namespace {

using W = HloWriter;
using T = HloText;

SmallVector<int64_t> counted(int64_t from, int64_t to) {
  return llvm::to_vector(llvm::seq<int64_t>(from, std::max(from, to)));
}

void writeConstant(W &w, Operation *given) {
  auto op = cast<ts::ConstantOp>(given);
  auto data = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!data)
    return w.refuse(op, "data of another kind");
  w.out(op, w.constant(data));
}

void writeWeight(W &w, Operation *given) {
  auto op = cast<ts::WeightOp>(given);
  auto type = cast<RankedTensorType>(op.getType());
  StringRef bytes = w.bytesOf(op);
  if (!bytes.empty() || type.getNumElements() == 0)
    w.out(op, w.constant(type, bytes));
}

void writeSize(W &w, Operation *given) {
  auto op = cast<ts::SizeOp>(given);
  std::optional<int64_t> number = ts::Dim(op.getSize()).asConstant();
  if (!number)
    return w.refuse(op, "a size that only a run knows");
  auto type = cast<RankedTensorType>(op.getType());
  w.out(op, w.constant(DenseElementsAttr::get(
                type,
                Attribute(IntegerAttr::get(type.getElementType(), *number)))));
}

void writeDimCast(W &w, Operation *op) {
  T x = w.of(op->getOperand(0));
  if (x.type != op->getResult(0).getType())
    return w.refuse(op, "sizes that differ");
  w.out(op, x);
}

void writeBroadcast(W &w, Operation *given) {
  auto op = cast<ts::BroadcastOp>(given);
  w.out(op, w.broadcast(w.of(op.getInput()), op.getDims(),
                        cast<RankedTensorType>(op.getType()).getShape()));
}

void writeReshape(W &w, Operation *op) {
  w.out(op, w.reshape(
                w.of(op->getOperand(0)),
                cast<RankedTensorType>(op->getResult(0).getType()).getShape()));
}

void writeTranspose(W &w, Operation *given) {
  auto op = cast<ts::TransposeOp>(given);
  w.out(op, w.make("transpose", {w.of(op.getInput())}, op.getType(),
                   "permutation = " + hloArray(op.getPermutation())));
}

/// A dim with a negative step is reversed before the slice.
void writeSlice(W &w, Operation *given) {
  auto op = cast<ts::SliceOp>(given);
  T x = w.of(op.getInput());
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> starts, limits, steps, reversed;
  for (ts::Dim start : ts::dimsOf(op.getStarts())) {
    if (!start.asConstant())
      return w.refuse(op, "a place that only a run knows");
    starts.push_back(*start.asConstant());
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t step = op.getSteps()[i], count = type.getDimSize(i);
    if (step < 0 && count > 0) {
      reversed.push_back(static_cast<int64_t>(i));
      starts[i] = x.type.getDimSize(i) - 1 - starts[i];
    }
    steps.push_back(count > 1 ? std::abs(step) : 1);
    if (count == 0)
      starts[i] = 0;
    limits.push_back(count == 0 ? starts[i]
                                : starts[i] + (count - 1) * steps[i] + 1);
  }
  if (!reversed.empty())
    x = w.make("reverse", {x}, x.type, "dimensions = " + hloArray(reversed));
  w.out(op, w.make("slice", {x}, type,
                   "start_indices = " + hloArray(starts) +
                       ", limit_indices = " + hloArray(limits) +
                       ", strides = " + hloArray(steps)));
}

void writePad(W &w, Operation *given) {
  auto op = cast<ts::PadOp>(given);
  if (op.getMode() != ts::PadMode::constant)
    return w.refuse(op, "pads that repeat the tensor's own elements");
  SmallVector<int64_t> low = hloNumbers(op.getLow()),
                       high = hloNumbers(op.getHigh()), zeros(low.size(), 0);
  w.out(op,
        w.make("pad", {w.of(op.getInput()), w.of(op.getValue())}, op.getType(),
               "edge_padding_low = " + hloArray(low) +
                   ", edge_padding_high = " + hloArray(high) +
                   ", interior_padding = " + hloArray(zeros)));
}

void writeConcat(W &w, Operation *given) {
  auto op = cast<ts::ConcatOp>(given);
  SmallVector<T> parts = llvm::map_to_vector(
      op.getInputs(), [&](Value value) { return w.of(value); });
  w.out(op, w.make("concatenate", parts, op.getType(),
                   "dimension = " + std::to_string(op.getDim()) + " : i64"));
}

T iota(W &w, Type type, int64_t dim) {
  return w.make("iota", {}, type,
                "iota_dimension = " + std::to_string(dim) + " : i64");
}

void writeIota(W &w, Operation *given) {
  auto op = cast<ts::IotaOp>(given);
  w.out(op, iota(w, op.getType(), static_cast<int64_t>(op.getDim())));
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// Negative indices count from the end, of `size` elements; `sizes` instead
/// has one for each entry of the last dim.
T fromTheEnd(W &w, T index, int64_t size) {
  T all = w.splat(static_cast<double>(size), index.type);
  return w.select(w.compare("LT", index, w.splat(0, index.type)),
                  w.binary("add", index, all), index);
}
T fromTheEnd(W &w, T index, ArrayRef<int64_t> sizes) {
  Type element = index.type.getElementType();
  int64_t last = index.type.getRank() - 1;
  SmallVector<Attribute> each;
  for (int64_t size : sizes)
    each.push_back(IntegerAttr::get(element, size));
  auto type =
      RankedTensorType::get({static_cast<int64_t>(sizes.size())}, element);
  T all = w.broadcast(w.constant(DenseElementsAttr::get(type, each)), {last},
                      index.type.getShape());
  return w.select(w.compare("LT", index, w.splat(0, index.type)),
                  w.binary("add", index, all), index);
}

T gather(W &w, T x, T index, Type type, const std::string &numbers,
         ArrayRef<int64_t> sizes) {
  return w.make("gather", {x, index}, type,
                "dimension_numbers = #stablehlo.gather<" + numbers +
                    ">, slice_sizes = " + hloArray(sizes) +
                    ", indices_are_sorted = false");
}

void writeGather(W &w, Operation *given) {
  auto op = cast<ts::GatherOp>(given);
  T x = w.of(op.getInput()), index = w.of(op.getIndices());
  auto dim = static_cast<int64_t>(op.getDim()), rank = x.type.getRank(),
       count = index.type.getRank();
  index = fromTheEnd(w, index, x.type.getDimSize(dim));
  SmallVector<int64_t> sizes(x.type.getShape()), offsets = counted(0, dim);
  sizes[dim] = 1;
  llvm::append_range(offsets, counted(dim + count, rank - 1 + count));
  std::string at = std::to_string(dim);
  w.out(op, gather(w, x, index, op.getType(),
                   "offset_dims = " + hloList(offsets) +
                       ", collapsed_slice_dims = [" + at +
                       "], start_index_map = [" + at +
                       "], index_vector_dim = " + std::to_string(count),
                   sizes));
}

/// Index vectors over all dims: the place itself, but along `dim`.
T places(W &w, T x, T index, int64_t dim) {
  int64_t rank = index.type.getRank();
  index = fromTheEnd(w, index, x.type.getDimSize(dim));
  SmallVector<int64_t> single(index.type.getShape());
  single.push_back(1);
  SmallVector<T> parts;
  for (int64_t i = 0; i < rank; ++i)
    parts.push_back(
        w.reshape(i == dim ? index : iota(w, index.type, i), single));
  single.back() = rank;
  return w.make("concatenate", parts,
                RankedTensorType::get(single, index.type.getElementType()),
                "dimension = " + std::to_string(rank) + " : i64");
}

void writeGatherElements(W &w, Operation *given) {
  auto op = cast<ts::GatherElementsOp>(given);
  T x = w.of(op.getInput());
  int64_t rank = x.type.getRank();
  T at = places(w, x, w.of(op.getIndices()), static_cast<int64_t>(op.getDim()));
  std::string all = hloList(counted(0, rank));
  w.out(op, gather(w, x, at, op.getType(),
                   "collapsed_slice_dims = " + all + ", start_index_map = " +
                       all + ", index_vector_dim = " + std::to_string(rank),
                   SmallVector<int64_t>(rank, 1)));
}

void writeGatherNd(W &w, Operation *given) {
  auto op = cast<ts::GatherNdOp>(given);
  T x = w.of(op.getInput()), index = w.of(op.getIndices());
  auto batch = static_cast<int64_t>(op.getBatchDims()), rank = x.type.getRank(),
       last = index.type.getRank() - 1, named = index.type.getDimSize(last);
  ArrayRef<int64_t> shape = x.type.getShape();
  index = fromTheEnd(w, index, shape.slice(batch, named));
  SmallVector<int64_t> sizes(shape);
  std::fill_n(sizes.begin(), batch + named, 1);
  std::string map = hloList(counted(batch, batch + named)),
              numbers = "offset_dims = " +
                        hloList(counted(last, last + rank - batch - named)) +
                        ", collapsed_slice_dims = " + map;
  if (batch)
    numbers += ", operand_batching_dims = " + hloList(counted(0, batch)) +
               ", start_indices_batching_dims = " + hloList(counted(0, batch));
  w.out(op, gather(w, x, index, op.getType(),
                   numbers + ", start_index_map = " + map +
                       ", index_vector_dim = " + std::to_string(last),
                   sizes));
}

T scatter(W &w, T x, T index, T updates, const std::string &numbers,
          std::optional<ts::ReduceKind> kind) {
  Type element = x.type.getElementType();
  std::string region =
      w.region({element, element}, [&](ArrayRef<T> a) -> SmallVector<T> {
        if (!kind)
          return {a[1]};
        using K = ts::ReduceKind;
        const char *op = *kind == K::add           ? "add"
                         : *kind == K::mul         ? "multiply"
                         : *kind == K::max         ? "maximum"
                         : *kind == K::min         ? "minimum"
                         : *kind == K::logical_and ? "and"
                                                   : "or";
        return {w.binary(op, a[0], a[1])};
      });
  return w.make("scatter", {x, index, updates}, x.type,
                "scatter_dimension_numbers = #stablehlo.scatter<" + numbers +
                    ">, indices_are_sorted = false, unique_indices = false",
                region);
}

void writeScatterElements(W &w, Operation *given) {
  auto op = cast<ts::ScatterElementsOp>(given);
  T x = w.of(op.getInput());
  int64_t rank = x.type.getRank();
  T at = places(w, x, w.of(op.getIndices()), static_cast<int64_t>(op.getDim()));
  std::string all = hloList(counted(0, rank));
  w.out(op, scatter(w, x, at, w.of(op.getUpdates()),
                    "inserted_window_dims = " + all +
                        ", scatter_dims_to_operand_dims = " + all +
                        ", index_vector_dim = " + std::to_string(rank),
                    op.getReduction()));
}

void writeScatterNd(W &w, Operation *given) {
  auto op = cast<ts::ScatterNdOp>(given);
  T x = w.of(op.getInput()), index = w.of(op.getIndices()),
    updates = w.of(op.getUpdates());
  int64_t last = index.type.getRank() - 1, named = index.type.getDimSize(last);
  index = fromTheEnd(w, index, x.type.getShape().take_front(named));
  std::string map = hloList(counted(0, named));
  w.out(op, scatter(w, x, index, updates,
                    "update_window_dims = " +
                        hloList(counted(last, updates.type.getRank())) +
                        ", inserted_window_dims = " + map +
                        ", scatter_dims_to_operand_dims = " + map +
                        ", index_vector_dim = " + std::to_string(last),
                    op.getReduction()));
}

constexpr HloWriterRow rows[] = {
    {"broadcast", writeBroadcast},
    {"concat", writeConcat},
    {"constant", writeConstant},
    {"dim_cast", writeDimCast},
    {"gather", writeGather},
    {"gather_elements", writeGatherElements},
    {"gather_nd", writeGatherNd},
    {"iota", writeIota},
    {"pad", writePad},
    {"reshape", writeReshape},
    {"scatter_elements", writeScatterElements},
    {"scatter_nd", writeScatterNd},
    {"size", writeSize},
    {"slice", writeSlice},
    {"transpose", writeTranspose},
    {"weight", writeWeight},
};

} // namespace

llvm::ArrayRef<HloWriterRow> hloShapeWriters() { return rows; }

} // namespace knapper
