#include "compiler/calibrate/Distance.h"
#include "runtime/base/Json.h"

#include <cmath>

namespace knapper {

void Distance::add(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) {
    if (!std::isfinite(x))
      return;
  } else if (!std::isfinite(x) || !std::isfinite(y)) {
    ++unequal;
    return;
  }
  double error = x - y;
  squaredError += error * error;
  squaredExact += y * y;
  squaredGot += x * x;
  product += x * y;
  largestError = std::max(largestError, std::abs(error));
  largestExact = std::max(largestExact, std::abs(y));
}

void Distance::add(const ts::HostTensor &got, const ts::HostTensor &exact) {
  elements += exact.elements();
  if (exact.dtype() == DType::f32) {
    auto *x = reinterpret_cast<const float *>(got.data());
    auto *y = reinterpret_cast<const float *>(exact.data());
    for (int64_t i = 0; i < exact.elements(); ++i)
      add(x[i], y[i]);
    return;
  }
  std::vector<double> x = got.load<double>(), y = exact.load<double>();
  for (size_t i = 0; i < y.size(); ++i)
    add(x[i], y[i]);
}

double Distance::relative() const {
  if (unequal)
    return INFINITY;
  if (squaredError == 0)
    return 0;
  return std::sqrt(squaredError / squaredExact);
}
double Distance::decibels() const { return -20 * std::log10(relative()); }
double Distance::cosine() const {
  if (squaredError == 0 && !unequal)
    return 1;
  return product / std::sqrt(squaredGot * squaredExact);
}

void Distance::writeTo(JsonWriter &writer) const {
  writer.field("elements", elements)
      .field("relative_rms", relative())
      .field("largest_error", largestError)
      .field("largest", largestExact)
      .field("decibels", decibels())
      .field("cosine", cosine())
      .field("not_finite", unequal);
}

} // namespace knapper
