// Pointwise kernels: every result element is computed from index maps alone.
//
//   program = a block of consecutive elements along the lane dim, at one
//   position of the dims around it, or at several of the dim before it where
//   rows are short (or of the whole tensor seen as one run, where no op tells
//   the dims apart)
//
// Operands that are concatenated along the lane dim are taken one after the
// other, each with tiles of its own; of a row that is one register these are
// put together first. Short rows that lie side by side in an operand, and not
// in the result, are read side by side. The lanes of a tile lie across rows
// that are short (on GPUs: shorter than a few warps; on CPUs: than a register,
// under costly functions), each with indices of its own. Of elements that are
// repeated along the innermost dim (CPUs) a register is read and spread. On
// GPUs matmuls of little depth are such kernels too: a sum of a few products
// each.
//
// Parameters: lanes, block (elements a program covers along the lane dim, a
// multiple of lanes), flat (1: the whole tensor is one run), across (1: the
// results are one run, and lanes find their places in the dims), dim (the lane
// dim), rows (of the dim before it; of repeated rows, of all dims before it),
// repeat (how often each element of a row is stored), beside (positions of the
// dim before that, done for each of the rows), stream (1: results are stored
// past the caches).
#include "codegen/schedule/pointwise/Pointwise.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/pointwise/PointwiseDims.h"
#include "ir/config/PointwiseConfig.h"
#include <numeric>

using namespace mlir;

namespace knapper {

using ts::Dim;

ts::ConcatOp concatAlong(ts::KernelOp kernel, unsigned lane) {
  constexpr size_t most = 8;
  ts::ConcatOp found;
  for (auto concat : kernel.getBody().getOps<ts::ConcatOp>()) {
    if (concat.getDim() != lane ||
        ts::dimsOf(concat) != ts::dimsOf(kernel.getResult(0)))
      continue;
    if (found || concat.getInputs().size() > most)
      return {};
    found = concat;
  }
  return found;
}

/// Whether rows are several operands side by side and as long as a register,
/// which is then stored once.
static bool joinsToRegister(ts::KernelOp kernel, unsigned lane,
                            const TargetDesc &target) {
  ts::ConcatOp concat = concatAlong(kernel, lane);
  if (!concat || kernel.yield().getValues().size() != 1 ||
      kernel.yield().getValues()[0] != concat.getResult())
    return false;
  Type element = ts::elementTypeOf(concat);
  std::optional<int64_t> row = ts::dimsOf(concat)[lane].asConstant();
  return element.isF32() && row &&
         *row * ts::elementBytes(element) == target.vectorBytes &&
         llvm::all_of(concat.getInputs(),
                      [&](Value input) { return isa<BlockArgument>(input); });
}

/// Whether elements are only moved: writing one twice leaves it as it is, even
/// where the result lies in an operand's memory.
static bool onlyMoves(ts::KernelOp kernel) {
  return llvm::none_of(kernel.getBody().front(), [](Operation &op) {
    return isa<ts::ElementwiseOpInterface>(op);
  });
}

namespace {

/// A row that is put together before it is stored is so in parts of so many
/// elements, since what fills or changes such a part is one instruction.
constexpr int64_t kPart = 4;

class PointwiseBuilder {
public:
  PointwiseBuilder(BuildContext &context, ts::KernelOp kernel,
                   const config::PointwiseConfig &config, bool across,
                   int64_t beside, int64_t repeat = 1)
      : e(context.emitter), kernel(kernel), target(context.target),
        config(config), across(across), beside(beside), repeat(repeat),
        lanes(config.lanes), lane(config.dim),
        dims(ts::dimsOf(kernel.getResult(0))),
        run(isOneRun() || dims.empty() ? product(kernel.getContext(), dims)
                                       : dims[lane]),
        blocks(run.ceilDiv(run.like(config.block))), moves(onlyMoves(kernel)) {}

