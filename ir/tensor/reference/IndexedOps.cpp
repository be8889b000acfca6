// Gather and scatter: positions that come from data.
#include "ir/tensor/reference/Call.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper::ts::reference {
namespace {

/// Resolves negative indices; remembers the first one outside.
struct Indices {
  std::vector<int64_t> values;
  std::optional<std::pair<int64_t, int64_t>> outside; // index, size

  explicit Indices(const HostTensor &tensor) : values(tensor.load<int64_t>()) {}

  /// The position in a dim of `size`; 0 after a failure, never outside.
  int64_t at(int64_t linear, int64_t size) {
    int64_t index = values[linear];
    if (index >= -size && index < size)
      return index < 0 ? index + size : index;
    if (!outside)
      outside = {index, size};
    return 0;
  }
  Results finish(const Call &call, HostTensor result) const {
    if (outside)
      return call.userError(cat("index ", outside->first,
                                " is outside a dim of ", outside->second));
    return SmallVector<HostTensor>{result};
  }
};

/// Copies elements; an empty source is only read when an index was outside
/// already, and then not at all.
template <typename Source>
Results gatherFrom(const Call &call, Indices &indices, Source source) {
  const HostTensor &input = call.in[0];
  HostTensor result = HostTensor::allocate(input.dtype(), call.shapes[0]);
  size_t bytes = byteSize(input.dtype());
  forEachIndex(call.shapes[0], [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t offset = source(index, linear);
    if (!indices.outside)
      std::memcpy(result.mutableData() + linear * bytes,
                  input.data() + offset * bytes, bytes);
  });
  return indices.finish(call, result);
}

Results gather(GatherOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned dim = op.getDim(), indexRank = call.in[1].rank();
  Shape strides = stridesOf(input.dims());
  Shape indexStrides = stridesOf(call.in[1].dims());
  Indices indices(call.in[1]);
  return gatherFrom(call, indices, [&](ArrayRef<int64_t> index, int64_t) {
    int64_t at = offsetOf(index.slice(dim, indexRank), indexStrides);
    int64_t offset = indices.at(at, input.dim(dim)) * strides[dim];
    for (unsigned i = 0; i < input.rank(); ++i)
      if (i != dim)
        offset += index[i < dim ? i : i + indexRank - 1] * strides[i];
    return offset;
  });
}

/// An error where the indices are larger than the data in another dim.
std::optional<Results> dimsOutside(const Call &call, unsigned dim) {
  const HostTensor &input = call.in[0], &indices = call.in[1];
  for (unsigned i = 0; i < input.rank(); ++i)
    if (i != dim && indices.dim(i) > input.dim(i))
      return call.userError(cat("dim ", i, " of the indices is ",
                                indices.dim(i), ", of the data ",
                                input.dim(i)));
  return std::nullopt;
}

/// Where the element of the data lies whose index in `dim` an index says, its
/// other ones the index's own.
auto replaced(const HostTensor &input, Indices &indices, unsigned dim) {
  return [strides = stridesOf(input.dims()), &indices, dim,
          size = input.dim(dim)](ArrayRef<int64_t> index, int64_t linear) {
    return offsetOf(index, strides) +
           (indices.at(linear, size) - index[dim]) * strides[dim];
  };
}

Results gatherElements(GatherElementsOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned dim = op.getDim();
  if (std::optional<Results> wrong = dimsOutside(call, dim))
    return std::move(*wrong);
  Indices indices(call.in[1]);
  return gatherFrom(call, indices, replaced(input, indices, dim));
}

Results gatherNd(GatherNdOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned batch = op.getBatchDims(), outer = call.in[1].rank() - 1;
  int64_t depth = call.in[1].dims().back();
  Shape strides = stridesOf(input.dims());
  Shape indexStrides = stridesOf(call.in[1].dims());
  Indices indices(call.in[1]);
  return gatherFrom(call, indices, [&](ArrayRef<int64_t> index, int64_t) {
    int64_t at = offsetOf(index.take_front(outer),
                          ArrayRef(indexStrides).take_front(outer));
    int64_t offset =
        offsetOf(index.take_front(batch), ArrayRef(strides).take_front(batch));
    for (int64_t k = 0; k < depth; ++k)
      offset += indices.at(at + k, input.dim(batch + k)) * strides[batch + k];
    return offset + offsetOf(index.drop_front(outer),
                             ArrayRef(strides).drop_front(batch + depth));
  });
}

/// `target(tuple, linear)` says where update element `linear` goes.
template <typename Target>
Results scatterTo(const Call &call, Indices &indices,
                  std::optional<ReduceKind> reduction, Target target) {
  const HostTensor &input = call.in[0], &updates = call.in[2];
  HostTensor result = HostTensor::allocate(input.dtype(), input.dims());
  std::memcpy(result.mutableData(), input.data(), input.bytes());
  if (!reduction) {
    size_t bytes = byteSize(input.dtype());
    forEachIndex(updates.dims(), [&](ArrayRef<int64_t> index, int64_t linear) {
      int64_t offset = target(index, linear);
      if (!indices.outside)
        std::memcpy(result.mutableData() + offset * bytes,
                    updates.data() + linear * bytes, bytes);
    });
    return indices.finish(call, result);
  }
  result = Call::wide(input.dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> values = input.load<T>(), update = updates.load<T>();
    forEachIndex(updates.dims(), [&](ArrayRef<int64_t> index, int64_t linear) {
      int64_t offset = target(index, linear);
      if (indices.outside)
        return;
      // Wrapped at each step, as max and min see the wrapped value.
      values[offset] = combine(*reduction, values[offset], update[linear]);
    });
    return HostTensor::store(input.dtype(), input.dims(), values);
  });
  return indices.finish(call, result);
}

Results scatterElements(ScatterElementsOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned dim = op.getDim();
  if (std::optional<Results> wrong = dimsOutside(call, dim))
    return std::move(*wrong);
  Indices indices(call.in[1]);
  return scatterTo(call, indices, op.getReduction(),
                   replaced(input, indices, dim));
}

Results scatterNd(ScatterNdOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned outer = call.in[1].rank() - 1;
  int64_t depth = call.in[1].dims().back();
  Shape strides = stridesOf(input.dims());
  Shape indexStrides = stridesOf(call.in[1].dims());
  Indices indices(call.in[1]);
  return scatterTo(
      call, indices, op.getReduction(), [&](ArrayRef<int64_t> index, int64_t) {
        int64_t at = offsetOf(index.take_front(outer),
                              ArrayRef(indexStrides).take_front(outer));
        int64_t offset = 0;
        for (int64_t k = 0; k < depth; ++k)
          offset += indices.at(at + k, input.dim(k)) * strides[k];
        return offset + offsetOf(index.drop_front(outer),
                                 ArrayRef(strides).drop_front(depth));
      });
}

} // namespace

std::optional<Results> evaluateIndexed(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](GatherOp op) { return gather(op, call); })
      .Case([&](GatherElementsOp op) { return gatherElements(op, call); })
      .Case([&](GatherNdOp op) { return gatherNd(op, call); })
      .Case([&](ScatterElementsOp op) { return scatterElements(op, call); })
      .Case([&](ScatterNdOp op) { return scatterNd(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
