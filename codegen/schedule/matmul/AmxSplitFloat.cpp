#include "codegen/schedule/matmul/AmxSplitFloat.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>

using namespace mlir;

namespace knapper {

static constexpr int64_t kTileDepth = 32;
/// Longer sums lose digits, shorter ones are added more often.
static constexpr int64_t kChunk = 768;
static constexpr int64_t kChunkBytes = 32 * 64 * 4;
/// Bits of 2^40, 2^-50 and 2^-40.
static constexpr uint32_t kMost = 0x53800000, kLeast = 0x26800000,
                          kLeastResult = 0x2b800000;
enum Mark : int32_t { kOrdinary, kTiny, kBeyond };

static int64_t paddedDepth(int64_t depth) {
  return (depth + kTileDepth - 1) / kTileDepth * kTileDepth;
}
/// An odd number of cache lines apart: rows of a tile are in different sets.
static int64_t rowElements(const SplitShape &shape) {
  int64_t whole = shape.parts * paddedDepth(shape.depth);
  return whole + (whole % 64 ? 0 : 32);
}
static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// By what two Sapphire Rapids cores took: six matmuls 1.75 times the speed of
// FMAs (1.4 with B from memory), and to split an element as long as 24
// FMAs of it, more where it comes from memory.
static constexpr double kSplitCost = 24;
static double gainOf(int64_t parts) { return parts == 3 ? 1.5 : 2.5; }

int64_t leastSplitRows(int64_t parts) {
  return static_cast<int64_t>(kSplitCost / (1 - 1 / gainOf(parts)));
}

bool splitPays(const SplitShape &shape, int64_t blockRows, int64_t panels,
               int64_t cacheBytes) {
  // Consecutive programs of one call share the rows.
  double sharing = std::clamp<int64_t>(panels / 4, 1, 16);
  double height = static_cast<double>(blockRows),
         panel = static_cast<double>(shape.panel);
  double before = height * panel;
  double after =
      before / gainOf(shape.parts) + kSplitCost * (panel + height / sharing);
  return lines(shape.rows * rowElements(shape) * 2) <= cacheBytes &&
         after < 0.9 * before;
}

int64_t SplitBlocks::scratchBytes(const SplitShape &shape) {
  return kChunkBytes + lines(shape.rows * 4) +
         lines(shape.rows * rowElements(shape) * 2) +
         shape.parts * paddedDepth(shape.depth) * shape.panel * 2 + 64;
}

SplitBlocks::SplitBlocks(ElementEmitter &emitter, const SplitShape &shape,
                         int64_t at)
    : e(emitter), b(e.builder), loc(e.location), parts(shape.parts),
      panel(shape.panel), depth(shape.depth), padded(paddedDepth(depth)),
      lda(rowElements(shape)) {
  at = lines(at);
  chunk = scratch(at, b.getF32Type());
  at += kChunkBytes;
  marks = scratch(at, b.getI32Type());
  at += lines(shape.rows * 4);
  splitA = scratch(at, b.getBF16Type());
  at += lines(shape.rows * lda * 2);
  splitB = scratch(at, b.getBF16Type());
}

Value SplitBlocks::scratch(int64_t at, Type element) {
  return tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                                 e.constant(at));
}

Value SplitBlocks::words(int64_t lanes, uint32_t word) {
  auto type = VectorType::get(lanes, b.getI32Type());
  return arith::ConstantOp::create(
      b, loc,
      DenseElementsAttr::get(type,
                             b.getI32IntegerAttr(static_cast<int32_t>(word))));
}

SplitBlocks::Range SplitBlocks::noRange(int64_t lanes) {
  Value most = words(lanes, 0), least = words(lanes, ~0u);
  return {most, least};
}

SplitBlocks::Range SplitBlocks::widened(Range range, Value numbers) {
  int64_t lanes = cast<VectorType>(numbers.getType()).getNumElements();
  auto type = VectorType::get(lanes, b.getI32Type());
  Value bits = arith::BitcastOp::create(b, loc, type, numbers);
  bits = arith::AndIOp::create(b, loc, bits, words(lanes, 0x7fffffff));
  Value less = arith::SubIOp::create(b, loc, bits, words(lanes, 1));
  Value most = arith::MaxUIOp::create(b, loc, range.most, bits);
  Value least = arith::MinUIOp::create(b, loc, range.least, less);
  return {most, least};
}