  LogicalResult build() {
    place();
    if (config.flat)
      e.provide = [this](Value tensor, const Coord &at) {
        return elementOfRun(tensor, at);
      };
    else if (across && !isGpu())
      e.provide = [this](Value tensor, const Coord &at) {
        return elementInPlace(tensor, at);
      };
    if (dims.empty() || run.isConstant(1)) {
      LogicalResult stored = oneElement();
      e.provide = nullptr;
      return stored;
    }
    if (repeat > 1)
      repeatedRows();
    else if (config.rows == 1 && beside == 1)
      row();
    else
      allRows();
    e.provide = nullptr;
    return status;
  }

private:
  bool isOneRun() const { return config.flat || across; }
  bool isGpu() const { return target.simt; }
  /// Whether rows are put together in registers.
  bool joins() const {
    return !isGpu() && moves && joinsToRegister(kernel, lane, target);
  }

  void place();
  Value elementOfRun(Value tensor, const Coord &at);
  Value elementInPlace(Value tensor, const Coord &at);
  Value spread(Value tile, Coord &place);
  void repeatedRows();
  LogicalResult oneElement();
  void fetchAhead(Value i);
  Coord placeOf(const LaneIndex &index, Value valid, int64_t lanes);
  void joinInto(int64_t first, Value result, int64_t lanes);
  FailureOr<SmallVector<Value>> tile(Value i, Value valid, int64_t lanes,
                                     int64_t multiple);
  void steps(Value from, Value to, int64_t lanes, int64_t multiple,
             bool divides);
  void segment(Value from, Value to, Dim first, Dim last);
  bool overlapped(Value from, int64_t start, int64_t done, int64_t length,
                  int64_t wide);
  void pieces(Dim first, Dim last);
  void operandOfRow(ts::ConcatOp concat, Value input, Dim first, Dim last);
  Value zeros(int64_t lanes);
  void storeJoined(ts::ConcatOp concat);
  void row();
  void allRows();
  void someRows(Value from, Value to, Value group, int64_t atOnce);

  ElementEmitter &e;
  ts::KernelOp kernel;
  const TargetDesc &target;
  const config::PointwiseConfig config;
  const bool across;
  const int64_t beside, repeat, lanes, lane;
  const SmallVector<Dim> dims;
  const Dim run, blocks;
  const bool moves;
  Value begin, end;          ///< of the program's block
  SmallVector<Value> outer;  ///< its position in the dims around the run
  Value tileStart;           ///< of the tile that is emitted
  LaneIndex tileRun;         ///< likewise, and its place in the dims
  SmallVector<LaneIndex> tilePlace;
  SmallVector<Value> joined; ///< parts of a row that is put together
  LogicalResult status = success();
};

} // namespace

void PointwiseBuilder::place() {
  Value position = tile::ProgramIdOp::create(e.builder, e.location);
  begin = e.constant(0);
  if (!blocks.isConstant(1)) {
    begin = e.mul(isOneRun() ? position : e.rem(position, e.size(blocks)),
                  e.constant(config.block));
    if (!isOneRun())
      position = e.div(position, e.size(blocks));
  }
  end = e.min(e.add(begin, e.constant(config.block)), e.size(run));
  if (blocks.isConstant(1))
    end = e.size(run);
  if (repeat > 1)
    return; // repeatedRows finds them

  SmallVector<Dim> around;
  if (!isOneRun())
    for (auto [i, dim] : llvm::enumerate(dims))
      if (static_cast<int64_t>(i) != lane)
        around.push_back(static_cast<int64_t>(i) + 1 == lane
                             ? dim.ceilDiv(dim.like(config.rows))
                         : static_cast<int64_t>(i) + 2 == lane && beside > 1
                             ? dim.floorDiv(dim.like(beside))
                             : dim);
  outer = e.delinearize(position, around);
}

/// Whether the innermost dim is no row of its own but repeats elements.
static bool isRepeated(int64_t d, const SmallVector<Dim> &dims,
                       int64_t repeat) {
  return repeat > 1 && d + 1 == int64_t(dims.size());
}

/// The rows of the program, counted through all dims around them.
void PointwiseBuilder::repeatedRows() {
  SmallVector<Dim> around(ArrayRef<Dim>(dims).take_front(lane));
  Dim all = product(kernel.getContext(), around);
  Value first = e.mul(tile::ProgramIdOp::create(e.builder, e.location),
                      e.constant(config.rows));
  forEach(
      e, first, e.min(e.add(first, e.constant(config.rows)), e.size(all)), {},
      [&](Value position, ValueRange) -> FailureOr<SmallVector<Value>> {
        outer = e.delinearize(position, around);
        row();
        return SmallVector<Value>();
      },
      status);
}

/// Each lane several times, and where that lies in a result whose last two dims
/// are one.
Value PointwiseBuilder::spread(Value tile, Coord &place) {
  int64_t count = place.lanes ? place.lanes : 1;
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < count * repeat; ++i)
    order.push_back(i / repeat);
  tile = e.widen(tile, count);
  Value times = e.constant(repeat);
  place.dims.pop_back();
  LaneIndex &index = place.dims.back();
  index.start = e.mul(index.start, times);
  index.multipleOf *= repeat;
  place.lanes = count * repeat;
  if (place.valid)
    place.valid = e.mul(place.valid, times);
  return vector::ShuffleOp::create(e.builder, e.location, tile, tile, order);
}

