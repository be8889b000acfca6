// Attention over keys and values in blocks (ts.paged_attention).
//
//   program = (some tokens, key head)
//     tokens of one sequence that follow one another are taken together; of
//     each token the query heads of the group: rows of one matrix
//     for each block that a row sees
//       its keys are transposed in scratch, [D][P]
//       matmuls of all rows with them: [rows][positions] in scratch
//     along each row scale, softcap, mask and softmax, 1 / sum kept aside
//     rows times the values, which are read where they lie, in register tiles
//     that are carried from block to block
//
// What a row sums and in which order depends on its own positions alone, not on
// the other rows: a token's result has the same bits in any batch.
//
// Parameters: tokens (of a program).
#include "codegen/schedule/attention/CpuAttention.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "ir/tensor/PagedAttention.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "runtime/base/KernelAbi.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

constexpr int64_t kLanes = 16; ///< of a step along positions or a head

int64_t roundUpLanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Numbers of a kernel, and where things lie in scratch, in bytes.
struct PagedLayout {
  PagedLayout(ts::PagedAttentionOp op, int64_t tokens)
      : heads(*ts::dimOf(op.getQuery(), 1).asConstant()),
        groups(*ts::dimOf(op.getKeys(), 1).asConstant()),
        positions(*ts::dimOf(op.getKeys(), 2).asConstant()),
        depth(*ts::dimOf(op.getKeys(), 3).asConstant()),
        width(*ts::dimOf(op.getValues(), 3).asConstant()),
        share(heads / groups), rows(tokens * share) {
    queries = positions * roundUpLanes(depth) * 4;
    sums = queries + rows * roundUpLanes(depth) * 4;
    values = sums + roundUpLanes(rows) * 4;
    accumulators = values + positions * roundUpLanes(width) * 4;
    scores = accumulators + kAttentionTileRows * kLanes * 4;
  }
  int64_t heads, groups, positions, depth, width;
  int64_t share; ///< query heads of a key head
  int64_t rows;  ///< of a program, at most
  int64_t queries, sums, values, accumulators, scores; ///< keys at 0
};

class PagedAttentionBuilder {
public:
  PagedAttentionBuilder(BuildContext &context,
                        const config::PagedAttentionCpuConfig &config,
                        ts::PagedAttentionOp op)
      : e(context.emitter), b(e.builder), loc(e.location),
        target(context.target), op(op), tokens(config.tokens),
        layout(op, tokens) {}

  LogicalResult build();

private:
  Value input(Value tensor) {
    return e.inputBuffer(cast<BlockArgument>(tensor));
  }
  Value scratch(int64_t bytes) {
    return tile::ScratchOp::create(
        b, loc, tile::BufferType::get(b.getF32Type()), e.constant(bytes));
  }
  Value number(double value, int64_t lanes) {
    return e.splat(b.getF32Type(), lanes, value);
  }
  VectorType lanesType(int64_t lanes) {
    return VectorType::get(lanes, b.getF32Type());
  }
  /// An element of one of the integer operands.
  Value index(Value tensor, Value at) {
    Value word =
        tile::LoadOp::create(b, loc, b.getI32Type(), input(tensor), at);
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), word);
  }
  /// `at`, or 0 and a status where it is not below `count`.
  Value inside(Value at, Dim count);
  Value blockAt(Value number);
  /// The bound of what the row's token sees, and its first position.
  Value endOf(Value token);
  Value beginOf(Value token);
  LogicalResult run(Value first, Value number);
  LogicalResult packQueries();
  LogicalResult packKeys(Value block);
  LogicalResult computeScores();
  LogicalResult softmaxRows();
  LogicalResult multiplyValues();
  Value score(Value dots);

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  const TargetDesc &target;
  ts::PagedAttentionOp op;
  int64_t tokens;
  PagedLayout layout;
  Value group, firstToken, count; ///< of the run
  Value sequence, firstBlock, endBlock, endPosition;
  Value keyBuffer, queryBuffer, scoreBuffer, sumBuffer, scoreStride;
};

Value PagedAttentionBuilder::inside(Value at, Dim bound) {
  Value outside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, at,
                                        e.size(bound));
  tile::SetStatusOp::create(b, loc, kernelIndexOutOfRange, outside);
  return arith::SelectOp::create(b, loc, outside, e.constant(0), at);
}

