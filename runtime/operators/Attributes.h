// Attributes of a node as the C API shows them to operators.
#pragma once

#include "knapper/knapper.h"
#include "runtime/base/DType.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// One attribute, as `kind` says: a single integer, real or text is a list of
/// one. A tensor's dims are `integers`, its dense elements `bytes`.
struct OperatorAttribute {
  std::string name;
  knapper_attribute_kind kind = KNAPPER_ATTRIBUTE_INT;
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::string> texts;
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;
};

/// Owns attributes and their form in the C API. Immutable: any number of calls
/// may look at it.
class OperatorAttributes {
public:
  explicit OperatorAttributes(std::vector<OperatorAttribute> attributes);
  OperatorAttributes(const OperatorAttributes &) = delete;
  OperatorAttributes &operator=(const OperatorAttributes &) = delete;

  std::span<const knapper_attribute> list() const { return views; }
  const std::vector<OperatorAttribute> &all() const { return attributes; }

private:
  const std::vector<OperatorAttribute> attributes;
  std::vector<std::vector<knapper_string>> strings; // one list an attribute
  std::vector<knapper_tensor> tensors;              // one an attribute
  std::vector<knapper_attribute> views;
};

} // namespace knapper
