// Convolution and pooling over any number of spatial dims.
#include "ir/tensor/reference/Call.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper::ts::reference {
namespace {

/// Strides of a tensor in [outer, channels, spatial..] order, whatever its
/// layout is.
struct Layout {
  int64_t outerStride, channelStride;
  Shape spatialDims, spatialStrides;

  /// `outer` and `channel` are dim numbers; the rest is spatial.
  Layout(const HostTensor &tensor, unsigned outer, unsigned channel)
      : Layout(tensor.dims(), outer, channel) {}
  Layout(ArrayRef<int64_t> dims, unsigned outer, unsigned channel) {
    Shape strides = stridesOf(dims);
    outerStride = strides[outer];
    channelStride = strides[channel];
    for (unsigned i = 0; i < dims.size(); ++i)
      if (i != outer && i != channel) {
        spatialDims.push_back(dims[i]);
        spatialStrides.push_back(strides[i]);
      }
  }
};

/// Where window element `window` of output `out` reads in one spatial dim.
/// Nothing in the padding and between dilated inputs.
struct Window {
  ArrayRef<int64_t> strides, dilations, inputDilations;
  Shape low;

  /// Element offset in the input, or nothing.
  std::optional<int64_t> source(const Layout &input, ArrayRef<int64_t> out,
                                ArrayRef<int64_t> window) const {
    int64_t offset = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      int64_t position =
          out[i] * strides[i] + window[i] * dilations[i] - low[i];
      int64_t step = inputDilations.empty() ? 1 : inputDilations[i];
      if (position < 0 || position % step != 0 ||
          position / step >= input.spatialDims[i])
        return std::nullopt;
      offset += position / step * input.spatialStrides[i];
    }
    return offset;
  }
};

Results conv(ConvOp op, const Call &call) {
  const HostTensor &input = call.in[0], &filter = call.in[1];
  unsigned rank = input.rank();
  bool last = op.getChannelsLast();
  unsigned channelDim = last ? rank - 1 : 1;
  Layout x(input, 0, channelDim), y(call.shapes[0], 0, channelDim);
  Layout w(filter, last ? rank - 1 : 0, last ? rank - 2 : 1);
  Expected<Shape> low = call.sizes(op.getLow());
  if (!low)
    return low.takeError();
  Window window{op.getStrides(), op.getDilations(), op.getInputDilations(),
                *low};
  int64_t features = call.shapes[0][channelDim];
  int64_t channels = filter.dim(last ? rank - 2 : 1); // of one group
  int64_t perGroup = features / static_cast<int64_t>(op.getGroups());
  DType computed =
      HostTensor::isFloat(call.dtypes[0]) ? DType::f64 : call.dtypes[0];
  return SmallVector<HostTensor>{Call::wide(computed, [&](auto t) {
    using T = decltype(t);
    std::vector<T> a = input.load<T>(), b = filter.load<T>();
    std::vector<T> result(*elementCountOf(call.shapes[0]), 0);
    if (result.empty())
      return HostTensor::store(call.dtypes[0], call.shapes[0], result);
    forEachIndex(y.spatialDims, [&](ArrayRef<int64_t> out, int64_t) {
      forEachIndex(w.spatialDims, [&](ArrayRef<int64_t> at, int64_t) {
        std::optional<int64_t> source = window.source(x, out, at);
        if (!source)
          return;
        int64_t target = offsetOf(out, y.spatialStrides);
        int64_t weight = offsetOf(at, w.spatialStrides);
        for (int64_t n = 0; n < input.dim(0); ++n)
          for (int64_t f = 0; f < features; ++f) {
            int64_t first = f / perGroup * channels;
            T sum = 0;
            for (int64_t c = 0; c < channels; ++c)
              sum = combine(
                  ReduceKind::add, sum,
                  combine(ReduceKind::mul,
                          a[*source + n * x.outerStride +
                            (first + c) * x.channelStride],
                          b[weight + f * w.outerStride + c * w.channelStride]));
            T &slot = result[target + n * y.outerStride + f * y.channelStride];
            slot = combine(ReduceKind::add, slot, sum);
          }
      });
    });
    return HostTensor::store(call.dtypes[0], call.shapes[0], result);
  })};
}

Results pool(PoolOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  unsigned rank = input.rank();
  unsigned channelDim = op.getChannelsLast() ? rank - 1 : 1;
  Layout x(input, 0, channelDim), y(call.shapes[0], 0, channelDim);
  Expected<Shape> low = call.sizes(op.getLow()),
                  high = call.sizes(op.getHigh());
  if (!low)
    return low.takeError();
  if (!high)
    return high.takeError();
  Window window{op.getStrides(), op.getDilations(), {}, *low};
  bool isMax = op.getKind() == PoolKind::max;
  ReduceKind kind = isMax ? ReduceKind::max : ReduceKind::add;
  auto insidePadded = [&](ArrayRef<int64_t> out, ArrayRef<int64_t> at) {
    for (size_t i = 0; i < out.size(); ++i) {
      int64_t position = out[i] * op.getStrides()[i] +
                         at[i] * op.getDilations()[i] - (*low)[i];
      if (position >= x.spatialDims[i] + (*high)[i])
        return false;
    }
    return true;
  };
  return SmallVector<HostTensor>{Call::wide(input.dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> a = input.load<T>();
    std::vector<T> result(*elementCountOf(call.shapes[0]),
                          neutral<T>(kind, input.dtype()));
    if (result.empty())
      return HostTensor::store(call.dtypes[0], call.shapes[0], result);
    forEachIndex(y.spatialDims, [&](ArrayRef<int64_t> out, int64_t) {
      int64_t target = offsetOf(out, y.spatialStrides);
      int64_t count = 0;
      auto forEachImage = [&](auto body) {
        for (int64_t n = 0; n < input.dim(0); ++n)
          for (int64_t c = 0; c < input.dim(channelDim); ++c)
            body(result[target + n * y.outerStride + c * y.channelStride],
                 n * x.outerStride + c * x.channelStride);
      };
      forEachIndex(op.getWindow(), [&](ArrayRef<int64_t> at, int64_t) {
        std::optional<int64_t> source = window.source(x, out, at);
        count +=
            op.getCountPadding() ? insidePadded(out, at) : source.has_value();
        if (source)
          forEachImage([&](T &slot, int64_t image) {
            slot = combine(kind, slot, a[image + *source]);
          });
      });
      if (op.getKind() == PoolKind::average)
        forEachImage([&](T &slot, int64_t) {
          if constexpr (std::is_integral_v<T>)
            slot = count ? slot / count : 0;
          else
            slot /= static_cast<T>(count);
        });
    });
    return HostTensor::store(call.dtypes[0], call.shapes[0], result);
  })};
}

} // namespace

std::optional<Results> evaluateWindow(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](ConvOp op) { return conv(op, call); })
      .Case([&](PoolOp op) { return pool(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
