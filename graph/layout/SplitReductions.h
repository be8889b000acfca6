//===- SplitReductions.h - Long reductions in two steps -------------------===//
//
//   before                                  after
//   reduce, few results, many elements      reduce of parts, then reduce of the
//                                           parts' results
//   reduce of narrow columns                reduce of wide rows, each of which
//                                           holds several columns' rows, then
//                                           reduce of these
//   reduce of some outer dims and few       reduce of the outer dims, then
//   innermost dims around a kept dim        reduce of the innermost dims
//   arg_reduce of few long lines            arg_reduce of parts, then of the
//                                           parts' indices and values
//
// Why: one program computes one result, or one tile of neighbouring results.
// Few results leave most cores of a large device without work.
//
// Results: floating-point sums are formed in another order, which a reduction
// permits. The values between the two steps of a 16-bit reduction are f32.
// Sizes: a constant size is split into equal parts. If it has no divisor near
// the wanted number of parts, the last part is shorter. If some sizes are
// symbols, the innermost dims of constant size are reduced first.
//
// Callers: the target plug-ins (targets/), each with its own SplitModel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/Machine.h"

namespace mlir::func {
class FuncOp;
}
namespace mlir {
class Operation;
}

namespace knapper {

/// What a target's device needs and does. "Row": the reduced elements are
/// contiguous. "Column": the reduced dim is an outer one.
struct SplitModel {
  /// Programs that keep the device busy.
  int64_t programs = 2048;
  /// Neighbouring results that one program computes.
  int64_t tile = 1024;
  /// Elements that one program reduces.
  int64_t part = 16384;
  /// The largest number of parts of one row.
  int64_t parts = 16384;
  /// Elements of a part of a column, at least.
  int64_t leastColumn = 128;
  /// Columns fewer than this are reduced several rows at a time.
  int64_t wide = 1;
  /// The fewest results of one program. A column is then cut into no more parts
  /// than the device wants. 0: into as many parts as its size allows.
  int64_t narrow = 128;
  /// If a column reduction has at least this many results, its rows lie so far
  /// apart in memory that reducing the parts one after the other is faster. 0:
  /// never.
  int64_t far = 0;
  /// If one row of the columns has at least this many bytes, the programs of
  /// one kernel share the rows at full speed. 0: the device cannot.
  int64_t shared = 0;
  /// Bytes that the device reads in the time of one kernel launch. Used if
  /// `shared` is set.
  int64_t start = 0;
  /// Up to this many columns, several rows are reduced as one. 0: never.
  int64_t narrowColumns = 256;
  /// Elements of a part of a row, at least, if there are fewer parts than
  /// cores. 0: `part`.
  int64_t leastPart = 0;
  /// Programs that may share one row of a softmax or normalisation (the CTAs of
  /// a cluster).
  int64_t sharedRow = 1;
  /// Elements that each of these programs has at least, and can hold at most.
  int64_t leastShared = 0;
  int64_t mostShared = 0;
  /// Elements of a row of symbolic size, at least.
  int64_t row = 64;
  /// Programs wanted for an arg_reduce. 0: its lines are not split.
  int64_t lines = 512;
  /// An arg_reduce along a long dim is split into parts of at least this many
  /// elements.
  int64_t leastLine = 4096;
  /// Elements of neighbouring columns that the threads of one program read
  /// together in about the time of one kernel launch. 0: each column is one
  /// thread's.
  int64_t block = 0;
  /// If at least this many elements are reduced along dims on both sides of a
  /// kept dim, the two sides are reduced one after the other. 0: never.
  int64_t around = 0;
  /// Elementwise ops before a split reduction are computed of runs of memory
  /// (CutRuns.h), where there is a rest or parts may begin within a row.
  bool flatRuns = false;
  /// Read by hasFewLongRows, and if `leastPart` or `sharedRow` is set.
  config::Machine machine = {};
};

/// Whether `op` is a softmax or normalisation over its last dims with so few
/// and long rows that its reductions, split, take less time than one program
/// for each row.
bool hasFewLongRows(mlir::Operation *op, const SplitModel &model);
/// Makes 16-bit ops for which hasFewLongRows holds compute in f32. Their
/// partial results are written to memory and must not be rounded, and a sum of
/// so many elements may exceed the range of f16.
void widenLongRows(mlir::func::FuncOp function, const SplitModel &model);

/// Splits the reductions of `function` for which the model says that it pays.
void splitReductions(mlir::func::FuncOp function, const SplitModel &model = {});

} // namespace knapper
