#include "capi/pjrt/PjrtTypes.h"
#include <iterator>

namespace knapper::pjrt {

namespace {

constexpr int kNone = -1;

struct TypeRow {
  Type type;
  size_t bytes;
  int dtype;
  const char *name;
};

constexpr TypeRow kRows[] = {
    {Type::invalid, 0, kNone, "invalid"},
    {Type::pred, 1, KNAPPER_I1, "bool"},
    {Type::s8, 1, KNAPPER_I8, "i8"},
    {Type::s16, 2, KNAPPER_I16, "i16"},
    {Type::s32, 4, KNAPPER_I32, "i32"},
    {Type::s64, 8, KNAPPER_I64, "i64"},
    {Type::u8, 1, KNAPPER_U8, "u8"},
    {Type::u16, 2, KNAPPER_U16, "u16"},
    {Type::u32, 4, KNAPPER_U32, "u32"},
    {Type::u64, 8, KNAPPER_U64, "u64"},
    {Type::f16, 2, KNAPPER_F16, "f16"},
    {Type::f32, 4, KNAPPER_F32, "f32"},
    {Type::f64, 8, KNAPPER_F64, "f64"},
    {Type::bf16, 2, KNAPPER_BF16, "bf16"},
    {Type::c64, 8, kNone, "complex64"},
    {Type::c128, 16, kNone, "complex128"},
    {Type::f8e5m2, 1, KNAPPER_F8E5M2, "f8e5m2"},
    {Type::f8e4m3fn, 1, KNAPPER_F8E4M3FN, "f8e4m3fn"},
    {Type::f8e4m3b11fnuz, 1, KNAPPER_F8E4M3B11FNUZ, "f8e4m3b11fnuz"},
    {Type::f8e5m2fnuz, 1, KNAPPER_F8E5M2FNUZ, "f8e5m2fnuz"},
    {Type::f8e4m3fnuz, 1, KNAPPER_F8E4M3FNUZ, "f8e4m3fnuz"},
    {Type::s4, 1, KNAPPER_I4, "i4"},
    {Type::u4, 1, KNAPPER_U4, "u4"},
    {Type::token, 0, kNone, "token"},
    {Type::s2, 1, KNAPPER_I2, "i2"},
    {Type::u2, 1, KNAPPER_U2, "u2"},
    {Type::f8e4m3, 1, KNAPPER_F8E4M3, "f8e4m3"},
    {Type::f8e3m4, 1, KNAPPER_F8E3M4, "f8e3m4"},
    {Type::f8e8m0fnu, 1, KNAPPER_F8E8M0, "f8e8m0fnu"},
    {Type::f4e2m1fn, 1, KNAPPER_F4E2M1, "f4e2m1fn"},
};

const TypeRow &rowOf(Type type) {
  auto index = static_cast<size_t>(type);
  return index < std::size(kRows) ? kRows[index] : kRows[0];
}

} // namespace

size_t elementBytes(Type type) { return rowOf(type).bytes; }

const char *nameOf(Type type) { return rowOf(type).name; }

std::optional<Type> typeOf(knapper_dtype dtype) {
  for (const TypeRow &row : kRows)
    if (row.dtype == static_cast<int>(dtype))
      return row.type;
  return std::nullopt;
}

std::optional<knapper_dtype> dtypeOf(Type type) {
  int dtype = rowOf(type).dtype;
  if (dtype == kNone)
    return std::nullopt;
  return static_cast<knapper_dtype>(dtype);
}

} // namespace knapper::pjrt
