#include "graph/quantize/ByteMatmuls.h"

#include "graph/quantize/QuantizePasses.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_BYTEMATMULS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

/// The largest magnitude of a byte; 0: the element is none.
static int64_t largest(Value value) {
  Type element = elementTypeOf(value);
  return !element.isInteger(8) ? 0 : element.isUnsignedInteger() ? 255 : 128;
}

/// Elements start .. start + size of a dim, as floats.
static Value floatSlice(OpBuilder &b, Location loc, Value x, int64_t dim,
                        int64_t start, int64_t size, Type element) {
  MLIRContext *context = b.getContext();
  SmallVector<Dim> sizes = dimsOf(x);
  if (!sizes[dim].isConstant(size)) {
    Dim zero = Dim::constant(context, 0);
    SmallVector<Dim> starts(sizes.size(), zero);
    starts[dim] = zero + start;
    sizes[dim] = zero + size;
    x = SliceOp::create(b, loc, tensorType(context, sizes, elementTypeOf(x)), x,
                        dimArray(context, starts),
                        SmallVector<int64_t>(sizes.size(), 1));
  }
  return ConvertOp::create(b, loc, withElement(x.getType(), element), x);
}

/// The sum of `part(start, size)` over slices of `depth`, each a tensor of
/// whole numbers that floats hold, in the op's place.
static void replaceBySlices(Operation *op, int64_t depth, int64_t most,
                            llvm::function_ref<Value(int64_t, int64_t)> part) {
  OpBuilder b(op);
  Value sum;
  for (int64_t at = 0; at < depth; at += most) {
    Value next = ConvertOp::create(b, op->getLoc(), op->getResult(0).getType(),
                                   part(at, std::min(most, depth - at)));
    sum = sum ? AddOp::create(b, op->getLoc(), sum, next).getResult() : next;
  }
  if (!sum)
    return;
  op->getResult(0).replaceAllUsesWith(sum);
  op->erase();
}

/// How many products f32 adds up exactly; 0: the result is no sum of bytes.
static int64_t exactTerms(Value a, Value b, Value result) {
  int64_t most = largest(a) * largest(b);
  return most && elementTypeOf(result).isInteger(32) ? (int64_t(1) << 24) / most
                                                     : 0;
}

static void expand(DotOp op) {
  int64_t terms = exactTerms(op.getLhs(), op.getRhs(), op.getResult());
  if (!terms || op.getLhsContract().size() != 1)
    return;
  int64_t left = op.getLhsContract()[0], right = op.getRhsContract()[0];
  std::optional<int64_t> depth = dimsOf(op.getLhs())[left].asConstant();
  if (!depth)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type bf16 = b.getBF16Type();
  replaceBySlices(op, *depth, terms, [&](int64_t at, int64_t size) -> Value {
    Value lhs = floatSlice(b, loc, op.getLhs(), left, at, size, bf16);
    Value rhs = floatSlice(b, loc, op.getRhs(), right, at, size, bf16);
    return DotOp::create(b, loc, lhs, rhs, op.getLhsBatch(), op.getRhsBatch(),
                         op.getLhsContract(), op.getRhsContract(),
                         TypeAttr::get(b.getF32Type()));
  });
}

static void expand(ConvOp op) {
  int64_t terms = exactTerms(op.getInput(), op.getFilter(), op.getResult());
  bool last = op.getChannelsLast();
  SmallVector<Dim> filter = dimsOf(op.getFilter());
  int64_t rank = rankOf(op), across = last ? rank - 2 : 1;
  for (int64_t d = 0; d < rank - 2; ++d)
    terms /= std::max<int64_t>(
        1, filter[last ? d : d + 2].asConstant().value_or(terms + 1));
  // Of one group: that of another lies between its slices.
  std::optional<int64_t> depth = filter[across].asConstant();
  if (!terms || !depth || (op.getGroups() > 1 && *depth > terms))
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type f32 = b.getF32Type();
  int64_t channels = last ? rank - 1 : 1;
  bool whole = *depth <= terms;
  replaceBySlices(op, *depth, terms, [&](int64_t at, int64_t size) -> Value {
    Value x = op.getInput();
    x = whole ? ConvertOp::create(b, loc, withElement(x.getType(), f32), x)
              : floatSlice(b, loc, x, channels, at, size, f32);
    Value w = floatSlice(b, loc, op.getFilter(), across, at, size, f32);
    return ConvOp::create(b, loc, x, w, op.getStrides(), op.getDilations(),
                          op.getInputDilations(), op.getLow(), op.getHigh(),
                          op.getGroups(), last);
  });
}

void knapper::expandByteMatmuls(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (auto dot = dyn_cast<DotOp>(op))
      expand(dot);
    else if (auto conv = dyn_cast<ConvOp>(op))
      expand(conv);
  });
}

namespace {
struct ByteMatmulsPass : knapper::impl::ByteMatmulsBase<ByteMatmulsPass> {
  void runOnOperation() override { expandByteMatmuls(getOperation()); }
};
} // namespace
