//===- HloImporter.h - One StableHLO program's way into tensor IR ---------===//
#pragma once

#include "frontends/common/Bodies.h"
#include "frontends/stablehlo/HloPartition.h"
#include "frontends/stablehlo/ImportStableHlo.h"

namespace knapper {

class HloNode;

/// The values that the ops of one function or region see.
struct HloFrame {
  HloFrame *parent = nullptr; ///< of a region: what is around it
  GraphBody *body = nullptr;  ///< where ops are built; null: the entry
  llvm::DenseMap<mlir::Value, mlir::Value> values; ///< null: not importable
  unsigned depth = 0;                              ///< of calls and regions
  /// The line of the user's program that ops without one came from.
  std::string line;
  /// Of a region of scalars that is imported for all elements of tensors at
  /// once: their dims. Its ops are elementwise.
  std::optional<llvm::SmallVector<ts::Dim>> lift;
};

class HloImporter : public BodyGraphBuilder {
public:
  HloImporter(mlir::MLIRContext &context, const char *begin, size_t offset)
      : BodyGraphBuilder(context), begin(begin), offset(offset) {}

  Expected<mlir::OwningOpRef<mlir::ModuleOp>> run(mlir::ModuleOp program);

  /// Imports the ops of a block whose arguments are in `frame`; gives what it
  /// returns, null where that could not be imported.
  Expected<llvm::SmallVector<mlir::Value>> importBlock(mlir::Block &block,
                                                       HloFrame &frame);
  /// Imports a function's body in place.
  Expected<llvm::SmallVector<mlir::Value>>
  call(llvm::StringRef callee, llvm::ArrayRef<mlir::Value> arguments,
       HloNode &caller);
  /// Null: there is none of the name.
  mlir::Operation *function(llvm::StringRef name) const {
    return functions.lookup(name);
  }
  /// Null: known, but could not be imported. Nothing: no such value.
  std::optional<mlir::Value> lookup(mlir::Value value, HloFrame &frame);

  int64_t devices = 1;   ///< that the program runs on
  int64_t exchanges = 0; ///< between them, so far

  /// How often the loop runs that a symbol counts, from 0.
  llvm::StringMap<int64_t> iterations;
  std::vector<std::shared_ptr<const std::string>> buffers; ///< unpacked data
  /// Of complex tensors that were joined: real and imaginary parts.
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, mlir::Value>> planes;
  const char *const begin; ///< of the bytecode
  const size_t offset;     ///< of the bytecode in the file

private:
  struct Missing {
    std::string op, shapes, line, reason;
  };

  Status importOp(mlir::Operation &op, HloFrame &frame);
  Status checkModule(mlir::ModuleOp program);
  Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  importMain(mlir::Operation *main, mlir::ModuleOp program);
  Error missingError() const;
  /// With a symbol for each size that the program leaves to the call.
  mlir::RankedTensorType argumentType(
      mlir::RankedTensorType type, unsigned argument,
      const llvm::DenseMap<std::pair<unsigned, unsigned>, std::string> &names);

  llvm::StringMap<mlir::Operation *> functions;
  std::vector<Missing> missing;
  size_t imported = 0; ///< ops
};

/// A tensor type of the program as tensor IR has it, or null and why not.
mlir::RankedTensorType hloType(mlir::Type type, std::string &problem);
/// "model.py:12", or empty.
std::string hloSourceLine(mlir::Location loc);
/// The op's line, or that of the call or op that it is in.
std::string hloSourceLine(mlir::Operation *op, const HloFrame &frame);
/// What `list` ("arg_attrs", "res_attrs") of a function says of one entry; null
/// where it says nothing.
mlir::DictionaryAttr hloAttributesAt(mlir::Operation *function,
                                     llvm::StringRef list, size_t index);
/// Whether callers give this argument of main away.
bool isHloDonated(mlir::Operation *main, size_t argument);
/// The only block of a region that takes `arguments`; null otherwise.
mlir::Block *hloBlock(mlir::Operation *op, unsigned region, size_t arguments);

} // namespace knapper
