// Transposes that exchange the innermost dim (GPUs).
//
//   program = a block of the result, rows along the dim that is innermost in
//   the operand: the operand's rows are read, elementwise ops before the
//   transpose applied, the block transposed, the ops after it applied, the
//   result's rows written. Programs go along the result's rows first: what is
//   written is contiguous over neighbouring programs.
//
// Serves one transpose of dims that are not short, and elementwise ops of whole
// operands or single elements around it. Parameters: rows, columns (of the
// block in the result), threads.
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/pointwise/TransposeProblem.h"
#include "ir/config/TransposeConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

std::optional<TransposeProblem> transposeOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::TransposeOp>();
  if (ops.empty() || std::next(ops.begin()) != ops.end())
    return std::nullopt;
  ts::TransposeOp op = *ops.begin();
  SmallVector<int64_t> permutation(op.getPermutation());
  int64_t rank = permutation.size();
  if (rank < 2 || permutation.back() == rank - 1)
    return std::nullopt;
  unsigned rowDim = llvm::find(permutation, rank - 1) - permutation.begin();
  // Before the transpose all has the operand's shape, after it the result's.
  llvm::SmallDenseSet<Value> before;
  SmallVector<Value> work{op.getInput()};
  SmallVector<Dim> in = ts::dimsOf(op.getInput()), out = ts::dimsOf(op);
  auto isSingle = [](Value v) {
    return ts::elementCount(v.getType()).isConstant(1);
  };
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (isSingle(value) || !before.insert(value).second)
      continue;
    if (ts::dimsOf(value) != in)
      return std::nullopt;
    if (Operation *def = value.getDefiningOp()) {
      if (auto spread = dyn_cast<ts::BroadcastOp>(def)) {
        if (!isSingle(spread.getInput()))
          return std::nullopt;
        continue;
      }
      if (!isa<ts::ElementwiseOpInterface>(def))
        return std::nullopt;
      work.append(def->operand_begin(), def->operand_end());
    }
  }
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (!isSingle(argument) && !before.contains(argument))
      return std::nullopt;
  for (Operation &other : kernel.getBody().front().without_terminator()) {
    if (&other == op || isa<ts::ConstantOp>(other))
      continue;
    Value result = other.getResult(0);
    if (before.contains(result) || isSingle(result))
      continue;
    auto spread = dyn_cast<ts::BroadcastOp>(other);
    if (spread ? !isSingle(spread.getInput())
               : !isa<ts::ElementwiseOpInterface>(other))
      return std::nullopt;
    if (ts::dimsOf(result) != out)
      return std::nullopt;
    // What stood before must not be used beside the transpose.
    for (Value operand : other.getOperands())
      if (before.contains(operand))
        return std::nullopt;
  }
  for (Value value : kernel.yield().getValues())
    if (ts::dimsOf(value) != out || before.contains(value))
      return std::nullopt;
  return TransposeProblem{op, rowDim};
}

