// Normalisations.
#include "frontends/onnx/RuntimeSizes.h"
#include "frontends/onnx/WideFloat.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

Value rsqrtOf(Node &n, Value variance, double epsilon) {
  return n.make<ts::RsqrtOp>(n.add(variance, epsilon));
}

/// ts.layer_norm with scale and bias brought to the normalised dims.
Value layerNorm(Node &n, Value x, Value scale, Value bias, int64_t axis,
                double epsilon, bool rms) {
  if (!x)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(x);
  ArrayRef<Dim> inner = ArrayRef<Dim>(dims).drop_front(axis);
  auto fit = [&](Value value) {
    return value ? n.broadcastTo(value, inner) : value;
  };
  bool wantScale = bool(scale), wantBias = bool(bias);
  scale = fit(scale);
  bias = fit(bias);
  if ((wantScale && !scale) || (wantBias && !bias))
    return {};
  return n.make<ts::LayerNormOp>(x, Optional{scale}, Optional{bias},
                                 uint64_t(axis), llvm::APFloat(epsilon),
                                 bool(rms));
}

LogicalResult importLayerNormalization(Node &n) {
  int64_t rank = ts::rankOf(n[0]), axis = n.axis("axis", -1, rank);
  double epsilon = n.real("epsilon", 1e-5);
  if (n.failed() || failed(n.out(layerNorm(n, n[0], n[1], n[2], axis, epsilon,
                                           /*rms=*/false))))
    return failure();
  if (!n.wants(1) && !n.wants(2))
    return mlir::success();
  // The statistics, computed no less exactly than in f32, and given in f32 as
  // stash_type says.
  Value x = n[0];
  Type f32 = n.b.getF32Type();
  if (ts::elementTypeOf(x).getIntOrFloatBitWidth() < 32)
    x = n.convert(x, f32);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(axis, rank));
  Value mean = n.mean(x, axes, true);
  if (n.wants(1) && failed(n.out(n.convert(mean, f32), 1)))
    return failure();
  if (!n.wants(2))
    return mlir::success();
  Value centred = n.sub(x, mean);
  Value deviation =
      rsqrtOf(n, n.mean(n.mul(centred, centred), axes, true), epsilon);
  return n.out(n.convert(deviation, f32), 2);
}

