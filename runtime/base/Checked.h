// Arithmetic on sizes that come from files and callers: overflow is an answer,
// not a surprise.
#pragma once

#include <cstdint>
#include <optional>

namespace knapper {

inline std::optional<int64_t> checkedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    return std::nullopt;
  return r;
}
inline std::optional<int64_t> checkedSub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r))
    return std::nullopt;
  return r;
}
inline std::optional<int64_t> checkedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    return std::nullopt;
  return r;
}
/// Rounds towards minus infinity; no value for b == 0 and INT64_MIN / -1.
inline std::optional<int64_t> checkedFloorDiv(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN))
    return std::nullopt;
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline std::optional<int64_t> checkedCeilDiv(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == INT64_MIN))
    return std::nullopt;
  int64_t q = a / b;
  return q + ((a % b != 0) && ((a < 0) == (b < 0)));
}
/// The remainder that belongs to floor division: it has the sign of b.
inline std::optional<int64_t> checkedMod(int64_t a, int64_t b) {
  if (b == 0)
    return std::nullopt;
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

/// True when [offset, offset + bytes) lies inside [0, size).
inline bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

inline uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace knapper
