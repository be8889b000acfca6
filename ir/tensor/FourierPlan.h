//===- FourierPlan.h - A transform as passes of small radices -------------===//
//
// Stockham's form of the transform of n complex numbers (Cochran et al., What
// is the fast Fourier transform?, IEEE Trans. Audio 15, 1967). A pass of radix
// r after passes of radices whose product is l, with m = n / (l r), computes
// for j < m and k < l
//
//   y[k + l (r j + p)] = w(l r m / l)^(j p) sum over q of
//                        x[k + l (j + m q)] exp(2 pi i s p q / r)
//
// and needs no reordering at the end. The table has the factors w of each
// pass, then what a real transform's half needs.
//
// Lengths with other prime factors are convolutions with a chirp (Bluestein, A
// linear filtering approach to the computation of discrete Fourier transform,
// IEEE Trans. Audio 18, 1970): with c[j] = exp(pi i s j^2 / n), y[k] = c[k]
// sum over j of x[j] c[j] / c[k - j], by transforms of a power of two.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace knapper::ts {

struct FourierPass {
  int64_t radix = 0;
  int64_t l = 0;       ///< product of the radices before
  int64_t m = 0;       ///< n / (l * radix)
  int64_t roots = 0;   ///< where its factors lie in the table
  int64_t repeats = 1; ///< each factor of j stands so many times: l, or once

  /// Factors of one p: those of [m], each repeated.
  int64_t count() const { return m * repeats; }
};

struct FourierPlan {
  int64_t complexLength = 0; ///< n; half of the length of a real transform
  bool real = false;
  int64_t passLength = 0; ///< of what the passes transform: n, if no chirp
  bool isChirp() const { return passLength != complexLength; }
  /// Where c[j], j < n, and the spectrum of 1 / c divided by passLength lie:
  /// cosines or real parts, then the others.
  int64_t chirp = 0, filter = 0;
  llvm::SmallVector<FourierPass> passes;
  /// Real ones: where exp(2 pi i s k / (2 n)), k < n, lies in the table.
  int64_t halves = 0;
  int64_t tableSize = 0; ///< elements

  /// Cosines of pass i, factor p (from 1 on); its sines follow all of the
  /// pass's cosines.
  static int64_t cosines(const FourierPass &pass, int64_t p) {
    return pass.roots + (p - 1) * pass.count();
  }
  static int64_t sines(const FourierPass &pass, int64_t p) {
    return cosines(pass, p) + (pass.radix - 1) * pass.count();
  }
};

/// None: there is one pass only, a short transform has a large prime factor, or
/// the length is odd and `real`.
std::optional<FourierPlan> fourierPlan(int64_t length, bool real);

/// `sign`: of the exponent.
std::vector<double> fourierTable(const FourierPlan &plan, int sign);

} // namespace knapper::ts
