#include "graph/layout/PlaneLayout.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

/// More fill a register as they are.
static constexpr int64_t mostFeatures = 8, mostPhases = 36;
/// Of a window of one pixel: more are a matmul.
static constexpr int64_t mostPointChannels = 8;
/// Of what one output row reads: a quarter of 1 MiB of L2, of which targets may
/// have less or more. Blocks have a row at least (CpuPlaneConv.cpp).
static constexpr int64_t mostRowBytes = 256 << 10;
/// A window row is not a loop in the generated code.
static constexpr int64_t widestWindow = 32;
/// Of pools: what a row of scratch has beyond its end, and a row that stays in
/// the nearest cache.
static constexpr int64_t mostPoolStride = 32, widestPlane = 4096;
/// The same row with its border, of which a thread holds several.
static constexpr int64_t widestRow = 2 * widestPlane;
/// Rows of a pool's window, in all planes, so that a number holds the work.
static constexpr int64_t mostPoolRows = 1 << 20;
static constexpr int64_t mostDepthwiseTaps = 81, mostDepthwiseStride = 4;

static bool allOnes(ArrayRef<int64_t> numbers) {
  return llvm::all_of(numbers, [](int64_t n) { return n == 1; });
}

std::optional<PlaneConv> knapper::planeConvOf(ConvOp op) {
  if (op.getChannelsLast() || op.getStrides().size() != 2 ||
      op.getGroups() != 1 || !allOnes(op.getStrides()) ||
      !allOnes(op.getInputDilations()))
    return std::nullopt;
  Type element = elementTypeOf(op.getInput());
  if (!isa<FloatType>(element) || element.isF64() ||
      element != elementTypeOf(op.getFilter()))
    return std::nullopt;
  SmallVector<Dim> in = dimsOf(op.getInput()), filter = dimsOf(op.getFilter()),
                   out = dimsOf(op.getResult()), low = dimsOf(op.getLow()),
                   high = dimsOf(op.getHigh());
  for (Dim dim : {filter[0], filter[1], filter[2], filter[3], in[3], out[3]})
    if (dim.asConstant().value_or(0) < 1)
      return std::nullopt;
  for (Dim border : {low[0], low[1], high[0], high[1]})
    if (border.asConstant().value_or(-1) < 0)
      return std::nullopt;
  PlaneConv p{op};
  p.features = *filter[0].asConstant();
  p.channels = *filter[1].asConstant();
  p.kh = *filter[2].asConstant();
  p.kw = *filter[3].asConstant();
  p.dh = op.getDilations()[0];
  p.dw = op.getDilations()[1];
  p.lowH = *low[0].asConstant();
  p.lowW = *low[1].asConstant();
  p.width = *in[3].asConstant();
  p.outWidth = *out[3].asConstant();
  return p;
}

bool knapper::prefersPlanes(ConvOp op) {
  std::optional<PlaneConv> p = planeConvOf(op);
  bool isPoint = p && p->kh == 1 && p->kw == 1;
  if (!p || (isPoint && p->channels > mostPointChannels) ||
      p->kw > widestWindow)
    return false;
  // What phases of a transposed one have become features has more of them.
  bool few = p->features <= mostFeatures ||
             (p->features <= mostPhases && p->kh * p->kw <= 4);
  return few &&
         4 * p->channels * p->paddedRows(1) * p->paddedWidth() <= mostRowBytes;
}

/// Of `taps` positions from `first` on, `step` apart, those in [from, to).
static int64_t tapsWithin(int64_t first, int64_t step, int64_t taps,
                          int64_t from, int64_t to) {
  auto before = [&](int64_t end) {
    int64_t distance = std::max<int64_t>(end - first, 0);
    return std::min<int64_t>(llvm::divideCeil(distance, step), taps);
  };
  return std::max<int64_t>(before(to) - before(from), 0);
}

int64_t PlanePool::columnsAt(int64_t column) const {
  return tapsWithin(column * sw - lowW, dw, kw, countedFrom, countedTo);
}

