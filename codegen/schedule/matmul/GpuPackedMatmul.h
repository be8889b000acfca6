// Which ts.packed_dot ops a GPU's schedule takes whole. Callers: the GPU's
// plug-in and GpuPackedMatmul.cpp.
#pragma once

#include "ir/tensor/PackedDot.h"

namespace knapper {

/// Rows up to which a kernel multiplies the integers. With more rows it
/// multiplies a float matrix that is made of them (expandForManyRows).
inline constexpr int64_t kMostPackedRows = 32;

/// Whether GPUs read the integers of this matmul in place: K is a constant, and
/// accesses of 4 bytes or more reach each column and each group. Otherwise the
/// op is decomposed before kernels are formed.
bool takesPackedDot(ts::PackedDotOp op);

} // namespace knapper
