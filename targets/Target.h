//===- Target.h - What a kind of device is to the compiler ----------------===//
//
// A target says which variants of it there are, prepares the graph for them,
// turns tile programs into code, and names the driver that runs the code.
// Everything that the compiler knows of a kind of device is behind this
// interface, in one folder of targets/; schedules and lowerings ask the
// capabilities of a TargetDesc. docs/first-target.md adds one step by step.
//
// Targets are constant objects of static lifetime; all functions may be called
// from several threads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Vendor.h"
#include "targets/KernelJob.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace knapper {

/// What the user asked of a target.
struct TargetRequest {
  /// Of `--target NAME:VARIANT`; empty: the target's choice.
  std::string_view variant;
  /// `--isa`: instruction sets, best first; empty: all that the target has.
  std::vector<std::string> isas;
  /// `--float32-matmul`: how many bf16 a float32 may be split into; 0: none.
  int64_t floatParts = 0;
  /// `--deterministic`.
  bool deterministic = false;
};

/// A rewrite of a function of the tensor dialect, before its kernels are
/// formed.
struct TargetPass {
  const char *name; ///< in the phase table: "cuda:split-sorts"
  void (*run)(mlir::func::FuncOp function, const TargetDesc &target);
};

class Target {
public:
  virtual ~Target() = default;

  /// "cpu": the word of `--target`, and the device of the artefact, whose
  /// driver in runtime/drivers has the same name.
  virtual std::string_view name() const = 0;

  /// Whether `--isa` is for this target.
  virtual bool takesIsas() const { return false; }

  /// The devices to compile for, best first: one for each instruction set that
  /// gets code of its own. UserError for what there is not.
  virtual Expected<std::vector<TargetDesc>>
  describe(const TargetRequest &request) const = 0;

  /// What is rewritten before kernels are formed, in order: composites that no
  /// schedule takes are decomposed, reductions that would leave most of the
  /// device idle are split. All of them on the entry, then on the bodies that
  /// its branches and loops have afterwards.
  virtual std::span<const TargetPass> preparation() const { return {}; }

  /// Rewrites a function whose kernels are formed: operands in the order that
  /// schedules read them. `target`: the first of those compiled for.
  virtual void arrange(mlir::func::FuncOp function,
                       const TargetDesc &target) const {}

  /// An image for each of `targets`, on at most `threads` threads. `dialects`
  /// is what `build` of a job needs. The error names the kernel.
  virtual Expected<std::vector<CompiledImage>>
  emit(std::span<const KernelJob> jobs, std::span<const TargetDesc> targets,
       unsigned threads, const mlir::DialectRegistry &dialects) const = 0;

  /// Whether a device that `target` describes runs code compiled for `isa`:
  /// what user kernels say they need.
  virtual bool runs(const TargetDesc &target, std::string_view isa) const {
    return target.isa == isa;
  }

  /// Libraries whose matmuls may run in place of kernels, best first
  /// (--vendor). The driver of the same name opens them.
  virtual std::span<const VendorLibrary> vendorLibraries() const { return {}; }

  /// The device in tuning records: measurements of one are not taken for
  /// another.
  virtual std::string tuningKey(const TargetDesc &target) const = 0;
};

/// All targets, in the order of their lines in TargetRegistry.cpp.
std::span<const Target *const> allTargets();

/// An InternalError where two have one name: the second would never be found.
Status checkTargets(std::span<const Target *const> targets);

/// The target of that name, or null.
const Target *findTarget(std::string_view name);

} // namespace knapper
