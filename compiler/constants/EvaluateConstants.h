//===- EvaluateConstants.h - Values that depend on constants only ---------===//
//
// What is computed from `ts.weight` and `ts.constant` alone (a transposed
// weight, a folded batch norm) stays in the module as ops and is evaluated
// once, when the artefact is packed. Movement is lazy: transposes, slices and
// broadcasts only change strides, so that packing reads a weight straight from
// its mapped file. Elementwise ops on f32 and conversions run as plain
// vectorised loops, everything else through the reference evaluator.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/constants/ConstantFiles.h"
#include "compiler/constants/PackPanels.h"
#include "ir/tensor/reference/HostTensor.h"

namespace knapper {

/// A value in memory, perhaps with strides (in elements, may be 0 or negative).
struct ConstantView {
  const uint8_t *data = nullptr; ///< the element at index 0; any alignment
  DType dtype = DType::f32;
  ts::Shape dims;
  ts::Shape strides;
  std::shared_ptr<const void> owner; ///< keeps `data` alive

  int64_t elements() const { return *ts::elementCountOf(dims); }
  uint64_t bytes() const { return elements() * byteSize(dtype); }
  /// Row-major without gaps.
  bool isDense() const;
  /// Writes the elements row-major to `out`, which holds bytes().
  void copyTo(void *out, unsigned threads = 1) const;
  /// This view if dense, else a dense copy.
  ConstantView dense(unsigned threads = 1) const;
};

struct EvaluateConstantsOptions {
  unsigned threads = 1;
  /// An intermediate value above this is refused.
  uint64_t maxBytes = uint64_t(8) << 30;
};

/// The value of a constant expression (ts::isConstantExpression). Intermediate
/// values are freed after their last use. Safe from several threads at once on
/// one module, as long as nothing changes it. UserError for what the data or
/// files decide and for more memory than memoryOfConstant allows, DeviceError
/// when there is no such memory, InternalError when the value is no constant
/// expression.
Expected<ConstantView>
evaluateConstant(mlir::Value value, const ConstantFiles &files,
                 const EvaluateConstantsOptions &options = {});

/// Packs a view of rank 2 or more as matrices of the last two dims: K x N, or
/// N x K with `transposed`; leading dims repeat. See packPanels.
/// `out` holds the leading matmul times packedPanelBytes(k, n, width, dtype).
void packPanels(void *out, const ConstantView &view, bool transposed,
                int64_t width, unsigned threads = 1);

} // namespace knapper
