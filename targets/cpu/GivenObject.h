// Object files that somebody else compiled, beside those of a compile.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

/// UserError unless the code is a relocatable object for x86-64 that defines
/// the function `entry` for others.
Status checkObject(const GivenCode &given);

/// The objects and roots of a link, with each different given object once.
/// `objects` and `names` are by job, as compiled.
struct LinkInput {
  std::vector<std::string> objects, roots;
  bool hasGiven = false;
};
LinkInput linkInput(std::span<const KernelJob> jobs,
                    std::vector<std::string> objects,
                    std::span<const std::vector<std::string>> names);

/// Entries of given code get their jobs' names.
void nameEntries(std::span<const KernelJob> jobs, KernelImage &image);

/// What linking says of given objects is their author's to mend.
Error linkError(Error error, std::span<const KernelJob> jobs);

} // namespace knapper
