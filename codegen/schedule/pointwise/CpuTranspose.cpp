// Transposes that exchange the innermost dim (CPUs).
//
//   program = a block of the result, tile by tile: rows of the operand, of a
//   register each, are read, transposed in registers and written as rows of the
//   result; elementwise ops are applied on either side
//
// Dims that neighbour each other on both sides count as one. Where one of the
// two innermost dims is a few elements and lies in memory within the other's
// (images of three channels), a tile has all of it, and what is read or written
// is one run.
//
// Where the operand's rows lie far apart, so do often the result's, and each
// tile writes a line to as many pages as it has rows. There the tiles of a
// block go to scratch, and from there whole rows of the block to the result.
// Blocks that tiles do not divide are a few rows of the result and many
// of its columns instead, and the lines that the next block reads are asked
// for. The last tile of a dim begins earlier than the others end, if need be.
//
// Parameters: rows, columns (of the block in the result), stream (1: results
// are stored past the caches), fetch (1: lines are asked for), stage (1: blocks
// are put together in scratch).
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/pointwise/TransposeProblem.h"
#include "ir/config/TransposeConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Of an innermost dim that is a few elements.
constexpr int64_t few = 8;

/// A transpose as the exchange of two dims, the result's innermost (`columns`)
/// and the operand's (`rows`), within others. Strides in elements.
struct Plane {
  TransposeProblem transpose;
  SmallVector<Dim> sizes, inStrides, outStrides; ///< in the result's order
  unsigned row;

  Dim rows() const { return sizes[row]; }
  Dim columns() const { return sizes.back(); }
  Dim inStride() const { return inStrides.back(); } ///< of a column
  Dim outStride() const { return outStrides[row]; } ///< of a row
  /// Whether one side of a tile is a few elements and a run with the other.
  bool hasFewPlaneRows() const { return isFew(rows()) && inStride() == rows(); }
  bool hasFewColumns() const {
    return isFew(columns()) && outStride() == columns();
  }

  static bool isFew(Dim dim) {
    return dim.asConstant().value_or(few + 1) <= few;
  }
};

std::optional<Plane> planeOf(ts::KernelOp kernel) {
  std::optional<TransposeProblem> transpose = transposeOf(kernel);
  if (!transpose)
    return std::nullopt;
  SmallVector<Dim> in = ts::dimsOf(transpose->op.getInput()),
                   out = ts::dimsOf(transpose->op);
  auto strides = [](ArrayRef<Dim> dims) {
    SmallVector<Dim> result(dims.size(), dims[0].like(1));
    for (size_t i = dims.size() - 1; i-- > 0;)
      result[i] = result[i + 1] * dims[i + 1];
    return result;
  };
  SmallVector<Dim> inStrides = strides(in), outStrides = strides(out);
  Plane plane{*transpose, {}, {}, {}, 0};
  for (auto [i, from] : llvm::enumerate(transpose->op.getPermutation())) {
    if (out[i].isConstant(1))
      continue;
    if (!plane.sizes.empty() &&
        plane.inStrides.back() == inStrides[from] * out[i]) {
      plane.sizes.back() = plane.sizes.back() * out[i];
      plane.inStrides.back() = inStrides[from];
      plane.outStrides.back() = outStrides[i];
      continue;
    }
    plane.sizes.push_back(out[i]);
    plane.inStrides.push_back(inStrides[from]);
    plane.outStrides.push_back(outStrides[i]);
  }
  auto row = llvm::find_if(plane.inStrides,
                           [](Dim stride) { return stride.isConstant(1); });
  if (plane.sizes.size() < 2 || row >= plane.inStrides.end() - 1)
    return std::nullopt;
  plane.row = row - plane.inStrides.begin();
  return plane;
}

constexpr int64_t kLine = 64; // bytes

class CpuTransposeBuilder {
public:
  CpuTransposeBuilder(BuildContext &context,
                      const config::TransposeCpuConfig &config, Plane plane)
      : e(context.emitter), b(e.builder), loc(e.location),
        kernel(context.kernel), plane(std::move(plane)), config(config) {
    int64_t bytes = 4;
    auto widest = [&](ValueRange values) {
      for (Value value : values)
        bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(value)));
    };
    widest(kernel.getInputs());
    widest(kernel.getResults());
    int64_t lanes = context.target.lanes(DType::f32);
    bool fewPlaneRows = this->plane.hasFewPlaneRows();
    bool fewColumns = !fewPlaneRows && this->plane.hasFewColumns();
    rows = fewPlaneRows ? *this->plane.rows().asConstant()
           : fewColumns ? lanes
                        : lanes * 4 / bytes;
    columns = fewColumns     ? *this->plane.columns().asConstant()
              : fewPlaneRows ? lanes
                             : lanes * 4 / bytes;
  }

  LogicalResult build();

