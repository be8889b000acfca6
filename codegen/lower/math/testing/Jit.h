// Compiles expansions in process, as they ship: MLIR to an object file by
// LLVM's back end for one instruction set, then loaded. Tests only.

#ifndef KNAPPER_CODEGEN_LOWER_MATH_TESTING_JIT_H
#define KNAPPER_CODEGEN_LOWER_MATH_TESTING_JIT_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace knapper::vecmath::testing {

/// One function to compile: from one or two values of `element` (given as
/// vectors of `lanes`, as scalars where 0) to one of the same type.
struct Function {
  std::string name;
  unsigned arity;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::Value,
                            mlir::Value)>
      build;
};

/// out[i] = f(a[i], b[i]) for i < n; n a multiple of the lanes.
using Kernel = void (*)(const void *a, const void *b, void *out, int64_t n);

/// Whether this machine runs `cpu` ("x86-64-v3", "x86-64-v4").
bool hostRuns(llvm::StringRef cpu);

/// The object file with all `functions`, by name; empty with `error` set where
/// something failed. `expandMath` runs on what they build.
std::string compile(llvm::ArrayRef<Function> functions, llvm::StringRef element,
                    unsigned lanes, llvm::StringRef cpu, std::string &error);

/// Names that the object expects others to define.
std::vector<std::string> undefinedSymbols(llvm::StringRef object);

class Loaded {
public:
  static std::unique_ptr<Loaded> load(llvm::StringRef object,
                                      std::string &error);
  ~Loaded();
  Kernel find(llvm::StringRef name, std::string &error);

private:
  Loaded();
  struct State;
  std::unique_ptr<State> state;
};

} // namespace knapper::vecmath::testing

#endif // KNAPPER_CODEGEN_LOWER_MATH_TESTING_JIT_H
