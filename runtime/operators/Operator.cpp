#include "runtime/operators/Operator.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>

namespace knapper {
namespace {

/// What the functions of `knapper_call` work on.
struct CallState {
  std::string message;
  const AllocateText *allocate = nullptr;
};

void fail(const knapper_call *call, const char *message) {
  static_cast<CallState *>(call->internal)->message = message ? message : "";
}
void *allocate(const knapper_call *call, size_t bytes) {
  auto *state = static_cast<CallState *>(call->internal);
  return state->allocate && *state->allocate ? (*state->allocate)(bytes)
                                             : nullptr;
}

knapper_call callOf(const Operator &op, const OperatorNode &node,
                    std::span<const knapper_tensor> inputs, bool running,
                    CallState &state) {
  knapper_call call = {};
  call.size = sizeof call;
  call.node = node.where.c_str();
  call.domain = op.domain().c_str();
  call.name = op.name().c_str();
  call.version = node.version;
  std::span<const knapper_attribute> attributes = node.attributes->list();
  call.num_attributes = static_cast<int32_t>(attributes.size());
  call.attributes = attributes.data();
  call.running = running;
  call.num_inputs = static_cast<int32_t>(inputs.size());
  call.inputs = inputs.data();
  call.fail = fail;
  call.allocate = allocate;
  call.internal = &state;
  return call;
}

Error failed(const Operator &op, const OperatorNode &node,
             const CallState &state, int code) {
  return userError(state.message.empty()
                       ? cat("the operator failed with code ", code)
                       : state.message,
                   node.where,
                   cat("what ", operatorText(op.domain(), op.name()),
                       " takes, or its implementation"));
}

/// Every result: the first input's dtype, the shape that the inputs broadcast
/// to.
Status broadcastShapes(std::span<const knapper_tensor> inputs,
                       std::span<knapper_result_shape> results,
                       std::string &problem) {
  knapper_result_shape shape = {};
  bool first = true;
  for (const knapper_tensor &input : inputs) {
    if (input.rank < 0)
      continue;
    if (first)
      shape.dtype = input.dtype;
    first = false;
    // Both lists are aligned at their ends.
    knapper_result_shape longer = shape;
    longer.rank = std::max(shape.rank, input.rank);
    for (int32_t d = 1; d <= longer.rank; ++d) {
      int64_t a = d <= shape.rank ? shape.shape[shape.rank - d] : 1;
      int64_t b = d <= input.rank ? input.shape[input.rank - d] : 1;
      int64_t &out = longer.shape[longer.rank - d];
      if (a == 1 || a == b)
        out = b;
      else if (b == 1)
        out = a;
      else if (a >= 0 && b >= 0)
        problem = cat("the sizes ", a, " and ", b, " do not broadcast");
      else // a number beside a size that may be 1
        out = a >= 0 ? a : b >= 0 ? b : -1;
    }
    shape = longer;
  }
  if (first)
    problem = "has no input whose shape its results could have";
  std::fill(results.begin(), results.end(), shape);
  return success();
}

} // namespace

std::string operatorText(std::string_view domain, std::string_view name) {
  return cat(domain.empty() ? "ai.onnx" : domain, ".", name);
}

Operator::Operator(const knapper_operator &definition)
    : given(definition), domainName(definition.domain),
      operatorName(definition.name) {
  given.domain = domainName.c_str();
  given.name = operatorName.c_str();
}

Operator::~Operator() {
  if (given.release)
    given.release(given.user);
}

Status Operator::shapes(const OperatorNode &node,
                        std::span<const knapper_tensor> inputs, bool running,
                        std::span<knapper_result_shape> results) const {
  CallState state;
  if (!given.shape) {
    (void)broadcastShapes(inputs, results, state.message);
    if (!state.message.empty())
      return failed(*this, node, state, 0);
  } else {
    for (knapper_result_shape &result : results)
      result = {KNAPPER_F32, -1, {}};
    knapper_call call = callOf(*this, node, inputs, running, state);
    call.num_outputs = static_cast<int32_t>(results.size());
    if (int code = given.shape(given.user, &call, results.data()))
      return failed(*this, node, state, code);
  }
  auto known = [&](int64_t size) {
    if (size >= 0 || (!running && size == -1))
      return true;
    return !running &&
           std::any_of(inputs.begin(), inputs.end(),
                       [&](const knapper_tensor &input) {
                         return input.rank > 0 &&
                                std::count(input.shape,
                                           input.shape + input.rank, size) > 0;
                       });
  };
  for (size_t i = 0; i < results.size(); ++i) {
    const knapper_result_shape &result = results[i];
    auto wrong = [&](std::string what) {
      return userError(cat("its shape function gives result ", i, " ", what),
                       node.where,
                       cat("correct the shape function of ",
                           operatorText(domainName, operatorName)));
    };
    unsigned dtype; // callers may have put any number there
    memcpy(&dtype, &result.dtype, sizeof dtype);
    if (dtype >= kNumDTypes)
      return wrong(cat("the dtype ", dtype, ", which there is not"));
    if (result.rank < 0 || result.rank > KNAPPER_MAX_RANK)
      return wrong(result.rank == -1 ? "no shape" : cat("rank ", result.rank));
    for (int32_t d = 0; d < result.rank; ++d)
      if (!known(result.shape[d]))
        return wrong(cat("the size ", result.shape[d],
                         running ? " in a run"
                                 : ", which no input has; -1 is a size that "
                                   "only a run knows"));
  }
  return success();
}

Status Operator::compute(const OperatorNode &node,
                         std::span<const knapper_tensor> inputs,
                         std::span<const knapper_tensor> outputs,
                         const AllocateText &allocateText, void *stream) const {
  CallState state;
  state.allocate = &allocateText;
  knapper_call call = callOf(*this, node, inputs, true, state);
  call.num_outputs = static_cast<int32_t>(outputs.size());
  call.outputs = outputs.data();
  call.stream = stream;
  if (int code = given.compute(given.user, &call))
    return failed(*this, node, state, code);
  return success();
}

} // namespace knapper
