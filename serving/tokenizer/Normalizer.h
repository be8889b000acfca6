// The normalisers of a tokenizer.json: text to text, before it is split.
#pragma once

#include "runtime/base/Error.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace knapper::serving {

class Normalizer {
public:
  virtual ~Normalizer() = default;
  /// Changes the text, which is valid UTF-8, in place. Thread-safe.
  virtual void apply(std::string &text) const = 0;

  /// Of a "normalizer" entry; null for null. UserError for a kind that is not
  /// known, or one that lacks what it needs.
  static Expected<std::unique_ptr<Normalizer>> read(const nlohmann::json &json);
};

} // namespace knapper::serving
