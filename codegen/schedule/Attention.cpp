// Attention: softmax(scale * q k^T + mask) v for one block of query rows.
//
//   program = (batch, head, block of query rows)
//     K is transposed into panels of `panel` keys in scratch:
//     [T/panel][D][panel]
//     products of the block's queries and all keys, in scratch: [rows][T]
//     along each row scale, mask and softmax in place, 1 / sum kept aside
//     the block times V in register tiles, which one epilogue takes from
//     scratch row by row, scaled by 1 / sum
//
// Of a few queries the scores are sums along the rows of K, which stay where
// they are: to transpose a key would cost more than its products.
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
//
// Parameters: rows (of a query block), panel (keys of a panel).
#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Epilogue.h"
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/RowTiles.h"
#include "codegen/schedule/Schedules.h"
#include "graph/fusion/Views.h"
#include "ir/tensor/Decompose.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t block = 16; // depth and width are padded to this
/// Register tiles have at most this many rows, which may lie past the last.
constexpr int64_t kTileRows = 12;
/// Scratch for the accumulators of a register tile: at most 12 x 64 f32.
constexpr int64_t kAccumulatorBytes = 4096;

/// An operand that can be read in place as rows of this type.
std::optional<fusion::StridedView> inPlace(Value operand, Type element) {
  if (ts::elementTypeOf(operand) != element)
    return std::nullopt;
  auto view = fusion::stridedView(operand, fusion::isReindex);
  if (!view || !isa<BlockArgument>(view->base))
    return std::nullopt;
  return view;
}

Dim roundUp(Dim dim, int64_t to) { return dim.ceilDiv(dim.like(to)) * to; }

bool isBf16(ts::AttentionOp op) {
  return llvm::all_of(op->getOperands().take_front(3), [](Value operand) {
    return ts::elementTypeOf(operand).isBF16();
  });
}

/// Where things lie in scratch, in bytes: room for f32, of which pairs of bf16
/// fill the beginning.
struct Layout {
  Dim keys, scores, sums, queries, values, accumulators, end;
};

Layout layoutOf(ts::AttentionOp op, int64_t rows, int64_t panel) {
  Dim depth = ts::dimOf(op.getQuery(), 3), length = ts::dimOf(op.getKey(), 2),
      width = ts::dimOf(op.getValue(), 3);
  Layout layout;
  layout.keys = depth.like(0);
  Dim padded = roundUp(length, panel);
  layout.scores = layout.keys + padded * roundUp(depth, block) * 4;
  layout.sums = layout.scores + padded * ((rows + kTileRows) * 4);
  layout.queries = layout.sums + roundUp(depth.like(rows * 4), 64);
  layout.values = layout.queries + roundUp(depth, block) * (rows * 4);
  layout.accumulators = layout.values + length * roundUp(width, block) * 4 + 64;
  layout.end = layout.accumulators + kAccumulatorBytes;
  return layout;
}

class AttentionBuilder {
public:
  AttentionBuilder(BuildContext &context, ts::KernelOp kernel,
                   ts::AttentionOp op, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location),
        target(context.target), op(op), epilogue(std::move(epilogue)),
        rows(context.schedule.at("rows")), panel(context.schedule.at("panel")),
        step(target.pairProducts && isBf16(op) ? 2 : 1),
        factors(step == 2 ? Type(b.getBF16Type()) : b.getF32Type()),
        layout(layoutOf(op, rows, panel)) {}

