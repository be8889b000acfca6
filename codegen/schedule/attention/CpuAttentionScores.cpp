// The scores of a block of queries: matmuls with keys, which are transposed
// into panels, or of a few queries sums along them.
#include "codegen/schedule/attention/CpuAttention.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// An operand that can be read in place as rows of this type.
std::optional<fusion::StridedView> attentionInPlace(Value operand,
                                                    Type element) {
  if (ts::elementTypeOf(operand) != element)
    return std::nullopt;
  auto view = fusion::stridedView(operand, fusion::isReindex);
  if (!view || !isa<BlockArgument>(view->base))
    return std::nullopt;
  return view;
}

void transposeSquare(OpBuilder &b, Location loc, SmallVectorImpl<Value> &v) {
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
              transposeSquare(b, loc, tile);
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
  Value stride = e.size(roundUp(extent, kAttentionBlock));
  forEach(
      e, e.constant(0), number, {},
      [&](Value r, ValueRange) -> FailureOr<SmallVector<Value>> {
        LogicalResult inner = success();
        int64_t known = extent.knownDivisor();
        forLanes(
            e, e.constant(0), e.size(extent), kAttentionBlock,
            known && known % kAttentionBlock == 0, {},
            [&](Value d, Value valid,
                ValueRange) -> FailureOr<SmallVector<Value>> {
              // What lies past the width is read by full tiles: make it zero.
              auto row = [&](Value index, Value valid) {
                Coord at;
                at.lanes = kAttentionBlock;
                at.valid = valid;
                at.dims = {{batch},
                           {headIndex},
                           {e.add(first, index)},
                           {d, 1, {}, kAttentionBlock}};
                return factorsOf(tensor, at, valid);
              };
              Value values = row(r, valid);
              if (!values)
                return failure();
              Value to = e.add(e.mul(r, stride), d);
              if (inPairs) {
                Value next = e.add(r, e.constant(1));
                Value left =
                    e.mul(e.sub(number, next), e.constant(kAttentionBlock));
                Value odd =
                    row(next, e.min(left, valid ? valid
                                                : e.constant(kAttentionBlock)));
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

LogicalResult AttentionBuilder::computeScores() {
  scoreBuffer = scratch(layout.scores);
  scoreStride = e.size(roundUp(keys, panel));
  // Queries in place where they are rows of factors, else packed.
  Value a, aBase, lda, ka;
  auto view = attentionInPlace(op.getQuery(), factors);
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
    lda = e.size(roundUp(depth, kAttentionBlock));
    ka = e.constant(1);
  }
  Value keyFactors = step == 2 ? scratch(layout.keys, factors) : keyBuffer;
  Value panelSize = e.mul(panelRows(), e.constant(step * panel));
  RegisterTile shape = inTiles ? blockTile(panel) : registerTile(target, panel);
  LogicalResult status = success();
  forEach(
      e, e.constant(0), panels, {},
      [&](Value p, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value key = e.mul(p, e.constant(panel));
        Value base = e.mul(p, panelSize);
        // Keys after the last row of the tile are not seen by it.
        auto whereSeen = [&](Value row, int64_t tileRows) {
          if (!op.getCausal())
            return;
          Value some = e.less(key, seenBy(row, tileRows));
          auto branch =
              scf::IfOp::create(b, loc, some, /*withElseRegion=*/false);
          b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
        };
        auto byBlocks = [&](Value row, Value valid, Value) {
          OpBuilder::InsertionGuard guard(b);
          whereSeen(row, shape.rows);
          return forParts(e, shape, panel, [&](Value part) {
            AmxMatmul matmul;
            matmul.a = a;
            matmul.aOffset = e.add(aBase, e.mul(row, lda));
            matmul.lda = lda;
            matmul.b = keyFactors;
            matmul.bOffset = e.add(base, e.mul(part, e.constant(step)));
            matmul.ldb = e.constant(step * panel);
            matmul.k = e.size(depth);
            matmul.c = scoreBuffer;
            matmul.cOffset = e.add(e.mul(row, scoreStride), e.add(key, part));
            matmul.ldc = scoreStride;
            return multiplyBlock(e, matmul, valid, shape.width);
          });
        };
        auto byVectors = [&](Value row, Value valid, int64_t tileRows, Value) {
          OpBuilder::InsertionGuard guard(b);
          whereSeen(row, tileRows);
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
                  scoreBuffer, e.add(to, e.mul(e.constant(i), scoreStride)));
            return success();
          });
        };
        LogicalResult inner =
            inTiles ? forBlocks(e, count, byBlocks)
                    : forRowTiles(e, count, shape.rows, byVectors, nullptr,
                                  /*known=*/{}, tileCounts(shape.rows));
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

} // namespace knapper
