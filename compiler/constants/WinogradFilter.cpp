#include "compiler/constants/Winograd.h"

#include <cstring>

namespace knapper {

/// One dim: three taps become four.
static void spread(const double *taps, int64_t step, double *out,
                   int64_t outStep) {
  double a = taps[0], b = taps[step], c = taps[2 * step];
  out[0] = a;
  out[outStep] = (a + b + c) / 2;
  out[2 * outStep] = (a - b + c) / 2;
  out[3 * outStep] = c;
}

std::vector<float> winogradFilter(const float *filter, int64_t channels,
                                  int64_t features) {
  int64_t matrix = channels * features;
  std::vector<float> result(matrix * kWinogradMatrices);
  for (int64_t i = 0; i < matrix; ++i) {
    double taps[9], rows[12], out[16];
    for (int64_t t = 0; t < 9; ++t) {
      float tap;
      std::memcpy(&tap, filter + t * matrix + i, sizeof tap);
      taps[t] = tap;
    }
    for (int64_t x = 0; x < 3; ++x)
      spread(taps + x, 3, rows + x, 3);
    for (int64_t y = 0; y < 4; ++y)
      spread(rows + y * 3, 1, out + y * 4, 1);
    for (int64_t t = 0; t < kWinogradMatrices; ++t)
      result[t * matrix + i] = static_cast<float>(out[t]);
  }
  return result;
}

} // namespace knapper