Value PagedAttentionBuilder::blockAt(Value number) {
  Value at =
      e.add(e.mul(sequence, e.size(ts::dimOf(op.getTable(), 1))), number);
  return inside(index(op.getTable(), at), ts::dimOf(op.getKeys(), 0));
}

Value PagedAttentionBuilder::endOf(Value token) {
  Value end =
      e.add(index(op.getPosition(), e.add(firstToken, token)), e.constant(1));
  return e.max(e.min(end, scoreStride), e.constant(0));
}

Value PagedAttentionBuilder::beginOf(Value token) {
  auto window = static_cast<int64_t>(op.getWindow());
  if (window <= 0)
    return e.constant(0);
  Value position = index(op.getPosition(), e.add(firstToken, token));
  return e.min(e.max(e.add(position, e.constant(1 - window)), e.constant(0)),
               scoreStride);
}

/// Rows of queries, padded with zeros to whole vectors.
LogicalResult PagedAttentionBuilder::packQueries() {
  queryBuffer = scratch(layout.queries);
  Value query = input(op.getQuery());
  int64_t depth = layout.depth, padded = roundUpLanes(depth);
  return forEach(e, e.constant(0), count, [&](Value token) {
    Value from =
        e.mul(e.add(e.mul(e.add(firstToken, token), e.constant(layout.heads)),
                    e.mul(group, e.constant(layout.share))),
              e.constant(depth));
    Value to = e.mul(token, e.constant(layout.share * padded));
    return forEach(e, e.constant(0), e.constant(layout.share), [&](Value head) {
      Value source = e.add(from, e.mul(head, e.constant(depth)));
      Value place = e.add(to, e.mul(head, e.constant(padded)));
      return forEach(
          e, e.constant(0), e.constant(depth),
          [&](Value d) {
            Value valid =
                depth == padded ? Value() : e.sub(e.constant(depth), d);
            Value row = tile::LoadOp::create(b, loc, lanesType(kLanes), query,
                                             e.add(source, d), valid);
            tile::StoreOp::create(b, loc, row, queryBuffer, e.add(place, d));
            return success();
          },
          kLanes);
    });
  });
}

LogicalResult PagedAttentionBuilder::packKeys(Value block) {
  Value keys = input(op.getKeys());
  int64_t depth = layout.depth, side = target.lanes(DType::f32);
  Value base = e.mul(e.add(e.mul(block, e.constant(layout.groups)), group),
                     e.constant(layout.positions * depth));
  return forEach(
      e, e.constant(0), e.constant(layout.positions),
      [&](Value position) {
        Value from = e.add(base, e.mul(position, e.constant(depth)));
        return forLanes(
            e, e.constant(0), e.constant(depth), side, depth % side == 0,
            [&](Value d, Value valid) {
              SmallVector<Value> square;
              for (int64_t i = 0; i < side; ++i)
                square.push_back(tile::LoadOp::create(
                    b, loc, lanesType(side), keys,
                    e.add(from, e.add(e.constant(i * depth), d)), valid));
              transposeSquare(b, loc, square);
              Value to =
                  e.add(e.mul(d, e.constant(layout.positions)), position);
              for (int64_t i = 0; i < side; ++i)
                tile::StoreOp::create(
                    b, loc, square[i], keyBuffer,
                    e.add(to, e.constant(i * layout.positions)));
              return success();
            });
      },
      side);
}

LogicalResult PagedAttentionBuilder::computeScores() {
  keyBuffer = scratch(0);
  scoreBuffer = scratch(layout.scores);
  Value rows = e.mul(count, e.constant(layout.share));
  RegisterTile shape = registerTile(target, kLanes);
  Value lda = e.constant(roundUpLanes(layout.depth));
  return forEach(e, firstBlock, endBlock, [&](Value block) -> LogicalResult {
    if (failed(packKeys(blockAt(block))))
      return failure();
    return forEach(
        e, e.constant(0), e.constant(layout.positions),
        [&](Value part) {
          return forRowTiles(
              e, rows, shape.rows,
              [&](Value row, Value valid, int64_t tileRows, Value) {
                auto type = VectorType::get({tileRows, kLanes}, b.getF32Type());
                auto loop = tile::MainloopOp::create(
                    b, loc, type, queryBuffer, e.mul(row, lda), lda,
                    e.constant(1), keyBuffer, part,
                    e.constant(layout.positions), e.constant(layout.depth));
                loop.getRowsMutable().assign(valid);
                Value to = e.add(
                    e.mul(row, scoreStride),
                    e.add(e.mul(block, e.constant(layout.positions)), part));
                for (int64_t i = 0; i < tileRows; ++i)
                  tile::StoreOp::create(
                      b, loc,
                      vector::ExtractOp::create(b, loc, loop.getAcc(),
                                                ArrayRef<int64_t>{i}),
                      scoreBuffer,
                      e.add(to, e.mul(e.constant(i), scoreStride)));
                return success();
              });
        },
        kLanes);
  });
}

