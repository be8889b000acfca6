#include "graph/layout/ConvPhases.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_CONVPHASES
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

namespace {

struct SpreadAxis {
  int64_t spread; ///< of the input, and the number of phases
  int64_t window; ///< taps of the filter
  int64_t low;    ///< border before the spread input

  /// Outputs in front of the first, so that every phase begins with a tap of
  /// its own: low + skipped is one less than a multiple of spread.
  int64_t skipped() const {
    int64_t over = (low + 1) % spread;
    return over > 0 ? spread - over : -over;
  }
  int64_t taps() const { return llvm::divideCeil(window, spread); }
  int64_t newLow() const { return (low + skipped() + 1) / spread - 1; }
};

struct PhaseSplit {
  OpBuilder b;
  ConvOp op;
  SmallVector<SpreadAxis> axes;
  Location loc = op.getLoc();
  Dim one = dimOf(op.getInput(), 0).like(1);
  bool last = op.getChannelsLast();
  int64_t spatial = axes.size();
  int64_t phases = 1; // of all axes together

  Value filter();
  Value interleave(Value made);
  void run();
};

std::optional<SmallVector<SpreadAxis>> axesOf(ConvOp op) {
  auto isOne = [](int64_t n) { return n == 1; };
  if (op.getGroups() != 1 || !isa<FloatType>(elementTypeOf(op.getFilter())) ||
      !llvm::all_of(op.getStrides(), isOne) ||
      !llvm::all_of(op.getDilations(), isOne) ||
      llvm::all_of(op.getInputDilations(), isOne))
    return std::nullopt;
  SmallVector<Dim> filter = dimsOf(op.getFilter()), low = dimsOf(op.getLow());
  SmallVector<SpreadAxis> axes;
  double before = 1, after = 1;
  for (auto [i, spread] : llvm::enumerate(op.getInputDilations())) {
    std::optional<int64_t> window =
        filter[op.getChannelsLast() ? i : i + 2].asConstant();
    std::optional<int64_t> border = low[i].asConstant();
    if (!window || !border)
      return std::nullopt;
    axes.push_back({spread, *window, *border});
    before *= *window;
    after *= axes.back().taps();
  }
  return after < before ? std::optional(axes) : std::nullopt;
}

} // namespace

/// [F, C, window..] to [phases * F, C, taps..], or with channels last
/// [window.., C, F] to [taps.., C, phases * F].
Value PhaseSplit::filter() {
  Value taps = op.getFilter();
  SmallVector<Dim> dims = dimsOf(taps);
  int64_t rank = dims.size(), window = last ? 0 : 2;
  SmallVector<Dim> low(rank, one * 0), high = low, apart, starts;
  SmallVector<int64_t> steps;
  // In front of the apart form's dims those of other kinds keep their order.
  SmallVector<int64_t> tapAt, phaseAt, otherAt;
  for (int64_t d = 0; d < rank; ++d) {
    if (d < window || d >= window + spatial) {
      otherAt.push_back(apart.size());
      apart.push_back(dims[d]);
      starts.push_back(one * 0);
      steps.push_back(1);
      continue;
    }
    const SpreadAxis &axis = axes[d - window];
    high[d] = one * (axis.spread * axis.taps() - axis.window);
    tapAt.push_back(apart.size());
    phaseAt.push_back(apart.size() + 1);
    apart.append({one * axis.taps(), one * axis.spread});
    // Phase r has the taps whose place is spread - 1 - r.
    starts.append({one * 0, one * (axis.spread - 1)});
    steps.append({1, -1});
  }
  auto scalar = tensorType(b.getContext(), {}, elementTypeOf(taps));
  Value zero = makeSplat(b, loc, scalar, 0);
  taps = PadOp::create(b, loc, taps, zero, dimArray(b.getContext(), low),
                       dimArray(b.getContext(), high), PadMode::constant);
  taps = makeReshape(b, loc, taps, apart);
  taps = SliceOp::create(b, loc, taps.getType(), taps,
                         dimArray(b.getContext(), starts), steps);
  SmallVector<int64_t> order;
  SmallVector<Dim> joined;
  if (last) {
    llvm::append_range(order, tapAt);
    order.push_back(otherAt[0]);
    llvm::append_range(order, phaseAt);
    order.push_back(otherAt[1]);
  } else {
    llvm::append_range(order, phaseAt);
    llvm::append_range(order, otherAt);
    llvm::append_range(order, tapAt);
    joined = {dims[0] * phases, dims[1]};
  }
  for (const SpreadAxis &axis : axes)
    joined.push_back(one * axis.taps());
  if (last)
    joined.append({dims[rank - 2], dims[rank - 1] * phases});
  return makeReshape(b, loc, makeTranspose(b, loc, taps, order), joined);
}

