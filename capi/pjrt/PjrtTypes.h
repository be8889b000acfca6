//===- PjrtTypes.h - Element types of the interface and of the C API ------===//
#pragma once

#include "capi/pjrt/PjrtAbi.h"
#include "knapper/knapper.h"
#include <optional>

namespace knapper::pjrt {

/// Bytes that an element takes in memory; 0: none that we store.
size_t elementBytes(Type type);
std::optional<Type> typeOf(knapper_dtype dtype);
/// Nothing for what the C API has no tensors of.
std::optional<knapper_dtype> dtypeOf(Type type);
/// "f32"
const char *nameOf(Type type);

} // namespace knapper::pjrt
