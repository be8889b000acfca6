//===- KernelSet.h - Equal kernels once -----------------------------------===//
//
// The kernels of a module in canonical form: symbols renamed k0, k1, ... in
// order of appearance, locations dropped, operands as typed arguments. Equal
// kernels of a model (the layers of a transformer) become one entry, which is
// scheduled and compiled once; each launch keeps what its symbols stand for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/core/Schedule.h"
#include "compiler/kernels/VendorCandidate.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace knapper {

/// What became of a kernel that a user brought for this one.
struct UserKernelOffer {
  enum class Outcome {
    always,   ///< taken: its file says so
    recorded, ///< taken by a tuning record
    dumped,   ///< taken by the dump that the compile began with
    refused,  ///< cannot run: `detail` says why
    another,  ///< another one was taken: `detail`, its name
    unmeasured,
  };
  std::string name;
  Outcome outcome = Outcome::unmeasured;
  std::string detail = {};

  bool isTaken() const { return outcome <= Outcome::dumped; }
  std::string why() const; ///< for reports
};

/// What became of a library of --vendor for a kernel.
struct VendorOffer {
  std::string name;
  bool taken = false;
  std::string why;
};

struct UniqueKernel {
  std::string text; ///< canonical module, for other contexts
  /// 16 hex digits, equal in every process, of the text and `constants`.
  std::string signature;
  std::vector<std::string> symbols;
  llvm::SmallVector<bool> constants; ///< which operands are constants
  mlir::OwningOpRef<mlir::Operation *> module;
  ts::KernelOp kernel; ///< inside `module`
  llvm::SmallVector<Schedule> schedules;
  std::vector<std::string> scheduleTexts; ///< the same for other contexts
  std::vector<tune::Knob> knobs;          ///< what could be chosen otherwise
  bool recorded = false;                  ///< a tuning record decided
  double gain = 1; ///< of that record: the model's time over its choice's
  std::string userKernel; ///< the user's kernel that was taken, if any
  std::vector<UserKernelOffer> offers;
  /// A library's matmul that runs before the schedules, where it lies.
  std::optional<VendorCandidate> vendor;
  std::vector<VendorOffer> vendorOffers;

  void setSchedules(llvm::SmallVector<Schedule> chosen);
  /// Of the function that schedule `index` becomes.
  std::string functionName(size_t index) const;
  /// Of the entry that stands for the library's matmul.
  std::string vendorName() const;
  /// Of schedule `index`, for reports.
  std::string label(size_t index) const;
};

struct KernelUse {
  unsigned kernel;                     ///< index into the set
  llvm::SmallVector<ts::Dim> bindings; ///< per symbol of the unique kernel
};

class KernelSet {
public:
  /// Adds the kernel or finds its equal. Which operands are constants is part
  /// of a kernel's identity, since schedules read packed ones.
  KernelUse add(ts::KernelOp kernel, llvm::ArrayRef<bool> constants);
  std::vector<UniqueKernel> kernels;

private:
  llvm::StringMap<unsigned> bySignature;
};

/// The kernel of a canonical module, its constant operands marked in the
/// attribute `ts.constants` (an i1 array) for schedules to read.
ts::KernelOp findKernel(mlir::Operation *module,
                        llvm::ArrayRef<bool> constants);

/// The dim in terms of the launch: canonical symbols replaced.
ts::Dim bind(ts::Dim dim, const UniqueKernel &kernel, const KernelUse &use);

} // namespace knapper