/// [N, q.., phases * F] to [N, q * spread.., F], likewise with channels first.
Value PhaseSplit::interleave(Value made) {
  SmallVector<Dim> dims = dimsOf(made), result = dimsOf(op.getResult());
  Dim features = result[last ? spatial + 1 : 1];
  ArrayRef<Dim> places = ArrayRef(dims).slice(last ? 1 : 2, spatial);
  SmallVector<Dim> apart{dims[0]}, whole{dims[0]};
  SmallVector<int64_t> order{0};
  auto addPhases = [&] {
    for (const SpreadAxis &axis : axes)
      apart.push_back(one * axis.spread);
    apart.push_back(features);
  };
  if (last)
    llvm::append_range(apart, places);
  addPhases();
  if (!last) {
    llvm::append_range(apart, places);
    order.push_back(spatial + 1);
    whole.push_back(features);
  }
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t place = last ? i + 1 : spatial + 2 + i;
    int64_t phase = last ? spatial + 1 + i : i + 1;
    order.append({place, phase});
    whole.push_back(places[i] * axes[i].spread);
  }
  if (last) {
    order.push_back(2 * spatial + 1);
    whole.push_back(features);
  }
  made = makeTranspose(b, loc, makeReshape(b, loc, made, apart), order);
  made = makeReshape(b, loc, made, whole);
  SmallVector<int64_t> skipped(result.size(), 0);
  for (auto [i, axis] : llvm::enumerate(axes))
    skipped[i + (last ? 1 : 2)] = axis.skipped();
  for (auto [i, dim] : llvm::enumerate(result))
    if (!(whole[i] == dim))
      made = makeSlice(b, loc, made, i, one * skipped[i], dim);
  return made;
}

void PhaseSplit::run() {
  for (const SpreadAxis &axis : axes)
    phases *= axis.spread;
  SmallVector<Dim> in = dimsOf(op.getInput()), result = dimsOf(op.getResult());
  SmallVector<Dim> low, high;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    unsigned d = i + (last ? 1 : 2);
    low.push_back(one * axis.newLow());
    Dim places = (result[d] + one * axis.skipped()).ceilDiv(one * axis.spread);
    high.push_back(places + one * (axis.taps() - 1 - axis.newLow()) - in[d]);
  }
  SmallVector<int64_t> ones(spatial, 1);
  Value conv =
      ConvOp::create(b, loc, op.getInput(), filter(), ones, ones, ones,
                     dimArray(b.getContext(), low),
                     dimArray(b.getContext(), high), /*groups=*/1, last);
  op.replaceAllUsesWith(interleave(conv));
  op.erase();
}

void knapper::splitConvPhases(func::FuncOp function,
                              llvm::function_ref<bool(ConvOp)> takes) {
  SmallVector<ConvOp> found;
  function.walk([&](ConvOp op) {
    if (!takes || takes(op))
      found.push_back(op);
  });
  for (ConvOp op : found)
    if (std::optional<SmallVector<SpreadAxis>> axes = axesOf(op))
      PhaseSplit{OpBuilder(op), op, std::move(*axes)}.run();
}

namespace {
struct ConvPhasesPass : knapper::impl::ConvPhasesBase<ConvPhasesPass> {
  void runOnOperation() override { splitConvPhases(getOperation()); }
};
} // namespace
