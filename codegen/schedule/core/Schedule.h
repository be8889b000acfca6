//===- Schedule.h - How a kernel is cut into programs ---------------------===//
//
// A schedule is data: its builder, its tile sizes, and a guard. A launch takes
// the kernel's first schedule whose guard holds; the last has none. Sizes are
// formulas of the kernel's own symbols. Thread-safe for kernels of different
// MLIR contexts. Errors are diagnostics at the kernel.
//
// To add a schedule: one file with a `choose` and a `build` function, one line
// in Schedules.def (docs/first-schedule.md).
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

/// A constant matrix operand that the schedule reads in panels (BLIS: packed
/// micropanels of B). The last dim is the columns, the dims before it are the
/// rows; `transposed`: the first dim is the columns. The packed form, zero past
/// the end of rows and columns, is
///   [ceil(columns / panel)][ceil(rows / group)][panel][group]
/// `winograd`: the operand is a filter [3, 3, C, columns]. The sixteen
/// C x columns matrices of F(2x2, 3x3) are packed (rows = 16 * C).
/// `nibbles`: elements are integers of four bits, two a byte, the even row in
/// the low half; `group` is 2.
/// `pieces`: the rows are this many runs of one length. Each begins a group of
/// its own.
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

/// The TMA descriptor of one of a kernel's buffers: a tensor of at most five
/// dims, innermost first. A copy moves one box. Units are elements, but for the
/// swizzle. The innermost stride is 1 and left out.
struct OperandMap {
  unsigned argument = 0; ///< inputs, then results
  ts::Dim offset;
  llvm::SmallVector<ts::Dim, 4> sizes, strides;
  llvm::SmallVector<int64_t, 4> box;
  int64_t swizzle = 0; ///< bytes: 0, 32, 64 or 128
};

struct Schedule {
  std::string kind; ///< a line of Schedules.def: "pointwise", "reduce", ...
  /// The text form of the schedule's configuration (ir/config).
  std::map<std::string, int64_t> parameters;
  Guard guard;
  ts::Dim grid;    ///< number of programs
  ts::Dim grain;   ///< least number of programs worth a thread
  ts::Dim scratch; ///< bytes of scratch a worker needs
  /// Elements of K that one step of its matmuls takes: 4 bytes, 2 bf16;
  /// kSplitGroup: float32 in parts of bf16. A target that `extends` another
  /// differs from it in these steps alone.
  int64_t group = 1;
  /// All schedules of one kernel agree on these.
  llvm::SmallVector<PackedOperand, 0> packed;
  std::vector<OperandMap> maps;
  /// Bytes that all programs of a launch share; 0: none. They are the kernel's
  /// last buffer, of i64, and zero when the launch starts. All schedules of one
  /// kernel agree on the number.
  int64_t state = 0;

  /// "reduce{lanes=64}" for reports.
  std::string label() const;
};

/// The schedules of a kernel, in the order in which guards are tried. The
/// builder picks tile sizes that depend on the instruction set, so the result
/// serves every CPU instruction set of one artefact. `knobs` holds the tuning
/// record at the call, and every decision after it.
llvm::FailureOr<llvm::SmallVector<Schedule>>
chooseSchedules(ts::KernelOp kernel, const TargetDesc &target, Knobs &knobs);
/// As the analytic model decides.
llvm::FailureOr<llvm::SmallVector<Schedule>>
chooseSchedules(ts::KernelOp kernel, const TargetDesc &target);

/// About how much code the schedule's program becomes, by its line of
/// Schedules.def. An unknown schedule, which is refused when it is built, has
/// 0.
unsigned codeLength(const Schedule &schedule);

/// Whether a schedule of the target takes this attention whole. If not, it is
/// decomposed before kernels are formed.
bool isTakenWhole(ts::AttentionOp op, const TargetDesc &target);
/// Whether the heads are too wide for a warpgroup's registers (f16 and bf16 on
/// Hopper) and the scores are few. Two wgmma matmuls are then faster than one
/// attention kernel by FMAs.
bool hasWideHeads(ts::AttentionOp op, const TargetDesc &target);

/// Whether a convolution with channels first is faster as it lies, each element
/// of the result a thread's own, than as a matmul with channels last, between
/// the transpositions that its neighbours in the graph then need.
bool isTakenDirectly(ts::ConvOp op, const TargetDesc &target);

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

/// Whether the results are known to be larger than every cache. Their stores
/// then bypass the caches (non-temporal): no reader would find them there.
bool streamsOut(ts::KernelOp kernel, const TargetDesc &target);

/// A size for the analytic model when only symbols are known: 128 for each.
int64_t representative(ts::Dim dim);

} // namespace knapper
