//===- AmxSplitFloat.h - Matmuls of float32 in tile registers ------------===//
//
// Source: Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial
// Intelligence Datatype For Higher-Precision Computations", 2019.
//
// A float32 has 24 bits of mantissa and is the sum of three bf16 of 8 bits. A
// matmul of float32 is then nine matmuls of parts, of which three are below the
// last bit of the result and are left out.
//
//   parts  matmuls  error
//   3      6        no larger than that of FMAs: a sum is rounded once for
//                   32 elements of K, not once for each
//   2      3        about 1e-5
//
// Both operands are split into scratch as the program reads them. Sums over at
// most kChunk elements of K are added to the accumulators.
//
// Three kinds of numbers are not the sum of their parts or are not safe:
// numbers that are not finite; numbers beyond 2^40, whose sums may overflow in
// another order; denormals, which tile registers read as 0. So each row of A
// and each panel of B has a mark. A row is multiplied again in float32
//   if the row or the panel has a number beyond 2^40 or one that is not finite;
//   if either has a nonzero number below 2^-50 and some result is below 2^-40.
// Otherwise, with all numbers below 2^40, the error of that is at most 2^-69.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/matmul/AmxMatmul.h"

namespace knapper {

/// The sizes of a matmul in parts.
struct SplitShape {
  int64_t parts; ///< 2 or 3
  int64_t panel; ///< columns of B at a time
  int64_t depth; ///< K
  int64_t rows;  ///< rows of A at a time, at most
};

/// Whether splitting is faster than FMAs for programs of `blockRows` rows of A
/// and `panels` panels of B in all. `cacheBytes`: L2 for the split operand.
bool splitPays(const SplitShape &shape, int64_t blockRows, int64_t panels,
               int64_t cacheBytes);

/// The fewest rows of a program for which splitting its panel pays.
int64_t leastSplitRows(int64_t parts);

/// Emits the splits and the matmuls of parts of one program.
class SplitBlocks {
public:
  /// `at`: the first free byte of scratch.
  SplitBlocks(ElementEmitter &emitter, const SplitShape &shape, int64_t at);
  /// Bytes of scratch from `at` on.
  static int64_t scratchBytes(const SplitShape &shape);

  /// Splits rows 0 .. count - 1 of A, consecutive in K, `lda` elements apart,
  /// and computes their marks.
  llvm::LogicalResult splitRows(mlir::Value a, mlir::Value base,
                                mlir::Value lda, mlir::Value count);
  /// Splits a panel of B, [K][columns] with rows `ldb` elements apart, and
  /// computes its mark.
  llvm::LogicalResult splitPanel(mlir::Value b, mlir::Value base,
                                 mlir::Value ldb);
  /// Multiplies the split rows row .. row + valid - 1, at most blockTile's, by
  /// the panel. The results go to the start of `sums`, [rows][panel]. If the
  /// marks require it, `again(i)` writes the float32 results of row `row + i`
  /// there. Results at or past `validColumns` (null: there are none) are not
  /// looked at.
  llvm::LogicalResult
  multiply(mlir::Value row, mlir::Value valid, mlir::Value validColumns,
           mlir::Value sums,
           llvm::function_ref<llvm::LogicalResult(mlir::Value i)> again);

private:
  /// The largest and the smallest number met, as their bits; of the smallest
  /// less one, so that zeros are large.
  struct Range {
    mlir::Value most, least;
  };
  Range noRange(int64_t lanes);
  Range widened(Range range, mlir::Value numbers);
  mlir::Value markOf(Range range);
  /// The next part of numbers, of which it is taken.
  mlir::Value takePart(mlir::Value &numbers);
  mlir::Value scratch(int64_t at, mlir::Type element);
  mlir::Value words(int64_t lanes, uint32_t word);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t parts, panel, depth, padded; ///< K as a multiple of 32
  int64_t lda; ///< elements from a split row to the next
  mlir::Value splitA, splitB, chunk, marks;
  mlir::Value panelMark;
};

} // namespace knapper
