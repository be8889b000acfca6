// Sorting many short lines, or taking their first elements: a thread has a
// whole line in registers, and a network of exchanges that no branch depends on
// puts it in order (Batcher's odd-even merging for any number of elements:
// Knuth, TAOCP 3, 5.2.2 M). Exchanges that the first k places do not depend on
// are left out: of k = 1 a tree of comparisons is left.
//
// Keys of up to 16 bits and places make words of 32 bits together, of which an
// exchange is a maximum and a minimum.
//
// Threads take neighbouring lines. Where a line's elements follow each other,
// neighbouring threads read and write neighbouring elements by way of shared
// memory (`staged`); without, each its own line's.
//
// Parameters: lanes (lines of a CTA), threads, access, staged.
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/irregular/GpuSorter.h"
#include "ir/config/DeviceLimits.h"
#include "ir/tile/BlockOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Bits of a narrow word that hold a place. f32 of f16 has no fewer zeros at
/// the end of its fraction, which are zero or one in all keys of a sign.
constexpr int64_t kPlaceBits = 13, kPlaces = (1 << kPlaceBits) - 1;

using Exchange = std::pair<int64_t, int64_t>; // the larger goes to the first

/// The exchanges that put the first `k` of `n` words in their places.
SmallVector<Exchange> networkOf(int64_t n, int64_t k) {
  SmallVector<Exchange> all, needed;
  int64_t top = n > 1 ? int64_t(llvm::PowerOf2Ceil(n)) / 2 : 0;
  for (int64_t p = top; p > 0; p /= 2) {
    int64_t rest = 0, distance = p;
    for (int64_t q = top;; q /= 2) {
      for (int64_t i = 0; i + distance < n; ++i)
        if ((i & p) == rest)
          all.push_back({i, i + distance});
      if (q == p)
        break;
      distance = q - p;
      rest = p;
    }
  }
  SmallVector<bool> wanted(n, false);
  std::fill_n(wanted.begin(), k, true);
  for (auto [i, j] : llvm::reverse(all))
    if (wanted[i] || wanted[j]) {
      wanted[i] = wanted[j] = true;
      needed.push_back({i, j});
    }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

/// The element's key leaves room for its place in a word of 32 bits.
bool isNarrow(ts::TopKOp op) {
  return ts::elementBytes(ts::elementTypeOf(op.getInput())) <= 2;
}

struct LineSort : GpuSorter {
  bool staged;
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  int64_t n = *dims[axis].asConstant(), k = *Dim(op.getK()).asConstant();
  Dim before = Dim::constant(b.getContext(), 1), inner = before;
  Type stored = ts::elementTypeOf(op.getInput());
  Type element = computeType(stored);
  bool narrow = isNarrow(op);
  Value first = {}, valid = {}; ///< line; lines from there on, null: enough
  Value list = {}, order = {};  ///< elements; places of results
  using Words = SmallVector<Value, 2>;

  LineSort(BuildContext &context, const config::LineSortGpuConfig &config)
      : GpuSorter{.context = context, .lanes = config.lanes},
        staged(config.staged) {
    for (auto [i, dim] : llvm::enumerate(dims)) {
      before = i < axis ? before * dim : before;
      inner = i > axis ? inner * dim : inner;
    }
  }

  //===- Where elements lie -----------------------------------------------===//
  /// Of lanes: the line's place in the dims before and behind the sorted one.
  struct Lines {
    LaneIndex outside, inside;
  };
  void takeLines();
  Lines linesAt(LaneIndex line);
  /// Positions of the elements of all lanes' lines, of `length` each. Behind
  /// the last line they are that of its last, so that no read waits for a
  /// branch.
  Value readable(int64_t length);
  /// Place `j` of each lane's line.
  Coord placeOf(const Lines &lines, LaneIndex j) {
    Coord at;
    at.lanes = lanes;
    at.dims = {lines.outside, j, lines.inside};
    return at;
  }
  /// The input at `at` in `space`, dims of the same elements.
  Value emitAt(const Coord &at, ArrayRef<Dim> space);
  Value elementAt(LaneIndex j) {
    return emitAt(placeOf(read, j), {before, dims[axis], inner});
  }

  //===- Lines in shared memory -------------------------------------------===//
  /// From one line of `length` to the next: odd, so that no two threads of a
  /// half-warp meet in a bank.
  static int64_t pitchOf(int64_t length) { return length | 1; }
  /// Numbers of a tile's lanes.
  Value idsOf(int64_t count) {
    return arith::IndexCastOp::create(
        b, loc, VectorType::get(count, i32),
        e.lanePositions({e.constant(0), 1, {}, 1}, count));
  }
  /// Line and place in it of each element of a run, i32.
  std::pair<Value, Value> splitRun(int64_t length);
  /// Where places of lines (i32, `count` lanes) lie.
  Value slotOf(Value line, Value place, int64_t length, int64_t count);
  /// What lies there in a buffer, in compute form.
  Value listed(Value buffer, Value slots);
  /// The element of `list`: floats are kept as they were read.
  Type held() { return isa<FloatType>(element) ? stored : element; }
  LogicalResult fill();
  LogicalResult storeStaged(ArrayRef<Words> sorted);

  //===- Words ------------------------------------------------------------===//
  Words wordsOf(Value x, int64_t place);
  Value placesOf(const Words &words);
  Value valuesOf(const Words &words);
  /// The larger goes to `a`.
  void exchange(Words &a, Words &x);
  /// Stores `count` results at `at` in `space`, dims of the same elements as
  /// the kernel's results.
  LogicalResult storeResults(Value places, int64_t count, const Coord &at,
                             ArrayRef<Dim> space,
                             llvm::function_ref<Value()> values);
  LogicalResult build();

  Lines read, write = {};
};

void LineSort::takeLines() {
  first = e.mul(tile::ProgramIdOp::create(b, loc), e.constant(lanes));
  Dim count = before * inner;
  if (count.knownDivisor() % lanes)
    valid = e.sub(e.size(count), first);
  LaneIndex line{first, 1, {}, lanes};
  read = write = linesAt(line);
  if (valid)
    read = linesAt({{}, 0, readable(1)});
}

LineSort::Lines LineSort::linesAt(LaneIndex line) {
  if (inner.isConstant(1))
    return {line, {e.constant(0)}};
  auto type = VectorType::get(lanes, b.getIndexType());
  Value position = e.lanePositions(line, lanes);
  Value count = vector::BroadcastOp::create(b, loc, type, e.size(inner));
  return {{{}, 0, arith::DivUIOp::create(b, loc, position, count)},
          {{}, 0, arith::RemUIOp::create(b, loc, position, count)}};
}

Value LineSort::readable(int64_t length) {
  int64_t count = lanes * length;
  Value there = e.mul(e.min(valid, e.constant(lanes)), e.constant(length));
  Value last =
      arith::IndexCastOp::create(b, loc, i32, e.sub(there, e.constant(1)));
  Value near = least(idsOf(count), e.widen(last, count));
  auto type = VectorType::get(count, b.getIndexType());
  Value begin = vector::BroadcastOp::create(b, loc, type,
                                            e.mul(first, e.constant(length)));
  return add(begin, arith::IndexCastOp::create(b, loc, type, near));
}

Value LineSort::emitAt(const Coord &at, ArrayRef<Dim> space) {
  Coord full = e.reshape(at, space, dims);
  e.provide = [&](Value tensor, const Coord &coord) -> Value {
    auto argument = dyn_cast<BlockArgument>(tensor);
    if (!argument || !(coord == full) || ts::dimsOf(tensor) != dims)
      return {};
    return e.load(
        e.inputBuffer(argument),
        ts::tensorType(b.getContext(), space, ts::elementTypeOf(tensor)), at);
  };
  Value x = e.emit(op.getInput(), full);
  e.provide = nullptr;
  if (!x)
    return x;
  x = e.widen(x, at.lanes);
  // Equal once rounded is equal.
  if (!isa<BlockArgument>(op.getInput()) && held() != element) {
    Type half = VectorType::get(at.lanes, stored);
    Value rounded = arith::TruncFOp::create(b, loc, half, x);
    x = arith::ExtFOp::create(b, loc, x.getType(), rounded);
  }
  return x;
}

//===-- Lines in shared memory --------------------------------------------===//

std::pair<Value, Value> LineSort::splitRun(int64_t length) {
  int64_t count = lanes * length;
  Value ids = idsOf(count);
  Value by = e.splat(i32, count, length);
  return {arith::DivUIOp::create(b, loc, ids, by),
          arith::RemUIOp::create(b, loc, ids, by)};
}

Value LineSort::slotOf(Value line, Value place, int64_t length, int64_t count) {
  Value slot = add(
      arith::MulIOp::create(b, loc, line, e.splat(i32, count, pitchOf(length))),
      place);
  return arith::IndexCastOp::create(
      b, loc, VectorType::get(count, b.getIndexType()), slot);
}

Value LineSort::listed(Value buffer, Value slots) {
  int64_t count = cast<VectorType>(slots.getType()).getNumElements();
  Type type = cast<tile::BufferType>(buffer.getType()).getElementType();
  Value x = tile::GatherOp::create(b, loc, VectorType::get(count, type), buffer,
                                   slots);
  if (type == element || type != stored)
    return x;
  return arith::ExtFOp::create(b, loc, VectorType::get(count, element), x);
}

LogicalResult LineSort::fill() {
  int64_t count = lanes * n;
  Coord at;
  at.lanes = count;
  at.dims = {valid ? LaneIndex{{}, 0, readable(n)}
                   : LaneIndex{e.mul(first, e.constant(n)), 1, {}, count}};
  Value x = emitAt(at, {before * dims[axis]});
  if (!x)
    return failure();
  auto [line, place] = splitRun(n);
  if (held() != element) {
    auto wide = x.getDefiningOp<arith::ExtFOp>();
    x = wide ? wide.getIn()
             : arith::TruncFOp::create(b, loc, VectorType::get(count, stored),
                                       x);
  }
  tile::ScatterOp::create(b, loc, x, list, slotOf(line, place, n, count));
  tile::BarrierOp::create(b, loc);
  return success();
}

LogicalResult LineSort::storeStaged(ArrayRef<Words> sorted) {
  // Values take their elements' places once all of these are read.
  if (!placed)
    tile::BarrierOp::create(b, loc);
  for (int64_t r = 0; r < k; ++r) {
    if (placed)
      tile::ScatterOp::create(
          b, loc,
          arith::TruncIOp::create(b, loc, VectorType::get(lanes, b.getI8Type()),
                                  placesOf(sorted[r])),
          order, slotOf(laneIds(), number(r), k, lanes));
    else
      tile::ScatterOp::create(b, loc, keys.elementOf(sorted[r][0], lanes), list,
                              slotOf(laneIds(), number(r), n, lanes));
  }
  tile::BarrierOp::create(b, loc);
  int64_t count = lanes * k;
  auto [line, place] = splitRun(k);
  if (placed)
    place =
        arith::ExtUIOp::create(b, loc, VectorType::get(count, i32),
                               listed(order, slotOf(line, place, k, count)));
  Coord to;
  to.lanes = count;
  to.dims = {{e.mul(first, e.constant(k)), 1, {}, count}};
  if (valid)
    to.valid = e.mul(valid, e.constant(k));
  return storeResults(place, count, to, {before * Dim(op.getK())}, [&] {
    return listed(list, slotOf(line, place, n, count));
  });
}

//===-- Words -------------------------------------------------------------===//

LineSort::Words LineSort::wordsOf(Value x, int64_t place) {
  Value key = keys.of(x, lanes);
  if (!placed)
    return {key};
  if (!narrow)
    return keys.words(key, number(place), lanes);
  constexpr int64_t half = 16;
  if (!isa<FloatType>(stored)) {
    key = shiftLeft(key, half);
    if (!stored.isUnsignedInteger())
      key = arith::XOrIOp::create(b, loc, key, number(INT32_MIN));
  }
  return {either(both(key, number(~kPlaces)), number(kPlaces - place))};
}

Value LineSort::placesOf(const Words &words) {
  if (!narrow)
    return keys.places(words, lanes);
  return arith::XOrIOp::create(b, loc, both(words[0], number(kPlaces)),
                               number(kPlaces));
}

Value LineSort::valuesOf(const Words &words) {
  if (!placed)
    return keys.elementOf(words[0], lanes);
  Value places = placesOf(words);
  if (staged)
    return listed(list, slotOf(laneIds(), places, n, lanes));
  return elementAt({{}, 0, toIndices(places)});
}

void LineSort::exchange(Words &a, Words &x) {
  using P = arith::CmpIPredicate;
  if (a.size() == 1 && getElementTypeOrSelf(a[0].getType()) == i32) {
    Value larger = arith::MaxUIOp::create(b, loc, a[0], x[0]);
    x[0] = arith::MinUIOp::create(b, loc, a[0], x[0]);
    a[0] = larger;
    return;
  }
  Value swap = is(P::ult, a[0], x[0]);
  if (a.size() > 1)
    swap = either(swap, both(is(P::eq, a[0], x[0]), is(P::ult, a[1], x[1])));
  for (auto [y, z] : llvm::zip(a, x)) {
    Value larger = pick(swap, z, y);
    z = pick(swap, y, z);
    y = larger;
  }
}

LogicalResult LineSort::storeResults(Value places, int64_t count,
                                     const Coord &at, ArrayRef<Dim> space,
                                     llvm::function_ref<Value()> values) {
  for (auto [r, value] : llvm::enumerate(context.kernel.yield().getValues())) {
    Value x;
    if (value == op.getValues())
      x = values();
    else if (value == op.getIndices() && placed)
      x = arith::ExtUIOp::create(b, loc, VectorType::get(count, b.getI64Type()),
                                 places);
    else
      return context.kernel.emitOpError(
          "stores something else than the sort's results");
    if (!x)
      return failure();
    Type type = ts::tensorType(b.getContext(), space, ts::elementTypeOf(value));
    e.store(x, e.outputBuffer(r), type, at);
  }
  return success();
}

LogicalResult LineSort::build() {
  auto shared = [&](Type type, int64_t length) -> Value {
    return tile::SharedOp::create(b, loc, tile::BufferType::get(type),
                                  lanes * pitchOf(length));
  };
  bool storesStaged = staged && k > 1;
  if (staged)
    list = shared(held(), n);
  if (storesStaged && placed)
    order = shared(b.getI8Type(), k);
  takeLines();
  if (staged && failed(fill()))
    return failure();
  SmallVector<Words> words;
  for (int64_t j = 0; j < n; ++j) {
    Value x = staged ? listed(list, slotOf(laneIds(), number(j), n, lanes))
                     : elementAt({e.constant(j)});
    if (!x)
      return failure();
    words.push_back(wordsOf(x, j));
  }
  for (auto [i, j] : networkOf(n, k))
    exchange(words[i], words[j]);
  if (storesStaged)
    return storeStaged(ArrayRef<Words>(words).take_front(k));
  for (int64_t r = 0; r < k; ++r) {
    Coord to = placeOf(write, {e.constant(r)});
    to.valid = valid;
    if (failed(storeResults(placed ? placesOf(words[r]) : Value(), lanes, to,
                            {before, Dim(op.getK()), inner},
                            [&] { return valuesOf(words[r]); })))
      return failure();
  }
  return success();
}

} // namespace

