//===- AmxSplitFloat.h - Matmuls of float32 in tile registers ------------===//
//
// A float32 is the sum of three bf16 (of which it has the 24 bits), and a
// matmul the sum of those six matmuls of parts that are not far below its
// last bit: no less exact than a loop of fused FMAs, since each 32 of
// K are rounded less often. Of two parts and three matmuls the error is about
// 1e-5 (Henry, Tang and Heinecke, Leveraging the bfloat16 Artificial
// Intelligence Datatype For Higher-Precision Computations, 2019). Both sides
// are split into scratch as they come; what is summed over at most kChunk of K
// is added to the sums before it.
//
// Not every number is the sum of its parts: what is not finite, or beyond 2^40,
// whose sums might overflow in another order; and tiles take denormals for
// zeros, which matters where the result is as small. So rows and panels carry a
// mark, and a row is multiplied again in float32
//   if it, or the panel, has numbers that are beyond or not finite,
//   if either has numbers other than 0 below 2^-50 and some result is below
//   2^-40: with all numbers below 2^40 what is lost is 2^-69 at most.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/matmul/AmxMatmul.h"

namespace knapper {

/// A matmul in parts.
struct SplitShape {
  int64_t parts; ///< 2 or 3
  int64_t panel; ///< columns of B at a time
  int64_t depth;
  int64_t rows; ///< of A at a time, at most
};

/// Whether it is worth it for `blockRows` rows of A, `panels` panels in all.
bool splitPays(const SplitShape &shape, int64_t blockRows, int64_t panels,
               int64_t cacheBytes);

/// Rows of a program below which splitting the panel takes longer than it
/// saves.
int64_t leastSplitRows(int64_t parts);

class SplitBlocks {
public:
  /// `at`: scratch from that byte on is free.
  SplitBlocks(ElementEmitter &emitter, const SplitShape &shape, int64_t at);
  /// Bytes of scratch.
  static int64_t scratchBytes(const SplitShape &shape);

  /// Rows 0 .. count - 1, consecutive in K, and their marks.
  llvm::LogicalResult splitRows(mlir::Value a, mlir::Value base,
                                mlir::Value lda, mlir::Value count);
  /// A panel of B, [K][columns] with rows `ldb` apart, and its mark.
  llvm::LogicalResult splitPanel(mlir::Value b, mlir::Value base,
                                 mlir::Value ldb);
  /// Rows row .. row + valid - 1 of those that were split, at most blockTile's,
  /// times the panel, to the start of `sums`, [rows][panel]. `again(i)` puts
  /// the float32 matmul of row `row + i` there instead. Columns at or past
  /// `validColumns` (null: none) are of no account.
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