Value PagedAttentionBuilder::score(Value dots) {
  Value score = arith::MulFOp::create(
      b, loc, dots, number(op.getScale().convertToDouble(), kLanes));
  double cap = op.getSoftcap().convertToDouble();
  if (cap <= 0)
    return score;
  Value inner = arith::MulFOp::create(b, loc, score, number(1 / cap, kLanes));
  return arith::MulFOp::create(b, loc, math::TanhOp::create(b, loc, inner),
                               number(cap, kLanes));
}

LogicalResult PagedAttentionBuilder::softmaxRows() {
  sumBuffer = scratch(layout.sums);
  Value first = e.mul(firstBlock, e.constant(layout.positions));
  Value last = e.mul(endBlock, e.constant(layout.positions));
  double infinity = std::numeric_limits<double>::infinity();
  LogicalResult status = success();
  auto softmax = [&](Value row) -> LogicalResult {
    Value token = e.div(row, e.constant(layout.share));
    Value end = endOf(token), begin = beginOf(token);
    Value base = e.mul(row, scoreStride);
    // body(values, position, carried) gives what is stored and carried on.
    using Step = std::pair<Value, Value>;
    auto pass = [&](Value init,
                    llvm::function_ref<Step(Value, Value, Value)> body) {
      return forEach(
          e, first, last, init,
          [&](Value position,
              ValueRange carried) -> FailureOr<SmallVector<Value>> {
            Value at = e.add(base, position);
            auto [stored, next] =
                body(tile::LoadOp::create(b, loc, lanesType(kLanes),
                                          scoreBuffer, at),
                     position, carried[0]);
            tile::StoreOp::create(b, loc, stored, scoreBuffer, at);
            return SmallVector<Value>{next};
          },
          status, kLanes)[0];
    };
    Value never = number(-infinity, kLanes);
    Value peak =
        pass(never, [&](Value dots, Value position, Value most) -> Step {
          Value visible = e.laneMask(kLanes, e.sub(end, position));
          Value x =
              arith::SelectOp::create(b, loc, visible, score(dots), never);
          if (op.getWindow() > 0) {
            Value hidden = e.laneMask(kLanes, e.sub(begin, position));
            x = arith::SelectOp::create(b, loc, hidden, never, x);
          }
          return {x, e.larger(most, x)};
        });
    Value largest = vector::ReductionOp::create(
        b, loc, vector::CombiningKind::MAXIMUMF, peak,
        arith::FastMathFlags::reassoc | arith::FastMathFlags::nnan);
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ,
                                       largest, number(-infinity, 0));
    largest = arith::SelectOp::create(b, loc, none, number(0, 0), largest);
    Value all = e.widen(largest, kLanes);
    Value sum =
        pass(number(0, kLanes), [&](Value x, Value, Value total) -> Step {
          Value p = e.expNonPositive(arith::SubFOp::create(b, loc, x, all));
          return {p, arith::AddFOp::create(b, loc, total, p)};
        });
    Value total = vector::ReductionOp::create(
        b, loc, vector::CombiningKind::ADD, sum, arith::FastMathFlags::reassoc);
    Value inverse = arith::DivFOp::create(b, loc, number(1, 0), total);
    inverse = arith::SelectOp::create(b, loc, none, number(0, 0), inverse);
    tile::StoreOp::create(b, loc, inverse, sumBuffer, row);
    return status;
  };
  return forEach(e, e.constant(0), e.mul(count, e.constant(layout.share)),
                 softmax);
}