private:
  void place();
  void findLines();
  Value tileOf(Value tensor, const Coord &at);
  LogicalResult either(Value condition,
                       llvm::function_ref<LogicalResult()> onTrue,
                       llvm::function_ref<LogicalResult()> onFalse);
  LogicalResult streamed(llvm::function_ref<LogicalResult(bool stream)> stored);
  LogicalResult tileAt(Value r, Value c);
  LogicalResult stagedTiles();
  LogicalResult tiles();
  /// Asks for the operand's rows further on, `rows` elements from the tile.
  void fetchAhead();
  /// One tile; `rowsLeft` and `columnsLeft` bound it.
  LogicalResult tile(Value inOffset, Value outOffset, Value rowsLeft,
                     Value columnsLeft, bool stream);
  Value read(BlockArgument argument);
  LogicalResult store(Value tile, unsigned result, bool stream);
  /// A block of a result in scratch, [rows][columns].
  Value staged(unsigned result);
  /// Writes the staged block: `rowsLeft` rows of `columnsLeft` columns.
  LogicalResult storeStaged(Value outBase, Value rowsLeft, Value columnsLeft,
                            bool stream);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ts::KernelOp kernel;
  Plane plane;
  const config::TransposeCpuConfig &config;
  int64_t rows, columns; ///< of a tile
  // The program's block: where it begins, and how much of it there is.
  Value inBase, outBase, firstRow, firstColumn, rowsLeft, columnsLeft;
  bool streams = false; ///< stores may go past the caches
  Value isAtLine;       ///< whether results begin at a line of the cache
  // The current tile.
  Value inAt, outAt, validRows, validColumns;
  Value stageAt; ///< its place in the staged block
};

Value CpuTransposeBuilder::read(BlockArgument argument) {
  Value buffer = e.inputBuffer(argument);
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  auto type = VectorType::get(rows * columns, stored);
  if (plane.hasFewPlaneRows())
    return tile::LoadOp::create(b, e.location, type, buffer, inAt,
                                e.mul(validColumns, e.constant(rows)));
  return tile::LoadRowsOp::create(b, e.location, type, buffer, inAt,
                                  e.size(plane.inStride()), validColumns,
                                  validRows, b.getI64IntegerAttr(rows));
}

LogicalResult CpuTransposeBuilder::store(Value tile, unsigned result,
                                         bool stream) {
  Value buffer = e.outputBuffer(result);
  Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
  if (getElementTypeOrSelf(tile.getType()) != stored)
    tile = arith::TruncFOp::create(
        b, loc, VectorType::get(rows * columns, stored), tile);
  if (plane.hasFewColumns() && !plane.hasFewPlaneRows()) {
    tile::StoreOp::create(b, loc, tile, buffer, outAt,
                          e.mul(validRows, e.constant(columns)));
    return success();
  }
  bool stages = config.stage;
  if (stages)
    buffer = staged(result);
  for (int64_t r = 0; r < rows; ++r) {
    Value row = vector::ExtractStridedSliceOp::create(
        b, loc, tile, ArrayRef<int64_t>{r * columns},
        ArrayRef<int64_t>{columns}, ArrayRef<int64_t>{1});
    if (stages) {
      tile::StoreOp::create(b, loc, row, buffer,
                            e.add(stageAt, e.constant(r * config.columns)),
                            Value());
      continue;
    }
    Value valid = validColumns;
    if (!plane.hasFewPlaneRows()) {
      Value inside = e.less(e.constant(r), validRows);
      valid = arith::SelectOp::create(b, loc, inside, valid, e.constant(0));
    }
    Value at = e.add(outAt, e.mul(e.constant(r), e.size(plane.outStride())));
    tile::StoreOp::create(b, loc, row, buffer, at, stream ? Value() : valid,
                          stream ? kLine : 0, stream);
  }
  return success();
}

Value CpuTransposeBuilder::staged(unsigned result) {
  int64_t before = 0;
  for (unsigned i = 0; i < result; ++i)
    before += ts::elementBytes(ts::elementTypeOf(kernel.getResult(i)));
  Type stored = bufferType(ts::elementTypeOf(kernel.getResult(result)));
  return tile::ScratchOp::create(
      b, e.location, tile::BufferType::get(stored),
      e.constant(before * config.rows * config.columns));
}

