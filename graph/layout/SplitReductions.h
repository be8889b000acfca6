//===- SplitReductions.h - Long reductions in two steps -------------------===//
//
//   reduce of few results over many elements   becomes a reduction of parts and
//                                              one of the parts' results
//   reduce of narrow columns                   becomes one of wide rows, each
//                                              of several, and one of these
//   reduce of few last dims and of others      becomes one of the others and
//   before a kept one                          one of the last
//   arg_reduce of few long lines               the same, of indices and values
//
// A reduction has a program a result (or a tile of results); where these are
// too few to fill a device of many cores, most of it would wait. Sums of
// floating-point numbers are formed in another order, which a reduction does
// not promise; 16-bit ones stay in f32 between the steps. Sizes that are
// numbers are split into equal parts, and a short rest where they have no
// divisor near what is wanted; where some are symbols, rows of the last
// dims, whose sizes are numbers, come first.
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

struct SplitModel {
  int64_t programs = 2048;   ///< that keep the device busy
  int64_t tile = 1024;       ///< results of one program, where they neighbour
  int64_t part = 16384;      ///< elements that a program takes at once
  int64_t parts = 16384;     ///< of a row, at most
  int64_t leastColumn = 128; ///< the same for a column
  int64_t wide = 1;     ///< narrower columns are taken several rows at once
  int64_t narrow = 128; ///< results of a program that has as few as it can,
                        ///< where columns are cut into no more parts than
                        ///< wanted; 0: into as many as there may be
  int64_t far = 0;    ///< results from which on the rows of a column lie so far
                      ///< apart that parts of them are faster, one after the
                      ///< other; 0: none
  int64_t shared = 0; ///< bytes of a row of columns from which on the programs
                      ///< of one kernel share the rows at full speed; 0: they
                      ///< cannot
  int64_t start = 0;  ///< bytes that are read in the time of a second kernel's
                      ///< start; where `shared` is set
  int64_t narrowColumns = 256; ///< columns beside each other up to which
                               ///< several rows are taken as one; 0: never
  int64_t leastPart = 0;   ///< the least part of a row where parts are too few
                           ///< for the processors; 0: `part`
  int64_t sharedRow = 1;   ///< programs of a device that share a row of a
                           ///< softmax or normalisation,
  int64_t leastShared = 0; ///< elements that each has at least,
  int64_t mostShared = 0;  ///< and may hold, where there are several
  int64_t row = 64;        ///< the least row of a reduction of symbolic size
  int64_t lines = 512;     ///< programs wanted where the index of a line's best
                           ///< element is asked for; 0: lines stay whole
  int64_t leastLine = 4096; ///< elements of a part of such a line
  int64_t block = 0;  ///< elements of neighbouring columns that the threads of
                      ///< one program share out and read in about the time that
                      ///< another kernel takes; 0: a column is one thread's
  int64_t around = 0; ///< elements from which on few last dims and others
                      ///< around a kept one are reduced one after the other;
                      ///< 0: never
  config::Machine machine = {}; ///< where `leastPart` or `sharedRow` is set,
                                ///< and of hasFewLongRows
};

/// Whether a softmax or normalisation over its last dims has rows so few and
/// long that the reductions it consists of, split, take less time than a
/// program a row.
bool hasFewLongRows(mlir::Operation *op, const SplitModel &model);
/// Such ops of 16-bit floats compute in f32 from here on: what their parts
/// leave in memory is no result, and a sum of so many elements may be no f16.
void widenLongRows(mlir::func::FuncOp function, const SplitModel &model);

void splitReductions(mlir::func::FuncOp function, const SplitModel &model = {});

} // namespace knapper
