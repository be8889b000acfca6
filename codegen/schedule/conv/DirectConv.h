//===- DirectConv.h - Convolutions that threads compute as they lie -------===//
//
// The problem that GpuDirectConv.cpp builds and GpuDirectConvChoose.cpp
// chooses.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "ir/tensor/Dialect.h"

namespace knapper {

/// A convolution over two spatial dims, channels first: floats of one type, at
/// most 32 bits, a window and channels of constant size, any strides, dilations
/// and groups, an input with elements.
struct DirectConv {
  ts::ConvOp op;
  llvm::SmallVector<ts::Dim> input, output; ///< image, channel, row, column
  int64_t groups = 1, channels = 0, features = 0; ///< of a group
  int64_t kh = 0, kw = 0;                         ///< taps
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;         ///< strides, dilations

  /// A dim of the window that may reach outside; 0: rows.
  bool isPadded(unsigned dim) const;
};
std::optional<DirectConv> directConvOf(ts::ConvOp op);

/// What a thread computes: `rows` results of `features` features, and what all
/// threads take by the model.
struct DirectShape {
  int64_t features = 0, rows = 0;
  double seconds = 0;
};
/// The shape with the least modelled time; nothing where the code of a thread
/// would be too long or keep too much in registers.
std::optional<DirectShape> directShapeOf(const DirectConv &conv,
                                         const TargetDesc &target);

} // namespace knapper