LogicalResult chooseGpuTranspose(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  std::optional<TransposeProblem> transpose = transposeOf(kernel);
  if (!transpose)
    return success(); // pointwise serves it
  MLIRContext *context = kernel.getContext();
  SmallVector<Dim> dims = ts::dimsOf(transpose->op);
  Dim one = Dim::constant(context, 1);
  int64_t bytes = 1;
  for (Value result : kernel.getResults())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(result)));
  for (Value input : kernel.getInputs())
    bytes = std::max(bytes, ts::elementBytes(ts::elementTypeOf(input)));
  // Rows of 256 bytes both ways, of short dims less. Of shorter ones blocks
  // would be mostly empty; their neighbours lie in a few lines of the cache.
  constexpr int64_t least = 32, most = 128, rowBytes = 256;
  int64_t shorter = std::min(representative(dims[transpose->rowDim]),
                             representative(dims.back()));
  if (shorter <= least / 2)
    return success();
  int64_t side = std::clamp<int64_t>(rowBytes / bytes, least, most);
  while (side > least && side / 2 >= shorter)
    side /= 2;
  Schedule schedule;
  schedule.kind = "gpu_transpose";
  schedule.parameters =
      config::print(config::TransposeGpuConfig{side, side, 256});
  schedule.grid = one;
  for (auto [i, dim] : llvm::enumerate(dims))
    schedule.grid =
        schedule.grid * (i == transpose->rowDim || i + 1 == dims.size()
                             ? dim.ceilDiv(one * side)
                             : dim);
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildGpuTranspose(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  ts::KernelOp kernel = context.kernel;
  std::optional<TransposeProblem> transpose = transposeOf(kernel);
  if (!transpose)
    return kernel.emitOpError("is not what the schedule serves");
  auto config = configOf<config::TransposeGpuConfig>(context);
  if (failed(config))
    return failure();
  int64_t rows = config->rows, columns = config->columns;
  ts::TransposeOp op = transpose->op;
  SmallVector<Dim> out = ts::dimsOf(op), in = ts::dimsOf(op.getInput());
  SmallVector<int64_t> permutation(op.getPermutation());
  unsigned rank = out.size(), rowDim = transpose->rowDim;

  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Dim> grid(out);
  grid[rowDim] = out[rowDim].ceilDiv(out[rowDim].like(rows));
  grid[rank - 1] = out[rank - 1].ceilDiv(out[rank - 1].like(columns));
  SmallVector<Value> index = e.delinearize(id, grid);
  index[rowDim] = e.mul(index[rowDim], e.constant(rows));
  index[rank - 1] = e.mul(index[rank - 1], e.constant(columns));

  auto strides = [&](ArrayRef<Dim> dims) {
    SmallVector<Dim> result(dims.size(), dims[0].like(1));
    for (size_t i = dims.size() - 1; i-- > 0;)
      result[i] = result[i + 1] * dims[i + 1];
    return result;
  };
  SmallVector<Dim> outStrides = strides(out), inStrides = strides(in);
  SmallVector<unsigned> inDim(rank); // of the operand, by the result's
  for (unsigned i = 0; i < rank; ++i)
    inDim[i] = permutation[i];
  Value outOffset = e.constant(0), inOffset = e.constant(0);
  for (unsigned i = 0; i < rank; ++i) {
    outOffset = e.add(outOffset, e.mul(index[i], e.size(outStrides[i])));
    inOffset = e.add(inOffset, e.mul(index[i], e.size(inStrides[inDim[i]])));
  }
  Value rowsLeft = e.sub(e.size(out[rowDim]), index[rowDim]);
  Value columnsLeft = e.sub(e.size(out[rank - 1]), index[rank - 1]);
  // In the operand the result's columns are the rows.
  Value inStride = e.size(inStrides[inDim[rank - 1]]);
  Value outStride = e.size(outStrides[rowDim]);

  // Coordinates serve to tell the two sides apart; ops on whole operands pass
  // them on.
  int64_t lanes = rows * columns;
  Coord before, after;
  before.lanes = after.lanes = lanes;
  for (unsigned i = 0; i < rank; ++i)
    after.dims.push_back({index[i], i + 1 == rank ? 1 : 0, {}, 1});
  before.dims.resize(rank);
  for (unsigned i = 0; i < rank; ++i)
    before.dims[inDim[i]] = {index[i], inDim[i] + 1 == rank ? 1 : 0, {}, 1};

  auto read = [&](BlockArgument argument) -> Value {
    Value buffer = e.inputBuffer(argument);
    Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
    return tile::LoadRowsOp::create(b, loc, VectorType::get(lanes, stored),
                                    buffer, inOffset, inStride, columnsLeft,
                                    rowsLeft, b.getI64IntegerAttr(rows));
  };
  auto transposed = [&](Value tile) -> Value {
    return tile::TransposeOp::create(b, loc, tile.getType(), tile,
                                     b.getI64IntegerAttr(rows));
  };
  auto widened = [&](Value tile, Value tensor) -> Value {
    Type type = computeType(ts::elementTypeOf(tensor));
    if (getElementTypeOrSelf(tile.getType()) == type)
      return tile;
    return arith::ExtFOp::create(b, loc, VectorType::get(lanes, type), tile);
  };
  e.provide = [&](Value tensor, const Coord &at) -> Value {
    if (!at.lanes || ts::elementCount(tensor.getType()).isConstant(1))
      return {};
    if (auto argument = dyn_cast<BlockArgument>(tensor))
      return widened(read(argument), argument);
    if (auto spread = tensor.getDefiningOp<ts::BroadcastOp>()) {
      Coord single;
      single.dims.assign(ts::rankOf(spread.getInput()),
                         LaneIndex{e.constant(0), 0, {}, 1});
      Value value = e.emit(spread.getInput(), single);
      return value ? e.widen(value, lanes) : Value();
    }
    if (tensor != op.getResult())
      return {};
    // What is stored in few bytes is transposed as it is stored.
    if (auto argument = dyn_cast<BlockArgument>(op.getInput()))
      return widened(transposed(read(argument)), argument);
    Value tile = e.emit(op.getInput(), before);
    return tile ? transposed(e.widen(tile, lanes)) : Value();
  };
  LogicalResult status = success();
  for (auto [i, value] : llvm::enumerate(kernel.yield().getValues())) {
    Value tile = e.emit(value, after);
    if (!tile) {
      status = failure();
      break;
    }
    tile = e.widen(tile, lanes);
    Value buffer = e.outputBuffer(i);
    Type stored = cast<tile::BufferType>(buffer.getType()).getElementType();
    if (getElementTypeOrSelf(tile.getType()) != stored)
      tile =
          arith::TruncFOp::create(b, loc, VectorType::get(lanes, stored), tile);
    tile::StoreRowsOp::create(b, loc, tile, buffer, outOffset, outStride,
                              rowsLeft, columnsLeft,
                              b.getI64IntegerAttr(columns));
  }
  e.provide = nullptr;
  return status;
}

} // namespace knapper
