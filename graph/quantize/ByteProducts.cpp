#include "graph/quantize/ByteProducts.h"

#include "graph/quantize/Passes.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_BYTEPRODUCTS
#include "graph/quantize/Passes.h.inc"
} // namespace knapper

/// The largest magnitude of a byte; 0: the element is none.
static int64_t largest(Value value) {
  Type element = elementTypeOf(value);
  return !element.isInteger(8) ? 0 : element.isUnsignedInteger() ? 255 : 128;
}

static void expand(DotOp op) {
  int64_t most = largest(op.getLhs()) * largest(op.getRhs());
  if (!most || !elementTypeOf(op.getResult()).isInteger(32) ||
      op.getLhsContract().size() != 1)
    return;
  int64_t left = op.getLhsContract()[0], right = op.getRhsContract()[0];
  std::optional<int64_t> depth = dimsOf(op.getLhs())[left].asConstant();
  if (!depth)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto slice = [&](Value x, int64_t dim, int64_t start, int64_t size) {
    SmallVector<Dim> sizes = dimsOf(x);
    Dim zero = Dim::constant(op.getContext(), 0);
    SmallVector<Dim> starts(sizes.size(), zero);
    starts[dim] = zero + start;
    sizes[dim] = zero + size;
    if (size != *depth)
      x = SliceOp::create(b, loc,
                          tensorType(op.getContext(), sizes, elementTypeOf(x)),
                          x, dimArray(op.getContext(), starts),
                          SmallVector<int64_t>(sizes.size(), 1));
    return ConvertOp::create(b, loc, withElement(x.getType(), b.getBF16Type()),
                             x)
        .getResult();
  };
  int64_t terms = (int64_t(1) << 24) / most;
  Type i32 = op.getType();
  Value sum;
  for (int64_t at = 0; at < *depth; at += terms) {
    int64_t size = std::min(terms, *depth - at);
    Value part =
        DotOp::create(b, loc, slice(op.getLhs(), left, at, size),
                      slice(op.getRhs(), right, at, size), op.getLhsBatch(),
                      op.getRhsBatch(), op.getLhsContract(),
                      op.getRhsContract(), TypeAttr::get(b.getF32Type()));
    part = ConvertOp::create(b, loc, i32, part);
    sum = sum ? AddOp::create(b, loc, sum, part).getResult() : part;
  }
  if (!sum)
    return;
  op.replaceAllUsesWith(sum);
  op.erase();
}

void knapper::expandByteProducts(func::FuncOp function) {
  function.walk([](DotOp op) { expand(op); });
}

namespace {
struct ByteProductsPass : knapper::impl::ByteProductsBase<ByteProductsPass> {
  void runOnOperation() override { expandByteProducts(getOperation()); }
};
} // namespace
