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
  u16 = 10,
  u32 = 11,
  u64 = 12,
  // Storage types: a value is converted before anything is computed with it.
  // One byte an element each; the narrow ones hold their value in the low bits
  // (signed ones extended to the byte when written, the high bits ignored when
  // read), as ml_dtypes does.
  f8e4m3fn = 13,
  f8e4m3fnuz = 14,
  f8e5m2 = 15,
  f8e5m2fnuz = 16,
  f8e8m0 = 17,
  f4e2m1 = 18,
  i4 = 19,
  u4 = 20,
  i2 = 21,
  u2 = 22,
  text = 23, // a knapper_string an element, in the host's memory
  // Storage types too.
  f8e4m3 = 24,
  f8e3m4 = 25,
  f8e4m3b11fnuz = 26,
  f6e2m3 = 27,
  f6e3m2 = 28,
};
inline constexpr unsigned kNumDTypes = 29;

/// Bytes one element takes in memory.
constexpr size_t byteSize(DType type) {
  constexpr uint8_t sizes[kNumDTypes] = {4, 2, 2, 8,  1, 1, 1, 2, 4, 8,
                                         2, 4, 8, 1,  1, 1, 1, 1, 1, 1,
                                         1, 1, 1, 16, 1, 1, 1, 1, 1};
  return sizes[static_cast<uint8_t>(type)];
}

/// "f32", "bf16", ...
constexpr std::string_view name(DType type) {
  constexpr std::string_view names[kNumDTypes] = {
      "f32",    "f16",        "bf16",
      "f64",    "i1",         "i8",
      "u8",     "i16",        "i32",
      "i64",    "u16",        "u32",
      "u64",    "f8e4m3fn",   "f8e4m3fnuz",
      "f8e5m2", "f8e5m2fnuz", "f8e8m0",
      "f4e2m1", "i4",         "u4",
      "i2",     "u2",         "string",
      "f8e4m3", "f8e3m4",     "f8e4m3b11fnuz",
      "f6e2m3", "f6e3m2"};
  return names[static_cast<uint8_t>(type)];
}

constexpr bool isUnsigned(DType type) {
  return type == DType::u8 || (type >= DType::u16 && type <= DType::u64) ||
         type == DType::u4 || type == DType::u2;
}
/// Floating-point, storage types among them.
constexpr bool isFloat(DType type) {
  return type <= DType::f64 ||
         (type >= DType::f8e4m3fn && type <= DType::f4e2m1) ||
         type >= DType::f8e4m3;
}
/// Moved and converted, but never computed with.
constexpr bool isStorage(DType type) {
  return type >= DType::f8e4m3fn && type != DType::text;
}

constexpr std::optional<DType> parseDType(std::string_view text) {
  for (uint8_t i = 0; i < kNumDTypes; ++i)
    if (name(static_cast<DType>(i)) == text)
      return static_cast<DType>(i);
  return std::nullopt;
}

} // namespace knapper
