// How the elements of small integer tensors are found as Dims: the analysis
// behind symbolicValue. SymbolicValue.cpp follows values, SymbolicOps.cpp has
// what each op makes of its operands' elements.
#pragma once

#include "ir/tensor/Dialect.h"
#include "ir/tensor/KnownReals.h"
#include "ir/tensor/SymbolicValue.h"

namespace knapper::ts {

inline bool isFloat(mlir::Value value) {
  return llvm::isa<mlir::FloatType>(elementTypeOf(value));
}
/// A whole number that floats hold exactly.
std::optional<int64_t> wholeNumber(const llvm::APFloat &value);

/// `depth`: ops that were followed on the way.
class SymbolicAnalysis {
public:
  using Elements = std::optional<llvm::SmallVector<Dim>>;

  explicit SymbolicAnalysis(SymbolicValueCache &cache) : cache(cache) {}

  Elements of(mlir::Value value, unsigned depth);

private:
  /// Floats that are numbers already, and integers cut from them.
  Elements ofReals(mlir::Operation *op, unsigned depth);
  /// fn of each pair of elements; none where it has none.
  Elements map(mlir::Value a, mlir::Value b, unsigned depth,
               llvm::function_ref<std::optional<Dim>(Dim, Dim)> fn);
  /// The element of the operand that each element of the result is.
  Elements
  gathered(mlir::Value input, mlir::Value result, unsigned depth,
           llvm::function_ref<void(llvm::MutableArrayRef<int64_t>)> source);

  /// A float as a quotient of whole numbers; the divisor is never below 1
  /// where it is a number.
  struct Quotient {
    Dim over, under;
  };
  using Quotients = std::optional<llvm::SmallVector<Quotient>>;

  /// What is divided in floats before it is rounded to a whole number.
  Quotients quotients(mlir::Value value, unsigned depth);
  /// fn(over, under) of each quotient.
  Elements rounded(mlir::Value value, unsigned depth,
                   llvm::function_ref<std::optional<Dim>(Dim, Dim)> fn);
  /// The elements of a condition as 0 and 1, where they depend on the sizes of
  /// a run too.
  Elements condition(mlir::Value value, unsigned depth);
  /// Ops that move what a matrix holds, or go through it element by element.
  Elements ofMatrixOp(mlir::Operation *op, unsigned depth);

  //===-- By op (SymbolicOps.cpp) -----------------------------------------===//
  Elements ofOp(mlir::Operation *op, unsigned depth);
  Elements ofOp(SizeOp op, unsigned depth);
  Elements ofOp(ConstantOp op, unsigned depth);
  Elements ofOp(ConcatOp op, unsigned depth);
  Elements ofOp(ReshapeOp op, unsigned depth);
  Elements ofOp(DimCastOp op, unsigned depth);
  Elements ofOp(TransposeOp op, unsigned depth);
  Elements ofOp(BroadcastOp op, unsigned depth);
  Elements ofOp(SliceOp op, unsigned depth);
  Elements ofOp(GatherOp op, unsigned depth);
  Elements ofOp(IotaOp op, unsigned depth);
  Elements ofOp(ConvertOp op, unsigned depth);
  Elements ofOp(NegOp op, unsigned depth);
  Elements ofOp(NotOp op, unsigned depth);
  Elements ofOp(AddOp op, unsigned depth);
  Elements ofOp(SubOp op, unsigned depth);
  Elements ofOp(MulOp op, unsigned depth);
  Elements ofOp(DivOp op, unsigned depth);
  Elements ofOp(FloorOp op, unsigned depth);
  Elements ofOp(CeilOp op, unsigned depth);
  Elements ofOp(AbsOp op, unsigned depth);
  Elements ofOp(ModOp op, unsigned depth);
  Elements ofOp(RemOp op, unsigned depth);
  Elements ofOp(MaxOp op, unsigned depth);
  Elements ofOp(MinOp op, unsigned depth);
  Elements ofOp(AndOp op, unsigned depth);
  Elements ofOp(OrOp op, unsigned depth);
  Elements ofOp(CompareOp op, unsigned depth);
  Elements ofOp(SelectOp op, unsigned depth);
  Elements ofOp(ReduceOp op, unsigned depth);
  Elements ofOp(ScanOp op, unsigned depth);

  SymbolicValueCache &cache;
  KnownReals reals;
};

} // namespace knapper::ts