LogicalResult chooseGpuLineSort(ts::KernelOp kernel, const TargetDesc &target,
                                Knobs &knobs,
                                SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  SmallVector<Dim> dims = ts::dimsOf(op.getInput());
  std::optional<int64_t> n = dims[op.getDim()].asConstant(),
                         k = Dim(op.getK()).asConstant();
  Dim one = Dim::constant(kernel.getContext(), 1), lines = one, inner = one;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    lines = i == op.getDim() ? lines : lines * dim;
    inner = i > op.getDim() ? inner * dim : inner;
  }
  // Of words that a thread holds. (Where a result's place is read again, its
  // address takes registers, too.)
  constexpr int64_t mostNarrow = 128, most = 64, mostWide = 24;
  constexpr int64_t mostWithResults = 192;
  int64_t bytes = ts::elementBytes(ts::elementTypeOf(op.getInput()));
  bool narrow = isNarrow(op) && inner.isConstant(1) && n && k &&
                *n + *k <= mostWithResults;
  if (!n || !k || *n < 1 || *k < 1 ||
      *n > (bytes > 4 ? mostWide
            : narrow  ? mostNarrow
                      : most) ||
      op->hasAttr("ts.runs"))
    return success();
  config::LineSortGpuConfig config;
  config.lanes = 128;
  // Smaller CTAs, as long as an SM has none.
  constexpr int64_t ctas = 2, fewLanes = 64;
  if (std::optional<int64_t> number = lines.asConstant();
      number && *number < ctas * target.cores * config.lanes)
    config.lanes = fewLanes;
  // Elements that one access of a thread would hold lie close enough.
  constexpr int64_t access = 8, mostShared = config::kStaticSharedBytes;
  bool places = needsPlaces(kernel, op);
  int64_t held = LineSort::pitchOf(*n) * bytes +
                 (places && *k > 1 ? LineSort::pitchOf(*k) : 0);
  if (inner.isConstant(1) && (*k > 1 || *n * bytes > access)) {
    while (config.lanes > fewLanes && config.lanes * held > mostShared)
      config.lanes /= 2;
    config.staged = config.lanes * held <= mostShared;
  }
  config.threads = config.lanes;
  Schedule schedule;
  schedule.kind = "gpu_line_sort";
  schedule.parameters = config::print(config);
  schedule.grid = lines.ceilDiv(one * config.lanes);
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuLineSort(BuildContext &context) {
  auto config = configOf<config::LineSortGpuConfig>(context);
  if (failed(config))
    return failure();
  return LineSort(context, *config).build();
}

} // namespace knapper
