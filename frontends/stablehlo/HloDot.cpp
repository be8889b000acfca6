// Matmuls and convolutions.
#include "frontends/common/Windows.h"
#include "frontends/stablehlo/HloNode.h"

using namespace mlir;

namespace knapper {
namespace {

LogicalResult importDotGeneral(HloNode &n) {
  int64_t left = ts::rankOf(n[0]), right = ts::rankOf(n[1]);
  SmallVector<int64_t> batch = n.dims("lhs_batching_dimensions", left),
                       batchOfRight = n.dims("rhs_batching_dimensions", right),
                       contract = n.dims("lhs_contracting_dimensions", left),
                       contractOfRight =
                           n.dims("rhs_contracting_dimensions", right);
  RankedTensorType type = n.resultType();
  if (!type || n.failed())
    return failure();
  if (batch.size() != batchOfRight.size() ||
      contract.size() != contractOfRight.size())
    return n.damaged("pairs dims of different number");
  Value x = n[0], y = n[1];
  Type element = type.getElementType();
  // Any of all: counted, exactly, as floats.
  if (element.isInteger(1)) {
    Type f32 = n.b.getF32Type();
    Value count =
        n.make<ts::DotOp>(n.convert(x, f32), n.convert(y, f32), batch,
                          batchOfRight, contract, contractOfRight, TypeAttr());
    return n.out(n.convert(count, element));
  }
  // Mixed operands meet in the wider type, which is f64 for what becomes it.
  if (ts::elementTypeOf(x) != ts::elementTypeOf(y) || element.isF64()) {
    x = n.convert(x, element);
    y = n.convert(y, element);
  }
  TypeAttr result =
      ts::elementTypeOf(x) == element ? TypeAttr() : TypeAttr::get(element);
  return n.out(n.make<ts::DotOp>(x, y, batch, batchOfRight, contract,
                                 contractOfRight, result));
}

/// The dims of a convolution's operand, [first, second, spatial...].
SmallVector<int64_t> order(HloNode &n, StringRef first, StringRef second,
                           StringRef spatial, int64_t rank) {
  SmallVector<int64_t> dims{n.dimension(first, rank),
                            n.dimension(second, rank)};
  llvm::append_range(dims, n.dims(spatial, rank));
  SmallVector<int64_t> sorted = dims;
  llvm::sort(sorted);
  if (!n.failed() && sorted != llvm::to_vector(llvm::seq<int64_t>(0, rank)))
    (void)n.damaged("does not name every dim once");
  return dims;
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> order) {
  SmallVector<int64_t> back(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    back[dim] = static_cast<int64_t>(i);
  return back;
}

/// [g n, c, ...] as [n, g c, ...]: each group of the batch is one of features.
Value batchGroupsToFeatures(HloNode &n, Value x, int64_t groups) {
  SmallVector<int64_t> own = n.shape(x);
  SmallVector<int64_t> split{groups, own[0] / groups, own[1]},
      permutation{1, 0, 2}, merged{own[0] / groups, groups * own[1]};
  for (size_t i = 2; i < own.size(); ++i) {
    split.push_back(own[i]);
    permutation.push_back(static_cast<int64_t>(i) + 1);
    merged.push_back(own[i]);
  }
  return n.reshapeTo(n.transpose(n.reshapeTo(x, split), permutation), merged);
}

LogicalResult importConvolution(HloNode &n) {
  RankedTensorType type = n.resultType();
  int64_t rank = ts::rankOf(n[0]);
  if (!type)
    return failure();
  if (rank < 2 || ts::rankOf(n[1]) != rank || type.getRank() != rank)
    return n.damaged("its ranks differ");
  auto input = order(n, "input_batch_dimension", "input_feature_dimension",
                     "input_spatial_dimensions", rank);
  auto kernel = order(n, "kernel_output_feature_dimension",
                      "kernel_input_feature_dimension",
                      "kernel_spatial_dimensions", rank);
  auto output = order(n, "output_batch_dimension", "output_feature_dimension",
                      "output_spatial_dimensions", rank);
  size_t spatial = static_cast<size_t>(rank) - 2;
  SmallVector<int64_t> strides = n.integers("window_strides", spatial),
                       spread = n.integers("lhs_dilation", spatial),
                       dilations = n.integers("rhs_dilation", spatial);
  SmallVector<bool> mirrored = n.flags("window_reversal", spatial);
  auto pads = n.padding("padding", spatial);
  int64_t groups = n.integer("feature_group_count"),
          batches = n.integer("batch_group_count");
  if (n.failed())
    return failure();
  constexpr int64_t most = 1 << 30;
  for (size_t i = 0; i < spatial; ++i)
    if (strides[i] < 1 || strides[i] > most || spread[i] < 1 ||
        spread[i] > most || dilations[i] < 1 || dilations[i] > most)
      return n.damaged("a stride or dilation is out of range");
  Value x = n.transpose(n[0], input), filter = n.transpose(n[1], kernel);
  if (!x || !filter)
    return failure();
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1) ||
      n.shape(filter)[0] % std::max(groups, batches) ||
      n.shape(x)[0] % batches || n.shape(x)[1] % groups)
    return n.damaged("its groups do not divide its features");
  if (batches > 1) {
    x = batchGroupsToFeatures(n, x, batches);
    groups = batches;
  }
  SmallVector<int64_t> reversed;
  for (size_t i = 0; i < spatial; ++i)
    if (mirrored[i])
      reversed.push_back(static_cast<int64_t>(i) + 2);
  filter = n.reverse(filter, reversed);
  // Pads below zero cut off what lies between elements, too.
  if (llvm::any_of(pads,
                   [](auto pad) { return pad.first < 0 || pad.second < 0; })) {
    SmallVector<int64_t> low(2, 0), high(2, 0), interior(2, 0);
    for (size_t i = 0; i < spatial; ++i) {
      low.push_back(pads[i].first);
      high.push_back(pads[i].second);
      interior.push_back(spread[i] - 1);
      pads[i] = {0, 0};
      spread[i] = 1;
    }
    x = n.pad(x, n.scalarFor(x, 0), low, high, interior);
  }
  // A window that fits nowhere has no place, as XLA counts them.
  for (size_t i = 0; i < spatial && x && filter; ++i) {
    int64_t size = n.shape(x)[i + 2], window = n.shape(filter)[i + 2];
    spread[i] = size ? spread[i] : 1; // nothing lies between no elements
    int64_t padded = size ? (size - 1) * spread[i] + 1 : 0;
    if (window && padded + pads[i].first + pads[i].second <
                      (window - 1) * dilations[i] + 1)
      return n.out(
          n.broadcastTo(n.scalar(0, type.getElementType()), n.resultDims()));
  }
  SmallVector<ts::Dim> before, after;
  for (auto [low, high] : pads) {
    before.push_back(n.dim(low));
    after.push_back(n.dim(high));
  }
  MLIRContext *context = n.shared.context;
  Type element = type.getElementType();
  bool narrow = x && ts::elementTypeOf(x) != element;
  if (narrow) {
    x = n.convert(x, element);
    filter = n.convert(filter, element);
  }
  Value y = n.make<ts::ConvOp>(
      x, filter, ArrayRef<int64_t>(strides), ArrayRef<int64_t>(dilations),
      ArrayRef<int64_t>(spread), ts::dimArray(context, before),
      ts::dimArray(context, after), uint64_t(groups), bool(false));
  return n.out(n.convert(n.transpose(y, inverse(output)), element));
}

/// Pads that are an operand, known by now.
LogicalResult importDynamicConvolution(HloNode &n) {
  auto count = static_cast<int64_t>(n.shape(n[2]).size()) == 2
                   ? 2 * n.shape(n[2])[0]
                   : 0;
  std::optional<SmallVector<int64_t>> pads =
      n.numbers(n.reshapeTo(n[2], {count}), "the pads");
  if (!pads || n.failed())
    return failure();
  auto type = RankedTensorType::get({count / 2, 2}, n.b.getI64Type());
  n.op->setAttr("padding",
                DenseElementsAttr::get(type, ArrayRef<int64_t>(*pads)));
  return importConvolution(n);
}

constexpr HloRow rows[] = {
    {"convolution", 2, importConvolution},
    {"dynamic_conv", 3, importDynamicConvolution},
    {"dot_general", 2, importDotGeneral},
};

} // namespace

llvm::ArrayRef<HloRow> hloMatmulRows() { return rows; }

} // namespace knapper