/// An operand of the results' shape is one run, as they are, where it is read
/// at their place.
Value PointwiseBuilder::elementInPlace(Value tensor, const Coord &at) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  auto isSame = [](const LaneIndex &a, const LaneIndex &b) {
    return a.start == b.start && a.step == b.step && a.perLane == b.perLane;
  };
  if (!argument || ts::dimsOf(argument) != dims || !at.lanes ||
      !llvm::equal(at.dims, tilePlace, isSame))
    return {};
  Coord place = at;
  place.dims = {tileRun};
  return e.load(
      e.inputBuffer(argument),
      ts::tensorType(kernel.getContext(), {run}, ts::elementTypeOf(argument)),
      place);
}

/// In the flat form all tensors of the results' shape are seen as one run.
/// Coordinates then have one dim, and elementwise ops pass them on unchanged.
Value PointwiseBuilder::elementOfRun(Value tensor, const Coord &at) {
  // Single elements are read at 0 whatever their rank; runs as one dim.
  bool single =
      ts::elementCount(tensor.getType()).isConstant(1) && !run.isConstant(1);
  if (single && !at.dims.empty()) {
    Coord scalar;
    Value value = e.emit(tensor, scalar);
    return value ? e.widen(value, at.lanes) : Value();
  }
  if (auto argument = dyn_cast<BlockArgument>(tensor)) {
    Type type = ts::tensorType(kernel.getContext(),
                               single ? ArrayRef<Dim>() : ArrayRef<Dim>(run),
                               ts::elementTypeOf(tensor));
    return e.load(e.inputBuffer(argument), type, at);
  }
  if (Operation *op = tensor.getDefiningOp();
      isa<ts::BroadcastOp, ts::ReshapeOp>(op))
    return e.emit(op->getOperand(0), at);
  return {};
}

/// No loop, no lanes.
LogicalResult PointwiseBuilder::oneElement() {
  Coord scalar;
  scalar.dims.assign(config.flat ? 1 : dims.size(), LaneIndex{e.constant(0)});
  unsigned next = 0;
  if (!isOneRun())
    for (size_t d = 0; d < dims.size(); ++d)
      if (static_cast<int64_t>(d) != lane)
        scalar.dims[d] = {outer[next++]};
  for (auto [k, value] : llvm::enumerate(kernel.yield().getValues())) {
    Type type = config.flat ? Type(ts::tensorType(kernel.getContext(), {run},
                                                  ts::elementTypeOf(value)))
                            : value.getType();
    Value result = e.emit(value, scalar);
    if (!result)
      return failure();
    e.store(result, e.outputBuffer(k), type, scalar);
  }
  return success();
}

