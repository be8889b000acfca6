#include "ir/tensor/Fourier.h"
#include "ir/tensor/reference/Call.h"
#include <cmath>

namespace knapper::ts::reference {

namespace {

/// One row by the definition, whose roots of one are computed once.
class DirectTransform {
public:
  DirectTransform(int64_t length, int sign) : n(length), cosines(n), sines(n) {
    for (int64_t i = 0; i < n; ++i) {
      double angle = 2 * M_PI * static_cast<double>(i) / static_cast<double>(n);
      cosines[i] = std::cos(angle);
      sines[i] = sign * std::sin(angle);
    }
  }

  /// y[k] of x, complex numbers or (`real`) others.
  void element(const double *x, bool real, int64_t k, double &re,
               double &im) const {
    // A sum of sums: its error hardly grows with the length.
    constexpr int64_t run = 64;
    re = im = 0;
    for (int64_t first = 0, phase = 0; first < n; first += run) {
      double re0 = 0, im0 = 0;
      for (int64_t j = first; j < std::min(n, first + run); ++j) {
        double a = real ? x[j] : x[2 * j], b = real ? 0 : x[2 * j + 1];
        re0 += a * cosines[phase] - b * sines[phase];
        im0 += a * sines[phase] + b * cosines[phase];
        phase += k;
        if (phase >= n)
          phase -= n;
      }
      re += re0;
      im += im0;
    }
  }

private:
  int64_t n;
  std::vector<double> cosines, sines;
};

/// All complex numbers of a symmetric spectrum.
std::vector<double> mirrored(const double *half, int64_t n) {
  std::vector<double> whole(2 * n);
  for (int64_t k = 0; k < n; ++k) {
    bool given = k <= n / 2;
    int64_t from = given ? k : n - k;
    bool isReal = k == 0 || 2 * k == n;
    whole[2 * k] = half[2 * from];
    whole[2 * k + 1] = isReal  ? 0
                       : given ? half[2 * from + 1]
                               : -half[2 * from + 1];
  }
  return whole;
}

} // namespace

std::optional<Results> evaluateFourier(const Call &call) {
  auto op = llvm::dyn_cast<DftOp>(call.op);
  if (!op)
    return std::nullopt;
  Expected<int64_t> length = call.size(Dim(op.getLength()));
  if (!length)
    return Results(length.takeError());
  int64_t n = *length, rows = call.shapes[0][0], width = call.shapes[0][1],
          inputWidth = call.in[0].dim(1);
  if (n < 1)
    return Results(
        call.userError("a transform of " + std::to_string(n) + " elements"));
  std::vector<double> x = call.in[0].load<double>(), y(rows * width);
  DirectTransform transform(n, op.getInverse() ? 1 : -1);
  for (int64_t row = 0; row < rows; ++row) {
    const double *from = x.data() + row * inputWidth;
    double *to = y.data() + row * width;
    std::vector<double> whole;
    if (op.getToReal()) {
      whole = mirrored(from, n);
      from = whole.data();
    }
    for (int64_t k = 0; k < (op.getToReal() ? n : width / 2); ++k) {
      double re, im;
      transform.element(from, op.getFromReal(), k, re, im);
      if (op.getToReal()) {
        to[k] = re;
      } else {
        to[2 * k] = re;
        to[2 * k + 1] = im;
      }
    }
  }
  return Results(llvm::SmallVector<HostTensor>{
      HostTensor::store(call.dtypes[0], call.shapes[0], y)});
}

} // namespace knapper::ts::reference
