// Matmuls by oneDNN.
#pragma once

#include "runtime/drivers/cpu/CpuCall.h"
#include "runtime/drivers/cpu/OneDnn.h"

namespace knapper::cpu {

/// How the workers share a matmul: tiles of one size, but for what is left at
/// the end of the rows and of the columns.
struct MatmulTiles {
  int64_t batch = 1; ///< matmuls
  int64_t rows = 0, columns = 0;
  int64_t tileRows = 0, tileColumns = 0;
  int64_t down() const { return (rows + tileRows - 1) / tileRows; }
  int64_t across() const { return (columns + tileColumns - 1) / tileColumns; }
  int64_t count() const { return batch * down() * across(); }
};
MatmulTiles tilesOf(const VendorMatmul &matmul, int threads);

/// A DeviceError where oneDNN has no such matmul for this processor, or its
/// reference only, which is slower than any schedule.
Expected<std::shared_ptr<const VendorCall>>
oneDnnMatmul(std::shared_ptr<const OneDnn> library, const VendorMatmul &matmul,
             int threads);

} // namespace knapper::cpu