LogicalResult importRmsNormalization(Node &n) {
  int64_t axis = n.axis("axis", -1, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  return n.out(layerNorm(n, n[0], n[1], {}, axis, n.real("epsilon", 1e-5),
                         /*rms=*/true));
}

/// A value a channel as a factor or summand of [N, C, ...].
Value perChannel(Node &n, Value value, ArrayRef<Dim> dims) {
  return n.broadcastAt(value, {1}, dims);
}

/// y = x * s + (bias - mean * s), s = scale / sqrt(variance + epsilon)
Value batchNorm(Node &n, Value x, Value mean, Value variance) {
  SmallVector<Dim> dims = ts::dimsOf(x);
  Type element = ts::elementTypeOf(x), fine = ts::elementTypeOf(variance);
  Value factor = n.mul(n.convert(n[1], fine),
                       rsqrtOf(n, variance, n.real("epsilon", 1e-5)));
  Value shift =
      n.sub(n.convert(n[2], fine), n.mul(n.convert(mean, fine), factor));
  return n.add(n.mul(x, perChannel(n, n.convert(factor, element), dims)),
               perChannel(n, n.convert(shift, element), dims));
}

/// The batch's own statistics, and how they move the running ones.
LogicalResult batchNormTraining(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Value x = n[0];
  if (ts::elementTypeOf(x).getIntOrFloatBitWidth() < 32)
    x = n.convert(x, n.b.getF32Type());
  SmallVector<int64_t> axes{0};
  for (size_t i = 2; i < dims.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  Value mean = n.mean(x, axes, false);
  if (!mean)
    return failure();
  Value centred = n.sub(x, perChannel(n, mean, dims));
  Value variance = n.mean(n.mul(centred, centred), axes, false);
  if (failed(n.out(batchNorm(n, n[0], mean, variance))))
    return failure();
  double momentum = n.real("momentum", 0.9);
  Value batch[] = {mean, variance};
  for (unsigned i = 0; i < 2; ++i) {
    Type element = ts::elementTypeOf(n[3 + i]);
    Value now = n.convert(batch[i], element);
    if (n.wants(1 + i)) {
      Value kept = n.mul(n[3 + i], momentum);
      if (failed(n.out(n.add(kept, n.mul(now, 1 - momentum)), 1 + i)))
        return failure();
    }
    // Until opset 13 the batch's statistics are results too.
    if (n.wants(3 + i) && failed(n.out(now, 3 + i)))
      return failure();
  }
  return mlir::success();
}

LogicalResult importBatchNormalization(Node &n) {
  if (!n.flag("spatial", true))
    return n.unsupported("statistics of each position (spatial 0)");
  for (unsigned i = 1; i < 5; ++i)
    if (ts::rankOf(n[i]) != 1)
      return n.fail("scale, bias, mean and variance are vectors",
                    "give a value a channel");
  bool training = n.opset >= 14 ? n.flag("training_mode", false)
                  : n.opset >= 7
                      ? n.wants(1) || n.wants(2) || n.wants(3) || n.wants(4)
                      : !n.flag("is_test", false);
  if (ts::rankOf(n[0]) < (training ? 2 : 1))
    return n.fail("needs a batch and a channel dim, has " +
                      ts::shapeText(n[0].getType()),
                  "give an input of rank 2 or more");
  if (training)
    return batchNormTraining(n);
  if (ts::rankOf(n[0]) > 1)
    return n.out(batchNorm(n, n[0], n[3], n[4]));
  Dim batch = ts::dimOf(n[0], 0); // of one channel
  Value x = n.reshape(n[0], {batch, n.dim(1)});
  return n.out(n.reshape(batchNorm(n, x, n[3], n[4]), {batch}));
}

/// Normalises rows of a [rows, count] view; the count may be symbolic.
Value normalizeRows(Node &n, Value x, Dim rows, Dim count, double epsilon) {
  Value flat = n.reshape(x, {rows, count});
  return layerNorm(n, flat, {}, {}, 1, epsilon, /*rms=*/false);
}

LogicalResult importInstanceNormalization(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (dims.size() < 3)
    return n.fail("needs spatial dims, has " + ts::shapeText(n[0].getType()),
                  "give an input of rank 3 or more");
  Dim count =
      ts::product(n.importer.context, ArrayRef<Dim>(dims).drop_front(2));
  Value y = n.reshape(
      normalizeRows(n, n[0], dims[0] * dims[1], count, n.real("epsilon", 1e-5)),
      dims);
  return n.out(
      n.add(n.mul(y, perChannel(n, n[1], dims)), perChannel(n, n[2], dims)));
}

LogicalResult importGroupNormalization(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  int64_t groups = n.integer("num_groups", 0);
  if (dims.size() < 2 || groups < 1)
    return n.fail("needs a channel dim and num_groups",
                  "correct the input or the attribute");
  Value x = castToMultiples(n, n[0], {1}, n.dim(groups));
  dims = ts::dimsOf(x);
  std::optional<Dim> channels = dims[1].exactDiv(n.dim(groups));
  if (!channels)
    return n.fail(dims[1].str() + " channels do not divide into " +
                      Twine(groups) + " groups",
                  "correct num_groups");
  Dim count = *channels * ts::product(n.importer.context,
                                      ArrayRef<Dim>(dims).drop_front(2));
  Value y = n.reshape(
      normalizeRows(n, x, dims[0] * groups, count, n.real("epsilon", 1e-5)),
      dims);
  // Opset 18 gave a value a group, 21 a value a channel.
  auto spread = [&](Value value) -> Value {
    if (n.opset >= 21 || !value || ts::rankOf(value) != 1 ||
        ts::dimOf(value, 0) == dims[1])
      return value;
    Value wide = n.broadcastAt(value, {0}, {n.dim(groups), *channels});
    return n.reshape(wide, {dims[1]});
  };
  return n.out(n.add(n.mul(y, perChannel(n, spread(n[1]), dims)),
                     perChannel(n, spread(n[2]), dims)));
}

LogicalResult importMeanVariance(Node &n) {
  SmallVector<int64_t> axes = n.integers("axes");
  if (!n.hasAttr("axes"))
    axes = {0, 2, 3};
  axes = n.normalAxes(axes, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    Value centred = n.sub(x, n.mean(x, axes, true));
    Value deviation =
        n.make<ts::SqrtOp>(n.mean(n.mul(centred, centred), axes, true));
    return n.div(centred, n.add(deviation, 1e-9));
  }));
}