LogicalResult CpuTransposeBuilder::storeStaged(Value outBase, Value rowsLeft,
                                               Value columnsLeft, bool stream) {
  for (unsigned i = 0; i < kernel.getNumResults(); ++i) {
    Value from = staged(i), to = e.outputBuffer(i);
    auto type = VectorType::get(
        columns, cast<tile::BufferType>(from.getType()).getElementType());
    LogicalResult status =
        forEach(e, e.constant(0), rowsLeft, [&](Value r) -> LogicalResult {
          Value row = e.mul(r, e.constant(config.columns));
          Value out = e.add(outBase, e.mul(r, e.size(plane.outStride())));
          return forEach(
              e, e.constant(0), columnsLeft,
              [&](Value c) -> LogicalResult {
                Value part = tile::LoadOp::create(b, e.location, type, from,
                                                  e.add(row, c), Value());
                tile::StoreOp::create(b, e.location, part, to, e.add(out, c),
                                      Value(), stream ? kLine : 0, stream);
                return success();
              },
              columns);
        });
    if (failed(status))
      return failure();
  }
  return success();
}

void CpuTransposeBuilder::fetchAhead() {
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    if (ts::elementCount(argument.getType()).isConstant(1))
      continue;
    Value next = e.add(inAt, e.constant(rows));
    for (int64_t c = 0; c < columns; ++c)
      tile::PrefetchOp::create(
          b, e.location, e.inputBuffer(argument),
          e.add(next, e.mul(e.constant(c), e.size(plane.inStride()))),
          /*locality=*/2);
  }
}

LogicalResult CpuTransposeBuilder::tile(Value inOffset, Value outOffset,
                                        Value rowsLeft, Value columnsLeft,
                                        bool stream) {
  inAt = inOffset;
  outAt = outOffset;
  validRows = rowsLeft;
  validColumns = columnsLeft;
  Coord after;
  after.lanes = rows * columns;
  after.dims = {{outOffset, 1, {}, 1}};
  return e.scoped([&]() -> LogicalResult {
    if (config.fetch && !plane.hasFewPlaneRows() && !plane.hasFewColumns())
      fetchAhead();
    for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
      Value tile = e.emit(value, after);
      if (!tile || failed(store(e.widen(tile, after.lanes), i, stream)))
        return failure();
    }
    return success();
  });
}

/// The program's block: its place in both tensors, and how much of it there is.
void CpuTransposeBuilder::place() {
  unsigned rank = plane.sizes.size(), row = plane.row;
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Dim> grid(plane.sizes);
  auto blocks = [](Dim dim, int64_t size) {
    return dim.ceilDiv(dim.like(size));
  };
  grid[row] = blocks(plane.rows(), config.rows);
  grid.back() = blocks(plane.columns(), config.columns);
  SmallVector<Value> index = e.delinearize(id, grid);
  index[row] = e.mul(index[row], e.constant(config.rows));
  index.back() = e.mul(index.back(), e.constant(config.columns));
  inBase = outBase = e.constant(0);
  for (unsigned i = 0; i < rank; ++i) {
    inBase = e.add(inBase, e.mul(index[i], e.size(plane.inStrides[i])));
    outBase = e.add(outBase, e.mul(index[i], e.size(plane.outStrides[i])));
  }
  auto within = [&](Dim dim, Value from, int64_t block) {
    std::optional<int64_t> number = dim.asConstant();
    if (number && *number % block == 0)
      return e.constant(block);
    return e.min(e.sub(e.size(dim), from), e.constant(block));
  };
  firstRow = index[row];
  firstColumn = index.back();
  rowsLeft = within(plane.rows(), firstRow, config.rows);
  columnsLeft = within(plane.columns(), firstColumn, config.columns);
}

/// Whole lines can be stored past the caches where rows start at one.
void CpuTransposeBuilder::findLines() {
  streams = config.stream && !plane.hasFewColumns();
  for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
    int64_t bytes = ts::elementBytes(ts::elementTypeOf(value));
    for (Dim stride : ArrayRef<Dim>(plane.outStrides).drop_back())
      streams &= stride.knownDivisor() * bytes % kLine == 0;
    streams &= columns * bytes % kLine == 0;
    Value place = tile::PageOffsetOp::create(b, loc, b.getIndexType(),
                                             e.outputBuffer(i), e.constant(0));
    Value starts =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                              e.rem(place, e.constant(kLine)), e.constant(0));
    isAtLine = isAtLine ? Value(arith::AndIOp::create(b, loc, isAtLine, starts))
                        : starts;
  }
}

