// Attention: softmax(scale * q k^T + mask) v for one block of query rows.
//
//   program = (batch, head, block of query rows)
//     K is transposed into panels of `panel` keys in scratch:
//     [T/panel][D][panel]
//     matmuls of the block's queries and all keys, in scratch: [rows][T]
//     along each row scale, mask and softmax in place, 1 / sum kept aside
//     the block times V in register tiles, which one epilogue takes from
//     scratch row by row, scaled by 1 / sum
//
// Of a few queries the scores are sums along the rows of K, which stay where
// they are: to transpose a key would cost more than its matmuls.
//
// The score block lives in the second-level cache; nothing of size S x T is
// ever in memory. Queries, keys and values are read through their views (a
// slice of a fused qkv matrix, heads as a stride); what is computed on the way
// (rope) is computed while K and Q are packed. With a causal mask keys past the
// last row are left out, of the block and again of each register tile.
//
// Of bf16, on targets that add products of pairs in one instruction, everything
// that is multiplied stays bf16: keys in panels of pairs of D, values in pairs
// of rows, and what the softmax leaves of scores is rounded, each row in place.
// Where there are tile registers both matmuls go through them (AmxMatmul.h).
//
// Parameters: rows (of a query block), panel (keys of a panel).

#include "codegen/schedule/attention/CpuAttention.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// Scratch for the accumulators of a register tile: at most 12 x 64 f32, in
/// tile registers, which take bf16, 32 x 64.
static int64_t accumulatorBytes(ts::AttentionOp op) {
  return isBf16(op) ? 8192 : 4096;
}

bool isBf16(ts::AttentionOp op) {
  return llvm::all_of(op->getOperands().take_front(3), [](Value operand) {
    return ts::elementTypeOf(operand).isBF16();
  });
}

AttentionLayout attentionLayout(ts::AttentionOp op, int64_t rows,
                                int64_t panel) {
  Dim depth = ts::dimOf(op.getQuery(), 3), length = ts::dimOf(op.getKey(), 2),
      width = ts::dimOf(op.getValue(), 3);
  AttentionLayout layout;
  layout.keys = depth.like(0);
  Dim padded = roundUp(length, panel);
  layout.scores = layout.keys + padded * roundUp(depth, kAttentionBlock) * 4;
  layout.sums = layout.scores + padded * ((rows + kAttentionTileRows) * 4);
  layout.queries = layout.sums + roundUp(depth.like(rows * 4), 64);
  layout.values = layout.queries + roundUp(depth, kAttentionBlock) * (rows * 4);
  layout.accumulators =
      layout.values + length * roundUp(width, kAttentionBlock) * 4 + 64;
  layout.end = layout.accumulators + accumulatorBytes(op);
  return layout;
}

Value AttentionBuilder::endOf(Value row) {
  Value end = e.mul(panels, e.constant(panel));
  if (!op.getCausal())
    return end;
  int64_t tileRows = inTiles ? blockTile(panel).rows : kAttentionTileRows;
  Value bound = e.max(e.add(boundOf(row), e.constant(tileRows)), e.constant(0));
  bound = e.mul(e.div(e.add(bound, e.constant(panel - 1)), e.constant(panel)),
                e.constant(panel));
  return e.min(end, bound);
}