/// The processor's own fetching ahead stops at pages, and begins again slowly.
/// This far ahead (two pages) streams measure 6 to 10 % faster.
void PointwiseBuilder::fetchAhead(Value i) {
  constexpr int64_t fetchedBytes = 8192, line = 64;
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    if (ts::elementCount(argument.getType()).isConstant(1))
      continue;
    int64_t bytes = ts::elementBytes(ts::elementTypeOf(argument));
    for (int64_t at = 0; at < lanes; at += line / bytes)
      tile::PrefetchOp::create(e.builder, e.location, e.inputBuffer(argument),
                               e.add(i, e.constant(fetchedBytes / bytes + at)),
                               /*locality=*/3);
  }
}

/// Where the tile of `lanes` that begins at `index` lies in the results.
Coord PointwiseBuilder::placeOf(const LaneIndex &index, Value valid,
                                int64_t lanes) {
  Coord at;
  at.lanes = lanes;
  at.valid = valid;
  if (config.flat) {
    at.dims = {index};
  } else if (across) {
    at.dims.assign(e.split(index, dims, lanes));
  } else {
    unsigned next = 0;
    for (size_t d = 0; d < dims.size(); ++d)
      at.dims.push_back(static_cast<int64_t>(d) == lane ? index
                        : isRepeated(d, dims, repeat)
                            ? LaneIndex{e.constant(0)}
                            : LaneIndex{outer[next++]});
  }
  return at;
}

void PointwiseBuilder::joinInto(int64_t first, Value result, int64_t lanes) {
  Value &into = joined[first / kPart];
  into = lanes == kPart
             ? result
             : vector::InsertStridedSliceOp::create(
                   e.builder, e.location, e.widen(result, lanes), into,
                   ArrayRef<int64_t>(first % kPart), ArrayRef<int64_t>(1))
                   .getResult();
}

/// Computes and stores a tile from `i` on, which is a multiple of `multiple`.
FailureOr<SmallVector<Value>>
PointwiseBuilder::tile(Value i, Value valid, int64_t lanes, int64_t multiple) {
  LaneIndex index{i, 1, {}, multiple};
  tileStart = i;
  if (config.flat && config.stream && !isGpu() && !valid)
    fetchAhead(i);
  Coord at = placeOf(index, valid, lanes);
  tileRun = index;
  tilePlace.assign(at.dims.begin(), at.dims.end());
  for (auto [k, value] : llvm::enumerate(kernel.yield().getValues())) {
    Type type = value.getType();
    Coord place = at;
    if (isOneRun()) {
      type =
          ts::tensorType(kernel.getContext(), {run}, ts::elementTypeOf(value));
      place.dims = {index};
    }
    Value result = e.emit(value, at);
    if (!result)
      return failure();
    if (repeat > 1) {
      SmallVector<Dim> whole = dims;
      whole.pop_back();
      whole.back() = whole.back() * repeat;
      type =
          ts::tensorType(kernel.getContext(), whole, ts::elementTypeOf(value));
      result = spread(result, place);
    }
    if (!joined.empty())
      joinInto(*getConstantIntValue(i), result, lanes);
    else
      e.store(e.widen(result, place.lanes), e.outputBuffer(k), type, place,
              config.stream);
  }
  return SmallVector<Value>();
}

void PointwiseBuilder::steps(Value from, Value to, int64_t lanes,
                             int64_t multiple, bool divides) {
  multiple = std::gcd(lanes, multiple);
  forLanes(
      e, from, to, lanes, divides, {},
      [&](Value i, Value valid, ValueRange) {
        return tile(i, valid, lanes, multiple);
      },
      status);
}

