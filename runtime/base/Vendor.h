// What libraries of hardware vendors may compute for us: the words that the
// artefact, the compiler and the drivers share.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace knapper {

/// In the order of fb::VendorLibrary.
enum class VendorLibrary : uint8_t { none, onednn, cublaslt };

inline constexpr std::string_view kVendorLibraries[] = {"none", "onednn",
                                                        "cublaslt"};

/// The word of --vendor.
inline std::string_view name(VendorLibrary library) {
  return kVendorLibraries[static_cast<uint8_t>(library)];
}

/// In the order of fb::VendorActivation.
enum class VendorActivation : uint8_t { none, relu, gelu, geluTanh };

/// Matrices inside an argument of a launch; offset and strides in elements.
struct VendorMatrix {
  uint32_t arg = 0;
  DType dtype = DType::f32;
  int64_t offset = 0, rowStride = 0, columnStride = 0;
  std::vector<int64_t> batchStrides;
};

/// result[b, m, n] = activation(sum over k of lhs[b, m, k] * rhs[b, k, n] +
/// bias[n]), summed in float32. Sizes are above zero, strides and offsets not
/// below it, and all of it lies inside the arguments.
struct VendorMatmul {
  VendorLibrary library = VendorLibrary::none;
  std::vector<int64_t> batch;
  int64_t rows = 0, columns = 0, depth = 0;
  VendorMatrix lhs, rhs, result;
  std::optional<VendorMatrix> bias;
  VendorActivation activation = VendorActivation::none;
  bool tf32 = false; // operands of f32 may be rounded to it
};

} // namespace knapper
