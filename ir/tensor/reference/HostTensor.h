//===- HostTensor.h - A tensor's value in host memory ---------------------===//
//
// What the reference evaluator computes on: an element type, sizes, and dense
// row-major bytes that are owned or borrowed. Values are immutable once made
// and cheap to copy; copies share the bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "runtime/base/DType.h"
#include "runtime/base/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <string>
#include <vector>

namespace knapper::ts {

using Shape = llvm::SmallVector<int64_t, 6>;

/// The element type as runtime and artefact name it; null for other types.
std::optional<DType> dtypeOf(mlir::Type elementType);
/// The builtin element type.
mlir::Type elementTypeOf(mlir::MLIRContext *context, DType dtype);

/// Number of elements; nothing when a size is negative or the product
/// overflows int64.
std::optional<int64_t> elementCountOf(llvm::ArrayRef<int64_t> dims);

class HostTensor {
public:
  HostTensor() = default;

  /// Zeroed memory of its own. The product of `dims` must not overflow.
  static HostTensor allocate(DType dtype, llvm::ArrayRef<int64_t> dims);
  /// Refers to `data`, which `owner` (may be null) keeps alive; without owner
  /// the caller keeps it alive as long as any copy.
  static HostTensor borrow(DType dtype, llvm::ArrayRef<int64_t> dims,
                           const void *data,
                           std::shared_ptr<const void> owner = {});
  /// A copy of the attribute's elements. Error when the attribute is of a kind
  /// or element type that has no host form.
  static Expected<HostTensor> fromAttribute(mlir::ElementsAttr attribute);
  /// The same bytes under other sizes of equal product.
  HostTensor withDims(llvm::ArrayRef<int64_t> dims) const;

  /// A dense attribute with a copy of the data.
  mlir::DenseElementsAttr toAttribute(mlir::MLIRContext *context) const;

  DType dtype() const { return type; }
  llvm::ArrayRef<int64_t> dims() const { return sizes; }
  int64_t dim(unsigned index) const { return sizes[index]; }
  unsigned rank() const { return sizes.size(); }
  int64_t elements() const { return count; }
  size_t bytes() const { return count * byteSize(type); }
  const uint8_t *data() const { return memory; }
  /// Only while this is the sole reference to memory made by `allocate`.
  uint8_t *mutableData() { return const_cast<uint8_t *>(memory); }
  bool isFloat() const { return isFloat(type); }
  static bool isFloat(DType type) { return knapper::isFloat(type); }

  /// All elements widened: floats exactly to double (also integers, rounded
  /// beyond 2^53), integers exactly to int64 or uint64, wrapped where they do
  /// not fit (floats truncated).
  template <typename T> std::vector<T> load() const;
  /// A tensor of `values`, each rounded to nearest even (floats) or wrapped
  /// (integers; i1 is value != 0) to `dtype`. Floats of eight and four bits
  /// saturate.
  template <typename T>
  static HostTensor store(DType dtype, llvm::ArrayRef<int64_t> dims,
                          const std::vector<T> &values);

  /// "f32[2, 3]"
  std::string typeText() const;

private:
  DType type = DType::f32;
  Shape sizes;
  int64_t count = 0;
  const uint8_t *memory = nullptr;
  std::shared_ptr<const void> owner;
};

/// Exact value of 16-bit floats, and rounding to nearest even.
double f16ToDouble(uint16_t bits);
double bf16ToDouble(uint16_t bits);
uint16_t doubleToF16(double value);
uint16_t doubleToBf16(double value);
/// A byte of one of the storage types that are floats, and back: rounded to
/// nearest even; `saturate` as `ts.convert` says. For f8e8m0, `rounding`: -1
/// down, 0 nearest, 1 up, of |value|.
double smallFloatToDouble(DType type, uint8_t bits);
uint8_t doubleToSmallFloat(DType type, double value, bool saturate = true,
                           int rounding = 0);
/// The value in the low bits of a byte of i4, u4, i2 or u2.
int64_t smallInteger(DType type, uint8_t bits);

} // namespace knapper::ts
