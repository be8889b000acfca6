//===- LoopParts.h - A loop and its body, to be changed together ----------===//
#pragma once

#include "ir/tensor/BranchesAndLoops.h"
#include "ir/tensor/SymbolicValue.h"
#include "llvm/ADT/DenseMap.h"

namespace knapper {

/// How the steps of a loop go through the first dim of a tensor.
enum class StepOrder { forward, reversed };

/// The operands and results of a loop beside what they are in its body. Lists
/// may be changed freely; `rebuild` makes the op and its function agree.
struct LoopParts {
  struct Carried {
    mlir::Value initial, inside, next, result;
  };
  struct Capture {
    mlir::Value outside, inside;
  };
  struct Scan {
    mlir::Value value; ///< of a step
    StepOrder order;
    mlir::Value result; ///< null for one that is new
  };

  /// Nothing for a loop that data ends, whose sizes change, or whose body has
  /// effects: checks, operators of the host that may have some.
  static std::optional<LoopParts> of(ts::LoopOp loop);

  /// An outer value in the body.
  mlir::Value capture(mlir::Value outside);
  /// The order in which an index of the body counts the steps; forward where
  /// there are none.
  std::optional<StepOrder> orderOf(ts::Dim index);
  /// The row of a step.
  ts::Dim row(StepOrder order) const;
  /// Row `row(order)` of `whole`, [T, ...], without its first dim.
  mlir::Value readRow(mlir::OpBuilder &b, mlir::Location loc, mlir::Value whole,
                      StepOrder order) const;
  /// Whether a size of the op's results or an attribute of it is of the body:
  /// the counter, or a symbol that an op of the body sets.
  bool namesOwnSymbol(mlir::Operation *op) const;
  /// Other values of the body in the place of these.
  void replace(const llvm::DenseMap<mlir::Value, mlir::Value> &values);
  /// Replaces the loop; ops of the body that nobody reads go.
  void rebuild();

  ts::LoopOp loop;
  mlir::Block *body = nullptr;
  ts::Dim trips, counter;
  llvm::SmallVector<Carried> carried;
  llvm::SmallVector<Capture> captures;
  llvm::SmallVector<Scan> scans;

private:
  llvm::DenseSet<mlir::StringAttr> own; ///< symbols that the body sets
  /// Answers of `orderOf`.
  llvm::DenseMap<mlir::Attribute, std::optional<StepOrder>> orders;
};

/// Each step of SimplifyLoops.h; true where something changed. `rebuild` is the
/// caller's.
bool captureUnchanged(LoopParts &parts);
bool sliceInOrder(LoopParts &parts);
bool stackRows(LoopParts &parts);
bool dropUnused(LoopParts &parts);

struct LoopBudget;
/// Matmuls of rows and a state side by side, as one of each.
bool splitConcats(LoopParts &parts, const LoopBudget &budget);
/// Invariant ops and matmuls of all steps before the loop. Takes what it needs
/// of the budget's bytes.
bool computeBefore(LoopParts &parts, LoopBudget &budget);
/// Sums of all steps behind the loop; rebuilds it.
void sumBehind(LoopParts &parts, LoopBudget &budget);

} // namespace knapper
