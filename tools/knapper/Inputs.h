//===- Inputs.h - The inputs of a run: from files, or random --------------===//
#pragma once

#include "tools/knapper/Array.h"
#include "tools/knapper/ModelArgument.h"
#include "tools/knapper/Session.h"

namespace knapper::cli {

/// The flags that say where inputs come from, and the inputs.
class Inputs {
public:
  Inputs() = default;
  /// From these files, as --input takes them.
  explicit Inputs(std::vector<std::string> files) : files(std::move(files)) {}
  void addTo(CLI::App &app);
  /// One array an input, in the order of the signature. Inputs without a file
  /// are random, the same for the same seed: numbers in [-1, 1), integers that
  /// the model takes as indices (or in [0, --integers)), other integers 0 or 1,
  /// strings short words. `dims` gives sizes that no file does; what is missing
  /// there too is chosen if it is automatic, and else named all at once.
  Expected<std::vector<Array>> make(const knapper_module *module,
                                    Dims &dims) const;
  /// The same with these sizes and no others.
  Expected<std::vector<Array>>
  make(const knapper_module *module,
       const std::vector<std::pair<std::string, int64_t>> &sizes) const;
  /// The same where every input must come from a file.
  Expected<std::vector<Array>>
  makeFromFiles(const knapper_module *module) const;

  /// The symbolic sizes that the files' arrays have; the first where they
  /// disagree.
  Expected<std::vector<std::pair<std::string, int64_t>>>
  sizesInFiles(const knapper_module *module) const;

private:
  std::vector<std::string> files;
  uint64_t seed = 0;
  int64_t integers = 0; // 0: by what the model does with them
};

Expected<knapper_tensor_info> inputInfo(const knapper_module *module,
                                        int32_t index);
Expected<knapper_tensor_info> outputInfo(const knapper_module *module,
                                         int32_t index);
std::vector<knapper_tensor> tensorsOf(const std::vector<Array> &arrays);
/// "f32 [8, 128]".
std::string typeText(const knapper_tensor &tensor);

} // namespace knapper::cli