LogicalResult importLpNormalization(Node &n) {
  int64_t axis = n.axis("axis", -1, ts::rankOf(n[0])), p = n.integer("p", 2);
  if (n.failed())
    return failure();
  if (p != 1 && p != 2)
    return n.fail("p is " + Twine(static_cast<int64_t>(p)), "use 1 or 2");
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    Value parts = p == 1 ? n.make<ts::AbsOp>(x) : n.mul(x, x);
    Value norm = n.reduce(ts::ReduceKind::add, parts, {axis}, true);
    if (p == 2)
      norm = n.make<ts::SqrtOp>(norm);
    // A row of zeros stays zero.
    Value zero = n.compare(ts::ComparePredicate::eq, norm, n.scalarFor(x, 0));
    return n.div(x, n.select(zero, n.scalarFor(x, 1), norm));
  }));
}

/// x / (bias + alpha/size * sum of squares over nearby channels)^beta
LogicalResult importLrn(Node &n) {
  int64_t size = n.integer("size", 0);
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  if (size < 1 || size > 1 << 20 || dims.size() < 2)
    return n.fail("needs a positive size and a channel dim",
                  "correct the attribute or the input");
  Dim inner =
      ts::product(n.importer.context, ArrayRef<Dim>(dims).drop_front(2));
  MLIRContext *context = n.importer.context;
  return n.out(inWideFloat(n, n[0], [&](Value x) {
    Value square = n.reshape(n.mul(x, x), {dims[0], n.dim(1), dims[1], inner});
    Value sum = n.make<ts::PoolOp>(
        ts::PoolKind::sum, square, ArrayRef<int64_t>({size, 1}),
        ArrayRef<int64_t>({1, 1}), ArrayRef<int64_t>({1, 1}),
        ts::dimArray(context, {n.dim((size - 1) / 2), n.dim(0)}),
        ts::dimArray(context, {n.dim(size / 2), n.dim(0)}), bool(false),
        bool(false));
    sum = n.reshape(sum, dims);
    Value base =
        n.add(n.mul(sum, n.real("alpha", 1e-4) / static_cast<double>(size)),
              n.real("bias", 1));
    return n.div(
        x, n.binary<ts::PowOp>(base, n.scalarFor(x, n.real("beta", 0.75))));
  }));
}

constexpr OpRow rows[] = {
    {"", "BatchNormalization", 1, 5, 5, importBatchNormalization},
    {"", "GroupNormalization", 18, 3, 3, importGroupNormalization},
    {"", "InstanceNormalization", 1, 3, 3, importInstanceNormalization},
    {"", "LRN", 1, 1, 1, importLrn},
    {"", "LayerNormalization", 1, 2, 3, importLayerNormalization},
    {"", "LpNormalization", 1, 1, 1, importLpNormalization},
    {"", "MeanVarianceNormalization", 9, 1, 1, importMeanVariance},
    {"", "RMSNormalization", 23, 2, 2, importRmsNormalization},
};

} // namespace

ArrayRef<OpRow> normalizationRows() { return rows; }

} // namespace knapper