/// Scale, softcap, mask, causality and the end of the keys, for a run of a row.
Value AttentionBuilder::score(Value dots, Value row, Value key) {
  int64_t lanes = cast<VectorType>(dots.getType()).getNumElements();
  Value score = arith::MulFOp::create(
      b, loc, dots, number(op.getScale().convertToDouble(), lanes));
  double cap = op.getSoftcap().convertToDouble();
  if (cap > 0) {
    Value inner = arith::MulFOp::create(b, loc, score, number(1 / cap, lanes));
    score = arith::MulFOp::create(b, loc, math::TanhOp::create(b, loc, inner),
                                  number(cap, lanes));
  }
  Value never = number(-std::numeric_limits<double>::infinity(), lanes);
  Value position = e.add(firstRow, row);
  Value visible = e.laneMask(lanes, e.sub(boundOf(row), key));
  if (Value mask = op.getMask()) {
    Coord at;
    at.lanes = lanes;
    at.valid = e.sub(e.size(keys), key);
    SmallVector<Dim> dims = ts::dimsOf(mask);
    Value indices[] = {batch, head, position};
    for (unsigned d = 0; d < 3; ++d)
      at.dims.push_back({dims[d].isConstant(1) ? e.constant(0) : indices[d]});
    if (dims[3].isConstant(1))
      at.dims.push_back({e.constant(0)});
    else
      at.dims.push_back({key, 1, {}, lanes});
    Value value = e.emit(mask, at);
    if (!value)
      return {};
    value = e.widen(value, lanes);
    if (ts::elementTypeOf(mask).isInteger(1)) {
      visible = arith::AndIOp::create(b, loc, visible, value);
    } else {
      if (!getElementTypeOrSelf(value.getType()).isF32())
        value = arith::TruncFOp::create(
            b, loc, VectorType::get(lanes, b.getF32Type()), value);
      score = arith::AddFOp::create(b, loc, score, value);
    }
  }
  return arith::SelectOp::create(b, loc, visible, score, never);
}

/// Rows that see no key (marked by a negative sum) weigh all keys alike. Where
/// there is one, `any` is 1, and the whole block reads all values.
void AttentionBuilder::averageEmptyRows(Value any) {
  Value some = someEmpty = e.less(e.constant(0), any);
  auto inside = scf::IfOp::create(b, loc, some, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(inside.getThenRegion().front().getTerminator());
    e.scoped([&] {
      LogicalResult status = success();
      Value length = e.max(e.size(keys), e.constant(1));
      Value share = arith::DivFOp::create(
          b, loc, number(1, 0),
          arith::SIToFPOp::create(
              b, loc, b.getF32Type(),
              arith::IndexCastOp::create(b, loc, b.getI32Type(), length)));
      forEach(
          e, e.constant(0), count, {},
          [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
            Value sum =
                tile::LoadOp::create(b, loc, b.getF32Type(), sumBuffer, r);
            Value empty = arith::CmpFOp::create(
                b, loc, arith::CmpFPredicate::OLT, sum, number(0, 0));
            auto choose = [&](Value a, Value otherwise) -> Value {
              return arith::SelectOp::create(b, loc, empty, a, otherwise);
            };
            Value weight =
                asFactors(e.widen(choose(number(1, 0), number(0, 0)), panel));
            Value base = e.mul(r, weightStride);
            forEach(
                e, choose(e.constant(0), endOf(r)), scoreStride, {},
                [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
                  tile::StoreOp::create(b, loc, weight, weights,
                                        e.add(base, i));
                  return SmallVector<Value>();
                },
                status, panel);
            tile::StoreOp::create(b, loc, choose(share, sum), sumBuffer, r);
            return SmallVector<Value>();
          },
          status);
    });
  }
  seen = arith::SelectOp::create(b, loc, some, e.size(keys), seen);
}

