// Sorting a line in one CTA, in shared memory: Batcher's bitonic sorter
// ("Sorting networks and their applications", AFIPS 1968). A thread holds eight
// words whose places differ in three bits, so that up to three steps need one
// exchange through shared memory. Longer lines are runs sorted so, then merges
// (graph/layout/SplitSorts.h, GpuMergeSort.cpp).
//
// Parameters: lanes, threads, access; size (words of the network).
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/irregular/GpuSorter.h"
#include "ir/tile/BlockOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t kHeldBits = 3, kHeld = 1 << kHeldBits;

struct BitonicSort : GpuSorter {
  int64_t size;
  SmallVector<Type, 2> types = {};
  SmallVector<Value, 2> lists = {};
  Value ids = {};
  using Words = SmallVector<Value, 2>;

  BitonicSort(BuildContext &context, const config::BitonicSortGpuConfig &config)
      : GpuSorter{.context = context, .lanes = config.lanes},
        size(config.size) {}

  /// Where a word lies: eight neighbours of each of 16 threads in 16 pairs of
  /// banks.
  Value placeOf(Value i) {
    Value rotated = both(shiftRight(i, 4), number(15));
    return toIndices(arith::XOrIOp::create(b, loc, i, rotated));
  }
  Words read(Value i) {
    Value at = placeOf(i);
    Words words;
    for (auto [list, type] : llvm::zip(lists, types))
      words.push_back(tile::GatherOp::create(
          b, loc, VectorType::get(lanes, type), list, at));
    return words;
  }
  void write(const Words &words, Value i) {
    Value at = placeOf(i);
    for (auto [list, word] : llvm::zip(lists, words))
      tile::ScatterOp::create(b, loc, word, list, at);
  }
  Value isSmaller(const Words &a, const Words &x) {
    using P = arith::CmpIPredicate;
    Value first = is(P::ult, a[0], x[0]);
    if (a.size() == 1)
      return first;
    return either(first, both(is(P::eq, a[0], x[0]), is(P::ult, a[1], x[1])));
  }

  LogicalResult fill();
  /// Steps that exchange words whose places differ in bits `from` down to `to`
  /// of a stage (runs of 2^stage words come out in order, every other one
  /// backwards). Several stages if they stay within the eight words.
  void pass(ArrayRef<std::pair<int64_t, int64_t>> steps);
  LogicalResult storeLine();
  LogicalResult build();
};

LogicalResult BitonicSort::fill() {
  Value n = e.size(ts::dimsOf(op.getInput())[axis]);
  std::optional<int64_t> known = ts::dimsOf(op.getInput())[axis].asConstant();
  for (int64_t c = 0; c < kHeld; ++c) {
    int64_t first = c * lanes;
    Value place = add(ids, number(first));
    Words words;
    if (known && *known <= first) {
      for (Type type : types)
        words.push_back(e.widen(
            arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0)),
            lanes));
      write(words, place);
      continue;
    }
    Coord at = line;
    at.dims[axis] = {e.constant(first), 1, {}, lanes};
    bool whole = known && *known >= first + lanes;
    if (!whole)
      at.valid = e.sub(n, e.constant(first));
    Value x = e.emit(op.getInput(), at);
    if (!x)
      return failure();
    Value key = keys.of(e.widen(x, lanes), lanes);
    if (placed)
      words = keys.words(key, place, lanes);
    else
      words.push_back(key);
    // Behind all of the line.
    if (!whole)
      for (Value &word : words) {
        Value none = e.widen(
            arith::ConstantOp::create(
                b, loc,
                b.getIntegerAttr(getElementTypeOrSelf(word.getType()), 0)),
            lanes);
        word = pick(e.laneMask(lanes, at.valid), word, none);
      }
    write(words, place);
  }
  return success();
}

void BitonicSort::pass(ArrayRef<std::pair<int64_t, int64_t>> steps) {
  // The window of three bits that has all of the steps' bits.
  int64_t low = std::max<int64_t>(0, steps.front().second - (kHeldBits - 1));
  Value base = ids;
  if (low > 0)
    base = either(shiftLeft(shiftRight(ids, low), low + kHeldBits),
                  both(ids, number((int64_t(1) << low) - 1)));
  else
    base = shiftLeft(ids, kHeldBits);
  SmallVector<Words, kHeld> held;
  SmallVector<Value, kHeld> places;
  for (int64_t w = 0; w < kHeld; ++w) {
    places.push_back(w ? either(base, number(w << low)) : base);
    held.push_back(read(places.back()));
  }
  int64_t lastStage = llvm::Log2_64(size);
  for (auto [stage, bit] : steps) {
    Value backwards;
    if (stage >= low + kHeldBits && stage < lastStage)
      backwards = is(arith::CmpIPredicate::ne,
                     both(base, number(int64_t(1) << stage)), number(0));
    for (int64_t w = 0; w < kHeld; ++w) {
      int64_t other = w | (int64_t(1) << (bit - low));
      if (other == w)
        continue;
      Value swap = isSmaller(held[w], held[other]);
      if (backwards) {
        swap = arith::XOrIOp::create(b, loc, swap, backwards);
      } else if (stage < lastStage && (w >> (stage - low)) & 1) {
        swap = isSmaller(held[other], held[w]);
      }
      for (auto [x, y] : llvm::zip(held[w], held[other])) {
        Value first = pick(swap, y, x);
        y = pick(swap, x, y);
        x = first;
      }
    }
  }
  for (auto [words, place] : llvm::zip(held, places))
    write(words, place);
  tile::BarrierOp::create(b, loc);
}