  LogicalResult build();

private:
  Value scratch(Dim bytes, Type element = {}) {
    return tile::ScratchOp::create(
        b, loc, tile::BufferType::get(element ? element : Type(b.getF32Type())),
        e.size(bytes));
  }
  /// Rows of a panel of keys: elements or pairs of D, padded.
  Value panelRows() {
    return e.size(depth.ceilDiv(depth.like(step * block)) * block);
  }
  Value asFactors(Value values);
  Value factorsOf(Value tensor, const Coord &at, Value valid);
  LogicalResult packKeys();
  LogicalResult packRows(Value tensor, Value head, Value first, Value count,
                         Dim width, Value buffer, bool inPairs);
  LogicalResult computeProducts();
  /// The same without panels of keys, for a few queries.
  bool sumsAlongKeys() const;
  LogicalResult sumAlongKeys();
  Value score(Value product, Value row, Value key);
  /// Keys below this bound are seen by a row of the block.
  Value boundOf(Value row);
  /// Keys that the last of some rows sees, at most `seen`.
  Value seenBy(Value row, int64_t rows);
  /// Up to where a row's weights are computed: what its register tile reads.
  Value endOf(Value row);
  LogicalResult softmaxRows();
  void averageEmptyRows(Value any);
  LogicalResult multiplyValues();
  Value number(double value, int64_t lanes) {
    return e.splat(b.getF32Type(), lanes, value);
  }

  Emitter &e;
  OpBuilder &b;
  Location loc;
  const TargetDesc &target;
  ts::AttentionOp op;
  Epilogue epilogue;
  int64_t rows, panel;
  int64_t step; ///< elements that products take at a time
  Type factors; ///< what is multiplied
  Layout layout;

  Dim queries, keys, depth, width;             ///< S, T, D, E
  Value batch, head, keyHead, firstRow, count; ///< of the block
  Value panels;                                ///< of keys that the block sees
  Value seen;                                  ///< keys that it sees
  Value someEmpty; ///< whether some rows weigh all keys; may be null
  Value keyBuffer, scoreBuffer, sumBuffer, weights;
  Value scoreStride, weightStride;
};

/// n rows of n elements, transposed by log2(n) rounds of interleaving.
void transpose(OpBuilder &b, Location loc, SmallVectorImpl<Value> &v) {
  int64_t n = v.size();
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < n / 2; ++i) {
    low.append({i, n + i});
    high.append({n / 2 + i, n + n / 2 + i});
  }
  // Interleaving rows i and i + n / 2 so often moves element (r, c) to (c, r):
  // each round rotates one bit of the row number into the column.
  for (int64_t round = n; round > 1; round /= 2) {
    SmallVector<Value> next(n);
    for (int64_t i = 0; i < n / 2; ++i) {
      next[2 * i] = vector::ShuffleOp::create(b, loc, v[i], v[i + n / 2], low);
      next[2 * i + 1] =
          vector::ShuffleOp::create(b, loc, v[i], v[i + n / 2], high);
    }
    v.assign(next.begin(), next.end());
  }
}

/// A vector of f32 as it is multiplied.
Value AttentionBuilder::asFactors(Value values) {
  Type type = cast<VectorType>(values.getType()).clone(factors);
  if (values.getType() == type)
    return values;
  auto wide = values.getDefiningOp<arith::ExtFOp>();
  if (wide && wide.getIn().getType() == type)
    return wide.getIn();
  return arith::TruncFOp::create(b, loc, type, values);
}

/// Elements of an operand as they are multiplied, zero past the valid ones.
Value AttentionBuilder::factorsOf(Value tensor, const Coord &at, Value valid) {
  Value row = e.emit(tensor, at);
  if (!row)
    return {};
  row = asFactors(e.widen(row, at.lanes));
  if (!valid)
    return row;
  auto type = VectorType::get(at.lanes, factors);
  Value zero = arith::ConstantOp::create(
      b, loc, type, DenseElementsAttr::get(type, b.getFloatAttr(factors, 0)));
  return arith::SelectOp::create(b, loc, e.laneMask(at.lanes, valid), row,
                                 zero);
}

