#include "ir/tensor/Dim.h"
#include "ir/tensor/Dialect.h"
#include "ir/tensor/DimFunctions.h"
#include "ir/tensor/Multiples.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace mlir;

namespace knapper::ts {
namespace {

std::string atomText(Attribute atom);
bool isBareIdentifier(StringRef name);

/// Atoms of a monomial, sorted by text so that order never depends on pointers.
std::string monomialText(ArrayAttr monomial) {
  return llvm::join(llvm::map_range(monomial, atomText), "*");
}

/// By text, so that order never depends on pointers.
bool atomLess(Attribute x, Attribute y) {
  if (x == y)
    return false;
  auto a = dyn_cast<StringAttr>(x), b = dyn_cast<StringAttr>(y);
  // What is printed bare is its own text.
  if (a && b && isBareIdentifier(a) && isBareIdentifier(b))
    return a.getValue() < b.getValue();
  return atomText(x) < atomText(y);
}

/// Degree first, then text: an admissible order, needed by exactDiv.
bool monomialLess(ArrayAttr a, ArrayAttr b) {
  if (a == b)
    return false;
  if (a.size() != b.size())
    return a.size() < b.size();
  for (auto [x, y] : llvm::zip(a, b)) {
    if (x == y)
      continue;
    return atomLess(x, y);
  }
  return false;
}

struct Term {
  int64_t coefficient;
  ArrayAttr monomial;
};

/// Sorts, merges equal monomials, drops zeros; highest monomial first.
DimAttr normalise(MLIRContext *context, SmallVector<Term> terms) {
  llvm::stable_sort(terms, [](const Term &a, const Term &b) {
    return monomialLess(b.monomial, a.monomial);
  });
  SmallVector<int64_t> coefficients;
  SmallVector<ArrayAttr> monomials;
  for (const Term &term : terms) {
    if (!monomials.empty() && monomials.back() == term.monomial)
      coefficients.back() =
          static_cast<int64_t>(static_cast<uint64_t>(coefficients.back()) +
                               static_cast<uint64_t>(term.coefficient));
    else {
      monomials.push_back(term.monomial);
      coefficients.push_back(term.coefficient);
    }
    if (coefficients.back() == 0) {
      monomials.pop_back();
      coefficients.pop_back();
    }
  }
  return DimAttr::get(context, coefficients, monomials);
}

SmallVector<Term> termsOf(Dim dim) {
  SmallVector<Term> terms;
  for (auto [c, m] :
       llvm::zip(dim.attr().getCoefficients(), dim.attr().getMonomials()))
    terms.push_back({c, m});
  return terms;
}

ArrayAttr multiply(ArrayAttr a, ArrayAttr b) {
  SmallVector<Attribute> atoms(a.begin(), a.end());
  llvm::append_range(atoms, b);
  llvm::stable_sort(atoms, atomLess);
  return ArrayAttr::get(a.getContext(), atoms);
}

/// a / b when b's atoms all occur in a.
std::optional<ArrayAttr> divide(ArrayAttr a, ArrayAttr b) {
  SmallVector<Attribute> atoms(a.begin(), a.end());
  for (Attribute atom : b) {
    auto *it = llvm::find(atoms, atom);
    if (it == atoms.end())
      return std::nullopt;
    atoms.erase(it);
  }
  return ArrayAttr::get(a.getContext(), atoms);
}

Dim fromAtom(Attribute atom) {
  MLIRContext *context = atom.getContext();
  return DimAttr::get(context, {1}, {ArrayAttr::get(context, {atom})});
}

Dim makeFn(DimFn fn, Dim lhs, Dim rhs) {
  return fromAtom(DimFnAttr::get(lhs.context(), static_cast<uint32_t>(fn),
                                 lhs.attr(), rhs.attr()));
}

bool isBareIdentifier(StringRef name) {
  if (name.empty() || !(llvm::isAlpha(name[0]) || name[0] == '_') ||
      llvm::is_contained(kDimFnNames, name))
    return false;
  return llvm::all_of(
      name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

std::string atomText(Attribute atom) {
  if (auto symbol = dyn_cast<StringAttr>(atom)) {
    if (isBareIdentifier(symbol.getValue()))
      return symbol.str();
    std::string text = "`";
    for (char c : symbol.getValue()) // the quote itself is doubled
      text += c == '`' ? "``" : std::string(1, c);
    return text + "`";
  }
  auto fn = cast<DimFnAttr>(atom);
  return (kDimFnNames[fn.getFn()] + "(" + Dim(fn.getLhs()).str() + ", " +
          Dim(fn.getRhs()).str() + ")")
      .str();
}

} // namespace

Dim::Dim(DimAttr attr) : impl(attr) {}
DimAttr Dim::attr() const { return cast<DimAttr>(impl); }

Dim Dim::constant(MLIRContext *context, int64_t value) {
  if (value == 0)
    return DimAttr::get(context, {}, {});
  return DimAttr::get(context, {value}, {ArrayAttr::get(context, {})});
}

Dim Dim::symbol(MLIRContext *context, StringRef name) {
  return fromAtom(StringAttr::get(context, name));
}

std::optional<int64_t> Dim::asConstant() const {
  ArrayRef<ArrayAttr> monomials = attr().getMonomials();
  if (monomials.empty())
    return 0;
  if (monomials.size() == 1 && monomials[0].empty())
    return attr().getCoefficients()[0];
  return std::nullopt;
}

std::optional<StringRef> Dim::asSymbol() const {
  ArrayRef<ArrayAttr> monomials = attr().getMonomials();
  if (monomials.size() != 1 || monomials[0].size() != 1 ||
      attr().getCoefficients()[0] != 1)
    return std::nullopt;
  if (auto symbol = dyn_cast<StringAttr>(monomials[0][0]))
    return symbol.getValue();
  return std::nullopt;
}

/// Whether products of two of its coefficients stay inside 64 bits.
static bool isSmall(Dim dim) {
  constexpr int64_t most = int64_t(1) << 30;
  return llvm::all_of(dim.attr().getCoefficients(),
                      [](int64_t c) { return c < most && c > -most; });
}

/// y and m of a term c * mod(y, m) with a number m > 0, small ones.
static std::optional<std::pair<Dim, int64_t>> asRemainder(const Term &term) {
  if (term.monomial.size() != 1)
    return std::nullopt;
  auto fn = dyn_cast<DimFnAttr>(term.monomial[0]);
  if (!fn || static_cast<DimFn>(fn.getFn()) != DimFn::mod)
    return std::nullopt;
  std::optional<int64_t> divisor = Dim(fn.getRhs()).asConstant();
  if (!divisor || *divisor <= 0 || !isSmall(fn.getLhs()) ||
      !isSmall(fn.getRhs()))
    return std::nullopt;
  return std::pair(Dim(fn.getLhs()), *divisor);
}

Dim Dim::operator+(Dim other) const {
  // Most sizes and most operands are numbers.
  std::optional<int64_t> a = asConstant(), b = other.asConstant();
  if (a && b)
    return like(static_cast<int64_t>(static_cast<uint64_t>(*a) +
                                     static_cast<uint64_t>(*b)));
  if (a == 0)
    return other;
  if (b == 0)
    return *this;
  SmallVector<Term> terms = termsOf(*this);
  llvm::append_range(terms, termsOf(other));
  return normalise(context(), std::move(terms));
}

Dim Dim::operator-(Dim other) const { return *this + other * -1; }

/// dim * factor: the order of the terms stays. Factor is not 0.
static Dim scale(Dim dim, int64_t factor) {
  SmallVector<int64_t> coefficients;
  SmallVector<ArrayAttr> monomials;
  for (const Term &term : termsOf(dim))
    if (uint64_t product = static_cast<uint64_t>(term.coefficient) *
                           static_cast<uint64_t>(factor)) {
      coefficients.push_back(static_cast<int64_t>(product));
      monomials.push_back(term.monomial);
    }
  return DimAttr::get(dim.context(), coefficients, monomials);
}

Dim Dim::operator*(Dim other) const {
  std::optional<int64_t> a = asConstant(), b = other.asConstant();
  if (a == 1)
    return other;
  if (b == 1)
    return *this;
  if (a == 0 || b == 0)
    return like(0);
  if (b)
    return scale(*this, *b);
  if (a)
    return scale(other, *a);
  SmallVector<Term> terms;
  for (const Term &a : termsOf(*this))
    for (const Term &b : termsOf(other))
      terms.push_back(
          {static_cast<int64_t>(static_cast<uint64_t>(a.coefficient) *
                                static_cast<uint64_t>(b.coefficient)),
           multiply(a.monomial, b.monomial)});
  return normalise(context(), std::move(terms));
}

std::optional<Dim> Dim::exactDiv(Dim other) const {
  std::optional<int64_t> divisor = other.asConstant();
  if (divisor == 0)
    return std::nullopt;
  if (*this == other)
    return like(1);
  if (divisor == 1)
    return *this;
  if (std::optional<int64_t> number = asConstant(); number && divisor) {
    if ((*divisor == -1 && *number == INT64_MIN) || *number % *divisor != 0)
      return std::nullopt;
    return like(*number / *divisor);
  }
  Dim rest = *this, quotient = like(0);
  Term lead = termsOf(other).front();
  while (!rest.isConstant(0)) {
    Term term = termsOf(rest).front();
    std::optional<ArrayAttr> monomial = divide(term.monomial, lead.monomial);
    if (!monomial ||
        (lead.coefficient == -1 && term.coefficient == INT64_MIN) ||
        term.coefficient % lead.coefficient != 0)
      return std::nullopt;
    Dim part = DimAttr::get(context(), {term.coefficient / lead.coefficient},
                            {*monomial});
    quotient = quotient + part;
    rest = rest - part * other;
  }
  return quotient;
}

Dim Dim::floorDiv(Dim other) const {
  if (std::optional<Dim> exact = exactDiv(other))
    return *exact;
  if (std::optional<int64_t> divisor = other.asConstant();
      divisor && *divisor > 0) {
    // floordiv(d*q + r, d) = q + floordiv(r, d), for numbers inside r too.
    SmallVector<Term> whole, rest;
    for (const Term &term : termsOf(*this)) {
      int64_t quotient = llvm::divideFloorSigned(term.coefficient, *divisor);
      int64_t remainder = term.coefficient - quotient * *divisor;
      if (remainder == 0 || term.monomial.empty()) {
        whole.push_back({quotient, term.monomial});
        if (remainder)
          rest.push_back({remainder, term.monomial});
      } else {
        rest.push_back(term);
      }
    }
    Dim q = normalise(context(), whole), r = normalise(context(), rest);
    if (std::optional<int64_t> number = r.asConstant())
      return q + llvm::divideFloorSigned(*number, *divisor);
    return q + makeFn(DimFn::floordiv, r, other);
  }
  return makeFn(DimFn::floordiv, *this, other);
}

Dim Dim::ceilDiv(Dim other) const {
  if (std::optional<Dim> exact = exactDiv(other))
    return *exact;
  return (*this + other - 1).floorDiv(other);
}

Dim Dim::mod(Dim other) const {
  if (exactDiv(other))
    return like(0);
  if (std::optional<int64_t> divisor = other.asConstant();
      divisor && *divisor > 0) {
    // Of c * mod(y, m) with a multiple c * m of the divisor, c * y is left.
    for (const Term &term : termsOf(*this))
      if (auto inner = asRemainder(term);
          inner && isSmall(*this) && term.coefficient % *divisor != 0 &&
          term.coefficient * inner->second % *divisor == 0) {
        SmallVector<Term> terms;
        for (const Term &other : termsOf(*this))
          if (other.monomial != term.monomial)
            terms.push_back(other);
        llvm::append_range(terms,
                           termsOf(scale(inner->first, term.coefficient)));
        return Dim(normalise(context(), std::move(terms))).mod(other);
      }
    SmallVector<Term> rest;
    for (Term term : termsOf(*this)) {
      term.coefficient -=
          llvm::divideFloorSigned(term.coefficient, *divisor) * *divisor;
      if (term.coefficient)
        rest.push_back(term);
    }
    Dim r = normalise(context(), rest);
    if (r.asConstant())
      return r;
    return makeFn(DimFn::mod, r, other);
  }
  return makeFn(DimFn::mod, *this, other);
}

Dim multiplesAsProducts(Dim sum) {
  if (!isSmall(sum))
    return sum;
  for (const Term &term : termsOf(sum)) {
    if (term.coefficient != 1 && term.coefficient != -1)
      continue;
    auto remainder = asRemainder(term);
    if (!remainder)
      continue;
    auto [y, m] = *remainder;
    SmallVector<Term> terms;
    for (const Term &other : termsOf(sum))
      if (other.monomial != term.monomial)
        terms.push_back(other);
    Dim x = normalise(sum.context(), terms);
    bool isUp = term.coefficient == 1;
    terms.clear();
    llvm::append_range(terms, termsOf(isUp ? x : scale(x, -1)));
    llvm::append_range(terms, termsOf(y));
    Dim whole = normalise(sum.context(), std::move(terms));
    if (whole.knownDivisor() % m != 0 || x.asConstant())
      continue;
    return scale((isUp ? x + (m - 1) : x).floorDiv(x.like(m)), m);
  }
  return sum;
}

/// Whether it is x - min(x, y): what a slice from a bounded start leaves.
static bool isLeftOfMin(Dim dim) {
  for (const Term &term : termsOf(dim)) {
    if (term.coefficient != -1 || term.monomial.size() != 1)
      continue;
    auto fn = dyn_cast<DimFnAttr>(term.monomial[0]);
    if (!fn || static_cast<DimFn>(fn.getFn()) != DimFn::min)
      continue;
    Dim x = dim + fromAtom(fn);
    if (x == Dim(fn.getLhs()) || x == Dim(fn.getRhs()))
      return true;
  }
  return false;
}

static Dim minOrMax(DimFn fn, Dim a, Dim b) {
  // A constant difference decides, whatever the symbols are, and one that is
  // never negative.
  Dim left = a - b;
  if (std::optional<int64_t> difference = left.asConstant())
    return (*difference <= 0) == (fn == DimFn::min) ? a : b;
  if (isLeftOfMin(left))
    return fn == DimFn::min ? b : a;
  if (isLeftOfMin(b - a))
    return fn == DimFn::min ? a : b;
  if (b.str() < a.str())
    std::swap(a, b);
  return makeFn(fn, a, b);
}
Dim Dim::min(Dim other) const { return minOrMax(DimFn::min, *this, other); }
Dim Dim::max(Dim other) const { return minOrMax(DimFn::max, *this, other); }

int64_t Dim::knownDivisor() const {
  int64_t divisor = 0;
  for (int64_t c : attr().getCoefficients())
    divisor = std::gcd(divisor, c);
  return divisor;
}

Dim applyDimFn(DimFn fn, Dim a, Dim b) {
  switch (fn) {
  case DimFn::floordiv:
    return a.floorDiv(b);
  case DimFn::mod:
    return a.mod(b);
  case DimFn::min:
    return a.min(b);
  case DimFn::max:
    return a.max(b);
  }
  return a;
}

Dim Dim::substitute(llvm::function_ref<Dim(StringRef)> map) const {
  Dim result = like(0);
  for (const Term &term : termsOf(*this)) {
    Dim value = like(term.coefficient);
    for (Attribute atom : term.monomial) {
      if (auto symbol = dyn_cast<StringAttr>(atom)) {
        Dim replacement = map(symbol.getValue());
        value = value * (replacement ? replacement : fromAtom(atom));
      } else {
        auto fn = cast<DimFnAttr>(atom);
        value = value * applyDimFn(static_cast<DimFn>(fn.getFn()),
                                   Dim(fn.getLhs()).substitute(map),
                                   Dim(fn.getRhs()).substitute(map));
      }
    }
    result = result + value;
  }
  return result;
}

std::optional<int64_t>
Dim::evaluate(llvm::function_ref<std::optional<int64_t>(StringRef)> map) const {
  int64_t sum = 0;
  for (const Term &term : termsOf(*this)) {
    int64_t value = term.coefficient;
    for (Attribute atom : term.monomial) {
      std::optional<int64_t> factor;
      if (auto symbol = dyn_cast<StringAttr>(atom)) {
        factor = map(symbol.getValue());
      } else {
        auto fn = cast<DimFnAttr>(atom);
        std::optional<int64_t> a = Dim(fn.getLhs()).evaluate(map);
        std::optional<int64_t> b = Dim(fn.getRhs()).evaluate(map);
        if (!a || !b)
          return std::nullopt;
        switch (static_cast<DimFn>(fn.getFn())) {
        case DimFn::floordiv:
        case DimFn::mod: {
          if (*b == 0 || (*b == -1 && *a == INT64_MIN))
            return std::nullopt;
          int64_t q = llvm::divideFloorSigned(*a, *b);
          factor = static_cast<DimFn>(fn.getFn()) == DimFn::floordiv
                       ? q
                       : *a - q * *b;
          break;
        }
        case DimFn::min:
          factor = std::min(*a, *b);
          break;
        case DimFn::max:
          factor = std::max(*a, *b);
          break;
        }
      }
      if (!factor || llvm::MulOverflow(value, *factor, value))
        return std::nullopt;
    }
    if (llvm::AddOverflow(sum, value, sum))
      return std::nullopt;
  }
  return sum;
}

void Dim::collectSymbols(llvm::SetVector<StringAttr> &symbols) const {
  for (ArrayAttr monomial : attr().getMonomials())
    for (Attribute atom : monomial) {
      if (auto symbol = dyn_cast<StringAttr>(atom)) {
        symbols.insert(symbol);
      } else {
        auto fn = cast<DimFnAttr>(atom);
        Dim(fn.getLhs()).collectSymbols(symbols);
        Dim(fn.getRhs()).collectSymbols(symbols);
      }
    }
}

std::string Dim::str() const {
  std::string text;
  for (const Term &term : termsOf(*this)) {
    int64_t c = term.coefficient;
    if (!text.empty())
      text += c < 0 ? " - " : " + ";
    else if (c < 0)
      text += "-";
    uint64_t magnitude =
        c < 0 ? 0 - static_cast<uint64_t>(c) : static_cast<uint64_t>(c);
    if (term.monomial.empty())
      text += std::to_string(magnitude);
    else
      text += (magnitude == 1 ? "" : std::to_string(magnitude) + "*") +
              monomialText(term.monomial);
  }
  return text.empty() ? "0" : text;
}

Dim product(MLIRContext *context, ArrayRef<Dim> dims) {
  Dim result = Dim::constant(context, 1);
  for (Dim dim : dims)
    result = result * dim;
  return result;
}

} // namespace knapper::ts