LogicalResult BitonicSort::storeLine() {
  Dim k = op.getK();
  Value wanted = e.size(k);
  for (int64_t c = 0; c < kHeld; ++c) {
    int64_t first = c * lanes;
    if (k.asConstant() && *k.asConstant() <= first)
      break;
    Value valid;
    if (!k.asConstant() || *k.asConstant() < first + lanes)
      valid = e.sub(wanted, e.constant(first));
    Words words = read(add(ids, number(first)));
    Value places, values;
    if (placed)
      places = keys.places(words, lanes);
    else
      values = keys.elementOf(words[0], lanes);
    Coord to = line;
    to.dims[axis] = {e.constant(first), 1, {}, lanes};
    to.valid = valid;
    auto sorted = [&] { return placed ? elementsAt(places, valid) : values; };
    if (failed(store(to, places, sorted)))
      return failure();
  }
  return success();
}

LogicalResult BitonicSort::build() {
  if (placed)
    types = keys.wordTypes();
  else
    types.push_back(keys.type);
  for (Type type : types)
    lists.push_back(
        tile::SharedOp::create(b, loc, tile::BufferType::get(type), size));
  takeLine(aroundOf(op));
  ids = laneIds();
  if (failed(fill()))
    return failure();
  tile::BarrierOp::create(b, loc);
  using Step = std::pair<int64_t, int64_t>; // stage, bit
  SmallVector<Step> steps;
  for (int64_t stage = 1; stage <= kHeldBits; ++stage)
    for (int64_t bit = stage - 1; bit >= 0; --bit)
      steps.push_back({stage, bit});
  // All of these bits are within the last three; the window is that of bit 2.
  pass(steps);
  for (int64_t stage = kHeldBits + 1; stage <= llvm::Log2_64(size); ++stage) {
    int64_t bit = stage - 1;
    int64_t at = stage % kHeldBits ? stage % kHeldBits : kHeldBits;
    while (bit >= 0) {
      steps.clear();
      for (int64_t i = 0; i < at; ++i)
        steps.push_back({stage, bit--});
      pass(steps);
      at = kHeldBits;
    }
  }
  return storeLine();
}

} // namespace

LogicalResult chooseGpuBitonicSort(ts::KernelOp kernel,
                                   const TargetDesc &target, Knobs &knobs,
                                   SmallVectorImpl<Schedule> &schedules) {
  ts::TopKOp op = firstOp<ts::TopKOp>(kernel);
  if (!op)
    return kernel.emitOpError("has hero sort and none inside");
  Dim length = ts::dimsOf(op.getInput())[op.getDim()];
  std::optional<int64_t> n = length.asConstant(),
                         k = Dim(op.getK()).asConstant();
  bool wide = ts::elementBytes(ts::elementTypeOf(op.getInput())) > 4;
  // Shorter lines, and few of a line's elements, are ranked in less time.
  constexpr int64_t fewest = 128, least = 256, most = 4096, mostWide = 2048;
  constexpr int64_t fewerOf = 8;
  bool both = wide && needsPlaces(kernel, op);
  if (!n || !k || *n <= fewest || *n > (both ? mostWide : most) ||
      *k < fewest || *k * fewerOf < *n)
    return success();
  Schedule schedule;
  schedule.kind = "gpu_bitonic_sort";
  int64_t size = std::max<int64_t>(least, llvm::PowerOf2Ceil(*n));
  schedule.parameters = config::print(config::BitonicSortGpuConfig{
      {size / kHeld, size / kHeld, /*access=*/1}, size});
  schedule.grid = ts::product(kernel.getContext(), aroundOf(op));
  schedule.grain = schedule.grid.like(1);
  schedule.scratch = schedule.grid.like(0);
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuBitonicSort(BuildContext &context) {
  auto config = configOf<config::BitonicSortGpuConfig>(context);
  if (failed(config))
    return failure();
  return BitonicSort(context, *config).build();
}

} // namespace knapper