LogicalResult PagedAttentionBuilder::multiplyValues() {
  Value values = input(op.getValues()), result = e.outputBuffer(0);
  Value accumulators = scratch(layout.accumulators);
  Value rows = e.mul(count, e.constant(layout.share));
  RegisterTile shape = registerTile(target, kLanes);
  int64_t width = layout.width;
  bool whole = width % kLanes == 0;
  auto column = [&](Value c) -> LogicalResult {
    Value valid = whole ? Value() : e.sub(e.constant(width), c);
    auto matmul = [&](Value row, Value validRows, int64_t tileRows, Value) {
      auto type = VectorType::get({tileRows, kLanes}, b.getF32Type());
      Value zero = arith::ConstantOp::create(
          b, loc, type,
          DenseElementsAttr::get(type, b.getF32FloatAttr(0).getValue()));
      LogicalResult status = success();
      Value sums = forEach(
          e, firstBlock, endBlock, zero,
          [&](Value block,
              ValueRange carried) -> FailureOr<SmallVector<Value>> {
            Value from = e.mul(
                e.add(e.mul(blockAt(block), e.constant(layout.groups)), group),
                e.constant(layout.positions * width));
            Value weights = e.add(e.mul(row, scoreStride),
                                  e.mul(block, e.constant(layout.positions)));
            // Behind the last position lies what another sequence left there.
            Value summed = e.min(
                e.constant(layout.positions),
                e.sub(endPosition, e.mul(block, e.constant(layout.positions))));
            Value matrix = values, at = e.add(from, c),
                  stride = e.constant(width);
            if (!whole) {
              // Full tiles would read past the width.
              matrix = scratch(layout.values);
              stride = e.constant(kLanes);
              if (failed(forEach(
                      e, e.constant(0), e.constant(layout.positions),
                      [&](Value p) {
                        Value line = tile::LoadOp::create(
                            b, loc, lanesType(kLanes), values,
                            e.add(at, e.mul(p, e.constant(width))), valid);
                        tile::StoreOp::create(b, loc, line, matrix,
                                              e.mul(p, e.constant(kLanes)));
                        return success();
                      })))
                return failure();
              at = e.constant(0);
            }
            auto loop = tile::MainloopOp::create(
                b, loc, type, scoreBuffer, weights, scoreStride, e.constant(1),
                matrix, at, stride, summed);
            loop.getRowsMutable().assign(validRows);
            loop.getInitMutable().assign(carried[0]);
            return SmallVector<Value>{loop.getAcc()};
          },
          status)[0];
      for (int64_t i = 0; i < tileRows; ++i)
        tile::StoreOp::create(
            b, loc,
            vector::ExtractOp::create(b, loc, sums, ArrayRef<int64_t>{i}),
            accumulators, e.constant(i * kLanes));
      return status;
    };
    auto store = [&](Value row, Value validRows) {
      return forEach(e, e.constant(0), validRows, [&](Value i) {
        Value line =
            tile::LoadOp::create(b, loc, lanesType(kLanes), accumulators,
                                 e.mul(i, e.constant(kLanes)));
        Value at = e.add(row, i);
        Value inverse =
            tile::LoadOp::create(b, loc, b.getF32Type(), sumBuffer, at);
        line = arith::MulFOp::create(b, loc, line, e.widen(inverse, kLanes));
        Value token = e.add(firstToken, e.div(at, e.constant(layout.share)));
        Value head = e.add(e.mul(group, e.constant(layout.share)),
                           e.rem(at, e.constant(layout.share)));
        Value to = e.mul(e.add(e.mul(token, e.constant(layout.heads)), head),
                         e.constant(width));
        tile::StoreOp::create(b, loc, line, result, e.add(to, c), valid);
        return success();
      });
    };
    return forRowTiles(e, rows, shape.rows, matmul, store);
  };
  return forEach(e, e.constant(0), e.constant(width), column, kLanes);
}