LogicalResult AttentionBuilder::packKeys() {
  // Pairs are moved as the words that they fill.
  keyBuffer = scratch(layout.keys);
  LogicalResult status = success();
  Value last = e.sub(e.size(keys), e.constant(1));
  // A square of registers is transposed at a time.
  int64_t side = std::min<int64_t>(panel, target.lanes(DType::f32));
  int64_t blocksOfPanel = panel / side;
  Value paddedDepth = panelRows();
  int64_t lanes = side * step;
  // Blocks of so many keys, up to the last panel that is needed.
  forEach(
      e, e.constant(0), e.mul(panels, e.constant(blocksOfPanel)), {},
      [&](Value t, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value inPanel = e.rem(t, e.constant(blocksOfPanel));
        Value panelBase =
            e.mul(e.mul(e.div(t, e.constant(blocksOfPanel)), paddedDepth),
                  e.constant(panel));
        Value column = e.add(panelBase, e.mul(inPanel, e.constant(side)));
        Value key = e.mul(t, e.constant(side));
        LogicalResult inner = success();
        int64_t known = depth.knownDivisor();
        forLanes(
            e, e.constant(0), e.size(depth), lanes, known && known % lanes == 0,
            {},
            [&](Value d, Value valid,
                ValueRange) -> FailureOr<SmallVector<Value>> {
              SmallVector<Value> tile;
              for (int64_t i = 0; i < side; ++i) {
                // Past the last key any row will do: its scores are dropped.
                Coord at;
                at.lanes = lanes;
                at.valid = valid;
                at.dims = {{batch},
                           {keyHead},
                           {e.min(e.add(key, e.constant(i)), last)},
                           {d, 1, {}, lanes}};
                Value row =
                    factorsOf(op.getKey(), at, step == 2 ? valid : Value());
                if (!row)
                  return failure();
                if (step == 2)
                  row = vector::BitCastOp::create(
                      b, loc, VectorType::get(side, b.getF32Type()), row);
                tile.push_back(row);
              }
              transpose(b, loc, tile);
              Value to = e.add(column, e.mul(d, e.constant(panel / step)));
              for (int64_t j = 0; j < side; ++j)
                tile::StoreOp::create(b, loc, tile[j], keyBuffer,
                                      e.add(to, e.constant(j * panel)));
              return SmallVector<Value>();
            },
            inner);
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status);
  return status;
}

/// Rows first .. first + count - 1 of a [B, H, N, width] tensor as dense rows
/// of roundUp(width, 16) factors; in pairs: [ceil(count / 2)][that width][2],
/// the row past the last zero.
LogicalResult AttentionBuilder::packRows(Value tensor, Value headIndex,
                                         Value first, Value number, Dim extent,
                                         Value buffer, bool inPairs) {
  LogicalResult status = success();
  Value stride = e.size(roundUp(extent, block));
  forEach(
      e, e.constant(0), number, {},
      [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
        LogicalResult inner = success();
        int64_t known = extent.knownDivisor();
        forLanes(
            e, e.constant(0), e.size(extent), block,
            known && known % block == 0, {},
            [&](Value d, Value valid,
                ValueRange) -> FailureOr<SmallVector<Value>> {
              // What lies past the width is read by full tiles: make it zero.
              auto row = [&](Value index, Value valid) {
                Coord at;
                at.lanes = block;
                at.valid = valid;
                at.dims = {{batch},
                           {headIndex},
                           {e.add(first, index)},
                           {d, 1, {}, block}};
                return factorsOf(tensor, at, valid);
              };
              Value values = row(r, valid);
              if (!values)
                return failure();
              Value to = e.add(e.mul(r, stride), d);
              if (inPairs) {
                Value next = e.add(r, e.constant(1));
                Value left = e.mul(e.sub(number, next), e.constant(block));
                Value odd =
                    row(next, e.min(left, valid ? valid : e.constant(block)));
                if (!odd)
                  return failure();
                values = vector::InterleaveOp::create(b, loc, values, odd);
                to = e.add(to, d);
              }
              tile::StoreOp::create(b, loc, values, buffer, to);
              return SmallVector<Value>();
            },
            inner);
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status, inPairs ? 2 : 1);
  return status;
}

Value AttentionBuilder::boundOf(Value row) {
  if (!op.getCausal())
    return e.size(keys);
  Value shift =
      op.getCausalTopLeft()
          ? e.constant(1)
          : e.add(e.sub(e.size(keys), e.size(queries)), e.constant(1));
  return e.min(e.size(keys), e.add(e.add(firstRow, row), shift));
}

Value AttentionBuilder::seenBy(Value row, int64_t rows) {
  if (!op.getCausal())
    return seen;
  Value bound = boundOf(e.add(row, e.constant(rows - 1)));
  bound = e.max(bound, e.constant(0));
  if (step > 1) // whole pairs
    bound = e.mul(e.div(e.add(bound, e.constant(step - 1)), e.constant(step)),
                  e.constant(step));
  return e.min(seen, bound);
}

Value AttentionBuilder::endOf(Value row) {
  Value end = e.mul(panels, e.constant(panel));
  if (!op.getCausal())
    return end;
  Value bound =
      e.max(e.add(boundOf(row), e.constant(kTileRows)), e.constant(0));
  bound = e.mul(e.div(e.add(bound, e.constant(panel - 1)), e.constant(panel)),
                e.constant(panel));
  return e.min(end, bound);
}

/// Scale, softcap, mask, causality and the end of the keys, for a run of a row.
Value AttentionBuilder::score(Value product, Value row, Value key) {
  int64_t lanes = cast<VectorType>(product.getType()).getNumElements();
  Value score = arith::MulFOp::create(
      b, loc, product, number(op.getScale().convertToDouble(), lanes));
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

LogicalResult AttentionBuilder::computeProducts() {
  scoreBuffer = scratch(layout.scores);
  scoreStride = e.size(roundUp(keys, panel));
  // Queries in place where they are rows of factors, else packed.
  Value a, aBase, lda, ka;
  auto view = inPlace(op.getQuery(), factors);
  if (view && (step == 1 || view->dims[3].stride.isConstant(1))) {
    a = e.inputBuffer(cast<BlockArgument>(view->base));
    aBase = e.size(view->offset);
    Value indices[] = {batch, head, firstRow};
    for (unsigned d = 0; d < 3; ++d)
      aBase = e.add(aBase, e.mul(indices[d], e.size(view->dims[d].stride)));
    lda = e.size(view->dims[2].stride);
    ka = e.size(view->dims[3].stride);
  } else {
    a = scratch(layout.queries, factors);
    if (failed(packRows(op.getQuery(), head, firstRow, count, depth, a,
                        /*inPairs=*/false)))
      return failure();
    aBase = e.constant(0);
    lda = e.size(roundUp(depth, block));
    ka = e.constant(1);
  }
  Value keyFactors = step == 2 ? scratch(layout.keys, factors) : keyBuffer;
  Value panelSize = e.mul(panelRows(), e.constant(step * panel));
  RegisterTile shape = registerTile(target, panel);
  LogicalResult status = success();
  forEach(
      e, e.constant(0), panels, {},
      [&](Value p, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value key = e.mul(p, e.constant(panel));
        Value base = e.mul(p, panelSize);
        LogicalResult inner = forRowTiles(
            e, count, shape.rows,
            [&](Value row, Value valid, int64_t tileRows, Value) {
              // Keys after the last row of the tile are not seen by it.
              OpBuilder::InsertionGuard guard(b);
              if (op.getCausal()) {
                Value some = e.less(key, seenBy(row, tileRows));
                auto branch = scf::IfOp::create(b, loc, some,
                                                /*withElseRegion=*/false);
                b.setInsertionPoint(
                    branch.getThenRegion().front().getTerminator());
              }
              return forParts(e, shape, panel, [&](Value part) {
                auto type =
                    VectorType::get({tileRows, shape.width}, b.getF32Type());
                auto loop = tile::MainloopOp::create(
                    b, loc, type, a, e.add(aBase, e.mul(row, lda)), lda, ka,
                    keyFactors, e.add(base, e.mul(part, e.constant(step))),
                    e.constant(step * panel), e.size(depth));
                loop.setPairs(step == 2);
                loop.getRowsMutable().assign(valid);
                Value to = e.add(e.mul(row, scoreStride), e.add(key, part));
                for (int64_t i = 0; i < tileRows; ++i)
                  tile::StoreOp::create(
                      b, loc,
                      vector::ExtractOp::create(b, loc, loop.getAcc(),
                                                ArrayRef<int64_t>{i}),
                      scoreBuffer,
                      e.add(to, e.mul(e.constant(i), scoreStride)));
                return success();
              });
            });
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status);
  return status;
}

bool AttentionBuilder::sumsAlongKeys() const {
  // Keys are read once a query, and so are what is computed of them.
  constexpr int64_t few = 4;
  return step == 1 && queries.asConstant().value_or(few + 1) <= few;
}

LogicalResult AttentionBuilder::sumAlongKeys() {
  scoreBuffer = scratch(layout.scores);
  scoreStride = e.size(roundUp(keys, panel));
  int64_t lanes = target.lanes(DType::f32);
  auto type = VectorType::get(lanes, b.getF32Type());
  Value last = e.sub(e.size(keys), e.constant(1));
  int64_t known = depth.knownDivisor();
  LogicalResult status = success();
  // As many keys as a register has lanes.
  auto someKeys = [&](Value key, Value query) -> LogicalResult {
    SmallVector<Value> none(lanes, number(0, lanes));
    SmallVector<Value> sums = forLanes(
        e, e.constant(0), e.size(depth), lanes, known && known % lanes == 0,
        none,
        [&](Value d, Value valid,
            ValueRange before) -> FailureOr<SmallVector<Value>> {
          auto row = [&](Value tensor, Value headIndex, Value index) {
            Coord at;
            at.lanes = lanes;
            at.valid = valid;
            at.dims = {{batch}, {headIndex}, {index}, {d, 1, {}, lanes}};
            return factorsOf(tensor, at, valid);
          };
          Value q = row(op.getQuery(), head, e.add(firstRow, query));
          SmallVector<Value> next;
          for (int64_t i = 0; q && i < lanes; ++i) {
            // Past the last key any row will do: its scores are dropped.
            Value k = row(op.getKey(), keyHead,
                          e.min(e.add(key, e.constant(i)), last));
            if (!k)
              return failure();
            next.push_back(math::FmaOp::create(b, loc, type, q, k, before[i]));
          }
          if (!q)
            return failure();
          return next;
        },
        status);
    // Two keys become one register, again and again, until a lane is a key.
    for (int64_t d = 1; d < lanes; d *= 2) {
      SmallVector<int64_t> lower, upper;
      for (int64_t i = 0; i < lanes; ++i) {
        lower.push_back(i & d ? lanes + (i ^ d) : i);
        upper.push_back(i & d ? lanes + i : i ^ d);
      }
      SmallVector<Value> next;
      for (size_t i = 0; i < sums.size(); i += 2) {
        Value x =
            vector::ShuffleOp::create(b, loc, sums[i], sums[i + 1], lower);
        Value y =
            vector::ShuffleOp::create(b, loc, sums[i], sums[i + 1], upper);
        next.push_back(arith::AddFOp::create(b, loc, x, y));
      }
      sums = std::move(next);
    }
    tile::StoreOp::create(b, loc, sums[0], scoreBuffer,
                          e.add(e.mul(query, scoreStride), key));
    return status;
  };
  return forEach(
      e, e.constant(0), e.mul(panels, e.constant(panel)),
      [&](Value key) {
        return forEach(e, e.constant(0), count,
                       [&](Value query) { return someKeys(key, query); });
      },
      lanes);
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
                          [&](Value product, Value key, Value most) -> Step {
                            Value x = score(product, r, key);
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
  auto view = inPlace(op.getValue(), b.getF32Type());
  int64_t known = width.knownDivisor();
  bool whole = known && known % block == 0;
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
    ldb = e.size(roundUp(width, block) * step);
  }
  int64_t valuePanel = block;
  if (whole)
    for (int64_t candidate : {64, 48, 32})
      if (known % candidate == 0) {
        valuePanel = candidate;
        break;
      }
  RegisterTile shape = registerTile(target, valuePanel);
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
        LogicalResult inner = forRowTiles(
            e, count, shape.rows,
            [&](Value row, Value valid, int64_t tileRows, Value) {
              Value summed = seenBy(row, tileRows);
              if (someEmpty)
                summed =
                    arith::SelectOp::create(b, loc, someEmpty, seen, summed);
              return forParts(e, shape, valuePanel, [&](Value part) {
                auto type =
                    VectorType::get({tileRows, shape.width}, b.getF32Type());
                auto loop = tile::MainloopOp::create(
                    b, loc, type, weights, e.mul(row, weightStride),
                    weightStride, e.constant(1), buffer,
                    e.add(base, e.mul(e.add(column, part), e.constant(step))),
                    ldb, summed);
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
            },
            [&](Value row, Value valid) {
              LogicalResult stored = success();
              forEach(
                  e, e.constant(0), valid, {},
                  [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
                    if (failed(storeRow(e.add(row, i),
                                        e.mul(i, e.constant(valuePanel)))))
                      return failure();
                    return SmallVector<Value>();
                  },
                  stored);
              return stored;
            });
        if (failed(inner))
          return failure();
        return SmallVector<Value>();
      },
      status, valuePanel);
  return status;
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
  LogicalResult scores =
      sumsAlongKeys()
          ? sumAlongKeys()
          : success(succeeded(packKeys()) && succeeded(computeProducts()));
  if (failed(scores) || failed(softmaxRows()))
    return failure();
  return multiplyValues();
}

ts::AttentionOp attentionOf(ts::KernelOp kernel) {
  auto ops = kernel.getBody().getOps<ts::AttentionOp>();
  return ops.empty() ? ts::AttentionOp() : *ops.begin();
}

} // namespace

LogicalResult chooseAttention(ts::KernelOp kernel, const TargetDesc &target,
                              Knobs &knobs,
                              SmallVectorImpl<Schedule> &schedules) {
  ts::AttentionOp op = attentionOf(kernel);
  if (!op)
    return kernel.emitOpError("has hero attention and none inside");
  if (ts::elementTypeOf(op.getQuery()).isF64())
    return op.emitOpError("has no kernel for f64");
  Dim queries = ts::dimOf(op.getQuery(), 2), one = queries.like(1);
  int64_t rows = knobs.pick("rows", 128, {64, 96, 192, 32});
  int64_t panel = knobs.pick("panel", 32, {64, 16});
  if (std::optional<int64_t> number = queries.asConstant()) {
    // Equal blocks of at most so many rows.
    int64_t blocks = (*number + rows - 1) / rows;
    rows = std::max<int64_t>(1, (*number + blocks - 1) /
                                    std::max<int64_t>(1, blocks));
  }
  Schedule schedule;
  schedule.kind = "attention";
  schedule.parameters = {{"rows", rows}, {"panel", panel}};
  schedule.group = isBf16(op) ? 2 : 1;
  schedule.grid = ts::dimOf(op.getQuery(), 0) * ts::dimOf(op.getQuery(), 1) *
                  queries.ceilDiv(one * rows);
  schedule.grain = one;
  schedule.scratch = layoutOf(op, rows, panel).end;
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildAttention(BuildContext &context) {
  // Rope inside is computed element by element while packing.
  OwningOpRef<ts::KernelOp> copy = context.kernel.clone();
  ts::decomposeAll(copy->getBody(),
                   [](Operation *inner) { return isa<ts::RopeOp>(inner); });
  ts::AttentionOp op = attentionOf(*copy);
  FailureOr<Epilogue> epilogue = Epilogue::create(*copy, op.getResult());
  if (failed(epilogue))
    return failure();
  return AttentionBuilder(context, *copy, op, std::move(*epilogue)).build();
}

} // namespace knapper
