// The weights of a Hugging Face folder: one safetensors file or its shards.
#pragma once

#include "serving/models/Safetensors.h"

namespace knapper::serving {

/// Where each tensor lies. Immutable.
class Checkpoint {
public:
  struct Tensor : StoredTensor {
    uint32_t file = 0; ///< of `files()`
  };

  /// model.safetensors.index.json and the shards it names, or
  /// model.safetensors. UserError for what is missing or does not fit
  /// together, and for folders that hold other formats only.
  static Expected<Checkpoint> open(const std::string &folder);

  /// Paths, in the order of `Tensor::file`.
  const std::vector<std::string> &files() const { return paths; }
  /// Null if there is none of this name.
  const Tensor *find(const std::string &name) const;
  const std::map<std::string, Tensor> &tensors() const { return all; }

private:
  Status add(const std::string &path);

  std::vector<std::string> paths;
  std::map<std::string, Tensor> all;
};

} // namespace knapper::serving
