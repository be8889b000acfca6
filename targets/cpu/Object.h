// LLVM modules to x86-64 object files, without a process or a file.
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace knapper {

/// Optimises and emits modules for one instruction set. Cheap to use again, not
/// thread-safe: one a worker.
class ObjectEmitter {
public:
  /// UserError when this build of LLVM cannot emit for the target.
  static Expected<std::unique_ptr<ObjectEmitter>>
  create(const TargetDesc &target);
  ~ObjectEmitter();

  /// Sets triple, data layout and module flags; call before functions are
  /// added.
  void prepare(llvm::Module &module) const;

  /// Optimises `module` in place. Function attributes are set here.
  void optimise(llvm::Module &module);

  /// The object file, or assembly text. InternalError when a frame exceeds
  /// 16 KiB: a kernel then keeps tiles in memory that should be in registers.
  Expected<std::string> emit(llvm::Module &module, bool assembly = false);

private:
  struct Impl;
  explicit ObjectEmitter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace knapper
