// Reductions, products, scans, sorts.
#include "ir/tensor/reference/Call.h"
#include "runtime/base/Text.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace knapper::ts::reference {
namespace {

Results one(HostTensor tensor) { return SmallVector<HostTensor>{tensor}; }

Results reduce(ReduceOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  ReduceKind kind = op.getKind();
  // Strides of the result for each dim of the input; a reduced dim does not
  // move.
  Shape strides(input.rank(), 0), resultStrides = stridesOf(call.shapes[0]);
  unsigned next = 0;
  for (unsigned i = 0; i < input.rank(); ++i)
    if (!llvm::is_contained(op.getDims(), i))
      strides[i] = resultStrides[next++];
  return one(Call::wide(input.dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> x = input.load<T>();
    std::vector<T> result(*elementCountOf(call.shapes[0]),
                          neutral<T>(kind, input.dtype()));
    forEachIndex(input.dims(), [&](ArrayRef<int64_t> index, int64_t linear) {
      T &slot = result[offsetOf(index, strides)];
      slot = combine(kind, slot, x[linear]);
    });
    return HostTensor::store(call.dtypes[0], call.shapes[0], result);
  }));
}

/// The shape around one dim: outer x size x inner.
struct Along {
  int64_t outer = 1, size, inner = 1;
  Along(ArrayRef<int64_t> dims, unsigned dim) : size(dims[dim]) {
    outer = *elementCountOf(dims.take_front(dim));
    inner = *elementCountOf(dims.drop_front(dim + 1));
  }
  int64_t at(int64_t o, int64_t i, int64_t n) const {
    return (o * size + i) * inner + n;
  }
  template <typename Body> void forEachLine(Body body) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t n = 0; n < inner; ++n)
        body(o, n);
  }
};

template <typename T> bool isNan(T x) { return x != x; }

Results argReduce(ArgReduceOp op, const Call &call) {
  Along along(call.in[0].dims(), op.getDim());
  if (along.size == 0 && elementCountOf(call.shapes[0]) != 0)
    return call.userError("an empty dim has no largest or smallest element");
  bool isMax = op.getKind() == ReduceKind::max, last = op.getLast();
  std::vector<int64_t> result(along.outer * along.inner);
  Call::wide(call.in[0].dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> x = call.in[0].load<T>();
    along.forEachLine([&](int64_t o, int64_t n) {
      int64_t best = 0;
      for (int64_t i = 1; i < along.size; ++i) {
        T value = x[along.at(o, i, n)], leader = x[along.at(o, best, n)];
        // NaN wins, as it does in max and min.
        bool better = isNan(value) ? !isNan(leader)
                      : isMax      ? value > leader
                                   : value < leader;
        bool equal = value == leader || (isNan(value) && isNan(leader));
        if (better || (equal && last))
          best = i;
      }
      result[o * along.inner + n] = best;
    });
    return HostTensor();
  });
  return one(HostTensor::store(DType::i64, call.shapes[0], result));
}

/// Reorders the operand into [batch, free, contract], row-major, or with
/// `contractFirst` into [batch, contract, free].
template <typename T>
std::vector<T> matrices(const HostTensor &input, ArrayRef<int64_t> batch,
                        ArrayRef<int64_t> contract, bool contractFirst) {
  SmallVector<int64_t> order(batch);
  if (contractFirst)
    llvm::append_range(order, contract);
  for (unsigned i = 0; i < input.rank(); ++i)
    if (!llvm::is_contained(batch, i) && !llvm::is_contained(contract, i))
      order.push_back(i);
  if (!contractFirst)
    llvm::append_range(order, contract);
  Shape strides = stridesOf(input.dims()), dims, permuted;
  for (int64_t dim : order) {
    dims.push_back(input.dim(dim));
    permuted.push_back(strides[dim]);
  }
  std::vector<T> x = input.load<T>(), result(x.size());
  forEachIndex(dims, [&](ArrayRef<int64_t> index, int64_t linear) {
    result[linear] = x[offsetOf(index, permuted)];
  });
  return result;
}

