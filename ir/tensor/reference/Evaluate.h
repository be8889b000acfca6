//===- Evaluate.h - What a tensor op means, by example --------------------===//
//
// The reference: evaluates any op of the tensor dialect on host values. Slow
// and obvious. Floats are computed in double and rounded once to the element
// type of each result; integers are exact and wrap as the op's description
// says. Used by tests, by folding, by constant evaluation and by verification;
// never by a compiled program.
//
// Errors: UserError for what the values decide (a gather index outside, sizes
// that do not agree, a size above the limit), with the op's location as
// `where`; InternalError for an op that has no reference.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dim.h"
#include "ir/tensor/reference/HostTensor.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace mlir {
class Block;
class Operation;
namespace func {
class FuncOp;
}
} // namespace mlir

namespace knapper::ts {

class WeightOp;

/// Values of the symbols in sizes.
using SymbolValues = llvm::StringMap<int64_t>;

/// Where an evaluation stands. Not for use by two threads at once.
struct EvaluateContext {
  /// Read for symbolic sizes; `ts.bind_size` adds to it.
  SymbolValues symbols;
  /// A single tensor above this is refused.
  uint64_t maxBytes = uint64_t(4) << 30;
  /// Gives the data of a ts.weight; absent: weights are an error.
  std::function<Expected<HostTensor>(WeightOp)> weights;
  /// Called after each op with its operands and results.
  std::function<void(mlir::Operation *, llvm::ArrayRef<HostTensor>,
                     llvm::ArrayRef<HostTensor>)>
      observe;
};

/// Results of one op for given operand values (types must be the op's).
Expected<llvm::SmallVector<HostTensor>>
evaluate(mlir::Operation *op, llvm::ArrayRef<HostTensor> operands,
         EvaluateContext &context);
/// The same, without symbols beyond those of the operand shapes.
Expected<llvm::SmallVector<HostTensor>>
evaluate(mlir::Operation *op, llvm::ArrayRef<HostTensor> operands);

/// Operands of the block's terminator, with `arguments` for its arguments.
Expected<llvm::SmallVector<HostTensor>>
evaluateBlock(mlir::Block &block, llvm::ArrayRef<HostTensor> arguments,
              EvaluateContext &context);

/// Checks the inputs against the function's signature, binds symbols from
/// their sizes (beside those in `context`), and evaluates the body.
Expected<llvm::SmallVector<HostTensor>>
evaluateFunction(mlir::func::FuncOp function, llvm::ArrayRef<HostTensor> inputs,
                 EvaluateContext &context);

/// Binds the symbols of `types` to the sizes of `values`, and checks all other
/// sizes. `names[i]` is how messages call value i.
Status bindSymbols(mlir::TypeRange types, llvm::ArrayRef<HostTensor> values,
                   llvm::ArrayRef<std::string> names, SymbolValues &symbols);

/// The size as a number; UserError when a symbol has no value, the arithmetic
/// overflows or the size is negative.
Expected<int64_t> evaluateSize(Dim size, const SymbolValues &symbols);
/// The same of a number made of sizes (a start, a pad), which may be negative.
Expected<int64_t> evaluateOffset(Dim size, const SymbolValues &symbols);

/// Sizes of a type; UserError also when the tensor exceeds `maxBytes`.
Expected<Shape> evaluateShape(mlir::Type type, const SymbolValues &symbols,
                              uint64_t maxBytes);

/// Where a location points, for messages: a node's name or file:line:column.
std::string locationText(mlir::Location location);

} // namespace knapper::ts
