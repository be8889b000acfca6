// Normalisations.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using K = ts::ReduceKind;

/// 1 / sqrt(variance + epsilon) about `mean`, dims kept.
Value reciprocalDeviation(AtenNode &n, Value x, Value mean,
                          ArrayRef<int64_t> dims, double epsilon) {
  Value off = n.sub(x, mean);
  Value variance = n.mean(n.mul(off, off), dims, true);
  return n.make<ts::RsqrtOp>(n.add(variance, epsilon));
}

/// The mean and the reciprocal deviation over the last dims, as results 1, 2.
LogicalResult statistics(AtenNode &n, Value x, ArrayRef<int64_t> dims,
                         double epsilon) {
  if (!n.wants(1) && !n.wants(2))
    return mlir::success();
  Type type = n.wide();
  Value wide = n.convert(x, type), mean = n.mean(wide, dims, true);
  Value deviation = reciprocalDeviation(n, wide, mean, dims, epsilon);
  if (!mean || !deviation)
    return failure();
  if (failed(n.out(n.convert(n.reshape(mean, n.dims(1)), n.element(1)), 1)))
    return failure();
  return n.out(n.convert(n.reshape(deviation, n.dims(2)), n.element(2)), 2);
}

LogicalResult importLayerNorm(AtenNode &n) {
  Value x = n.operand("input"), weight = n.operand("weight"),
        bias = n.operand("bias");
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x);
  auto inner = static_cast<int64_t>(n.sizes("normalized_shape").size());
  double epsilon = n.real("eps", 1e-5);
  Value y = n.make<ts::LayerNormOp>(x, Optional{weight}, Optional{bias},
                                    uint64_t(rank - inner),
                                    llvm::APFloat(epsilon), bool(false));
  if (failed(n.out(y)))
    return failure();
  return statistics(
      n, x, llvm::to_vector(llvm::seq<int64_t>(rank - inner, rank)), epsilon);
}

LogicalResult importRmsNorm(AtenNode &n) {
  Value x = n.operand("input"), weight = n.operand("weight");
  if (!x)
    return failure();
  int64_t rank = ts::rankOf(x);
  auto inner = static_cast<int64_t>(n.sizes("normalized_shape").size());
  auto element = cast<FloatType>(ts::elementTypeOf(x));
  double smallest = element.isF64()    ? 2.220446049250313e-16
                    : element.isF16()  ? 9.765625e-4
                    : element.isBF16() ? 7.8125e-3
                                       : 1.1920928955078125e-07;
  double epsilon = n.real("eps", smallest);
  Value y = n.make<ts::LayerNormOp>(x, Optional{weight}, Optional{Value()},
                                    uint64_t(rank - inner),
                                    llvm::APFloat(epsilon), bool(true));
  if (failed(n.out(y)) || !n.wants(1))
    return n.failed() ? failure() : mlir::success();
  Value wide = n.convert(x, n.wide());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(rank - inner, rank));
  Value r = n.make<ts::RsqrtOp>(
      n.add(n.mean(n.mul(wide, wide), dims, true), epsilon));
  return n.out(r ? n.convert(n.reshape(r, n.dims(1)), n.element(1)) : r, 1);
}

/// y = x * scale + shift, a number a channel (dim 1).
Value perChannel(AtenNode &n, Value x, Value scale, Value shift) {
  if (!x || !scale || !shift)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  return n.add(n.mul(x, n.broadcastAt(scale, {1}, dims)),
               n.broadcastAt(shift, {1}, dims));
}

LogicalResult importBatchNormInference(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("input", type), mean = n.operand("running_mean", type),
        variance = n.operand("running_var", type);
  if (!x || !mean || !variance)
    return failure();
  Value scale = n.make<ts::RsqrtOp>(n.add(variance, n.real("eps", 1e-5)));
  if (n.has("weight"))
    scale = n.mul(scale, n.operand("weight", type));
  Value shift = n.mul(n.make<ts::NegOp>(mean), scale);
  if (n.has("bias"))
    shift = n.add(shift, n.operand("bias", type));
  if (failed(n.out(perChannel(n, x, scale, shift))))
    return failure();
  for (size_t i : {1, 2}) // nothing is saved
    if (n.wants(i) &&
        failed(n.out(n.broadcastTo(n.scalar(0, n.element(i)), n.dims(i)), i)))
      return failure();
  return mlir::success();
}

LogicalResult importGroupNorm(AtenNode &n) {
  Type type = n.wide();
  Value x = n.operand("input", type);
  if (!x)
    return failure();
  SmallVector<Dim> dims = ts::dimsOf(x), given = dims;
  int64_t groups = n.integer("group", 1);
  std::optional<Dim> perGroup = dims[1].exactDiv(n.dim(groups));
  if (!perGroup && !dims[1].isSymbolic())
    return n.unsupported("channels that do not divide into groups");
  if (!perGroup) { // torch has asked for it; the run checks
    perGroup = dims[1].floorDiv(n.dim(groups));
    dims[1] = *perGroup * groups;
    x = n.castDims(x, dims);
  }
  SmallVector<Dim> split{dims[0], n.dim(groups), *perGroup};
  SmallVector<int64_t> over{2};
  for (size_t i = 2; i < dims.size(); ++i) {
    over.push_back(static_cast<int64_t>(split.size()));
    split.push_back(dims[i]);
  }
  Value parts = n.reshape(x, split), mean = n.mean(parts, over, true);
  double epsilon = n.real("eps", 1e-5);
  Value deviation = reciprocalDeviation(n, parts, mean, over, epsilon);
  Value y = n.reshape(n.mul(n.sub(parts, mean), deviation), dims);
  y = n.castDims(y, given);
  if (n.has("weight"))
    y = n.mul(y, n.broadcastAt(n.operand("weight", type), {1}, given));
  if (n.has("bias"))
    y = n.add(y, n.broadcastAt(n.operand("bias", type), {1}, given));
  if (failed(n.out(y)))
    return failure();
  if (n.wants(1) &&
      failed(n.out(n.convert(n.reshape(mean, n.dims(1)), n.element(1)), 1)))
    return failure();
  return n.wants(2)
             ? n.out(n.convert(n.reshape(deviation, n.dims(2)), n.element(2)),
                     2)
             : mlir::success();
}

constexpr AtenRow rows[] = {
    {"aten._fused_rms_norm.default", importRmsNorm},
    {"aten._native_batch_norm_legit_no_training.default",
     importBatchNormInference},
    {"aten.native_group_norm.default", importGroupNorm},
    {"aten.native_layer_norm.default", importLayerNorm},
};

} // namespace

ArrayRef<AtenRow> atenNormalizationRows() { return rows; }

} // namespace knapper
