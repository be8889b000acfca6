// Object files that somebody else compiled, beside those of a compile.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

/// Given objects of the jobs of one link. Each different one is linked once,
/// under names of its own: nothing of it is taken for a kernel of ours, or for
/// what another one defines.
class GivenObjects {
public:
  /// UserError unless each is a relocatable object for x86-64 that defines its
  /// entry, and is whole.
  static Expected<GivenObjects> of(std::span<const KernelJob> jobs);

  const std::vector<std::string> &objects() const { return made; }
  /// The entries, as the objects name them.
  const std::vector<std::string> &roots() const { return names; }
  /// Gives the entries of an image their jobs' names.
  void nameEntries(KernelImage &image) const;
  /// What linking says of given objects is their authors' to mend.
  Error linkError(Error error) const;

private:
  struct Entry {
    std::string job, name;
  };
  std::vector<std::string> made, names, paths;
  std::vector<Entry> entries;
};

} // namespace knapper
