#include "runtime/execute/LastCall.h"

#include <cstring>

namespace knapper {
namespace {

uint64_t addressOf(const void *data) {
  return reinterpret_cast<uintptr_t>(data);
}

/// Dtype and rank; as bits, for C callers may have put any number there.
uint64_t kindOf(const knapper_tensor &tensor) {
  uint32_t dtype;
  static_assert(sizeof dtype == sizeof tensor.dtype);
  memcpy(&dtype, &tensor.dtype, sizeof dtype);
  return uint64_t{dtype} << 32 | static_cast<uint32_t>(tensor.rank);
}
/// Whether the dims are these; memory without a shape may have any.
bool hasDims(const knapper_tensor &tensor, const uint64_t *dims) {
  if (tensor.rank > 0 && !tensor.shape)
    return false;
  for (int32_t d = 0; d < tensor.rank; ++d)
    if (dims[d] != static_cast<uint64_t>(tensor.shape[d]))
      return false;
  return true;
}

} // namespace

void LastCall::note(std::span<const knapper_tensor> in,
                    std::span<const knapper_tensor> out,
                    std::span<const knapper_tensor> made) {
  words.clear();
  size_t count = 0; // none of what follows may fail half way
  for (const knapper_tensor &t : in)
    count += 3 + static_cast<size_t>(t.rank);
  for (const knapper_tensor &t : made)
    count += 5 + static_cast<size_t>(t.rank);
  words.reserve(count);
  inputs = in.size(), outputs = out.size(), dims = 0;
  for (const knapper_tensor &t : in) {
    words.insert(words.end(), {addressOf(t.data), t.bytes, kindOf(t)});
    words.insert(words.end(), t.shape, t.shape + t.rank);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const knapper_tensor &t = made[i];
    words.insert(words.end(), {addressOf(out[i].data), out[i].bytes,
                               kindOf(out[i]), t.bytes, kindOf(t)});
    words.insert(words.end(), t.shape, t.shape + t.rank);
    dims += static_cast<size_t>(t.rank);
  }
}

bool LastCall::repeats(std::span<const knapper_tensor> in,
                       std::span<const knapper_tensor> out, TensorList &made,
                       ShapeList &shapes) const {
  if (words.empty() || in.size() != inputs || out.size() != outputs)
    return false;
  const uint64_t *at = words.data();
  for (const knapper_tensor &t : in) {
    // A rank that is the noted one is that of a shape.
    if (at[0] != addressOf(t.data) || at[1] != t.bytes || at[2] != kindOf(t) ||
        !hasDims(t, at + 3))
      return false;
    at += 3 + t.rank;
  }
  const uint64_t *first = at;
  for (const knapper_tensor &t : out) {
    // Of a shape that was given, the noted run has found the rank right.
    if (at[0] != addressOf(t.data) || at[1] != t.bytes || at[2] != kindOf(t) ||
        !hasDims(t, at + 5))
      return false;
    at += 5 + static_cast<uint32_t>(at[4]);
  }
  made.resize(outputs);
  shapes.resize(dims);
  int64_t *shape = shapes.data();
  at = first;
  for (size_t i = 0; i < outputs; ++i) {
    auto rank = static_cast<int32_t>(at[4]);
    made[i] = {out[i].data, at[3], out[i].dtype, rank, shape};
    for (at += 5; rank > 0; --rank)
      *shape++ = static_cast<int64_t>(*at++);
  }
  return true;
}

} // namespace knapper
