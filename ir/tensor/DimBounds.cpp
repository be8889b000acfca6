// What sizes are never below or above, and comparisons of them.
#include "ir/tensor/Dialect.h"
#include "ir/tensor/SymbolicValue.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace knapper::ts {
namespace {

std::optional<int64_t> atomBound(Attribute atom, bool upper);

/// Bound of a sum by the bounds of its terms.
std::optional<int64_t> boundOfTerms(Dim dim, bool upper) {
  int64_t sum = 0;
  for (auto [coefficient, monomial] :
       llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials())) {
    // Factors must be non-negative for bounds to multiply.
    int64_t product = 1;
    bool up = upper == (coefficient > 0);
    for (Attribute atom : monomial) {
      std::optional<int64_t> low = atomBound(atom, false);
      if (!low || *low < 0)
        return std::nullopt;
      std::optional<int64_t> factor = up ? atomBound(atom, true) : low;
      if (!factor || llvm::MulOverflow(product, *factor, product))
        return std::nullopt;
    }
    if (llvm::MulOverflow(product, coefficient, product) ||
        llvm::AddOverflow(sum, product, sum))
      return std::nullopt;
  }
  return sum;
}

std::optional<int64_t> bound(Dim dim, bool upper, unsigned rewrites = 5);

/// Bound of a sum with one quotient, d * floordiv(e, d), as e - mod(e, d).
std::optional<int64_t> boundWithoutRounding(Dim dim, int64_t coefficient,
                                            DimFnAttr quotient, bool upper,
                                            unsigned rewrites) {
  Dim a = quotient.getLhs(), b = quotient.getRhs();
  int64_t divisor = *b.asConstant(), times = coefficient / divisor, lost = 0,
          sum;
  if ((coefficient > 0) != upper &&
      llvm::MulOverflow(-times, divisor - 1, lost))
    return std::nullopt;
  std::optional<int64_t> rest =
      bound(dim - a.floorDiv(b) * coefficient + a * times, upper, rewrites);
  if (!rest || llvm::AddOverflow(*rest, lost, sum))
    return std::nullopt;
  return sum;
}

/// Bound of a sum. Where its terms have none they may cancel once a quotient is
/// written without its rounding, or a maximum as its sides.
std::optional<int64_t> bound(Dim dim, bool upper, unsigned rewrites) {
  std::optional<int64_t> terms = boundOfTerms(dim, upper);
  if (terms || rewrites == 0)
    return terms;
  // Either side of what is the greater of two bounds it from below, for which
  // each case of the others may want another side: those first.
  for (bool either : {false, true})
    for (auto [coefficient, monomial] :
         llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials())) {
      auto fn =
          monomial.size() == 1 ? dyn_cast<DimFnAttr>(monomial[0]) : DimFnAttr();
      if (!fn)
        continue;
      Dim a = fn.getLhs(), b = fn.getRhs();
      auto kind = static_cast<DimFn>(fn.getFn());
      if (kind == DimFn::floordiv) {
        std::optional<int64_t> divisor = b.asConstant();
        if (divisor && *divisor > 0 && coefficient % *divisor == 0)
          return boundWithoutRounding(dim, coefficient, fn, upper,
                                      rewrites - 1);
      } else if (kind != DimFn::mod) {
        bool isMin = kind == DimFn::min, greater = isMin == (coefficient < 0);
        if (either != (greater != upper))
          continue;
        Dim without = dim - (isMin ? a.min(b) : a.max(b)) * coefficient;
        std::optional<int64_t> x = bound(without + a * coefficient, upper,
                                         rewrites - 1),
                               y = bound(without + b * coefficient, upper,
                                         rewrites - 1);
        if (!x || !y)
          return !either ? std::nullopt : x ? x : y;
        return greater ? std::max(*x, *y) : std::min(*x, *y);
      }
    }
  return std::nullopt;
}

std::optional<int64_t> atomBound(Attribute atom, bool upper) {
  if (isa<StringAttr>(atom))
    return upper ? std::nullopt : std::optional<int64_t>(0);
  auto fn = cast<DimFnAttr>(atom);
  Dim a = fn.getLhs(), b = fn.getRhs();
  switch (static_cast<DimFn>(fn.getFn())) {
  case DimFn::floordiv: {
    std::optional<int64_t> divisor = b.asConstant();
    if (!divisor || *divisor <= 0) {
      std::optional<int64_t> low = bound(a, false), by = bound(b, false);
      if (!upper && low && *low >= 0 && by && *by >= 0)
        return 0;
      return std::nullopt;
    }
    std::optional<int64_t> inner = bound(a, upper);
    if (!inner)
      return std::nullopt;
    return llvm::divideFloorSigned(*inner, *divisor);
  }
  case DimFn::mod: {
    std::optional<int64_t> divisor = b.asConstant();
    if (!divisor || *divisor <= 0)
      return std::nullopt;
    return upper ? *divisor - 1 : 0;
  }
  case DimFn::min:
  case DimFn::max: {
    bool isMin = static_cast<DimFn>(fn.getFn()) == DimFn::min;
    std::optional<int64_t> x = bound(a, upper), y = bound(b, upper);
    if (isMin == upper) { // one known side is enough
      if (!x || !y)
        return x ? x : y;
    } else if (!x || !y) {
      return std::nullopt;
    }
    return isMin ? std::min(*x, *y) : std::max(*x, *y);
  }
  }
  return std::nullopt;
}

} // namespace

std::optional<int64_t> lowerBound(Dim dim) { return bound(dim, false); }
std::optional<int64_t> upperBound(Dim dim) { return bound(dim, true); }

std::optional<bool> isLess(Dim a, Dim b) {
  std::optional<int64_t> low = lowerBound(b - a);
  if (low && *low > 0)
    return true;
  std::optional<int64_t> high = upperBound(b - a);
  if (high && *high <= 0)
    return false;
  return std::nullopt;
}

std::optional<bool> isEqual(Dim a, Dim b) {
  if (a == b)
    return true;
  Dim difference = a - b;
  std::optional<int64_t> low = lowerBound(difference),
                         high = upperBound(difference);
  if ((low && *low > 0) || (high && *high < 0))
    return false;
  return std::nullopt;
}

} // namespace knapper::ts