/// `number` tokens from `first` on, all of one sequence.
LogicalResult PagedAttentionBuilder::run(Value first, Value number) {
  firstToken = first;
  count = number;
  sequence =
      inside(index(op.getSequence(), first), ts::dimOf(op.getTable(), 0));
  LogicalResult status = success();
  SmallVector<Value> range = forEach(
      e, e.constant(0), count, {scoreStride, e.constant(0)},
      [&](Value token, ValueRange before) -> FailureOr<SmallVector<Value>> {
        return SmallVector<Value>{e.min(before[0], beginOf(token)),
                                  e.max(before[1], endOf(token))};
      },
      status);
  Value positions = e.constant(layout.positions);
  endPosition = range[1];
  firstBlock = e.div(range[0], positions);
  endBlock =
      e.div(e.add(range[1], e.constant(layout.positions - 1)), positions);
  firstBlock = e.min(firstBlock, endBlock);
  return success(succeeded(packQueries()) && succeeded(computeScores()) &&
                 succeeded(softmaxRows()) && succeeded(multiplyValues()));
}

LogicalResult PagedAttentionBuilder::build() {
  Dim all = ts::dimOf(op.getQuery(), 0);
  scoreStride = e.size(ts::dimOf(op.getTable(), 1) * layout.positions);
  Value id = tile::ProgramIdOp::create(b, loc);
  SmallVector<Value> place = e.delinearize(
      id, {all.ceilDiv(all.like(tokens)), all.like(layout.groups)});
  group = place[1];
  Value first = e.mul(place[0], e.constant(tokens));
  if (tokens == 1)
    return run(first, e.constant(1));
  Value end = e.min(e.add(first, e.constant(tokens)), e.size(all));
  return forEach(e, first, end, [&](Value token) -> LogicalResult {
    Value mine = index(op.getSequence(), token);
    Value before =
        index(op.getSequence(), e.max(e.sub(token, e.constant(1)), first));
    Value begins = arith::OrIOp::create(
        b, loc,
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, token, first),
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, mine, before));
    auto branch = scf::IfOp::create(b, loc, begins, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    return e.scoped([&] {
      // Up to the first token of another sequence.
      LogicalResult status = success();
      Value next = forEach(
          e, token, end, end,
          [&](Value other, ValueRange found) -> FailureOr<SmallVector<Value>> {
            Value differs =
                arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, mine,
                                      index(op.getSequence(), other));
            return SmallVector<Value>{arith::SelectOp::create(
                b, loc, differs, e.min(found[0], other), found[0])};
          },
          status)[0];
      return run(token, e.sub(next, token));
    });
  });
}

} // namespace

LogicalResult chooseCpuPagedAttention(ts::KernelOp kernel, const TargetDesc &,
                                      Knobs &knobs,
                                      SmallVectorImpl<Schedule> &schedules) {
  ts::PagedAttentionOp op = firstOp<ts::PagedAttentionOp>(kernel);
  if (!op)
    return success(); // another kind of attention
  if (!ts::elementTypeOf(op.getQuery()).isF32())
    return op.emitOpError("has no kernel of this element type for CPUs");
  Dim all = ts::dimOf(op.getQuery(), 0), one = all.like(1);
  int64_t share = PagedLayout(op, 1).share;
  // A transposed block serves so many rows; of few tokens each is a program, so
  // that all threads have some.
  config::PagedAttentionCpuConfig many{std::max<int64_t>(1, 32 / share)};
  knobs.tune(many, many.tokens, [](int64_t tokens) { return tokens > 0; });
  constexpr int64_t few = 32;
  for (int64_t tokens : {int64_t(1), many.tokens}) {
    Schedule schedule;
    schedule.kind = "cpu_paged_attention";
    schedule.parameters =
        config::print(config::PagedAttentionCpuConfig{tokens});
    PagedLayout layout(op, tokens);
    schedule.grid = all.ceilDiv(one * tokens) * layout.groups;
    schedule.grain = one;
    Dim room = ts::dimOf(op.getTable(), 1) * layout.positions;
    schedule.scratch =
        room * ((layout.rows + kAttentionTileRows) * 4) + layout.scores;
    if (tokens == 1 && many.tokens > 1)
      schedule.guard.terms.push_back(
          {all, ts::ComparePredicate::le, all.like(few)});
    schedules.push_back(std::move(schedule));
    if (many.tokens == 1)
      break;
  }
  return success();
}

LogicalResult buildCpuPagedAttention(BuildContext &context) {
  auto config = configOf<config::PagedAttentionCpuConfig>(context);
  if (failed(config))
    return failure();
  return PagedAttentionBuilder(context, *config,
                               firstOp<ts::PagedAttentionOp>(context.kernel))
      .build();
}

} // namespace knapper
