//===- HloPartitioner.h - One walk over a program for several devices -----===//
//
// The class that HloPartition.cpp (ops, arguments and results) and
// HloPartitionCalls.cpp (functions, loops, shard_map) have in common; others
// call partitionHlo.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloPartition.h"
#include "mlir/IR/Builders.h"

namespace knapper {

class HloPartitioner {
public:
  HloPartitioner(mlir::ModuleOp program, int64_t count)
      : program(program), devices(static_cast<size_t>(count)), meshes(devices),
        b(program.getContext()) {}

  Expected<HloPartition> run();

private:
  /// Codes of the fields of shardings, one a value.
  static constexpr int64_t kPerValue[] = {7, 16};

  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
    return tensor ? tensor.getShape() : llvm::ArrayRef<int64_t>();
  }
  static Error damagedProgram(const llvm::Twine &what) {
    return userError(what.str(), "the StableHLO program",
                     "the file is damaged: export it again");
  }

  HloSharding of(mlir::Value value) const {
    auto found = cut.find(value);
    return found != cut.end()
               ? found->second
               : wholeHloSharding(shapeOf(value).size(), devices);
  }
  bool isCut(mlir::Value value) const { return cut.contains(value); }
  /// Gives the value its type and place after `sharding`; `shape`: of the
  /// whole.
  bool setParts(mlir::Value value, const HloSharding &sharding);
  void note(mlir::Operation *op, const llvm::Twine &reason);

  mlir::Value make(llvm::StringRef name, mlir::Value operand, mlir::Type type,
                   mlir::Operation *before,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  /// The value with other parts; null where that leaves a rest.
  mlir::Value moved(mlir::Value value, const HloSharding &to,
                    mlir::Operation *before);
  mlir::Value whole(mlir::Value value, mlir::Operation *before) {
    return moved(value, wholeHloSharding(shapeOf(value).size(), devices),
                 before);
  }
  mlir::Value gathered(mlir::Value value, const HloSharding &from, size_t dim,
                       mlir::Operation *before);

  /// Groups that are named as axes of a mesh, as tables of devices.
  void writeGroups();
  /// Takes constraints out of functions of scalars, which say nothing there.
  void stripRegions();
  Status block(mlir::Block &block);
  Status visit(mlir::Operation *op);
  Status manual(mlir::Operation *op);
  Status control(mlir::Operation *op);
  Status inlined(mlir::Operation *op, mlir::Block &callee);
  void constrained(mlir::Operation *op);
  void elementwise(mlir::Operation *op);
  void placed(mlir::Operation *op, llvm::ArrayRef<int64_t> at);
  std::optional<HloSharding> argument(mlir::Operation *main,
                                      mlir::BlockArgument value);

  /// Whether shard_map is in the op, or in functions that it calls.
  bool hasManual(mlir::Operation *op, unsigned depth = 0);
  mlir::Block *callee(mlir::Operation *op);

  mlir::ModuleOp program;
  size_t devices;
  HloMeshes meshes;
  mlir::OpBuilder b;
  llvm::StringMap<mlir::Operation *> functions;
  llvm::StringMap<bool> manualFunctions;
  llvm::DenseMap<mlir::Value, HloSharding> cut; ///< of what is not whole
  std::string problems;
  std::vector<std::string> lines; ///< of the calls around
  size_t copied = 0;
  unsigned depth = 0, regions = 0; ///< of calls; of shard_map
};

} // namespace knapper