Value SplitBlocks::markOf(Range range) {
  Value most = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXUI,
                                           range.most);
  Value least = vector::ReductionOp::create(
      b, loc, vector::CombiningKind::MINUI, range.least);
  auto number = [&](uint32_t word) -> Value {
    return arith::ConstantOp::create(
        b, loc, b.getI32IntegerAttr(static_cast<int32_t>(word)));
  };
  Value tiny = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, least,
                                     number(kLeast - 1));
  Value beyond = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, most,
                                       number(kMost));
  Value mark =
      arith::SelectOp::create(b, loc, tiny, number(kTiny), number(kOrdinary));
  return arith::SelectOp::create(b, loc, beyond, number(kBeyond), mark);
}

Value SplitBlocks::takePart(Value &numbers) {
  auto type = cast<VectorType>(numbers.getType());
  Value part =
      arith::TruncFOp::create(b, loc, type.clone(b.getBF16Type()), numbers);
  Value wide = arith::ExtFOp::create(b, loc, type, part);
  numbers = arith::SubFOp::create(b, loc, numbers, wide);
  return part;
}

LogicalResult SplitBlocks::splitRows(Value a, Value base, Value stride,
                                     Value count) {
  auto type = VectorType::get(kTileDepth, b.getF32Type());
  return forEach(e, e.constant(0), count, [&](Value row) -> LogicalResult {
    Value from = e.add(base, e.mul(row, stride));
    Value to = e.mul(row, e.constant(lda));
    Range none = noRange(kTileDepth);
    LogicalResult status = success();
    SmallVector<Value> range = forLanes(
        e, e.constant(0), e.constant(depth), kTileDepth,
        depth % kTileDepth == 0, {none.most, none.least},
        [&](Value k, Value valid,
            ValueRange before) -> FailureOr<SmallVector<Value>> {
          Value x =
              tile::LoadOp::create(b, loc, type, a, e.add(from, k), valid);
          Range next = widened({before[0], before[1]}, x);
          for (int64_t part = 0; part < parts; ++part) {
            Value at = e.add(to, e.add(k, e.constant(part * padded)));
            Value taken = takePart(x);
            tile::StoreOp::create(b, loc, taken, splitA, at);
          }
          return SmallVector<Value>{next.most, next.least};
        },
        status);
    if (failed(status))
      return failure();
    Value mark = markOf({range[0], range[1]});
    tile::StoreOp::create(b, loc, mark, marks, row);
    return success();
  });
}

LogicalResult SplitBlocks::splitPanel(Value from, Value base, Value stride) {
  auto type = VectorType::get(panel, b.getF32Type());
  int64_t whole = depth / 2 * 2;
  auto pairs = [&](int64_t first, int64_t end, bool masked, Range range,
                   LogicalResult &status) {
    SmallVector<Value> sums = forEach(
        e, e.constant(first), e.constant(end), {range.most, range.least},
        [&](Value k, ValueRange before) -> FailureOr<SmallVector<Value>> {
          auto row = [&](Value index) -> Value {
            Value valid;
            if (masked) {
              Value left =
                  e.mul(e.sub(e.constant(depth), index), e.constant(panel));
              valid = e.max(e.constant(0), e.min(left, e.constant(panel)));
            }
            Value at = e.add(base, e.mul(index, stride));
            return tile::LoadOp::create(b, loc, type, from, at, valid);
          };
          Value even = row(k), odd = row(e.add(k, e.constant(1)));
          Range next = widened({before[0], before[1]}, even);
          next = widened(next, odd);
          Value to = e.mul(k, e.constant(parts * panel));
          for (int64_t part = 0; part < parts; ++part) {
            Value low = takePart(even), high = takePart(odd);
            Value both = vector::InterleaveOp::create(b, loc, low, high);
            tile::StoreOp::create(b, loc, both, splitB,
                                  e.add(to, e.constant(part * 2 * panel)));
          }
          return SmallVector<Value>{next.most, next.least};
        },
        status, 2);
    return Range{sums[0], sums[1]};
  };
  LogicalResult status = success();
  Range range = noRange(panel);
  range = pairs(0, whole, /*masked=*/false, range, status);
  if (whole < padded)
    range = pairs(whole, padded, /*masked=*/true, range, status);
  panelMark = markOf(range);
  return status;
}

