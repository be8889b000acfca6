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
  /// Changes the text, which is valid UTF-8, in place. UserError where it would
  /// be longer than `longestText`. Thread-safe.
  Status apply(std::string &text) const;
  static constexpr size_t longestText = size_t(256) << 20;

  /// Of a "normalizer" entry; null for null. UserError for a kind that is not
  /// known, or one that lacks what it needs.
  static Expected<std::unique_ptr<Normalizer>> read(const nlohmann::json &json);

protected:
  /// apply() without the check of what it made.
  virtual Status change(std::string &text) const = 0;
  static Status checkLength(size_t bytes);
};

} // namespace knapper::serving