/// Of what is left of a segment behind `done`, tiles that lie across each other
/// instead of one under a mask. Returns whether that is possible.
bool PointwiseBuilder::overlapped(Value from, int64_t start, int64_t done,
                                  int64_t length, int64_t wide) {
  auto some = [&](int64_t at, int64_t count, int64_t lanes) {
    Value first = e.add(from, e.constant(at));
    Value last = e.add(from, e.constant(at + count));
    steps(first, last, lanes, std::gcd(start, at), /*divides=*/true);
  };
  int64_t left = length - done, rest = left % wide,
          around = llvm::PowerOf2Ceil(rest);
  bool gathers = !kernel.getBody().getOps<ts::GatherOp>().empty();
  if (around > length && gathers)
    return false;
  if (left != rest)
    some(done, left - rest, wide);
  if (around > length) {
    around /= 2;
    some(done, around, around);
  }
  if (rest)
    some(length - around, around, around);
  return true;
}

/// Tiles from `from` to before `to`, which lie in the segment between two
/// boundaries: at most `lanes` wide, narrower ones for what is left where that
/// is known.
void PointwiseBuilder::segment(Value from, Value to, Dim first, Dim last) {
  std::optional<int64_t> length = (last - first).asConstant();
  int64_t start = first.isConstant(0) ? 0 : first.knownDivisor();
  if (!blocks.isConstant(1) || !length || isOneRun() || isGpu()) {
    bool divides = std::gcd(start, last.knownDivisor()) % lanes == 0 &&
                   last.knownDivisor() && config.block % lanes == 0;
    return steps(from, to, lanes, std::gcd(start, config.block), divides);
  }
  constexpr int64_t least = 16;
  int64_t done = 0, known = start;
  for (int64_t wide = lanes; done < *length; wide /= 2) {
    int64_t left = *length - done;
    bool lastStep = wide <= least || wide == 1;
    if (left < wide && !lastStep)
      continue;
    if (lastStep && moves && overlapped(from, start, done, *length, wide))
      return;
    int64_t whole = lastStep ? left : left / wide * wide;
    if (lastStep)
      while (wide > 1 && wide / 2 >= left)
        wide /= 2;
    steps(e.add(from, e.constant(done)), e.add(from, e.constant(done + whole)),
          wide, known, whole % wide == 0);
    done += whole;
    known = std::gcd(known, done);
  }
}

/// What a row gets from one operand, in tiles of powers of two within a part.
void PointwiseBuilder::pieces(Dim first, Dim last) {
  int64_t at = *first.asConstant(), to = *last.asConstant();
  for (int64_t lanes; at < to; at += lanes) {
    lanes = llvm::bit_floor(
        uint64_t(std::min(to, at / kPart * kPart + kPart) - at));
    if (failed(tile(e.constant(at), {}, lanes, 1)))
      status = failure();
  }
}

/// The elements `first` to before `last` of a row, which `input` holds.
void PointwiseBuilder::operandOfRow(ts::ConcatOp concat, Value input, Dim first,
                                    Dim last) {
  bool whole = blocks.isConstant(1);
  Value from = whole ? e.size(first) : e.max(begin, e.size(first)),
        to = whole ? e.size(last) : e.max(from, e.min(end, e.size(last)));
  e.provide = [&](Value tensor, const Coord &at) -> Value {
    if (tensor != concat.getResult() || !at.lanes ||
        at.dims[lane].start != tileStart || at.dims[lane].step != 1)
      return {};
    Coord inner = at;
    LaneIndex &index = inner.dims[lane];
    index.start = e.sub(index.start, e.size(first));
    if (!first.isConstant(0))
      index.multipleOf = std::gcd(index.multipleOf, first.knownDivisor());
    return e.emit(input, inner);
  };
  if (joins())
    pieces(first, last);
  else
    segment(from, to, first, last);
  e.provide = nullptr;
}