LogicalResult
SplitBlocks::multiply(Value row, Value valid, Value validColumns, Value sums,
                      llvm::function_ref<LogicalResult(Value)> again) {
  RegisterTile shape = blockTile(panel);
  int64_t chunks = (padded + kChunk - 1) / kChunk;
  int64_t size = paddedDepth((padded + chunks - 1) / chunks);
  auto type = VectorType::get(shape.width, b.getF32Type());
  for (int64_t first = 0; first < padded; first += size) {
    for (int64_t shift = 0; shift < panel; shift += shape.width) {
      AmxMatmul matmul;
      matmul.a = splitA;
      matmul.aOffset = e.add(e.mul(row, e.constant(lda)), e.constant(first));
      matmul.lda = e.constant(lda);
      matmul.b = splitB;
      matmul.bOffset = e.constant(first * parts * panel + 2 * shift);
      matmul.ldb = e.constant(parts * 2 * panel);
      matmul.k = e.constant(std::min(size, padded - first));
      matmul.c = first ? chunk : sums;
      matmul.cOffset = e.constant(shift);
      matmul.ldc = e.constant(panel);
      matmul.parts = parts;
      matmul.aPart = e.constant(padded);
      matmul.bPart = e.constant(2 * panel);
      if (failed(multiplyBlock(e, matmul, valid, shape.width)))
        return failure();
    }
    if (!first)
      continue;
    Value elements = e.mul(valid, e.constant(panel));
    if (failed(forEach(
            e, e.constant(0), elements,
            [&](Value i) {
              Value before = tile::LoadOp::create(b, loc, type, sums, i);
              Value more = tile::LoadOp::create(b, loc, type, chunk, i);
              Value sum = arith::AddFOp::create(b, loc, before, more);
              tile::StoreOp::create(b, loc, sum, sums, i);
              return success();
            },
            shape.width)))
      return failure();
  }
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(n));
  };
  auto is = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  };
  using P = arith::CmpIPredicate;
  auto inside = [&](Value condition, auto body) -> LogicalResult {
    auto branch =
        scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
    return e.scoped(body);
  };
  return forEach(e, e.constant(0), valid, [&](Value i) -> LogicalResult {
    Value mark =
        tile::LoadOp::create(b, loc, b.getI32Type(), marks, e.add(row, i));
    mark = arith::MaxSIOp::create(b, loc, mark, panelMark);
    return inside(is(P::ne, mark, number(kOrdinary)), [&]() -> LogicalResult {
      // The smallest result of the row.
      Value least = words(shape.width, ~0u);
      for (int64_t shift = 0; shift < panel; shift += shape.width) {
        Value at = e.add(e.mul(i, e.constant(panel)), e.constant(shift));
        Value x = tile::LoadOp::create(b, loc, type, sums, at);
        Value bits = arith::BitcastOp::create(
            b, loc, VectorType::get(shape.width, b.getI32Type()), x);
        bits =
            arith::AndIOp::create(b, loc, bits, words(shape.width, 0x7fffffff));
        if (validColumns)
          bits = arith::SelectOp::create(
              b, loc,
              e.laneMask(shape.width, e.sub(validColumns, e.constant(shift))),
              bits, words(shape.width, ~0u));
        least = arith::MinUIOp::create(b, loc, least, bits);
      }
      Value smallest = vector::ReductionOp::create(
          b, loc, vector::CombiningKind::MINUI, least);
      Value lost = is(P::ult, smallest, number(kLeastResult));
      Value beyond = is(P::eq, mark, number(kBeyond));
      return inside(arith::OrIOp::create(b, loc, lost, beyond),
                    [&] { return again(i); });
    });
  });
}

} // namespace knapper