Results dot(DotOp op, const Call &call) {
  const HostTensor &lhs = call.in[0], &rhs = call.in[1];
  int64_t batch = 1, depth = 1;
  for (auto [i, j] : llvm::zip(op.getLhsBatch(), op.getRhsBatch())) {
    if (lhs.dim(i) != rhs.dim(j))
      return call.userError(
          cat("batch sizes ", lhs.dim(i), " and ", rhs.dim(j), " differ"));
    batch *= lhs.dim(i);
  }
  for (auto [i, j] : llvm::zip(op.getLhsContract(), op.getRhsContract())) {
    if (lhs.dim(i) != rhs.dim(j))
      return call.userError(cat("contracting sizes ", lhs.dim(i), " and ",
                                rhs.dim(j), " differ"));
    depth *= lhs.dim(i);
  }
  int64_t total = *elementCountOf(call.shapes[0]);
  if (total == 0 || depth == 0)
    return one(HostTensor::allocate(call.dtypes[0], call.shapes[0]));
  int64_t rows = lhs.elements() / (batch * depth);
  int64_t columns = rhs.elements() / (batch * depth);
  DType computed =
      HostTensor::isFloat(call.dtypes[0]) ? DType::f64 : lhs.dtype();
  return one(Call::wide(computed, [&](auto t) {
    using T = decltype(t);
    std::vector<T> a =
        matrices<T>(lhs, op.getLhsBatch(), op.getLhsContract(), false);
    std::vector<T> b =
        matrices<T>(rhs, op.getRhsBatch(), op.getRhsContract(), true);
    // Unsigned, so that integers wrap.
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    std::vector<T> result(total);
    std::vector<Sum> sums(columns);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < rows; ++i) {
        std::fill(sums.begin(), sums.end(), Sum(0));
        for (int64_t k = 0; k < depth; ++k) {
          auto x = static_cast<Sum>(a[(n * rows + i) * depth + k]);
          const T *y = &b[(n * depth + k) * columns];
          for (int64_t j = 0; j < columns; ++j)
            sums[j] += x * static_cast<Sum>(y[j]);
        }
        for (int64_t j = 0; j < columns; ++j)
          result[(n * rows + i) * columns + j] = static_cast<T>(sums[j]);
      }
    return HostTensor::store(call.dtypes[0], call.shapes[0], result);
  }));
}

Results scan(ScanOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  Along along(input.dims(), op.getDim());
  return one(Call::wide(input.dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> x = input.load<T>();
    along.forEachLine([&](int64_t o, int64_t n) {
      T running = neutral<T>(op.getKind(), input.dtype());
      for (int64_t step = 0; step < along.size; ++step) {
        int64_t i = op.getReverse() ? along.size - 1 - step : step;
        T &slot = x[along.at(o, i, n)], before = running;
        running = combine(op.getKind(), running, slot);
        slot = op.getExclusive() ? before : running;
      }
    });
    return HostTensor::store(input.dtype(), input.dims(), x);
  }));
}

Results topK(TopKOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  Along along(input.dims(), op.getDim());
  int64_t k = call.shapes[0][op.getDim()];
  if (k > along.size)
    return call.userError(
        cat("k is ", k, ", but the dim has only ", along.size, " elements"));
  size_t bytes = byteSize(input.dtype());
  bool largest = op.getLargest();
  HostTensor values = HostTensor::allocate(input.dtype(), call.shapes[0]);
  HostTensor indices = HostTensor::allocate(DType::i64, call.shapes[1]);
  auto *index = reinterpret_cast<int64_t *>(indices.mutableData());
  Call::wide(input.dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> x = input.load<T>();
    // Only eight bits of them are compared.
    if constexpr (std::is_integral_v<T>)
      if (auto digit = op->getAttrOfType<IntegerAttr>("ts.digit"))
        for (T &element : x)
          element = T((uint64_t(element) >> digit.getInt()) & 0xff);
    std::vector<int64_t> order(along.size);
    along.forEachLine([&](int64_t o, int64_t n) {
      std::iota(order.begin(), order.end(), 0);
      auto less = [&](T a, T b) { return isNan(b) ? !isNan(a) : a < b; };
      llvm::sort(order, [&](int64_t i, int64_t j) {
        T a = x[along.at(o, i, n)], b = x[along.at(o, j, n)];
        if (!largest)
          std::swap(a, b);
        if (less(b, a) || less(a, b))
          return less(b, a);
        return i < j; // of equal elements the first
      });
      for (int64_t i = 0; i < k; ++i) {
        int64_t out = (o * k + i) * along.inner + n;
        std::memcpy(values.mutableData() + out * bytes,
                    input.data() + along.at(o, order[i], n) * bytes, bytes);
        index[out] = order[i];
      }
    });
    return HostTensor();
  });
  return SmallVector<HostTensor>{values, indices};
}

} // namespace

std::optional<Results> evaluateReduction(const Call &call) {
  return llvm::TypeSwitch<Operation *, std::optional<Results>>(call.op)
      .Case([&](ReduceOp op) { return reduce(op, call); })
      .Case([&](ArgReduceOp op) { return argReduce(op, call); })
      .Case([&](DotOp op) { return dot(op, call); })
      .Case([&](ScanOp op) { return scan(op, call); })
      .Case([&](TopKOp op) { return topK(op, call); })
      .Default(std::nullopt);
}

} // namespace knapper::ts::reference