Value PointwiseBuilder::zeros(int64_t lanes) {
  Type element = ts::elementTypeOf(kernel.getResult(0));
  auto type = VectorType::get(lanes, element);
  return arith::ConstantOp::create(e.builder, e.location,
                                   e.builder.getZeroAttr(type));
}

/// Stores the row that the parts make.
void PointwiseBuilder::storeJoined(ts::ConcatOp concat) {
  int64_t length = *run.asConstant();
  Value row = zeros(length);
  for (auto [i, value] : llvm::enumerate(joined))
    row = vector::InsertStridedSliceOp::create(
        e.builder, e.location, value, row, ArrayRef<int64_t>(kPart * i),
        ArrayRef<int64_t>(1));
  joined.clear();
  e.provide = [&](Value tensor, const Coord &) {
    return tensor == concat.getResult() ? row : Value();
  };
  if (failed(tile(e.constant(0), {}, length, 0)))
    status = failure();
  e.provide = nullptr;
}

/// The program's block of a row: all of it, or operand by operand.
void PointwiseBuilder::row() {
  ts::ConcatOp concat =
      isOneRun() || isGpu() ? ts::ConcatOp() : concatAlong(kernel, lane);
  if (!concat)
    return segment(begin, end, run.like(0), run);
  if (joins())
    joined.assign(*run.asConstant() / kPart, zeros(kPart));
  Dim first = run.like(0);
  for (Value input : concat.getInputs()) {
    Dim last = first + ts::dimOf(input, lane);
    operandOfRow(concat, input, first, last);
    first = last;
  }
  if (joins())
    storeJoined(concat);
}

/// The program's rows, `beside` of them at each.
void PointwiseBuilder::allRows() {
  Value group;
  if (beside > 1)
    group = e.mul(outer[lane - 2], e.constant(beside));
  Value first = e.mul(outer[lane - 1], e.constant(config.rows));
  Value last =
      e.min(e.add(first, e.constant(config.rows)), e.size(dims[lane - 1]));
  // Of rows of a tile the loop itself would take as long as a row.
  constexpr int64_t several = 4;
  if (run.asConstant().value_or(lanes + 1) <= lanes && !isGpu()) {
    Value count = e.sub(last, first);
    Value whole = e.sub(last, e.rem(count, e.constant(several)));
    someRows(first, whole, group, several);
    first = whole;
  }
  someRows(first, last, group, 1);
}

void PointwiseBuilder::someRows(Value from, Value to, Value group,
                                int64_t atOnce) {
  forEach(
      e, from, to, {},
      [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
        for (int64_t k = 0; k < atOnce; ++k) {
          outer[lane - 1] = e.add(r, e.constant(k));
          for (int64_t n = 0; n < beside; ++n) {
            if (beside > 1)
              outer[lane - 2] = e.add(group, e.constant(n));
            row();
          }
        }
        return SmallVector<Value>();
      },
      status, atOnce);
}

LogicalResult buildPointwise(BuildContext &context) {
  ts::KernelOp kernel = context.kernel;
  if (context.target.simt) {
    auto config = configOf<config::PointwiseGpuConfig>(context);
    if (failed(config))
      return failure();
    OwningOpRef<ts::KernelOp> joined = withJoinedDims(kernel);
    // A thread's access is a run of neighbours.
    if (config->across && config->access > 1 &&
        llvm::isPowerOf2_64(config->access) &&
        config->lanes % config->access == 0)
      context.emitter.laneRun = config->access;
    return PointwiseBuilder(context, joined ? *joined : kernel, *config,
                            config->across, /*beside=*/1)
        .build();
  }
  auto config = configOf<config::PointwiseCpuConfig>(context);
  return failed(config)
             ? failure()
             : PointwiseBuilder(context, kernel, *config, config->across,
                                config->beside, config->repeat)
                   .build();
}

} // namespace knapper