LogicalResult AttentionBuilder::softmaxRows() {
  sumBuffer = scratch(layout.sums);
  // Rounded weights lie where their row of scores did, in its first half: what
  // is written was read.
  weights = step == 2 ? scratch(layout.scores, factors) : scoreBuffer;
  weightStride = e.mul(scoreStride, e.constant(step));
  int64_t lanes = std::min<int64_t>(panel, 2 * target.lanes(DType::f32));
  auto type = VectorType::get(lanes, b.getF32Type());
  LogicalResult status = success();
  ts::EmptyRow emptyRow = ts::emptyRowOf(op);
  bool mean = emptyRow == ts::EmptyRow::mean;
  Value ofEmpty = number(mean ? -1 : 0, 0);
  if (emptyRow == ts::EmptyRow::nan) // no keys at all: a sum of nothing
    ofEmpty = arith::SelectOp::create(
        b, loc, e.less(e.constant(0), e.size(keys)),
        number(std::numeric_limits<double>::quiet_NaN(), 0), ofEmpty);
  SmallVector<Value> any; // whether a row sees no key
  if (mean)
    any.push_back(e.constant(0));
  any = forEach(
      e, e.constant(0), count, any,
      [&](Value r, ValueRange before) -> FailureOr<SmallVector<Value>> {
        Value base = e.mul(r, scoreStride), end = endOf(r);
        // body(values, key, carried) gives what is stored and carried on.
        using Step = std::pair<Value, Value>;
        auto pass = [&](Value init, Value into, Value row,
                        llvm::function_ref<Step(Value, Value, Value)> body) {
          return forEach(
              e, e.constant(0), end, init,
              [&](Value key,
                  ValueRange carried) -> FailureOr<SmallVector<Value>> {
                Value at = e.add(base, key);
                auto [stored, next] =
                    body(tile::LoadOp::create(b, loc, type, scoreBuffer, at),
                         key, carried[0]);
                if (!stored)
                  return failure();
                tile::StoreOp::create(b, loc, stored, into, e.add(row, key));
                return SmallVector<Value>{next};
              },
              status, lanes)[0];
        };
        double infinity = std::numeric_limits<double>::infinity();
        Value peak = pass(number(-infinity, lanes), scoreBuffer, base,
                          [&](Value dots, Value key, Value most) -> Step {
                            Value x = score(dots, r, key);
                            if (!x)
                              return {};
                            return {x, e.larger(most, x)};
                          });
        Value largest = vector::ReductionOp::create(
            b, loc, vector::CombiningKind::MAXIMUMF, peak,
            arith::FastMathFlags::reassoc | arith::FastMathFlags::nnan);
        // A row that sees no key has no maximum; any finite one gives zeros.
        Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                           largest, number(-infinity, 0));
        largest = arith::SelectOp::create(b, loc, none, number(0, 0), largest);
        Value all = e.widen(largest, lanes);
        Value sum = pass(
            number(0, lanes), weights, e.mul(r, weightStride),
            [&](Value x, Value, Value total) -> Step {
              Value p = e.expNonPositive(arith::SubFOp::create(b, loc, x, all));
              return {asFactors(p), arith::AddFOp::create(b, loc, total, p)};
            });
        Value total =
            vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sum,
                                        arith::FastMathFlags::reassoc);
        Value empty = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                            total, number(0, 0));
        Value inverse = arith::DivFOp::create(b, loc, number(1, 0), total);
        inverse = arith::SelectOp::create(b, loc, empty, ofEmpty, inverse);
        tile::StoreOp::create(b, loc, inverse, sumBuffer, r);
        if (!mean)
          return SmallVector<Value>();
        return SmallVector<Value>{
            arith::SelectOp::create(b, loc, empty, e.constant(1), before[0])};
      },
      status);
  if (mean && succeeded(status))
    averageEmptyRows(any[0]);
  return status;
}

