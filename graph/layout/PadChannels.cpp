#include "graph/layout/PadChannels.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_PADCHANNELS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

/// Zeros behind the last elements along the dims from `first` on.
static Value padded(OpBuilder &b, Location loc, Value x, int64_t first,
                    ArrayRef<int64_t> zeros) {
  Dim none = dimOf(x, 0).like(0);
  SmallVector<Dim> low(rankOf(x), none), high = low;
  bool pads = false;
  for (auto [i, count] : llvm::enumerate(zeros)) {
    high[first + i] = none + count;
    pads |= count != 0;
  }
  if (!pads)
    return x;
  auto scalar = tensorType(b.getContext(), {}, elementTypeOf(x));
  return PadOp::create(b, loc, x, makeSplat(b, loc, scalar, 0),
                       dimArray(b.getContext(), low),
                       dimArray(b.getContext(), high), PadMode::constant);
}

static void pad(ConvOp op) {
  constexpr int64_t access = 8; // elements
  Type element = elementTypeOf(op.getInput());
  int64_t last = rankOf(op.getInput()) - 1;
  SmallVector<Dim> dims = dimsOf(op.getFilter());
  std::optional<int64_t> channels = dims[last - 1].asConstant(),
                         features = dims[last].asConstant();
  if (!op.getChannelsLast() || op.getGroups() != 1 || !channels || !features ||
      *channels == 0 || *features == 0 ||
      (!element.isF16() && !element.isBF16()))
    return;
  // Few of both are a thread's work.
  constexpr int64_t leastFeatures = 8, leastChannels = 16;
  int64_t more = (access - *channels % access) % access,
          results = (access - *features % access) % access;
  if ((more == 0 && results == 0) ||
      (*features < leastFeatures && *channels < leastChannels))
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value x = padded(b, loc, op.getInput(), last, {more});
  Value filter = padded(b, loc, op.getFilter(), last - 1, {more, results});
  Value conv =
      ConvOp::create(b, loc, x, filter, op.getStrides(), op.getDilations(),
                     op.getInputDilations(), op.getLow(), op.getHigh(),
                     op.getGroups(), op.getChannelsLast());
  if (results)
    conv = makeSlice(b, loc, conv, last, dims[last].like(0), dims[last]);
  op.replaceAllUsesWith(conv);
  op.erase();
}

void knapper::padChannels(func::FuncOp function) {
  SmallVector<ConvOp> found;
  function.walk([&](ConvOp op) { found.push_back(op); });
  llvm::for_each(found, pad);
}

namespace {
struct PadChannelsPass : knapper::impl::PadChannelsBase<PadChannelsPass> {
  void runOnOperation() override { padChannels(getOperation()); }
};
} // namespace
