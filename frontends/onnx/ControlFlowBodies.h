//===- ControlFlowBodies.h - Branches and loops of rows of operators -----===//
#pragma once

#include "frontends/onnx/Node.h"

namespace knapper {

/// What one iteration of a loop gives, as values of its body.
struct Iteration {
  mlir::Value condition; ///< of the next iteration; null: true
  llvm::SmallVector<mlir::Value> carried, scans;
};

/// Builds the body from the number of the iteration and the carried values.
/// Values from around the loop come in through `Importer::capture`. Called
/// again with other types when carried sizes change from iteration to
/// iteration.
using BuildIteration = llvm::function_ref<mlir::LogicalResult(
    OnnxBody &body, ts::Dim counter, llvm::ArrayRef<mlir::Value> carried,
    Iteration &iteration)>;

struct LoopShape {
  OnnxScope *around = nullptr;  ///< where the loop stands
  std::optional<ts::Dim> trips; ///< nothing: no bound
  mlir::Value condition;        ///< before the first iteration; null: true
  llvm::SmallVector<mlir::Value> carried;
  llvm::SmallVector<bool> reversed; ///< a scan each
};

/// The results of a ts.loop: carried values, then scans along a new first dim.
/// Nothing after an error of the node.
std::optional<llvm::SmallVector<mlir::Value>>
buildLoop(Node &n, const LoopShape &shape, BuildIteration build);

/// A tensor, not a sequence and not null.
bool isTensor(mlir::Value value);

/// A condition, one boolean of any rank, as a 0-d tensor. Null after an error
/// of the node.
mlir::Value scalarCondition(Node &n, mlir::Value value);

/// What a condition is where sizes or constants decide it.
std::optional<bool> knownCondition(Node &n, mlir::Value value);

/// All results of the node.
mlir::LogicalResult giveAll(Node &n, llvm::ArrayRef<mlir::Value> results);

mlir::LogicalResult importLoop(Node &n);
mlir::LogicalResult importScan(Node &n);
/// Scan of opset 8: a scan for each element of the batch that all inputs begin
/// with.
mlir::LogicalResult importBatchedScan(Node &n);

} // namespace knapper
