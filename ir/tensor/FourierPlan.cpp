#include "ir/tensor/FourierPlan.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <complex>

namespace knapper::ts {

namespace {

constexpr int64_t largestRadix = 31;
/// Shorter ones are products with matrices in less time.
constexpr int64_t leastChirp = 200;
/// Registers of up to so many elements hold factors of several j, each beside
/// itself.
constexpr int64_t mostRepeats = 16;

/// Radices of a power of two, the largest first.
void appendBinary(llvm::SmallVectorImpl<int64_t> &radices, int64_t bits) {
  // Two passes of 4 take fewer steps than one of 8 and one of 2.
  int64_t fours = bits % 3 == 0 ? 0 : bits % 3 == 2 ? 1 : bits >= 4 ? 2 : 0;
  int64_t eights = (bits - 2 * fours) / 3;
  radices.append(eights, 8);
  radices.append(fours, 4);
  if (bits == 1)
    radices.push_back(2);
}

using Complex = std::complex<double>;

/// In place, of a power of two elements, by halves.
void transform(llvm::MutableArrayRef<Complex> x, int sign) {
  size_t n = x.size(), half = n / 2;
  if (n == 1)
    return;
  std::vector<Complex> even, odd;
  for (size_t i = 0; i < n; i += 2) {
    even.push_back(x[i]);
    odd.push_back(x[i + 1]);
  }
  transform(even, sign);
  transform(odd, sign);
  for (size_t k = 0; k < half; ++k) {
    Complex o =
        odd[k] * std::polar(1.0, sign * 2 * M_PI * static_cast<double>(k) /
                                     static_cast<double>(n));
    x[k] = even[k] + o;
    x[k + half] = even[k] - o;
  }
}

void putChirp(const FourierPlan &plan, int sign, std::vector<double> &table) {
  int64_t n = plan.complexLength, m = plan.passLength;
  std::vector<Complex> filter(m);
  for (int64_t j = 0; j < n; ++j) {
    // The square modulo 2 n keeps the angle exact.
    double part = static_cast<double>(j * j % (2 * n));
    Complex c = std::polar(1.0, sign * M_PI * part / static_cast<double>(n));
    table[plan.chirp + j] = c.real();
    table[plan.chirp + n + j] = c.imag();
    filter[j] = filter[(m - j) % m] = std::conj(c) / static_cast<double>(m);
  }
  transform(filter, sign);
  for (int64_t k = 0; k < m; ++k) {
    table[plan.filter + k] = filter[k].real();
    table[plan.filter + m + k] = filter[k].imag();
  }
}

} // namespace

std::optional<FourierPlan> fourierPlan(int64_t length, bool real) {
  if (length < 1 || (real && length % 2 != 0))
    return std::nullopt;
  FourierPlan plan;
  plan.real = real;
  plan.complexLength = real ? length / 2 : length;
  int64_t rest = plan.complexLength, bits = 0;
  for (; rest % 2 == 0; rest /= 2)
    ++bits;
  llvm::SmallVector<int64_t> radices;
  appendBinary(radices, bits);
  for (int64_t radix = largestRadix; radix > 1; radix -= 2)
    for (; rest % radix == 0; rest /= radix)
      radices.push_back(radix);
  plan.passLength = plan.complexLength;
  if (rest > 1) {
    if (plan.complexLength < leastChirp)
      return std::nullopt;
    plan.passLength = llvm::NextPowerOf2(2 * plan.complexLength - 2);
    radices.clear();
    appendBinary(radices, llvm::Log2_64(plan.passLength));
  }
  if (radices.size() < 2)
    return std::nullopt;
  int64_t l = 1;
  for (int64_t radix : radices) {
    FourierPass pass;
    pass.radix = radix;
    pass.l = l;
    pass.m = plan.passLength / (l * radix);
    bool isBinary = (l & (l - 1)) == 0;
    pass.repeats = isBinary && l < mostRepeats ? l : 1;
    pass.roots = plan.tableSize;
    // The last pass multiplies by ones.
    if (pass.m > 1)
      plan.tableSize += 2 * (radix - 1) * pass.count();
    plan.passes.push_back(pass);
    l *= radix;
  }
  plan.halves = plan.tableSize;
  if (real)
    plan.tableSize += 2 * plan.complexLength;
  plan.chirp = plan.tableSize;
  plan.filter = plan.chirp + 2 * plan.complexLength;
  if (plan.isChirp())
    plan.tableSize = plan.filter + 2 * plan.passLength;
  return plan;
}

std::vector<double> fourierTable(const FourierPlan &plan, int sign) {
  std::vector<double> table(plan.tableSize);
  auto put = [&](int64_t cosine, int64_t sine, int64_t part, int64_t whole) {
    double angle = 2 * M_PI * static_cast<double>(part % whole) /
                   static_cast<double>(whole);
    table[cosine] = std::cos(angle);
    table[sine] = sign * std::sin(angle);
  };
  for (const FourierPass &pass : plan.passes) {
    if (pass.m == 1)
      continue;
    for (int64_t p = 1; p < pass.radix; ++p)
      for (int64_t i = 0; i < pass.count(); ++i)
        put(FourierPlan::cosines(pass, p) + i, FourierPlan::sines(pass, p) + i,
            p * (i / pass.repeats), pass.radix * pass.m);
  }
  if (plan.real)
    for (int64_t k = 0; k < plan.complexLength; ++k)
      put(plan.halves + k, plan.halves + plan.complexLength + k, k,
          2 * plan.complexLength);
  if (plan.isChirp())
    putChirp(plan, sign, table);
  return table;
}

} // namespace knapper::ts