LogicalResult AttentionBuilder::multiplyValues() {
  // Values in place where a panel of them is consecutive f32, else packed.
  Value buffer, base, ldb;
  auto view = attentionInPlace(op.getValue(), b.getF32Type());
  int64_t known = width.knownDivisor();
  bool whole = known && known % kAttentionBlock == 0;
  if (view && view->dims[3].stride.isConstant(1) && whole) {
    buffer = e.inputBuffer(cast<BlockArgument>(view->base));
    base = e.add(e.size(view->offset),
                 e.add(e.mul(batch, e.size(view->dims[0].stride)),
                       e.mul(keyHead, e.size(view->dims[1].stride))));
    ldb = e.size(view->dims[2].stride);
  } else {
    buffer = scratch(layout.values, factors);
    if (failed(packRows(op.getValue(), keyHead, e.constant(0), seen, width,
                        buffer, step == 2)))
      return failure();
    base = e.constant(0);
    ldb = e.size(roundUp(width, kAttentionBlock) * step);
  }
  int64_t valuePanel = kAttentionBlock;
  if (whole)
    for (int64_t candidate : {64, 48, 32})
      if (known % candidate == 0) {
        valuePanel = candidate;
        break;
      }
  RegisterTile shape =
      inTiles ? blockTile(valuePanel) : registerTile(target, valuePanel);
  Value accumulators = scratch(layout.accumulators);
  LogicalResult status = success();
  forEach(
      e, e.constant(0), e.size(roundUp(width, valuePanel)), {},
      [&](Value column, ValueRange) -> FailureOr<SmallVector<Value>> {
        // A row of the block from where its accumulators lie.
        auto storeRow = [&](Value row, Value from) {
          Value inverse =
              tile::LoadOp::create(b, loc, b.getF32Type(), sumBuffer, row);
          return forParts(e, shape, valuePanel, [&](Value part) {
            Value value = tile::LoadOp::create(
                b, loc, VectorType::get(shape.width, b.getF32Type()),
                accumulators, e.add(from, part));
            value = arith::MulFOp::create(b, loc, value,
                                          e.widen(inverse, shape.width));
            Value n = e.add(column, part);
            Coord coord;
            coord.lanes = shape.width;
            if (!whole)
              coord.valid = e.sub(e.size(width), n);
            coord.dims = {{batch},
                          {head},
                          {e.add(firstRow, row)},
                          {n, 1, {}, shape.width}};
            return epilogue.store(e, value, coord);
          });
        };
        auto storeRows = [&](Value row, Value valid) {
          return forEach(e, e.constant(0), valid, [&](Value i) {
            return storeRow(e.add(row, i), e.mul(i, e.constant(valuePanel)));
          });
        };
        // Keys that a tile's rows weigh.
        auto summedBy = [&](Value row, int64_t tileRows) -> Value {
          Value summed = seenBy(row, tileRows);
          if (someEmpty)
            summed = arith::SelectOp::create(b, loc, someEmpty, seen, summed);
          return summed;
        };
        auto byBlocks = [&](Value row, Value valid, Value) -> LogicalResult {
          Value summed = summedBy(row, shape.rows);
          LogicalResult done = forParts(e, shape, valuePanel, [&](Value part) {
            AmxMatmul matmul;
            matmul.a = weights;
            matmul.aOffset = e.mul(row, weightStride);
            matmul.lda = weightStride;
            matmul.b = buffer;
            matmul.bOffset =
                e.add(base, e.mul(e.add(column, part), e.constant(step)));
            matmul.ldb = ldb;
            matmul.k = summed;
            matmul.c = accumulators;
            matmul.cOffset = part;
            matmul.ldc = e.constant(valuePanel);
            return multiplyBlock(e, matmul, valid, shape.width);
          });
          return failed(done) ? done : storeRows(row, valid);
        };
        auto byVectors = [&](Value row, Value valid, int64_t tileRows, Value) {
          Value summed = summedBy(row, tileRows);
          return forParts(e, shape, valuePanel, [&](Value part) {
            auto type =
                VectorType::get({tileRows, shape.width}, b.getF32Type());
            auto loop = tile::MainloopOp::create(
                b, loc, type, weights, e.mul(row, weightStride), weightStride,
                e.constant(1), buffer,
                e.add(base, e.mul(e.add(column, part), e.constant(step))), ldb,
                summed);
            loop.setPairs(step == 2);
            loop.getRowsMutable().assign(valid);
            for (int64_t i = 0; i < tileRows; ++i)
              tile::StoreOp::create(
                  b, loc,
                  vector::ExtractOp::create(b, loc, loop.getAcc(),
                                            ArrayRef<int64_t>{i}),
                  accumulators, e.add(e.constant(i * valuePanel), part));
            return success();
          });
        };
        LogicalResult inner =
            inTiles ? forBlocks(e, count, byBlocks)
                    : forRowTiles(e, count, shape.rows, byVectors, storeRows,
                                  /*known=*/{}, tileCounts(shape.rows));
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status, valuePanel);
  return status;
}

SmallVector<int64_t> AttentionBuilder::tileCounts(int64_t tileRows) const {
  std::optional<int64_t> all = queries.asConstant();
  return all ? countsOfTiles(*all, tileRows, rows) : SmallVector<int64_t>();
}

LogicalResult AttentionBuilder::build() {
  SmallVector<Dim> q = ts::dimsOf(op.getQuery()), k = ts::dimsOf(op.getKey());
  queries = q[2];
  keys = k[2];
  depth = q[3];
  width = ts::dimOf(op.getValue(), 3);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> index =
      e.delinearize(id, {q[0], q[1], queries.ceilDiv(queries.like(rows))});
  batch = index[0];
  head = index[1];
  firstRow = e.mul(index[2], e.constant(rows));
  std::optional<Dim> shared = q[1].exactDiv(k[1]);
  keyHead = e.div(head, e.size(*shared));
  count = e.min(e.constant(rows), e.sub(e.size(queries), firstRow));
  seen = e.size(keys);
  if (op.getCausal()) {
    // The block's last row sees the most.
    Value bound = e.add(firstRow, count);
    if (!op.getCausalTopLeft())
      bound = e.add(bound, e.sub(e.size(keys), e.size(queries)));
    seen = e.max(e.min(seen, bound), e.constant(0));
  }
  panels = e.div(e.add(seen, e.constant(panel - 1)), e.constant(panel));
  LogicalResult scores = sumsAlongKeys() ? sumAlongKeys()
                                         : success(succeeded(packKeys()) &&
                                                   succeeded(computeScores()));
  if (failed(scores) || failed(softmaxRows()))
    return failure();
  return multiplyValues();
}

LogicalResult chooseCpuAttention(ts::KernelOp kernel, const TargetDesc &target,
                                 Knobs &knobs,
                                 SmallVectorImpl<Schedule> &schedules) {
  ts::AttentionOp op = firstOp<ts::AttentionOp>(kernel);
  if (!op)
    return success(); // another kind of attention
  if (ts::elementTypeOf(op.getQuery()).isF64())
    return op.emitOpError("has no kernel for f64");
  Dim queries = ts::dimOf(op.getQuery(), 2), one = queries.like(1);
  config::AttentionCpuConfig config{/*rows=*/128, /*panel=*/32};
  auto &[rows, panel] = config;
  knobs.tune(config, rows);
  knobs.tune(config, panel);
  if (std::optional<int64_t> number = queries.asConstant()) {
    // Equal blocks of at most so many rows.
    int64_t blocks = (*number + rows - 1) / rows;
    rows = std::max<int64_t>(1, (*number + blocks - 1) /
                                    std::max<int64_t>(1, blocks));
  }
  Schedule schedule;
  schedule.kind = "cpu_attention";
  schedule.parameters = config::print(config);
  schedule.group = isBf16(op) ? 2 : 1;
  schedule.grid = ts::dimOf(op.getQuery(), 0) * ts::dimOf(op.getQuery(), 1) *
                  queries.ceilDiv(one * rows);
  schedule.grain = one;
  schedule.scratch = attentionLayout(op, rows, panel).end;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuAttention(BuildContext &context) {
  // Rope inside is computed element by element while packing.
  OwningOpRef<ts::KernelOp> copy = context.kernel.clone();
  ts::decomposeAll(copy->getBody(),
                   [](Operation *inner) { return isa<ts::RopeOp>(inner); });
  ts::AttentionOp op = firstOp<ts::AttentionOp>(*copy);
  FailureOr<Epilogue> epilogue = Epilogue::create(*copy, op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::AttentionCpuConfig>(context);
  if (failed(config))
    return failure();
  return AttentionBuilder(context, *config, *copy, op, std::move(*epilogue))
      .build();
}

} // namespace knapper
