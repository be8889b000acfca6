//===- Call.h - One op being evaluated; what the families share -----------===//
#pragma once

#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/Evaluate.h"

namespace knapper::ts::reference {

/// One op with its operand values; result shapes are already computed.
struct Call {
  mlir::Operation *op;
  llvm::ArrayRef<HostTensor> in;
  llvm::SmallVector<Shape, 2> shapes;
  llvm::SmallVector<DType, 2> dtypes;
  EvaluateContext &context;

  Error userError(std::string what, std::string hint = {}) const {
    return knapper::userError(op->getName().getStringRef().str() + ": " +
                                  std::move(what),
                              locationText(op->getLoc()), std::move(hint));
  }
  Expected<int64_t> size(Dim dim) const {
    return evaluateSize(dim, context.symbols);
  }
  /// Numbers of an array of sizes that may be negative (starts).
  Expected<Shape> sizes(mlir::ArrayAttr dims) const;

  /// Runs `body` with the wide type of `dtype`: double, int64_t, or uint64_t
  /// for the one type that int64_t does not hold.
  template <typename Body> static HostTensor wide(DType dtype, Body body) {
    if (dtype == DType::u64)
      return body(uint64_t());
    return HostTensor::isFloat(dtype) ? body(double()) : body(int64_t());
  }
};

using Results = Expected<llvm::SmallVector<HostTensor>>;

/// Each family answers for its ops, and nothing for others.
std::optional<Results> evaluateElementwise(const Call &call);
std::optional<Results> evaluateShape(const Call &call);
std::optional<Results> evaluateIndexed(const Call &call);
std::optional<Results> evaluateReduction(const Call &call);
std::optional<Results> evaluateWindow(const Call &call);
std::optional<Results> evaluateComposite(const Call &call);
std::optional<Results> evaluateSelection(const Call &call);
std::optional<Results> evaluateFourier(const Call &call);

/// Row-major strides in elements.
inline Shape stridesOf(llvm::ArrayRef<int64_t> dims) {
  Shape strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

/// All index tuples of `dims`, last fastest; `body(tuple, linear)`.
template <typename Body>
void forEachIndex(llvm::ArrayRef<int64_t> dims, Body body) {
  std::optional<int64_t> count = elementCountOf(dims);
  Shape index(dims.size(), 0);
  for (int64_t linear = 0; linear < *count; ++linear) {
    body(llvm::ArrayRef<int64_t>(index), linear);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d])
        break;
      index[d] = 0;
    }
  }
}

inline int64_t offsetOf(llvm::ArrayRef<int64_t> index,
                        llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * strides[i];
  return offset;
}

/// x combined with y as the reduction says; NaN wins max and min. Integers
/// wrap in 64 bits.
template <typename T> T combine(ReduceKind kind, T x, T y) {
  switch (kind) {
  case ReduceKind::add:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) +
                            static_cast<uint64_t>(y));
    return x + y;
  case ReduceKind::mul:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(x) *
                            static_cast<uint64_t>(y));
    return x * y;
  case ReduceKind::max:
    return x != x || x > y ? x : y;
  case ReduceKind::min:
    return x != x || x < y ? x : y;
  case ReduceKind::logical_and:
    return x != 0 && y != 0;
  case ReduceKind::logical_or:
    return x != 0 || y != 0;
  }
  return x;
}

/// What leaves the other operand of `combine` unchanged, in `dtype`.
template <typename T> T neutral(ReduceKind kind, DType dtype) {
  switch (kind) {
  case ReduceKind::add:
  case ReduceKind::logical_or:
    return 0;
  case ReduceKind::mul:
  case ReduceKind::logical_and:
    return 1;
  case ReduceKind::max:
  case ReduceKind::min:
    break;
  }
  bool isMax = kind == ReduceKind::max;
  if constexpr (!std::is_integral_v<T>)
    return isMax ? -std::numeric_limits<T>::infinity()
                 : std::numeric_limits<T>::infinity();
  unsigned bits = 8 * byteSize(dtype);
  if (isUnsigned(dtype))
    return isMax ? T(0) : static_cast<T>(~uint64_t(0) >> (64 - bits));
  auto largest = static_cast<int64_t>((uint64_t(1) << (bits - 1)) - 1);
  return isMax ? T(-largest - 1) : T(largest);
}

} // namespace knapper::ts::reference
