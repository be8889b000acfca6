// Constants and ops that move elements by their position.
#include "ir/tensor/reference/Call.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;

namespace knapper::ts::reference {
namespace {

Results one(HostTensor tensor) { return SmallVector<HostTensor>{tensor}; }

template <typename Element>
void copyLine(uint8_t *to, const uint8_t *from, int64_t count, int64_t stride) {
  auto *out = reinterpret_cast<Element *>(to);
  const auto *in = reinterpret_cast<const Element *>(from);
  for (int64_t i = 0; i < count; ++i)
    out[i] = in[i * stride];
}

/// `count` elements of `size` bytes that lie `stride` elements apart.
void copyLine(uint8_t *to, const uint8_t *from, size_t size, int64_t count,
              int64_t stride) {
  if (stride == 1)
    return void(std::memcpy(to, from, count * size));
  switch (size) {
  case 1:
    return copyLine<uint8_t>(to, from, count, stride);
  case 2:
    return copyLine<uint16_t>(to, from, count, stride);
  case 4:
    return copyLine<uint32_t>(to, from, count, stride);
  case 8:
    return copyLine<uint64_t>(to, from, count, stride);
  default:
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * size, from + i * stride * static_cast<int64_t>(size),
                  size);
  }
}

/// A tensor whose element at an index is that of `input` at `start` plus the
/// index times `strides`, all in elements.
HostTensor strided(const HostTensor &input, ArrayRef<int64_t> dims,
                   int64_t start, ArrayRef<int64_t> strides) {
  HostTensor result = HostTensor::allocate(input.dtype(), dims);
  if (result.elements() == 0)
    return result;
  // Dims that continue one another are one: lines are as long as they can be.
  Shape sizes, steps;
  for (auto [size, step] : llvm::zip(dims, strides)) {
    if (size == 1)
      continue;
    if (!sizes.empty() && steps.back() == step * size) {
      sizes.back() *= size;
      steps.back() = step;
    } else {
      sizes.push_back(size);
      steps.push_back(step);
    }
  }
  int64_t line = sizes.empty() ? 1 : sizes.pop_back_val();
  int64_t step = steps.empty() ? 1 : steps.pop_back_val();
  size_t size = byteSize(input.dtype());
  forEachIndex(sizes, [&](ArrayRef<int64_t> index, int64_t linear) {
    copyLine(result.mutableData() + linear * line * size,
             input.data() + (start + offsetOf(index, steps)) * size, size, line,
             step);
  });
  return result;
}

Results constant(ConstantOp op, const Call &) {
  Expected<HostTensor> value = HostTensor::fromAttribute(op.getValue());
  if (!value)
    return value.takeError();
  return one(*value);
}

Results weight(WeightOp op, const Call &call) {
  if (!call.context.weights)
    return call.userError(cat("the data of '",
                              op.getReference().getName().getValue(),
                              "' is in a file that is not open"),
                          "evaluate with the model's files beside it");
  Expected<HostTensor> value = call.context.weights(op);
  if (!value)
    return value.takeError();
  return one(*value);
}

Results size(SizeOp op, const Call &call) {
  Expected<int64_t> value =
      evaluateOffset(Dim(op.getSize()), call.context.symbols);
  if (!value)
    return value.takeError();
  return one(HostTensor::store<int64_t>(DType::i64, {}, {*value}));
}

Results dimCast(const Call &call) {
  for (auto [i, size] : llvm::enumerate(call.shapes[0]))
    if (call.in[0].dim(i) != size)
      return call.userError(cat("dim ", i, " is ", call.in[0].dim(i),
                                ", but must be ", size, " here"),
                            "give inputs whose sizes agree");
  return one(call.in[0]);
}

Results broadcast(BroadcastOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  Shape from = stridesOf(input.dims()), strides(call.shapes[0].size(), 0);
  for (auto [i, dim] : llvm::enumerate(op.getDims())) {
    if (input.dim(i) == call.shapes[0][dim])
      strides[dim] = from[i];
    else if (input.dim(i) != 1)
      return call.userError(cat("dim ", i, " is ", input.dim(i),
                                " and does not broadcast to ",
                                call.shapes[0][dim]));
  }
  return one(strided(input, call.shapes[0], 0, strides));
}

Results reshape(const Call &call) {
  if (elementCountOf(call.shapes[0]) != call.in[0].elements())
    return call.userError(
        cat("the element count ", call.in[0].elements(), " changes"),
        "give inputs whose sizes agree");
  return one(call.in[0].withDims(call.shapes[0]));
}

Results transpose(TransposeOp op, const Call &call) {
  Shape from = stridesOf(call.in[0].dims()), strides;
  for (int64_t dim : op.getPermutation())
    strides.push_back(from[dim]);
  return one(strided(call.in[0], call.shapes[0], 0, strides));
}

Results slice(SliceOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  Expected<Shape> starts = call.sizes(op.getStarts());
  if (!starts)
    return starts.takeError();
  // First and last element of each dim lie inside: then all do.
  if (elementCountOf(call.shapes[0]) != 0)
    for (unsigned i = 0; i < input.rank(); ++i) {
      int64_t first = (*starts)[i];
      int64_t last = first + (call.shapes[0][i] - 1) * op.getSteps()[i];
      if (first < 0 || last < 0 || first >= input.dim(i) ||
          last >= input.dim(i))
        return call.userError(cat("takes elements ", first, " to ", last,
                                  " of dim ", i, ", which has ", input.dim(i)));
    }
  Shape strides = stridesOf(input.dims());
  int64_t start = offsetOf(*starts, strides);
  for (auto [stride, step] : llvm::zip(strides, op.getSteps()))
    stride *= step;
  return one(strided(input, call.shapes[0], start, strides));
}

/// Where a padded position reads in a dim of `size`; nothing outside.
std::optional<int64_t> padSource(PadMode mode, int64_t position, int64_t size) {
  if (position >= 0 && position < size)
    return position;
  switch (mode) {
  case PadMode::constant:
    return std::nullopt;
  case PadMode::edge:
    return position < 0 ? 0 : size - 1;
  case PadMode::wrap:
    return ((position % size) + size) % size;
  case PadMode::reflect: {
    if (size == 1)
      return 0;
    int64_t period = 2 * (size - 1);
    int64_t folded = ((position % period) + period) % period;
    return folded < size ? folded : period - folded;
  }
  }
  return std::nullopt;
}

Results pad(PadOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  Expected<Shape> low = call.sizes(op.getLow());
  if (!low)
    return low.takeError();
  for (unsigned i = 0; i < input.rank(); ++i) {
    int64_t high = call.shapes[0][i] - input.dim(i) - (*low)[i];
    if ((*low)[i] < 0 || high < 0)
      return call.userError(cat("dim ", i, " is padded by ", (*low)[i], " and ",
                                high, ", which is negative"));
    if (op.getMode() != PadMode::constant && input.dim(i) == 0 &&
        call.shapes[0][i] > 0)
      return call.userError(cat("dim ", i,
                                " is empty and has no elements to "
                                "repeat"));
  }
  Shape strides = stridesOf(input.dims());
  HostTensor result = HostTensor::allocate(input.dtype(), call.shapes[0]);
  size_t bytes = byteSize(input.dtype());
  forEachIndex(call.shapes[0], [&](ArrayRef<int64_t> index, int64_t linear) {
    int64_t offset = 0;
    bool outside = false;
    for (size_t i = 0; i < index.size(); ++i) {
      std::optional<int64_t> source =
          padSource(op.getMode(), index[i] - (*low)[i], input.dim(i));
      outside |= !source;
      offset += source.value_or(0) * strides[i];
    }
    std::memcpy(result.mutableData() + linear * bytes,
                outside ? call.in[1].data() : input.data() + offset * bytes,
                bytes);
  });
  return one(result);
}

Results concat(ConcatOp op, const Call &call) {
  HostTensor result = HostTensor::allocate(call.dtypes[0], call.shapes[0]);
  size_t bytes = byteSize(call.dtypes[0]);
  unsigned dim = op.getDim();
  Shape strides = stridesOf(call.shapes[0]);
  int64_t start = 0;
  for (const HostTensor &input : call.in) {
    for (unsigned i = 0; i < input.rank(); ++i)
      if (i != dim && input.dim(i) != call.shapes[0][i])
        return call.userError(
            cat("dim ", i, " is ", input.dim(i), " and ", call.shapes[0][i]));
    forEachIndex(input.dims(), [&](ArrayRef<int64_t> index, int64_t linear) {
      int64_t offset = offsetOf(index, strides) + start * strides[dim];
      std::memcpy(result.mutableData() + offset * bytes,
                  input.data() + linear * bytes, bytes);
    });
    start += input.dim(dim);
  }
  return one(result);
}

Results iota(IotaOp op, const Call &call) {
  ArrayRef<int64_t> dims = call.shapes[0];
  std::vector<int64_t> counted(dims[op.getDim()]);
  std::iota(counted.begin(), counted.end(), int64_t(0));
  Shape strides(dims.size(), 0);
  strides[op.getDim()] = 1;
  return one(
      strided(HostTensor::store(call.dtypes[0], {dims[op.getDim()]}, counted),
              dims, 0, strides));
}

} // namespace

std::optional<Results> evaluateShape(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](ConstantOp op) { return constant(op, call); })
      .Case([&](WeightOp op) { return weight(op, call); })
      .Case([&](SizeOp op) { return size(op, call); })
      .Case([&](DimCastOp) { return dimCast(call); })
      .Case([&](BroadcastOp op) { return broadcast(op, call); })
      .Case([&](ReshapeOp) { return reshape(call); })
      .Case([&](TransposeOp op) { return transpose(op, call); })
      .Case([&](SliceOp op) { return slice(op, call); })
      .Case([&](PadOp op) { return pad(op, call); })
      .Case([&](ConcatOp op) { return concat(op, call); })
      .Case([&](IotaOp op) { return iota(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