std::optional<int64_t> PlanePool::columnsEverywhere() const {
  int64_t columns = columnsAt(0);
  for (int64_t column = 1; column < outWidth; ++column)
    if (columnsAt(column) != columns)
      return std::nullopt;
  return columns;
}

std::optional<int64_t> PlanePool::Taps::everywhere(bool countsBorder) const {
  if (areInside())
    return taps;
  std::optional<int64_t> extent = size.asConstant(),
                         count = outSize.asConstant(),
                         behind = high.asConstant();
  constexpr int64_t mostPlaces = 1 << 16;
  if (!extent || !count || !behind || *count < 1 || *count > mostPlaces)
    return std::nullopt;
  auto countedAt = [&](int64_t place) {
    return tapsWithin(place * stride - low, dilation, taps,
                      countsBorder ? -low : 0,
                      countsBorder ? *extent + *behind : *extent);
  };
  int64_t counted = countedAt(0);
  for (int64_t place = 1; place < *count; ++place)
    if (countedAt(place) != counted)
      return std::nullopt;
  return counted;
}

/// Spatial dim `i` of `op`.
static PlanePool::Taps tapsOf(PoolOp op, unsigned i) {
  return {op.getWindow()[i],           op.getStrides()[i],
          op.getDilations()[i],        *dimsOf(op.getLow())[i].asConstant(),
          dimsOf(op.getHigh())[i],     dimOf(op.getInput(), i + 2),
          dimOf(op.getResult(), i + 2)};
}

std::optional<PlanePool> knapper::planePoolOf(PoolOp op) {
  unsigned spatial = op.getWindow().size(), last = spatial - 1;
  if (op.getChannelsLast() || spatial < 1 || spatial > 3)
    return std::nullopt;
  std::optional<int64_t> width = dimsOf(op.getInput()).back().asConstant(),
                         outWidth = dimsOf(op.getResult()).back().asConstant();
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  for (Dim border : low)
    if (border.asConstant().value_or(-1) < 0)
      return std::nullopt;
  PlanePool p;
  p.op = op;
  p.spatial = spatial;
  p.averages = op.getKind() == PoolKind::average;
  p.countsBorder = p.averages && op.getCountPadding();
  Dim one = low[0].like(1), none = low[0].like(0);
  p.planes.size = p.planes.outSize = p.rows.size = p.rows.outSize = one;
  p.planes.high = p.rows.high = none;
  if (spatial > 1)
    p.rows = tapsOf(op, last - 1);
  if (spatial > 2)
    p.planes = tapsOf(op, 0);
  p.kw = op.getWindow()[last];
  p.sw = op.getStrides()[last];
  p.dw = op.getDilations()[last];
  p.lowW = *low[last].asConstant();
  p.width = width.value_or(0);
  p.outWidth = outWidth.value_or(0);
  if (p.width < 1 || p.outWidth < 1 || p.planes.taps < 1 || p.rows.taps < 1 ||
      p.kw < 1 || p.sw > mostPoolStride || p.width > widestPlane ||
      p.planes.taps > mostPoolRows / p.rows.taps)
    return std::nullopt;
  // Each alone first: their sums may be no 64-bit numbers.
  for (int64_t columns : {p.outWidth, p.kw, p.dw, p.lowW})
    if (columns > widestRow)
      return std::nullopt;
  if (p.paddedWidth() > widestRow || p.lowW + p.width > widestRow)
    return std::nullopt;
  p.countedTo = p.width;
  if (p.countsBorder) {
    std::optional<int64_t> highW = high[last].asConstant();
    if (!highW || *highW < 0 || *highW > widestRow)
      return std::nullopt;
    p.countedFrom = -p.lowW;
    p.countedTo += *highW;
  }
  return p;
}

