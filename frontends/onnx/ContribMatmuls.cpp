// com.microsoft: matmuls, convolutions and pools with what was fused into
// them.
#include "frontends/onnx/Standard.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// A factor of FusedMatMul. `batch`: its rows stand before the batch dims;
/// `swap`: its last two dims change places after that.
Value factor(Node &n, Value x, bool batch, bool swap) {
  int64_t rank = ts::rankOf(x);
  if (rank < 2)
    return x;
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (batch)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (swap)
    std::swap(order[rank - 1], order[rank - 2]);
  return n.transpose(x, order);
}

Value fusedMatMul(Node &n) {
  Value a =
      factor(n, n[0], n.flag("transBatchA", false), n.flag("transA", false));
  Value b =
      factor(n, n[1], n.flag("transBatchB", false), n.flag("transB", false));
  double alpha = n.real("alpha", 1);
  Value y = Standard(n, "MatMul")({a, b});
  return y && alpha != 1 ? n.mul(y, alpha) : y;
}

LogicalResult importFusedMatMul(Node &n) { return n.out(fusedMatMul(n)); }

/// The parameters of an activation in attributes of their own.
SmallVector<double> namedParameters(Node &n) {
  SmallVector<double> parameters;
  for (StringRef name :
       {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.hasAttr(name))
      parameters.push_back(n.real(name, 0));
  return parameters;
}

LogicalResult importFusedMatMulActivation(Node &n) {
  return n.out(fusedActivation(n, fusedMatMul(n), n.text("activation", ""),
                               namedParameters(n)));
}

LogicalResult importFusedGemm(Node &n) {
  Value y = Standard(n, "Gemm").keep({"alpha", "beta", "transA", "transB"})(
      {n[0], n[1], n[2]});
  return n.out(
      fusedActivation(n, y, n.text("activation", ""), namedParameters(n)));
}

LogicalResult importGemmFastGelu(Node &n) {
  Value y = Standard(n, "MatMul")({n[0], n[1]});
  if (y && n.has(2))
    y = n.add(y, n[2]);
  return n.out(n.make<ts::GeluOp>(y, /*tanh=*/true));
}

constexpr StringRef windowAttributes[] = {
    "auto_pad",       "ceil_mode",    "count_include_pad",
    "dilations",      "group",        "kernel_shape",
    "output_padding", "output_shape", "pads",
    "storage_order",  "strides"};

/// [N, spatial..., C] and [N, C, spatial...].
Value channels(Node &n, Value x, bool last) {
  if (!x)
    return {};
  int64_t rank = ts::rankOf(x);
  if (rank < 3) {
    (void)n.fail("needs spatial dims, has " + ts::shapeText(x.getType()),
                 "give an input of rank 3 or more");
    return {};
  }
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (last)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  else
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return n.transpose(x, order);
}

/// activation(conv(x, w) + b + z)
template <bool channelsLast> LogicalResult importFusedConv(Node &n) {
  Value x = channelsLast ? channels(n, n[0], false) : n[0];
  Value z = n[3];
  if (channelsLast && z)
    z = channels(n, z, false);
  if (!x)
    return failure();
  Value y = Standard(n, "Conv").keep(windowAttributes)({x, n[1], n[2]});
  if (z && y)
    y = n.add(y, z);
  SmallVector<double> parameters = n.reals("activation_params");
  y = fusedActivation(n, y, n.text("activation", ""), parameters);
  return n.out(channelsLast ? channels(n, y, true) : y);
}

LogicalResult importNhwcMaxPool(Node &n) {
  Value x = channels(n, n[0], false);
  if (!x)
    return failure();
  return n.out(
      channels(n, Standard(n, "MaxPool").keep(windowAttributes)({x}), true));
}

/// The pads are an input, which must be known.
LogicalResult importConvTransposeWithDynamicPads(Node &n) {
  Standard conv(n, "ConvTranspose");
  conv.keep(windowAttributes);
  if (n.has(2)) {
    std::optional<SmallVector<int64_t>> pads = n.numbers(n[2], "Pads");
    if (!pads)
      return failure();
    conv.set("pads", ArrayRef<int64_t>(*pads));
  }
  return n.out(conv({n[0], n[1], n[3]}));
}

LogicalResult importCDist(Node &n) {
  std::string metric = n.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return n.fail("metric is '" + metric + "'", "use sqeuclidean or euclidean");
  if (ts::rankOf(n[0]) != 2 || ts::rankOf(n[1]) != 2)
    return n.fail("A and B must be matrices", "give a point a row");
  Value a = n[0], b = n[1];
  auto squares = [&](Value x, bool keep) {
    return n.reduce(ts::ReduceKind::add, n.mul(x, x), {1}, keep);
  };
  Value cross = Standard(n, "Gemm").set("transB", int64_t(1))({a, b});
  Value y = n.sub(n.add(squares(a, true), squares(b, false)), n.mul(cross, 2));
  y = n.binary<ts::MaxOp>(y, n.scalarFor(y, 0));
  return n.out(metric == "euclidean" ? n.make<ts::SqrtOp>(y) : y);
}

constexpr OpRow rows[] = {
    {"com.microsoft", "CDist", 1, 2, 2, importCDist},
    {"com.microsoft", "ConvTransposeWithDynamicPads", 1, 2, 4,
     importConvTransposeWithDynamicPads},
    {"com.microsoft", "FusedConv", 1, 2, 4, importFusedConv<false>},
    {"com.microsoft", "FusedGemm", 1, 2, 3, importFusedGemm},
    {"com.microsoft", "FusedMatMul", 1, 2, 2, importFusedMatMul},
    {"com.microsoft", "FusedMatMulActivation", 1, 2, 2,
     importFusedMatMulActivation},
    {"com.microsoft", "GemmFastGelu", 1, 2, 3, importGemmFastGelu},
    {"com.microsoft", "NhwcFusedConv", 1, 2, 4, importFusedConv<true>},
    {"com.microsoft", "NhwcMaxPool", 1, 1, 1, importNhwcMaxPool},
    {"com.microsoft", "TransposeMatMul", 1, 2, 2, importFusedMatMul},
};

} // namespace

ArrayRef<OpRow> contribMatmulRows() { return rows; }

} // namespace knapper
