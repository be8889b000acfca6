// Elements of a sort as unsigned integers, of which the larger goes first: for
// whoever sorts by comparing words. NaN counts as largest, zeros are equal.
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

/// Dims of the grid: all but the sorted one.
inline llvm::SmallVector<ts::Dim> aroundOf(ts::TopKOp op) {
  llvm::SmallVector<ts::Dim> around = ts::dimsOf(op.getInput());
  around.erase(around.begin() + op.getDim());
  return around;
}

class SortKeys {
public:
  SortKeys(ElementEmitter &e, ts::TopKOp op);

  /// i32 for elements of up to 32 bits, else i64.
  mlir::IntegerType type;
  /// The key of an element in compute form; a tile of `lanes` (0: a scalar).
  mlir::Value of(mlir::Value element, int64_t lanes);
  /// The integer with that key; floats have no inverse.
  mlir::Value elementOf(mlir::Value key, int64_t lanes);
  /// A number of the key's type.
  mlir::Value number(uint64_t n, int64_t lanes);

  //===- Words: a key and where its element stands, unique ---------------===//
  /// Of 64 bits together if they fit, else key and place.
  llvm::SmallVector<mlir::Type, 2> wordTypes();
  /// The words of elements with these keys at places (i32): of equal ones the
  /// first goes first.
  llvm::SmallVector<mlir::Value, 2> words(mlir::Value keys, mlir::Value places,
                                          int64_t lanes);
  /// The places (i32) of words.
  mlir::Value places(mlir::ValueRange words, int64_t lanes);

  //===- Elements as they are ---------------------------------------------===//
  /// What is compared without making keys first: floats as they are, integers
  /// as keys.
  mlir::Value comparable(mlir::Value element, int64_t lanes);
  mlir::Value keyOfComparable(mlir::Value x, int64_t lanes);
  /// The one of two comparables that goes first; `last` goes behind all.
  mlir::Value first(mlir::Value a, mlir::Value x);
  mlir::Value last(int64_t lanes);
  /// Where a comparable's key is not below a key (a scalar), and elsewhere if
  /// there are NaNs.
  mlir::Value mayReach(mlir::Value comparable, mlir::Value key, int64_t lanes);

private:
  mlir::Type shaped(mlir::Type element, int64_t lanes);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Type element; // in compute form
  bool isFloat, isUnsigned, largest;
};

} // namespace knapper
