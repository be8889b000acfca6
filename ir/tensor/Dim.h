//===- Dim.h - Symbolic sizes in normal form ------------------------------===//
//
// A Dim is an integer polynomial over symbols ("batch", "seq") with opaque
// atoms floordiv/mod/min/max whose arguments are Dims again. It is uniqued in
// the MLIRContext, so two Dims are equal as numbers-in-normal-form exactly when
// they are the same pointer:
//
//   s + t - t        is  s
//   2*(b + 1)*s      is  2*b*s + 2*s
//   (b*s*384)/(b*s)  is  384              (exactDiv)
//   floordiv(4*s + 2, 4)  is  s + floordiv(2, 4) = s
//
// A symbol stands for a non-negative integer; what else is known of it (range,
// divisibility) is declared once in the module's `ts.symbols`. Division is only
// simplified where the divisor cannot be zero or the quotient is exact.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include <optional>
#include <string>

namespace knapper::ts {

enum class DimFn : uint32_t { floordiv, mod, min, max };

class DimAttr;

/// A size; cheap to copy, compared by pointer. A default-constructed Dim is
/// null and only good for being assigned to.
class Dim {
public:
  Dim() = default;
  Dim(DimAttr attr);

  static Dim constant(mlir::MLIRContext *context, int64_t value);
  static Dim symbol(mlir::MLIRContext *context, llvm::StringRef name);

  DimAttr attr() const;
  mlir::MLIRContext *context() const { return impl.getContext(); }
  explicit operator bool() const { return bool(impl); }
  bool operator==(const Dim &other) const { return impl == other.impl; }

  /// The value when it is a number.
  std::optional<int64_t> asConstant() const;
  bool isConstant(int64_t value) const { return asConstant() == value; }
  bool isSymbolic() const { return !asConstant(); }
  /// The name when it is a bare symbol.
  std::optional<llvm::StringRef> asSymbol() const;

  Dim operator+(Dim other) const;
  Dim operator-(Dim other) const;
  Dim operator*(Dim other) const;
  Dim operator+(int64_t value) const { return *this + like(value); }
  Dim operator-(int64_t value) const { return *this - like(value); }
  Dim operator*(int64_t value) const { return *this * like(value); }
  /// Rounded towards minus infinity, as in Python.
  Dim floorDiv(Dim other) const;
  Dim ceilDiv(Dim other) const;
  Dim mod(Dim other) const;
  Dim min(Dim other) const;
  Dim max(Dim other) const;
  /// The quotient when `other` provably divides this, else nothing.
  std::optional<Dim> exactDiv(Dim other) const;
  /// The largest number known to divide this, from coefficients alone (0 for
  /// the constant 0).
  int64_t knownDivisor() const;

  /// Replaces symbols; `map` returns a null Dim to keep one.
  Dim substitute(llvm::function_ref<Dim(llvm::StringRef)> map) const;
  /// The number for given symbol values; nothing when one is missing, on
  /// division by zero and on overflow.
  std::optional<int64_t> evaluate(
      llvm::function_ref<std::optional<int64_t>(llvm::StringRef)> map) const;
  void collectSymbols(llvm::SetVector<mlir::StringAttr> &symbols) const;

  /// "2*batch*seq + 1"
  std::string str() const;

  /// A constant in the same context.
  Dim like(int64_t value) const { return constant(context(), value); }

private:
  mlir::Attribute impl;
};

/// Product of all dims; 1 for none (hence the context).
Dim product(mlir::MLIRContext *context, llvm::ArrayRef<Dim> dims);

/// Parses what `Dim::str` prints (and parentheses). Nothing on a syntax error.
std::optional<Dim> parseDim(mlir::MLIRContext *context, llvm::StringRef text);

} // namespace knapper::ts
