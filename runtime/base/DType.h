// Element types, shared by the C API, the artefact and the compiler. Values are
// part of the file format and of the C API: append only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace knapper {

enum class DType : uint8_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  f64 = 3,
  i1 = 4, // one byte an element, 0 or 1
  i8 = 5,
  u8 = 6,
  i16 = 7,
  i32 = 8,
  i64 = 9,
};
inline constexpr unsigned kNumDTypes = 10;

/// Bytes one element takes in memory.
constexpr size_t byteSize(DType type) {
  constexpr uint8_t sizes[kNumDTypes] = {4, 2, 2, 8, 1, 1, 1, 2, 4, 8};
  return sizes[static_cast<uint8_t>(type)];
}

/// "f32", "bf16", ...
constexpr std::string_view name(DType type) {
  constexpr std::string_view names[kNumDTypes] = {
      "f32", "f16", "bf16", "f64", "i1", "i8", "u8", "i16", "i32", "i64"};
  return names[static_cast<uint8_t>(type)];
}

constexpr std::optional<DType> parseDType(std::string_view text) {
  for (uint8_t i = 0; i < kNumDTypes; ++i)
    if (name(static_cast<DType>(i)) == text)
      return static_cast<DType>(i);
  return std::nullopt;
}

} // namespace knapper
