//===- UserKernels.h - Kernels that a user brings -------------------------===//
//
// `--kernels FILE` names kernels written by hand: an object file or PTX, the
// signature of the kernel that each computes, and its launch. They enter the
// same selection as our schedules: a tuning record decides, which
// `knapper tune` writes from measurements, or the file (`"always"`).
// docs/user-kernels.md is the format and the calling convention.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/kernels/KernelSet.h"
#include "targets/Target.h"
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// One entry of the file, checked but for what only the kernel tells.
struct UserKernel {
  std::string name;      ///< of the file's own: reports and records say it
  std::string signature; ///< of the kernel that it computes
  std::string target;    ///< Target::name()
  std::string isa;       ///< the least that it needs
  /// In the kernel's symbols k0, k1, ...: programs, the least of them worth a
  /// thread, bytes of scratch a worker. On a GPU a program is a CTA.
  std::string grid, grain = "1", scratch = "0";
  bool always = false;  ///< taken whatever records say
  bool inPlace = false; ///< a result may lie over an operand of its size
  /// Whether the file says something that CPUs, or GPUs, do not have.
  bool saysCpu = false, saysGpu = false;
  GivenCode code;
};

/// Reads the file and the code files that it names, relative to its folder. A
/// UserError names the entry and the key.
Expected<std::vector<UserKernel>> readUserKernels(const std::string &path);

/// What a file of user kernels says, its code included: for cache keys.
std::string userKernelsText(std::span<const UserKernel> kernels);

/// What the names of user kernels begin with as knobs: of tuning records.
inline constexpr const char *kUserKnob = "user:";

/// Takes a user kernel of `unique`'s signature: the first that is to be taken
/// always, else the one that the record in `knobs` takes. Each of the others is
/// offered as the knob "user:NAME". Says in `unique.offers` what became of
/// each. `targets`: all that the artefact gets code for. UserError for a launch
/// that does not fit the kernel.
Status chooseUserKernel(UniqueKernel &unique, std::span<const UserKernel> given,
                        const Target &target,
                        std::span<const TargetDesc> targets, Knobs &knobs);

/// Why the kernel cannot run in place of `unique`, whose signature it has;
/// nothing where it can.
std::string whyNot(const UniqueKernel &unique, const UserKernel &kernel,
                   const Target &target, std::span<const TargetDesc> targets);

/// Makes `kernel` the only choice of `unique`: its one schedule is of kind
/// "user".
Status takeUserKernel(UniqueKernel &unique, const UserKernel &kernel,
                      const TargetDesc &target);

} // namespace knapper
