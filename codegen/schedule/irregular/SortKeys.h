// Sort keys: elements as unsigned integers, for sorts that compare words. The
// element with the larger key comes first. NaN is the largest float. Both zeros
// have one key. Callers: Sort.cpp, CpuTopK.cpp and GpuSorter.h.
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// Dims of the grid: all but the sorted one.
inline llvm::SmallVector<ts::Dim> aroundOf(ts::TopKOp op) {
  llvm::SmallVector<ts::Dim> around = ts::dimsOf(op.getInput());
  around.erase(around.begin() + op.getDim());
  return around;
}

/// Emits the conversions between elements and keys of one ts.topk. A tile of
/// `lanes` elements is a vector; 0 lanes: a scalar.
class SortKeys {
public:
  SortKeys(ElementEmitter &e, ts::TopKOp op);

  /// i32 for elements of up to 32 bits, else i64.
  mlir::IntegerType type;
  /// The key of an element in compute form.
  mlir::Value of(mlir::Value element, int64_t lanes);
  /// The integer element with that key. Floats have no inverse: two zeros have
  /// one key.
  mlir::Value elementOf(mlir::Value key, int64_t lanes);
  /// A number of the key's type.
  mlir::Value number(uint64_t n, int64_t lanes);

  //===- Words: a key and where its element stands, unique ---------------===//
  /// The integer types of a word: one i64 if key and place fit, else two.
  llvm::SmallVector<mlir::Type, 2> wordTypes();
  /// The words of elements with these keys at these places (i32). Of equal keys
  /// the lower place comes first.
  llvm::SmallVector<mlir::Value, 2> words(mlir::Value keys, mlir::Value places,
                                          int64_t lanes);
  /// The places (i32) of words.
  mlir::Value places(mlir::ValueRange words, int64_t lanes);

  //===- Elements as they are ---------------------------------------------===//
  /// A form that can be compared directly: a float itself, an integer's key.
  mlir::Value comparable(mlir::Value element, int64_t lanes);
  mlir::Value keyOfComparable(mlir::Value x, int64_t lanes);
  /// The one of two comparables that comes first.
  mlir::Value first(mlir::Value a, mlir::Value x);
  /// A comparable that comes after all elements.
  mlir::Value last(int64_t lanes);
  /// i1 for each lane: false only if the comparable's key is below `key` (a
  /// scalar). A lane may be true for a smaller key if there are NaNs.
  mlir::Value mayReach(mlir::Value comparable, mlir::Value key, int64_t lanes);

private:
  mlir::Type shaped(mlir::Type element, int64_t lanes);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Type element; // in compute form
  bool isFloat, isUnsigned, largest;
};

} // namespace knapper
