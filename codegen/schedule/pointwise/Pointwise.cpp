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
// in the result, are read side by side. On GPUs the lanes of a tile lie across
// rows that are shorter than a few warps, each with indices of its own. There,
// products of little depth are such kernels too: a sum of a few products each.
//
// Parameters: lanes, block (elements a program covers along the lane dim, a
// multiple of lanes), flat (1: the whole tensor is one run), across (1: the
// results are one run, and lanes find their places in the dims), dim (the lane
// dim), rows (of the dim before it), beside (positions of the dim before that,
// done for each of the rows), stream (1: results are stored past the caches).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/core/ShallowProduct.h"
#include "codegen/schedule/pointwise/PointwiseDims.h"
#include "ir/config/PointwiseConfig.h"
#include <numeric>

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Whether every tensor of the region is either of the results' shape, read at
/// the same position, or a single element.
bool isFlat(ts::KernelOp kernel) {
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  auto sameOrSingle = [&](Type type) {
    return ts::dimsOf(type) == dims || ts::elementCount(type).isConstant(1);
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (!sameOrSingle(argument.getType()))
      return false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<ts::ElementwiseOpInterface, ts::ConstantOp, ts::BroadcastOp,
             ts::ReshapeOp, ts::SizeOp, ts::DimCastOp>(op))
      return false;
    for (Type type : op.getResultTypes())
      if (!sameOrSingle(type))
        return false;
  }
  return true;
}

int64_t regionFlops(ts::KernelOp kernel) {
  int64_t flops = 1;
  kernel.getBody().walk(
      [&](ts::ElementwiseOpInterface op) { flops += op.elementFlops(); });
  return flops;
}

} // namespace

/// A tile that may lie across many operands reads all of them: more than these
/// need more registers and stack than there are.
constexpr size_t mostCutOperands = 24;

/// At most `lanes`, so that no boundary between many operands cuts a tile.
static int64_t lanesBetweenBoundaries(ts::KernelOp kernel, unsigned lane,
                                      int64_t lanes) {
  bool asStored = llvm::all_of(
      kernel.getBody().front().without_terminator(), [](Operation &op) {
        return isa<ts::ElementwiseOpInterface, ts::ConcatOp>(op);
      });
  for (auto concat : kernel.getBody().getOps<ts::ConcatOp>()) {
    if (concat.getInputs().size() <= mostCutOperands ||
        (asStored && concat.getDim() != lane))
      continue;
    Dim begin = Dim::constant(kernel.getContext(), 0);
    for (Value input : concat.getInputs()) {
      begin = begin + ts::dimOf(input, concat.getDim());
      while (lanes > 1 && begin.knownDivisor() % lanes != 0)
        lanes /= 2;
    }
  }
  return lanes;
}