/// A tile of `tensor`, in the order of the results. What is stored in few bytes
/// is transposed as it is stored.
Value CpuTransposeBuilder::tileOf(Value tensor, const Coord &at) {
  if (!at.lanes || ts::elementCount(tensor.getType()).isConstant(1))
    return {};
  int64_t lanes = rows * columns;
  auto transposed = [&](Value tile) -> Value {
    return tile::TransposeOp::create(b, loc, tile.getType(), tile,
                                     b.getI64IntegerAttr(rows));
  };
  auto widened = [&](Value tile) -> Value {
    Type type = computeType(ts::elementTypeOf(tensor));
    if (getElementTypeOrSelf(tile.getType()) == type)
      return tile;
    return arith::ExtFOp::create(b, loc, VectorType::get(lanes, type), tile);
  };
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return widened(read(argument));
  if (auto spread = tensor.getDefiningOp<ts::BroadcastOp>()) {
    Coord single;
    single.dims.assign(ts::rankOf(spread.getInput()),
                       LaneIndex{e.constant(0), 0, {}, 1});
    Value value = e.emit(spread.getInput(), single);
    return value ? e.widen(value, lanes) : Value();
  }
  ts::TransposeOp op = plane.transpose.op;
  if (tensor != op.getResult())
    return {};
  if (auto argument = dyn_cast<BlockArgument>(op.getInput()))
    return widened(transposed(read(argument)));
  Coord before;
  before.lanes = lanes;
  before.dims = {{inAt, 1, {}, 1}};
  Value tile = e.emit(op.getInput(), before);
  return tile ? transposed(e.widen(tile, lanes)) : Value();
}

LogicalResult
CpuTransposeBuilder::either(Value condition,
                            llvm::function_ref<LogicalResult()> onTrue,
                            llvm::function_ref<LogicalResult()> onFalse) {
  auto branch = scf::IfOp::create(b, loc, condition, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  LogicalResult done = onTrue();
  b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
  return success(succeeded(done) && succeeded(onFalse()));
}

/// Stores past the caches where the results begin at a line.
LogicalResult CpuTransposeBuilder::streamed(
    llvm::function_ref<LogicalResult(bool stream)> stored) {
  return streams ? either(
                       isAtLine, [&] { return stored(true); },
                       [&] { return stored(false); })
                 : stored(false);
}

/// The tile at (r, c) of the block. A last tile that is not whole begins
/// earlier, where there is room.
LogicalResult CpuTransposeBuilder::tileAt(Value r, Value c) {
  auto size = [](Dim dim) { return dim.asConstant().value_or(0); };
  auto shifted = [&](Value at, Dim dim, int64_t tile, Value first) -> Value {
    if (size(dim) < tile || size(dim) % tile == 0)
      return at;
    return e.min(at, e.sub(e.constant(size(dim) - tile), first));
  };
  r = shifted(r, plane.rows(), rows, firstRow);
  c = shifted(c, plane.columns(), columns, firstColumn);
  Value in = e.add(inBase, e.add(r, e.mul(c, e.size(plane.inStride())))),
        out = e.add(outBase, e.add(c, e.mul(r, e.size(plane.outStride()))));
  Value leftRows = e.sub(rowsLeft, r), leftColumns = e.sub(columnsLeft, c);
  Value allRows = e.constant(rows), allColumns = e.constant(columns);
  if (config.stage) {
    stageAt = e.add(e.mul(r, e.constant(config.columns)), c);
    return tile(in, out, allRows, allColumns, false);
  }
  auto whole = [&] {
    return streamed([&](bool stream) {
      return tile(in, out, allRows, allColumns, stream);
    });
  };
  if (size(plane.rows()) >= rows && size(plane.columns()) >= columns)
    return whole();
  auto fits = [&](Value left, int64_t tile) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, left,
                                 e.constant(tile));
  };
  Value rowsFit = fits(leftRows, rows), columnsFit = fits(leftColumns, columns);
  return either(arith::AndIOp::create(b, loc, rowsFit, columnsFit), whole,
                [&] { return tile(in, out, leftRows, leftColumns, false); });
}

/// All tiles to scratch, along the rows of the operand first; from there to the
/// results.
LogicalResult CpuTransposeBuilder::stagedTiles() {
  LogicalResult status = forEach(
      e, e.constant(0), columnsLeft,
      [&](Value c) {
        return forEach(
            e, e.constant(0), rowsLeft, [&](Value r) { return tileAt(r, c); },
            rows);
      },
      columns);
  if (failed(status))
    return failure();
  return streamed([&](bool stream) {
    return storeStaged(outBase, rowsLeft, columnsLeft, stream);
  });
}

