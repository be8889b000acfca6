#include "runtime/numeric/Boxes.h"
#include "runtime/numeric/NumericOperators.h"
#include "runtime/operators/HostDomain.h"

#include <algorithm>

namespace knapper::numeric {
namespace {

enum Input { boxesInput, scoresInput, mostInput, limitInput, leastInput };

template <typename T> T numberOf(const knapper_call *call, Input input) {
  return *static_cast<const T *>(call->inputs[input].data);
}

/// What the call gives is of the dtype and the rank.
bool is(const knapper_call *call, Input input, knapper_dtype dtype,
        int32_t rank) {
  const knapper_tensor &x = call->inputs[input];
  return x.dtype == dtype && x.rank == rank;
}

/// How many boxes a class may keep.
int64_t mostOf(const knapper_call *call) {
  return std::clamp<int64_t>(numberOf<int64_t>(call, mostInput), 0,
                             call->inputs[scoresInput].shape[2]);
}

/// The call may be of a damaged artefact.
int shape(void *, const knapper_call *call, knapper_result_shape *results) {
  bool good = call->num_inputs == 5 && call->num_outputs == 2 &&
              is(call, boxesInput, KNAPPER_F32, 3) &&
              is(call, scoresInput, KNAPPER_F32, 3) &&
              is(call, mostInput, KNAPPER_I64, 0) &&
              is(call, limitInput, KNAPPER_F32, 0) &&
              is(call, leastInput, KNAPPER_F32, 0);
  if (good) {
    const knapper_tensor &boxes = call->inputs[boxesInput],
                         &scores = call->inputs[scoresInput];
    good = boxes.shape[0] == scores.shape[0] && boxes.shape[2] == 4 &&
           boxes.shape[1] == scores.shape[2] &&
           scores.shape[2] <= int64_t(UINT32_MAX);
  }
  if (!good)
    return failCall(call, "the operator is called with other tensors than it "
                          "takes: the file is damaged");
  const knapper_tensor &scores = call->inputs[scoresInput];
  int64_t rows = scores.shape[0] * scores.shape[1] * mostOf(call);
  results[0] = {KNAPPER_I64, 2, {rows, 3}};
  results[1] = {KNAPPER_I64, 0, {}};
  return 0;
}

int compute(void *, const knapper_call *call) {
  const knapper_tensor &scores = call->inputs[scoresInput];
  SuppressionRule rule = {mostOf(call), numberOf<float>(call, limitInput),
                          numberOf<float>(call, leastInput),
                          integerOf(call, "centred", 0) != 0};
  auto *boxes = static_cast<const float *>(call->inputs[boxesInput].data);
  auto *line = static_cast<const float *>(scores.data);
  auto *begin = static_cast<int64_t *>(call->outputs[0].data), *to = begin;
  int64_t count = scores.shape[2];
  std::vector<int64_t> kept;
  for (int64_t image = 0; image < scores.shape[0]; ++image)
    for (int64_t kind = 0; kind < scores.shape[1]; ++kind, line += count) {
      keepBest(boxes + image * count * 4, line, count, rule, kept);
      for (int64_t place : kept)
        for (int64_t part : {image, kind, place})
          *to++ = part;
    }
  *static_cast<int64_t *>(call->outputs[1].data) = (to - begin) / 3;
  std::fill(to, begin + call->outputs[0].bytes / sizeof(int64_t), 0);
  return 0;
}

} // namespace

std::vector<knapper_operator> boxOperators() {
  return {{sizeof(knapper_operator), kHostDomain, "BoxSuppression", shape,
           compute, nullptr, nullptr}};
}

} // namespace knapper::numeric
