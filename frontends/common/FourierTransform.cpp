#include "frontends/common/FourierTransform.h"
#include "ir/tensor/Fourier.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Of a positive number.
bool hasPrimeAbove(int64_t number, int64_t most) {
  for (int64_t d = 2; d <= most; ++d)
    while (number % d == 0)
      number /= d;
  return number > 1;
}

} // namespace

Value fourierTransform(NodeBuilder &n, Value x, Dim length, bool inverse,
                       FourierKind kind) {
  if (!x)
    return {};
  if (std::optional<int64_t> known = length.asConstant();
      known && *known > 0 && hasPrimeAbove(*known, ts::kLargestFourierPrime)) {
    (void)n.unsupported("a transform of " + std::to_string(*known) +
                        " elements, which has a prime factor above " +
                        std::to_string(ts::kLargestFourierPrime));
    return {};
  }
  Dim rows = ts::dimOf(x, 0), half = length.floorDiv(n.dim(2)) + 1;
  bool fromReal = kind == FourierKind::fromReal,
       toReal = kind == FourierKind::toReal;
  Dim given = toReal ? half : length;
  Value y = n.make<ts::DftOp>(
      n.reshape(x, {rows, fromReal ? given : given * 2}), Optional{Value()},
      length.attr(), inverse, fromReal, toReal);
  if (toReal)
    return y;
  return n.reshape(y, {rows, fromReal ? half : length, n.dim(2)});
}

Value complexOf(NodeBuilder &n, Value re, Value im) {
  if (!re || !im)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(re);
  int64_t last = ts::rankOf(re);
  dims.push_back(n.dim(1));
  return n.make<ts::ConcatOp>(
      ValueRange{n.reshape(re, dims), n.reshape(im, dims)}, last);
}

Value partOf(NodeBuilder &n, Value x, int64_t part) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  dims.pop_back();
  return n.reshape(n.sliceDim(x, ts::rankOf(x) - 1, n.dim(part), n.dim(1)),
                   dims);
}

} // namespace knapper
