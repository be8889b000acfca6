//===- Schedule.h - How a kernel is cut into programs ---------------------===//
//
// A schedule is data: which builder makes the tile program, its tile sizes, and
// when it may be used. One kernel can have several, tried in order at launch:
// the first whose guard holds runs, the last one's always does. Everything here
// is in the kernel's own symbols.
//
// To add a schedule: one file with a `choose` and a `build` function, one row
// in the table of Schedule.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "codegen/schedule/core/Knobs.h"
#include "ir/tensor/Dialect.h"
#include "ir/tile/TileDialect.h"
#include <map>
#include <string>
#include <vector>

namespace knapper {

class ElementEmitter;

/// Conjunction of comparisons between sizes; empty: always true.
struct Guard {
  struct Term {
    ts::Dim lhs;
    ts::ComparePredicate predicate;
    ts::Dim rhs;
  };
  llvm::SmallVector<Term, 2> terms;

  std::string str() const;
};

/// A constant matrix operand that the schedule reads in panels. The operand is
/// a rows x columns matrix: its last dim is the columns and the dims before it
/// the rows, or, when `transposed`, the first dim is the columns. The packed
/// form is [ceil(columns / panel)][ceil(rows / group)][panel][group], what lies
/// past the end of rows and columns zero.
/// `winograd`: the operand is a filter [3, 3, C, columns], of which the sixteen
/// C x columns matrices of F(2x2, 3x3) are packed (rows = 16 * C).
/// `nibbles`: the elements are integers of four bits and lie two a byte, the
/// even row in the low half; `group` is 2.
/// `pieces`: the rows are so many runs of one length, of which each begins a
/// group of its own.
struct PackedOperand {
  unsigned operand = 0;
  int64_t rows = 0, columns = 0;
  bool transposed = false;
  int64_t panel = 0;
  int64_t group = 1; ///< rows whose elements of one column lie together
  bool winograd = false;
  bool nibbles = false;
  int64_t pieces = 1;

  /// What is packed, with the zeros at the end of each piece.
  int64_t groups() const {
    return pieces * ((rows / pieces + group - 1) / group);
  }

  bool operator==(const PackedOperand &) const = default;
};

/// How a kernel's asynchronous copies see one of its buffers: a tensor of at
/// most five dims, innermost first, of which they move one box at a time.
/// In elements but for the swizzle. The innermost stride is 1 and left out.
struct OperandMap {
  unsigned argument = 0; ///< inputs, then results
  ts::Dim offset;
  llvm::SmallVector<ts::Dim, 4> sizes, strides;
  llvm::SmallVector<int64_t, 4> box;
  int64_t swizzle = 0; ///< bytes: 0, 32, 64 or 128
};

struct Schedule {
  std::string kind; ///< row of the table: "pointwise", "row_reduce", ...
  /// The text form of the schedule's configuration (ir/config).
  std::map<std::string, int64_t> parameters;
  Guard guard;
  ts::Dim grid;    ///< number of programs
  ts::Dim grain;   ///< least number of programs worth a thread
  ts::Dim scratch; ///< bytes of scratch a worker needs
  /// How many of the inner dim a step of its products takes: 4 of bytes, 2 of
  /// bf16; kSplitGroup: products of float32 as sums of such of bf16. Targets
  /// that extend another differ from it in such steps alone.
  int64_t group = 1;
  /// All schedules of one kernel agree on these.
  llvm::SmallVector<PackedOperand, 0> packed;
  std::vector<OperandMap> maps;
  /// Bytes that all programs of a launch share, zero when it starts: the
  /// kernel's last buffer, of i64. 0: there is none. All schedules of one
  /// kernel agree on it.
  int64_t state = 0;

  /// "row_reduce{lanes=64}" for reports.
  std::string label() const;
};

/// The schedules of a kernel, in the order in which guards are tried. Tile
/// sizes that depend on the instruction set are the builder's business, so the
/// result serves every CPU instruction set of one artefact. `knobs` has what is
/// recorded, and afterwards every decision.
llvm::FailureOr<llvm::SmallVector<Schedule>>
chooseSchedules(ts::KernelOp kernel, const TargetDesc &target, Knobs &knobs);
/// As the analytic model decides.
llvm::FailureOr<llvm::SmallVector<Schedule>>
chooseSchedules(ts::KernelOp kernel, const TargetDesc &target);

/// Whether a schedule of the target takes this attention whole; else it is to
/// be taken apart before kernels are formed.
bool isTakenWhole(ts::AttentionOp op, const TargetDesc &target);
/// Whether heads of f16 or bf16 are wider than what warpgroups keep of a row
/// (Hopper), and the scores of all of them are few: two products by warpgroups
/// then take less time than one kernel by FMAs.
bool hasWideHeads(ts::AttentionOp op, const TargetDesc &target);

/// Makes the tile program. `symbols` are the kernel's symbols in argument
/// order. The function is created at the builder's insertion point.
llvm::FailureOr<tile::FuncOp>
buildTileProgram(mlir::OpBuilder &builder, ts::KernelOp kernel,
                 const Schedule &schedule, const TargetDesc &target,
                 llvm::StringRef name, llvm::ArrayRef<std::string> symbols);

/// All symbols that occur in the kernel's types and attributes, in order of
/// first appearance.
llvm::SmallVector<std::string> kernelSymbols(ts::KernelOp kernel);

//===-- For the files of schedules ----------------------------------------===//

/// What a builder gets: an empty function and an emitter inside it.
struct BuildContext {
  ElementEmitter &emitter;
  ts::KernelOp kernel;
  const Schedule &schedule;
  const TargetDesc &target;
};

using ChooseFn = llvm::LogicalResult (*)(ts::KernelOp, const TargetDesc &,
                                         Knobs &,
                                         llvm::SmallVectorImpl<Schedule> &);
using BuildFn = llvm::LogicalResult (*)(BuildContext &);

/// Whether the results are known to be too large to be found in any cache by
/// their readers: then stores had better not go through the caches.
bool streamsOut(ts::KernelOp kernel, const TargetDesc &target);

/// A size for the analytic model when only symbols are known: 128 for each.
int64_t representative(ts::Dim dim);

} // namespace knapper
