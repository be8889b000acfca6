// Operators that are found by domain and name, and how they are called.
#pragma once

#include "runtime/base/Error.h"
#include "runtime/operators/Attributes.h"

#include <functional>
#include <string_view>

namespace knapper {

/// The node that an operator is called for.
struct OperatorNode {
  std::string where; // for messages
  int64_t version = 1;
  std::shared_ptr<const OperatorAttributes> attributes;
};

/// Gives memory for the bytes of strings; null when there is none.
using AllocateText = std::function<void *(size_t bytes)>;

/// One registered operator; its functions may be called from several threads.
class Operator {
public:
  /// Takes over `given.user`.
  explicit Operator(const knapper_operator &given);
  ~Operator();
  Operator(const Operator &) = delete;
  Operator &operator=(const Operator &) = delete;

  const std::string &domain() const { return domainName; }
  const std::string &name() const { return operatorName; }
  /// Whether it takes addresses of a device.
  bool onDevice() const { return given.on_device != 0; }

  /// Fills in dtype and shape of each result. `running`: every size is a number
  /// and inputs have data; else a size may be negative. What comes back is
  /// checked: a dtype and a rank that there are, sizes that are numbers, or
  /// (not running) -1 or a negative one of an input. UserError otherwise.
  Status shapes(const OperatorNode &node,
                std::span<const knapper_tensor> inputs, bool running,
                std::span<knapper_result_shape> results) const;
  Status compute(const OperatorNode &node,
                 std::span<const knapper_tensor> inputs,
                 std::span<const knapper_tensor> outputs,
                 const AllocateText &allocate, void *stream = nullptr) const;

private:
  knapper_operator given;
  std::string domainName, operatorName;
};

/// "my.domain.MyOp".
std::string operatorText(std::string_view domain, std::string_view name);

} // namespace knapper
