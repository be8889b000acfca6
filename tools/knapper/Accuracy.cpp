#include "tools/knapper/Accuracy.h"
#include "tools/knapper/Element.h"
#include "tools/knapper/Session.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace knapper::cli {

void Distance::add(const knapper_tensor &got, const knapper_tensor &exact) {
  int64_t count = elementCount(exact.shape, size_t(exact.rank));
  elements += count;
  for (int64_t i = 0; i < count; ++i) {
    double x = element(got, i), y = element(exact, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (!std::isfinite(x))
        continue;
    } else if (!std::isfinite(x) || !std::isfinite(y)) {
      ++unequal;
      continue;
    }
    double error = x - y;
    squaredError += error * error;
    squaredExact += y * y;
    squaredGot += x * x;
    product += x * y;
    largestError = std::max(largestError, std::abs(error));
    largestExact = std::max(largestExact, std::abs(y));
  }
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

std::string tableOf(const std::vector<Distance> &distances) {
  std::string text = "  rms error    largest    of largest   dB      cosine\n";
  for (const Distance &d : distances) {
    text += format("  %9.3g  %9.3g   %9.3g  %6.1f  %9.7f  ", d.relative(),
                   d.largestError, d.largestExact, d.decibels(), d.cosine());
    text += printable(d.name);
    if (d.unequal)
      text += format("  (%lld not finite on one side)",
                     static_cast<long long>(d.unequal));
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json jsonOf(const std::vector<Distance> &distances) {
  auto list = nlohmann::ordered_json::array();
  for (const Distance &d : distances) // what is not finite becomes null
    list.push_back({{"name", d.name},
                    {"elements", d.elements},
                    {"relative_rms", d.relative()},
                    {"largest_error", d.largestError},
                    {"largest", d.largestExact},
                    {"decibels", d.decibels()},
                    {"cosine", d.cosine()},
                    {"not_finite", d.unequal}});
  return list;
}

} // namespace knapper::cli
