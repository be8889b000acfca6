//===- VendorKernels.h - Kernels that a vendor's library may compute ------===//
//
// With `--vendor` the matmuls of a target's libraries (oneDNN, cuBLASLt) enter
// the same selection as our schedules and the user's kernels: a tuning record
// decides, which `knapper tune` writes from measurements, or `--vendor-always`.
// A kernel that takes one keeps a schedule of ours, which runs where the
// library does not lie. docs/vendor-libraries.md.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/kernels/KernelSet.h"
#include "compiler/options/Options.h"
#include "targets/Target.h"

namespace knapper {

/// The libraries of --vendor. A UserError names the word that there is not.
Expected<std::vector<VendorLibrary>> vendorsOf(const Options &options);

/// What the names of libraries begin with as knobs: of tuning records.
inline constexpr const char *kVendorKnob = "vendor:";

/// The matmul that a library would compute in place of the kernel, or why
/// there is none.
struct VendorMatch {
  std::optional<VendorCandidate> matmul;
  std::string why;
};
VendorMatch matchVendorMatmul(ts::KernelOp kernel, VendorLibrary library);

/// Offers the libraries of `asked` that the target has as the knobs
/// "vendor:NAME", and takes the one that the record in `knobs`, or
/// --vendor-always, takes; none with --deterministic. Says in
/// `unique.vendorOffers` what became of each.
Status chooseVendor(UniqueKernel &unique, std::span<const VendorLibrary> asked,
                    const Options &options, const Target &target,
                    const TargetDesc &desc, Knobs &knobs);

/// Makes the library the first choice of `unique`. The schedules behind it read
/// constants as they lie in the model, as the library does.
Status takeVendor(UniqueKernel &unique, VendorCandidate candidate,
                  const TargetDesc &desc);

} // namespace knapper