std::optional<PlaneDepthwise> knapper::planeDepthwiseOf(ConvOp op) {
  unsigned spatial = op.getStrides().size(), last = spatial - 1;
  Type element = elementTypeOf(op.getInput());
  if (op.getChannelsLast() || (spatial != 1 && spatial != 2) ||
      op.getGroups() < 2 || !allOnes(op.getInputDilations()) ||
      !isa<FloatType>(element) || element != elementTypeOf(op.getFilter()))
    return std::nullopt;
  SmallVector<Dim> in = dimsOf(op.getInput()), filter = dimsOf(op.getFilter()),
                   out = dimsOf(op.getResult()), low = dimsOf(op.getLow()),
                   high = dimsOf(op.getHigh());
  int64_t groups = op.getGroups();
  if (!filter[1].isConstant(1) || !in[1].isConstant(groups))
    return std::nullopt;
  for (Dim dim : {filter[0], filter[2], filter.back(), in.back(), out.back()})
    if (dim.asConstant().value_or(0) < 1)
      return std::nullopt;
  for (unsigned i = 0; i < spatial; ++i)
    if (low[i].asConstant().value_or(-1) < 0 ||
        high[i].asConstant().value_or(-1) < 0)
      return std::nullopt;
  PlaneDepthwise p;
  p.op = op;
  p.perChannel = *filter[0].asConstant() / groups;
  p.hasRows = spatial == 2;
  p.height = p.outHeight = in[0].like(1);
  if (p.hasRows) {
    p.kh = *filter[2].asConstant();
    p.sh = op.getStrides()[0];
    p.dh = op.getDilations()[0];
    p.lowH = *low[0].asConstant();
    p.height = in[2];
    p.outHeight = out[2];
  }
  p.kw = *filter.back().asConstant();
  p.sw = op.getStrides()[last];
  p.dw = op.getDilations()[last];
  p.lowW = *low[last].asConstant();
  p.width = *in.back().asConstant();
  p.outWidth = *out.back().asConstant();
  // Taps are no loop in the generated code.
  if (p.kh > mostDepthwiseTaps || p.kw > mostDepthwiseTaps / p.kh ||
      p.sw > mostDepthwiseStride || p.sh > mostDepthwiseStride ||
      p.width > widestPlane)
    return std::nullopt;
  for (int64_t columns : {p.outWidth, p.dw, p.dh, p.lowW})
    if (columns > widestRow)
      return std::nullopt;
  // (A window's rows are all in scratch.)
  if (p.paddedWidth() > widestRow || p.lowW + p.width > widestRow ||
      ((p.kh - 1) * p.dh + 1) * p.paddedWidth() > mostRowBytes / 4)
    return std::nullopt;
  return p;
}

/// Arguments, or what elementwise ops and borders make of them. Broadcasts and
/// constants beside them lie as the others do.
static bool comesInPlanes(Value x) {
  constexpr int mostOps = 8;
  int ops = 0;
  bool some = false;
  SmallVector<Value> work{x};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (isa<BlockArgument>(value)) {
      some = true;
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (isa<BroadcastOp, ConstantOp, WeightOp>(op))
      continue;
    if (auto pad = dyn_cast<PadOp>(op)) {
      work.push_back(pad.getInput());
      continue;
    }
    if (!isa<ElementwiseOpInterface>(op) || op->getNumOperands() == 0 ||
        ++ops > mostOps)
      return false;
    llvm::append_range(work, op->getOperands());
  }
  return some;
}

bool knapper::prefersPlanes(PoolOp op) {
  if (op.getChannelsLast())
    return false;
  SmallVector<Dim> out = dimsOf(op.getResult());
  constexpr int64_t mostChannels = 8, leastWidth = 16, wide = 128,
                    leastOfRows = 4;
  // An input lies in planes anyway: what is moved is the smaller result.
  bool isFew = out[1].asConstant().value_or(mostChannels + 1) <= mostChannels;
  int64_t width = out.back().asConstant().value_or(0);
  if (planePoolOf(op) && width >= leastOfRows && comesInPlanes(op.getInput()))
    return true;
  return isFew ? width >= leastWidth
               : width >= wide && isa<BlockArgument>(op.getInput());
}