LogicalResult CpuTransposeBuilder::tiles() {
  return forEach(
      e, e.constant(0), rowsLeft,
      [&](Value r) {
        return forEach(
            e, e.constant(0), columnsLeft,
            [&](Value c) { return tileAt(r, c); }, columns);
      },
      rows);
}

LogicalResult CpuTransposeBuilder::build() {
  place();
  findLines();
  e.provide = [this](Value tensor, const Coord &at) {
    return tileOf(tensor, at);
  };
  LogicalResult status = config.stage ? stagedTiles() : tiles();
  e.provide = nullptr;
  return status;
}

} // namespace

LogicalResult chooseCpuTranspose(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  std::optional<Plane> plane = planeOf(kernel);
  if (!plane)
    return success(); // pointwise serves it
  auto isTruth = [](Value v) { return ts::elementTypeOf(v).isInteger(1); };
  if (llvm::any_of(kernel.getInputs(), isTruth) ||
      llvm::any_of(kernel.getResults(), isTruth))
    return success();
  // Each keeps a whole tile on the stack beside its way for large numbers.
  auto circular = llvm::count_if(kernel.getBody().front(), [](Operation &op) {
    return isa<ts::SinOp, ts::CosOp, ts::TanOp>(op);
  });
  constexpr int64_t mostCircular = 1;
  if (circular > mostCircular)
    return success();
  constexpr int64_t least = 4, shortSide = 16, side = 64, longSide = 256,
                    stagedSide = 128, longest = 1024;
  constexpr int64_t far = 2048; // bytes
  bool isFar = representative(plane->inStride()) * 4 >= far;
  bool fewPlaneRows = plane->hasFewPlaneRows();
  bool fewColumns = !fewPlaneRows && plane->hasFewColumns();
  if (!fewPlaneRows && !fewColumns &&
      std::min(representative(plane->rows()),
               representative(plane->columns())) < least)
    return success();
  int64_t rows = fewPlaneRows ? *plane->rows().asConstant()
                 : fewColumns ? longest
                 : isFar      ? shortSide
                              : side,
          columns = fewColumns     ? *plane->columns().asConstant()
                    : fewPlaneRows ? longest
                    : isFar        ? longSide
                                   : side;
  if (!rows || !columns)
    return success();
  // Tiles divide both dims, on every instruction set.
  auto divides = [&](Dim dim) {
    return dim.asConstant() && *dim.asConstant() % shortSide == 0;
  };
  bool stages = isFar && !fewPlaneRows && !fewColumns &&
                divides(plane->rows()) && divides(plane->columns()) &&
                representative(plane->columns()) >= stagedSide;
  if (stages) {
    rows = side;
    columns = stagedSide;
  }
  Schedule schedule;
  schedule.kind = "cpu_transpose";
  // What lies in the second-level cache comes by itself.
  int64_t bytes = representative(ts::byteCount(kernel.getResult(0).getType()));
  bool fetches = bytes > target.l2Bytes / 2;
  schedule.parameters = config::print(config::TransposeCpuConfig{
      rows, columns, streamsOut(kernel, target), fetches && !stages, stages});
  Dim one = plane->rows().like(1);
  schedule.grid = one;
  for (auto [i, dim] : llvm::enumerate(plane->sizes))
    schedule.grid = schedule.grid * (i == plane->row ? dim.ceilDiv(one * rows)
                                     : i + 1 == plane->sizes.size()
                                         ? dim.ceilDiv(one * columns)
                                         : dim);
  // About 10 us of work at four elements a nanosecond.
  int64_t elements = std::min(rows, representative(plane->rows())) *
                     std::min(columns, representative(plane->columns()));
  schedule.grain =
      one * std::max<int64_t>(1, 32000 / std::max<int64_t>(1, elements));
  schedule.scratch = one * 0;
  if (stages)
    for (Value result : kernel.getResults())
      schedule.scratch =
          schedule.scratch +
          one * (rows * columns * ts::elementBytes(ts::elementTypeOf(result)));
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuTranspose(BuildContext &context) {
  std::optional<Plane> plane = planeOf(context.kernel);
  if (!plane)
    return context.kernel.emitOpError("is not what the schedule serves");
  auto config = configOf<config::TransposeCpuConfig>(context);
  if (failed(config))
    return failure();
  return CpuTransposeBuilder(context, *config, std::move(*plane)).build();
}

} // namespace knapper