/// The region's one concatenation along the lane dim of what has the results'
/// dims, if there are few operands.
static ts::ConcatOp concatAlong(ts::KernelOp kernel, unsigned lane) {
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

/// Whether runs of many pages are copied side by side: the longer a copy at
/// once (codegen/lower/cpu/CpuCopy.cpp), the better.
static bool joinsLongRuns(ts::KernelOp kernel, unsigned lane) {
  constexpr int64_t least = 16384; // elements
  ts::ConcatOp concat = concatAlong(kernel, lane);
  return concat && llvm::all_of(concat.getInputs(), [&](Value input) {
           return isa<BlockArgument>(input) &&
                  representative(ts::dimOf(input, lane)) >= least;
         });
}

/// Whether elements are only moved: writing one twice leaves it as it is, even
/// where the result lies in an operand's memory.
static bool onlyMoves(ts::KernelOp kernel) {
  return llvm::none_of(kernel.getBody().front(), [](Operation &op) {
    return isa<ts::ElementwiseOpInterface>(op);
  });
}

/// Of rows that a transposition takes apart: how many neighbours in the operand
/// a program reads together, though they are one dim further out in the result.
/// A short row alone is too little for the processor to fetch ahead; too many
/// are as many places to write to.
static int64_t rowsBeside(ts::KernelOp kernel, unsigned lane) {
  constexpr int64_t shortRow = 512, most = 4; // bytes, rows
  auto transpose =
      kernel.yield().getValues()[0].getDefiningOp<ts::TransposeOp>();
  if (!transpose || kernel->getNumResults() != 1 || lane < 2 ||
      !isa<BlockArgument>(transpose.getInput()))
    return 1;
  SmallVector<Dim> dims = ts::dimsOf(transpose);
  ArrayRef<int64_t> from = transpose.getPermutation();
  std::optional<int64_t> row = dims[lane].asConstant(),
                         count = dims[lane - 2].asConstant();
  if (lane + 1 != dims.size() || from[lane] != int64_t(lane) ||
      from[lane - 2] + 1 != int64_t(lane) || !row || !count ||
      *row * ts::elementBytes(ts::elementTypeOf(transpose)) > shortRow)
    return 1;
  for (int64_t beside = most; beside > 1; --beside)
    if (*count % beside == 0)
      return beside;
  return 1;
}

LogicalResult choosePointwise(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  if (kernel.getHero() == ts::Hero::matmul && !isShallowProduct(kernel, target))
    return success();
  OwningOpRef<ts::KernelOp> joined;
  if (target.simt && (joined = withJoinedDims(kernel)))
    kernel = *joined;
  MLIRContext *context = kernel.getContext();
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  bool flat = isFlat(kernel);
  unsigned lane = dims.empty() ? 0 : dims.size() - 1;
  while (lane > 0 && dims[lane].isConstant(1))
    --lane;
  // A few channels after a long dim: programs of a few elements would spend
  // their time on finding their place, so tiles run along the dim before.
  // (What only moves runs of elements moves them as runs.)
  constexpr int64_t few = 4, many = 16;
  int64_t flops = regionFlops(kernel);
  bool turns = !kernel.getBody().getOps<ts::TransposeOp>().empty();
  if (!flat && lane > 0 && !target.simt && (turns || flops > 1) &&
      dims[lane].asConstant().value_or(few + 1) <= few &&
      representative(dims[lane - 1]) >= many)
    --lane;
  Dim one = Dim::constant(context, 1);
  // The threads of a block of rows shorter than this would mostly be idle.
  constexpr int64_t shortRow = 64;
  // Rows that an index names.
  bool named = target.simt && kernel.getHero() == ts::Hero::gather &&
               !kernel.getBody().getOps<ts::GatherOp>().empty() &&
               !(lane > 0 && representative(dims[lane]) <= shortRow);
  bool across = target.simt && !flat && !named && lane > 0 &&
                representative(dims[lane]) <= shortRow;
  Dim run =
      flat || across || dims.empty() ? product(context, dims) : dims[lane];
  int64_t length = representative(run);
  // Long chains keep many tiles alive, so their tiles are one register.
  config::PointwiseConfig config;
  int64_t &lanes = config.lanes, &block = config.block;
  lanes = lanesOver(run, flops > 200 ? 16 : flops > 40 ? 32 : 64);
  block = 4096;
  if (!target.simt) {
    if (int64_t most = flops > 10 ? lanes : 128; lanes >= 16)
      knobs.tune(config, lanes, [&](int64_t other) { return other <= most; });
    lanes = lanesBetweenBoundaries(kernel, lane, lanes);
    if (joinsLongRuns(kernel, lane))
      block = 16384;
    knobs.tune(config, block);
  }
  int64_t access = 0, threads = 0;
  if (across) {
    // Each lane has a place of its own: what neighbours read lies together
    // where they are those of a warp. An element a thread, where there are few;
    // else four at once (of products, each of many reads, two), a word of them
    // a store.
    constexpr int64_t word = 4, threadsOfCore = 2048;
    int64_t several = kernel.getHero() == ts::Hero::matmul ? 2 : 4;
    lanes = block = threads = 256;
    access = 1;
    if (length > threadsOfCore * int64_t(target.cores)) {
      lanes = block = several * lanes;
      int64_t bytes = ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)));
      access = std::max<int64_t>(1, word / std::max<int64_t>(1, bytes));
    }
  } else if (target.simt) {
    // A tile is spread over the threads of a block, one access of 16 bytes each
    // (bytes in flight count, and blocks give them best).
    lanes = target.lanes(DType::f32);
    while (lanes > 128 && lanes / 2 >= length)
      lanes /= 2;
    block = lanes;
  }
  if (std::optional<int64_t> number = run.asConstant();
      number && !flat && !across && !named && *number <= 2 * block)
    block = std::max(lanes, (*number + lanes - 1) / lanes * lanes);
  // Short rows, so many that finding one's place, and a branch that ends them
  // unforeseen, do not count.
  constexpr int64_t longest = 1024, perProgram = 8192;
  int64_t rows = 1, beside = 1;
  if (std::optional<int64_t> number = run.asConstant();
      number && *number > 1 && *number <= std::min(block, longest) && !flat &&
      lane > 0 && !target.simt) {
    int64_t all = std::max<int64_t>(1, representative(dims[lane - 1]));
    beside = rowsBeside(kernel, lane);
    rows = std::clamp<int64_t>(perProgram / (*number * beside), 1, all);
    // Programs of equal work, where that costs little.
    for (int64_t fewer = rows; fewer > rows * 3 / 4; --fewer)
      if (all % fewer == 0) {
        rows = fewer;
        break;
      }
  }
  Schedule schedule;
  schedule.kind = "pointwise";
  config.flat = flat;
  config.dim = lane;
  config.rows = rows;
  config.stream = streamsOut(kernel, target);
  if (target.simt) {
    // The index comes first, so that a thread asks for two accesses of the row
    // at once; more of them, or longer tiles, are slower.
    if (named) {
      int64_t bytes = ts::elementBytes(ts::elementTypeOf(kernel.getResult(0)));
      threads = std::max<int64_t>(32, lanes * bytes / (2 * 16));
    }
    schedule.parameters = config::print(
        config::PointwiseGpuConfig{config, across, threads, access});
  } else {
    knobs.tune(config, config.stream);
    schedule.parameters =
        config::print(config::PointwiseCpuConfig{config, beside});
  }
  Dim around = one;
  if (!flat && !across)
    for (auto [i, dim] : llvm::enumerate(dims))
      if (i != lane)
        around =
            around * (i + 1 == lane                 ? dim.ceilDiv(one * rows)
                      : i + 2 == lane && beside > 1 ? dim.floorDiv(one * beside)
                                                    : dim);
  schedule.grid = around * run.ceilDiv(one * block);
  // About 10 us of work at one element a nanosecond and 15 flops.
  int64_t work = std::max<int64_t>(1, beside * rows * std::min(block, length) *
                                          (1 + flops / 15) / 4);
  schedule.grain = one * std::max<int64_t>(1, 8000 / work);
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildPointwise(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  ts::KernelOp kernel = context.kernel;
  bool isGpu = context.target.simt, across = false;
  OwningOpRef<ts::KernelOp> joinedDims;
  if (isGpu && (joinedDims = withJoinedDims(kernel)))
    kernel = *joinedDims;
  int64_t beside = 1;
  config::PointwiseConfig config;
  if (isGpu) {
    auto parsed = configOf<config::PointwiseGpuConfig>(context);
    if (failed(parsed))
      return failure();
    config = *parsed;
    across = parsed->across;
  } else {
    auto parsed = configOf<config::PointwiseCpuConfig>(context);
    if (failed(parsed))
      return failure();
    config = *parsed;
    beside = parsed->beside;
  }
  auto [lanes, block, flat, lane, rows, stream] = config;
  bool isOneRun = flat || across;
  SmallVector<Dim> dims = ts::dimsOf(kernel.getResult(0));
  MLIRContext *mlir = kernel.getContext();
  Dim run = isOneRun || dims.empty() ? product(mlir, dims) : dims[lane];

  Value id = tile::ProgramIdOp::create(e.builder, e.location);
  Value position = id;
  Dim blocks = run.ceilDiv(run.like(block));
  Value begin = e.constant(0);
  if (!blocks.isConstant(1)) {
    begin = e.mul(isOneRun ? position : e.rem(position, e.size(blocks)),
                  e.constant(block));
    if (!isOneRun)
      position = e.div(position, e.size(blocks));
  }
  Value end = e.min(e.add(begin, e.constant(block)), e.size(run));
  if (blocks.isConstant(1))
    end = e.size(run);

  SmallVector<Dim> around;
  if (!isOneRun)
    for (auto [i, dim] : llvm::enumerate(dims))
      if (static_cast<int64_t>(i) != lane)
        around.push_back(static_cast<int64_t>(i) + 1 == lane
                             ? dim.ceilDiv(dim.like(rows))
                         : static_cast<int64_t>(i) + 2 == lane && beside > 1
                             ? dim.floorDiv(dim.like(beside))
                             : dim);
  SmallVector<Value> outer = e.delinearize(position, around);

  // The processor's own fetching ahead stops at pages, and begins again slowly;
  // this far ahead (two pages) streams measure 6 to 10 % faster.
  constexpr int64_t fetchedBytes = 8192, line = 64;
  auto fetchAhead = [&](Value i) {
    for (BlockArgument argument : kernel.getBody().getArguments()) {
      if (ts::elementCount(argument.getType()).isConstant(1))
        continue;
      int64_t bytes = ts::elementBytes(ts::elementTypeOf(argument));
      for (int64_t at = 0; at < lanes; at += line / bytes)
        tile::PrefetchOp::create(
            e.builder, e.location, e.inputBuffer(argument),
            e.add(i, e.constant(fetchedBytes / bytes + at)), /*locality=*/3);
    }
  };
  bool fetches = flat && config.stream && !isGpu;

  // In the flat form all tensors of the results' shape are seen as one run;
  // coordinates then have one dim, and elementwise ops pass them on unchanged.
  LogicalResult status = success();
  // A tile from `i` on, which is a multiple of `multiple`.
  Value tileStart;
  // A row that is put together before it is stored, where that is done: by four
  // elements, since what fills or changes such a part is one instruction.
  constexpr int64_t part = 4;
  SmallVector<Value> joined;
  auto tile = [&](Value i, Value valid, int64_t lanes,
                  int64_t multiple) -> FailureOr<SmallVector<Value>> {
    Coord at;
    at.lanes = lanes;
    at.valid = valid;
    LaneIndex index{i, 1, {}, multiple};
    tileStart = i;
    if (fetches && !valid)
      fetchAhead(i);
    if (flat) {
      at.dims = {index};
    } else if (across) {
      at.dims.assign(e.split(index, dims, lanes));
    } else {
      unsigned next = 0;
      for (size_t d = 0; d < dims.size(); ++d)
        at.dims.push_back(
            static_cast<int64_t>(d) == lane ? index : LaneIndex{outer[next++]});
    }
    for (auto [k, value] : llvm::enumerate(kernel.yield().getValues())) {
      Type type = value.getType();
      Coord place = at;
      if (isOneRun) {
        type = ts::tensorType(mlir, {run}, ts::elementTypeOf(value));
        place.dims = {index};
      }
      Value result = e.emit(value, at);
      if (!result)
        return failure();
      if (!joined.empty()) {
        int64_t first = *getConstantIntValue(i);
        Value &into = joined[first / part];
        into = lanes == part
                   ? result
                   : vector::InsertStridedSliceOp::create(
                         e.builder, e.location, e.widen(result, lanes), into,
                         ArrayRef<int64_t>(first % part), ArrayRef<int64_t>(1))
                         .getResult();
      } else {
        e.store(e.widen(result, lanes), e.outputBuffer(k), type, place,
                config.stream);
      }
    }
    return SmallVector<Value>();
  };
  if (flat)
    e.provide = [&](Value tensor, const Coord &at) -> Value {
      // Single elements are read at 0 whatever their rank; runs as one dim.
      bool single = ts::elementCount(tensor.getType()).isConstant(1) &&
                    !run.isConstant(1);
      if (single && !at.dims.empty()) {
        Coord scalar;
        Value value = e.emit(tensor, scalar);
        return value ? e.widen(value, at.lanes) : Value();
      }
      if (auto argument = dyn_cast<BlockArgument>(tensor)) {
        Type type =
            ts::tensorType(mlir, single ? ArrayRef<Dim>() : ArrayRef<Dim>(run),
                           ts::elementTypeOf(tensor));
        return e.load(e.inputBuffer(argument), type, at);
      }
      if (Operation *op = tensor.getDefiningOp();
          isa<ts::BroadcastOp, ts::ReshapeOp>(op))
        return e.emit(op->getOperand(0), at);
      return {};
    };
  if (dims.empty() || run.isConstant(1)) {
    // One element: no loop, no lanes.
    Coord scalar;
    scalar.dims.assign(flat ? 1 : dims.size(), LaneIndex{e.constant(0)});
    unsigned next = 0;
    if (!isOneRun)
      for (size_t d = 0; d < dims.size(); ++d)
        if (static_cast<int64_t>(d) != lane)
          scalar.dims[d] = {outer[next++]};
    for (auto [k, value] : llvm::enumerate(kernel.yield().getValues())) {
      Type type =
          flat ? Type(ts::tensorType(mlir, {run}, ts::elementTypeOf(value)))
               : value.getType();
      Value result = e.emit(value, scalar);
      if (!result)
        return failure();
      e.store(result, e.outputBuffer(k), type, scalar);
    }
    e.provide = nullptr;
    return success();
  }
  bool moves = onlyMoves(kernel),
       gathers = !kernel.getBody().getOps<ts::GatherOp>().empty();
  // Tiles from `from` to before `to`, which lie in the segment between two
  // boundaries: at most `lanes` wide, narrower ones for what is left where that
  // is known.
  auto segment = [&](Value from, Value to, Dim first, Dim last) {
    std::optional<int64_t> length = (last - first).asConstant();
    int64_t start = first.isConstant(0) ? 0 : first.knownDivisor();
    auto step = [&](Value at, Value limit, int64_t lanes, int64_t multiple,
                    bool divides) {
      multiple = std::gcd(lanes, multiple);
      forLanes(
          e, at, limit, lanes, divides, {},
          [&](Value i, Value valid, ValueRange) {
            return tile(i, valid, lanes, multiple);
          },
          status);
    };
    if (!blocks.isConstant(1) || !length || flat || isGpu) {
      bool divides = std::gcd(start, last.knownDivisor()) % lanes == 0 &&
                     last.knownDivisor() && block % lanes == 0;
      return step(from, to, lanes, std::gcd(start, block), divides);
    }
    constexpr int64_t least = 16;
    int64_t done = 0, known = start;
    for (int64_t wide = lanes; done < *length; wide /= 2) {
      int64_t left = *length - done;
      bool lastStep = wide <= least || wide == 1;
      if (left < wide && !lastStep)
        continue;
      if (lastStep && moves) {
        auto some = [&](int64_t at, int64_t count, int64_t lanes) {
          Value first = e.add(from, e.constant(at));
          Value last = e.add(from, e.constant(at + count));
          step(first, last, lanes, std::gcd(start, at), /*divides=*/true);
        };
        // Tiles that lie across each other instead of one under a mask.
        int64_t rest = left % wide, around = llvm::PowerOf2Ceil(rest);
        if (around <= *length || !gathers) {
          if (left != rest)
            some(done, left - rest, wide);
          if (around > *length) {
            around /= 2;
            some(done, around, around);
          }
          if (rest)
            some(*length - around, around, around);
          break;
        }
      }
      int64_t whole = lastStep ? left : left / wide * wide;
      if (lastStep)
        while (wide > 1 && wide / 2 >= left)
          wide /= 2;
      step(e.add(from, e.constant(done)), e.add(from, e.constant(done + whole)),
           wide, known, whole % wide == 0);
      done += whole;
      known = std::gcd(known, done);
    }
  };
  // What a row gets from one operand, in tiles of powers of two within a part.
  auto pieces = [&](Dim first, Dim last) {
    int64_t at = *first.asConstant(), end = *last.asConstant();
    for (int64_t lanes; at < end; at += lanes) {
      lanes = llvm::bit_floor(
          uint64_t(std::min(end, at / part * part + part) - at));
      if (failed(tile(e.constant(at), {}, lanes, 1)))
        status = failure();
    }
  };
  auto zeros = [&](int64_t lanes) -> Value {
    Type element = ts::elementTypeOf(kernel.getResult(0));
    auto type = VectorType::get(lanes, element);
    return arith::ConstantOp::create(e.builder, e.location,
                                     e.builder.getZeroAttr(type));
  };
  bool joins = !isGpu && moves && joinsToRegister(kernel, lane, context.target);
  auto row = [&] {
    ts::ConcatOp concat =
        flat || isGpu ? ts::ConcatOp() : concatAlong(kernel, lane);
    if (!concat)
      return segment(begin, end, run.like(0), run);
    if (joins)
      joined.assign(*run.asConstant() / part, zeros(part));
    Dim first = run.like(0);
    for (Value input : concat.getInputs()) {
      Dim last = first + ts::dimOf(input, lane);
      Value from = blocks.isConstant(1) ? e.size(first)
                                        : e.max(begin, e.size(first)),
            to = blocks.isConstant(1) ? e.size(last)
                                      : e.max(from, e.min(end, e.size(last)));
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
      if (joins)
        pieces(first, last);
      else
        segment(from, to, first, last);
      e.provide = nullptr;
      first = last;
    }
    if (joins) {
      Value row = zeros(*run.asConstant());
      for (auto [i, value] : llvm::enumerate(joined))
        row = vector::InsertStridedSliceOp::create(
            e.builder, e.location, value, row, ArrayRef<int64_t>(part * i),
            ArrayRef<int64_t>(1));
      joined.clear();
      e.provide = [&](Value tensor, const Coord &) {
        return tensor == concat.getResult() ? row : Value();
      };
      if (failed(tile(e.constant(0), {}, *run.asConstant(), 0)))
        status = failure();
      e.provide = nullptr;
    }
  };
  if (rows == 1 && beside == 1) {
    row();
  } else {
    Value &index = outer[lane - 1], group;
    if (beside > 1)
      group = e.mul(outer[lane - 2], e.constant(beside));
    Value first = e.mul(index, e.constant(rows));
    Value last = e.min(e.add(first, e.constant(rows)), e.size(dims[lane - 1]));
    auto someRows = [&](Value from, Value to, int64_t atOnce) {
      forEach(
          e, from, to, {},
          [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
            for (int64_t k = 0; k < atOnce; ++k) {
              index = e.add(r, e.constant(k));
              for (int64_t n = 0; n < beside; ++n) {
                if (beside > 1)
                  outer[lane - 2] = e.add(group, e.constant(n));
                row();
              }
            }
            return SmallVector<Value>();
          },
          status, atOnce);
    };
    // Of rows of a tile the loop itself would take as long as a row.
    constexpr int64_t several = 4;
    if (run.asConstant().value_or(lanes + 1) <= lanes && !isGpu) {
      Value count = e.sub(last, first);
      Value whole = e.sub(last, e.rem(count, e.constant(several)));
      someRows(first, whole, several);
      first = whole;
    }
    someRows(first, last, 1);
  }
  e.provide = nullptr;
  return status;
}

} // namespace knapper
