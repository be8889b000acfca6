// Matmuls.
#include "frontends/torch/AtenNode.h"

using namespace mlir;

namespace knapper {
namespace {

/// x[.., i, k] times y[.., k, j], `batch` leading dims in common.
Value matmul(AtenNode &n, Value x, Value y, int64_t batch) {
  if (!x || !y)
    return {};
  SmallVector<int64_t> common = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  // What torch knows to be equal and the sizes do not show.
  SmallVector<ts::Dim> dims = ts::dimsOf(y);
  for (int64_t i = 0; i < batch; ++i)
    dims[i] = ts::dimOf(x, i);
  dims[batch] = ts::dimOf(x, ts::rankOf(x) - 1);
  y = n.castDims(y, dims);
  return n.make<ts::DotOp>(x, y, ArrayRef<int64_t>(common),
                           ArrayRef<int64_t>(common),
                           ArrayRef<int64_t>{ts::rankOf(x) - 1},
                           ArrayRef<int64_t>{batch}, TypeAttr());
}

/// Integers narrower than i32 and booleans are multiplied as i64.
Value multiplied(AtenNode &n, StringRef left, StringRef right, int64_t batch) {
  Type element = n.element();
  if (!element)
    return {};
  Type type = isa<FloatType>(element) ? element : Type(n.b.getI64Type());
  Value y = matmul(n, n.operand(left, type), n.operand(right, type), batch);
  return y ? n.convert(y, element) : y;
}

/// x [B, H, i, k], of which `value` is [B * H, i, k]; null where it is not.
Value beforeMerge(Value value) {
  auto reshape = value ? value.getDefiningOp<ts::ReshapeOp>() : ts::ReshapeOp();
  if (!reshape || ts::rankOf(reshape.getInput()) != 4 || ts::rankOf(value) != 3)
    return {};
  SmallVector<ts::Dim> in = ts::dimsOf(reshape.getInput()),
                       out = ts::dimsOf(value);
  bool merges = out[0] == in[0] * in[1] && out[1] == in[2] && out[2] == in[3];
  return merges ? reshape.getInput() : Value();
}

/// Batches and heads stay two dims, as attention is found by them.
LogicalResult importBmm(AtenNode &n) {
  Type element = n.element();
  if (!isa_and_nonnull<FloatType>(element))
    return n.out(multiplied(n, "self", "mat2", 1));
  Value x = beforeMerge(n.operand("self")), y = beforeMerge(n.operand("mat2"));
  if (!x || !y || ts::dimOf(x, 0) != ts::dimOf(y, 0) ||
      ts::dimOf(x, 1) != ts::dimOf(y, 1))
    return n.out(multiplied(n, "self", "mat2", 1));
  return n.out(n.reshape(matmul(n, x, y, 2), n.dims()));
}

template <int batch> LogicalResult importMatmul(AtenNode &n) {
  return n.out(multiplied(n, "self", "mat2", batch));
}
LogicalResult importMv(AtenNode &n) {
  return n.out(multiplied(n, "self", "vec", 0));
}
LogicalResult importDot(AtenNode &n) {
  return n.out(multiplied(n, "self", "tensor", 0));
}

/// beta * self + alpha * matmul. A beta of 0 ignores what self holds.
template <int batch> LogicalResult importAddMatmul(AtenNode &n) {
  StringRef left = batch           ? "batch1"
                   : n.has("mat1") ? "mat1"
                                   : "mat",
            right = batch           ? "batch2"
                    : n.has("mat2") ? "mat2"
                                    : "vec";
  Value y = multiplied(n, left, right, batch);
  if (!y)
    return failure();
  if (n.has("alpha") && n.known("alpha") != 1)
    y = n.mul(y, n.operand("alpha"));
  if (n.has("beta") && n.known("beta") == 0)
    return n.out(y);
  Value self = n.operand("self");
  if (n.has("beta") && n.known("beta") != 1)
    self = n.mul(self, n.operand("beta"));
  return n.out(n.add(y, self));
}

/// beta * self + alpha * the matmuls' sum, of narrow floats in f32.
LogicalResult importAddBmm(AtenNode &n) {
  Type type = n.wide();
  Value y =
      isa_and_nonnull<FloatType>(type)
          ? matmul(n, n.operand("batch1", type), n.operand("batch2", type), 1)
          : multiplied(n, "batch1", "batch2", 1);
  if (!y)
    return failure();
  y = n.reduce(ts::ReduceKind::add, y, {0}, false);
  y = n.mul(y, n.operand("alpha", type));
  if (n.known("beta") == 0)
    return n.out(y);
  return n.out(
      n.add(y, n.mul(n.operand("self", type), n.operand("beta", type))));
}

constexpr AtenRow rows[] = {
    {"aten.addbmm.default", importAddBmm},
    {"aten.addmm.default", importAddMatmul<0>},
    {"aten.addmv.default", importAddMatmul<0>},
    {"aten.baddbmm.default", importAddMatmul<1>},
    {"aten.bmm.default", importBmm},
    {"aten.dot.default", importDot},
    {"aten.mm.default", importMatmul<0>},
    {"aten.mv.default", importMv},
};

} // namespace

ArrayRef<AtenRow> atenMatMulRows() { return rows; }

} // namespace knapper