bool knapper::depthwisePrefersPlanes(ConvOp op) {
  std::optional<PlaneDepthwise> p = planeDepthwiseOf(op);
  if (!p || !comesInPlanes(op.getInput()))
    return false;
  // What each tap reads of a plane crosses lines of the cache.
  constexpr int64_t leastWidth = 8, mostTaps = 25;
  int64_t features = op.getGroups() * p->perChannel;
  return p->outWidth >= leastWidth &&
         (p->kh * p->kw <= mostTaps || features <= mostFeatures);
}

bool knapper::pointPrefersPlanes(ConvOp op) {
  if (!prefersPlanes(op))
    return false;
  // (What stands behind a sum moves before it.)
  Operation *user = op;
  do
    user = user->hasOneUse() ? *user->user_begin() : nullptr;
  while (user && isa<ElementwiseOpInterface>(user));
  bool isApart = user && isa<ReshapeOp>(user);
  return isApart ||
         dimsOf(op.getFilter())[0].asConstant().value_or(0) <= mostFeatures;
}

bool knapper::groupsPreferPlanes(ConvOp op) {
  if (op.getChannelsLast() || op.getGroups() == 1 ||
      !allOnes(op.getStrides()) || !allOnes(op.getInputDilations()))
    return false;
  Type element = elementTypeOf(op.getInput());
  if (!isa<FloatType>(element) || element != elementTypeOf(op.getFilter()))
    return false;
  SmallVector<Dim> in = dimsOf(op.getInput()), filter = dimsOf(op.getFilter());
  auto isZero = [](Dim dim) { return dim.isConstant(0); };
  if (!llvm::all_of(ArrayRef<Dim>(filter).drop_front(2),
                    [](Dim window) { return window.isConstant(1); }) ||
      !llvm::all_of(dimsOf(op.getLow()), isZero) ||
      !llvm::all_of(dimsOf(op.getHigh()), isZero))
    return false;
  // One channel a group is no matmul.
  int64_t features = filter[0].asConstant().value_or(0),
          channels = filter[1].asConstant().value_or(0);
  constexpr int64_t leastPixels = 32, typicalSize = 64;
  if (features < 1 || channels < 2)
    return false;
  int64_t pixels = 1;
  for (Dim dim : ArrayRef<Dim>(in).drop_front(2))
    pixels *= dim.asConstant().value_or(typicalSize);
  // Each image has a copy of the filter.
  bool isCheap =
      in[0].isConstant(1) ||
      channels * features <=
          (channels * static_cast<int64_t>(op.getGroups()) + features) * pixels;
  return pixels >= leastPixels && isCheap;
}

bool knapper::phasesPreferPlanes(ConvOp op) {
  if (op.getChannelsLast() || op.getInputDilations().size() != 2 ||
      op.getGroups() != 1 || allOnes(op.getInputDilations()))
    return false;
  SmallVector<Dim> filter = dimsOf(op.getFilter()), in = dimsOf(op.getInput());
  std::optional<int64_t> features = filter[0].asConstant(),
                         channels = filter[1].asConstant(),
                         width = in[3].asConstant();
  if (!features || !channels || !width)
    return false;
  int64_t phases = 1, rows = 1;
  bool overlap = false, isWhole = true;
  for (auto [i, spread] : llvm::enumerate(op.getInputDilations())) {
    std::optional<int64_t> window = filter[i + 2].asConstant();
    if (!window)
      return false;
    phases *= spread;
    overlap |= *window > spread;
    isWhole &= *window % spread == 0;
    rows = i ? rows : llvm::divideCeil(*window, spread);
  }
  // Windows that do not overlap are a matmul (ChannelsLast.h), if channels fill
  // its registers.
  return (overlap || (isWhole && *channels <= mostPointChannels)) &&
         *features * phases <= mostPhases &&
         4 * *channels * rows * (*width + 8) <= mostRowBytes;
}
