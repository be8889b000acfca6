// Compiles expansions the way they ship: as tile programs, through the CPU
// target, to an image that is mapped and called. Tests only.
#pragma once

#include "runtime/artefact/ElfImage.h"
#include "runtime/base/Error.h"
#include "runtime/base/KernelAbi.h"
#include "targets/cpu/CompileKernels.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace knapper::vecmath::testing {

/// One function to compile: values in, values out, all of one shape.
struct Function {
  using Build = std::function<mlir::SmallVector<mlir::Value>(
      mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;
  std::string name;
  unsigned inputs, outputs;
  Build build;
  /// Of the outputs, where it is not the inputs'.
  std::string resultElement = {};
};

/// `Op` on its operands, for `expandMath` to expand.
template <typename Op>
Function ofOp(const char *name, unsigned inputs = 1, unsigned outputs = 1) {
  return {name, inputs, outputs,
          [inputs](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
            mlir::OperationState state(loc, Op::getOperationName());
            state.addOperands(x.take_front(inputs));
            mlir::SmallVector<mlir::Type, 2> types;
            if (failed(Op::inferReturnTypes(
                    b.getContext(), loc, state.operands,
                    state.attributes.getDictionary(b.getContext()),
                    mlir::OpaqueProperties(nullptr), {}, types)))
              return mlir::SmallVector<mlir::Value>();
            state.addTypes(types);
            return mlir::SmallVector<mlir::Value>(
                b.create(state)->getResults());
          }};
}

/// A builder of one argument.
Function ofBuilder(const char *name,
                   mlir::Value (*build)(mlir::OpBuilder &, mlir::Location,
                                        mlir::Value));

/// Functions of one instruction set, callable.
class Kernels {
public:
  /// Compiles `functions` on vectors of `lanes` elements of type `element`
  /// ("f32" ...), on scalars where `lanes` is 0. Fails where any needs what a
  /// kernel may not have, such as a call into a library.
  static Expected<std::unique_ptr<Kernels>>
  compile(llvm::ArrayRef<Function> functions, const std::string &element,
          unsigned lanes, std::string_view isa);

  /// out[i] = f(in[i] ...) for i < n, a multiple of the lanes; inputs, then
  /// outputs. Thread-safe.
  void call(const std::string &name, std::vector<const void *> buffers,
            int64_t n) const;

  CompileTimes times; // of all functions

private:
  std::unique_ptr<ElfImage> image;
  std::map<std::string, uint64_t> entries;
  unsigned lanes = 1;
};

/// Instruction sets that this machine runs.
std::vector<std::string_view> isasHere();

} // namespace knapper::vecmath::testing
