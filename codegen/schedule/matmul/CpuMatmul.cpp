// Matmuls of floats, and of bytes with constant ones.
//
//   program = a block of `rows` rows of the left side, times one panel of
//   `panel` columns, for one index of the batch dims (and of those row dims
//   that do not follow the others in memory)
//
// The left side is read in place, or its rows of the program are copied first
// (copiesRows). The right side, when constant, is packed once, at compile time,
// in panels
// ([K][panel], k-major; PackedOperand); otherwise a program copies its
// panel into scratch first, or reads it in place where that costs less
// (readsInPlace).
// Inside a program the rows are cut into register tiles; each runs the whole of
// K, its accumulators in registers, and leaves them in scratch, from where one
// epilogue takes them row by row: so it is compiled once, not once a tile size.
// While a panel is being used the next one is prefetched, each register tile
// taking its share.
//
// Bytes are packed in groups of four of K ([K/4][panel][4]) and summed in i32,
// bf16 in pairs where the left side's rows are consecutive in K; on targets
// that have tile registers both go through them (AmxMatmul.h), 32 rows at a
// time. A right side of bf16 that is no constant is gathered in pairs on
// targets that add products of pairs in one instruction, and read as any other
// elsewhere.
//
// Where there are tile registers matmuls of float32 may go through them as
// well, as sums of matmuls of bf16 (AmxSplitFloat.h): a program splits its
// panel, and its rows if the program before it in the call had others.
//
// Scaled integers (ts.scaled_dot) are packed as they are. Small register tiles
// expand them in registers, at each use; large ones read the panel from
// scratch, into which a program expands it once. Both round alike, so that a
// row's bits do not depend on how many rows there are.
//
// Programs are numbered panel by panel within a row block, so that a row block
// of the left side stays in the cache while the panels stream past it.
//
// Threads take consecutive programs. Which of them share a constant matrix is
// decided by the number of rows, at run time (splitOf): of few rows each thread
// reads panels of its own, of many each keeps to rows of its own.
//
// Parameters: panel, rows (of a block, at most), blocks (at least, of many
// rows), parts (of a panel, of few rows), split (into so many bf16: matmuls of
// float32 through tile registers, on targets that have them; 0: not).
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/CpuMatmulBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// A matmul with the integers as they are packed: over whole groups, then over
/// what is left of K.
Value MatmulBuilder::scaledMainloop(VectorType type, Value aOffset, Value valid,
                                    int64_t shift, Value fetch) {
  int64_t depth = *matmul.rhs.contract.asConstant(), each = matmul.group;
  int64_t whole = depth / each, rest = depth % each;
  // Elements of B for `k` of its rows, an even number of them for nibbles.
  auto elements = [&](int64_t k) { return k * panel / step; };
  Value sum;
  auto add = [&](int64_t first, int64_t groups, int64_t length) {
    int64_t k = first * each;
    Value aAt = e.add(aOffset, e.mul(e.constant(k), ka));
    Value bAt = e.add(bBase, e.constant(elements(k) + shift));
    Value steps = e.constant(length);
    Value parameters = e.add(scaleBase, e.constant(first * panel + shift));
    Value aStride = e.mul(e.constant(each), ka);
    auto loop = tile::MainloopOp::create(b, e.location, type, a, aAt, lda, ka,
                                         bBuffer, bAt, ldb, steps, sum);
    if (type.getDimSize(0) > 1)
      loop.getRowsMutable().assign(valid);
    loop.setNibbles(matmul.nibbles);
    loop.getScaleMutable().assign(scale);
    loop.getScaleOffsetMutable().assign(parameters);
    loop.getScaleStepMutable().assign(e.constant(panel));
    if (zero)
      loop.getZeroMutable().assign(zero);
    if (groups > 1) {
      loop.getOuterMutable().assign(e.constant(groups));
      loop.getAOuterMutable().assign(aStride);
      loop.getBOuterMutable().assign(e.constant(elements(each)));
    }
    if (fetch) {
      loop.getPrefetchMutable().assign(bBuffer);
      loop.getPrefetchOffsetMutable().assign(fetch);
      loop.getPrefetchStepMutable().assign(e.constant(64));
      fetch = {};
    }
    sum = loop.getAcc();
  };
  if (whole)
    add(0, whole, each);
  if (rest)
    add(whole, 1, rest);
  return sum;
}

Value MatmulBuilder::mainloop(Value row, Value valid, int64_t tileRows,
                              int64_t width, int64_t shift, Value fetch) {
  auto type = VectorType::get({tileRows, width}, sums);
  Value aOffset = e.add(aBase, e.mul(row, lda));
  if (matmul.group && tileRows <= expandedRows)
    return scaledMainloop(type, aOffset, valid, shift, fetch);
  bool isExpanded = matmul.group != 0;
  Value bAt =
      isExpanded ? e.constant(shift) : e.add(bBase, e.constant(shift * step));
  Value rowStride = isExpanded ? e.constant(panel) : ldb;
  Value depth = e.size(matmul.lhs.contract);
  auto loop = tile::MainloopOp::create(b, e.location, type, a, aOffset, lda, ka,
                                       isExpanded ? expanded : bBuffer, bAt,
                                       rowStride, depth);
  if (tileRows > 1)
    loop.getRowsMutable().assign(valid);
  loop.setPairs(!isExpanded && step == 2);
  if (fetch && !isExpanded) {
    // Tile t fetches K/4 times `lines` cache lines of the next panel behind
    // those of the tile before; of bytes K/16 times, of pairs K/8.
    loop.getPrefetchMutable().assign(prefetchFrom);
    loop.getPrefetchOffsetMutable().assign(fetch);
    loop.getPrefetchStepMutable().assign(fetchStep);
  }
  return loop.getAcc();
}

/// One register tile, into scratch: rows row .. row + valid - 1 (at most
/// tileRows), counted in the merged row dim, times the panel.
void MatmulBuilder::tile(Value row, Value valid, int64_t tileRows,
                         Value share) {
  Location loc = e.location;
  // One row is bound by reading the panel: it does so once, in the order of
  // memory. Its accumulators are few, however wide the panel is.
  int64_t width = tileRows == 1 ? panel : shape.width;
  for (int64_t shift = 0; shift < panel; shift += width) {
    Value fetch =
        prefetchBase && shift == 0 ? e.add(prefetchBase, share) : Value();
    Value acc = mainloop(row, valid, tileRows, width, shift, fetch);
    for (int64_t i = 0; i < tileRows; ++i) {
      Value value =
          vector::ExtractOp::create(b, loc, acc, ArrayRef<int64_t>{i});
      tile::StoreOp::create(b, loc, value, accumulators,
                            e.constant(i * panel + shift));
    }
  }
}

/// The same through tile registers.
LogicalResult MatmulBuilder::tileBlock(Value row, Value valid, Value share) {
  for (int64_t shift = 0; shift < panel; shift += shape.width) {
    AmxMatmul block;
    block.a = a;
    block.aOffset = e.add(aBase, e.mul(row, lda));
    block.lda = lda;
    block.b = bBuffer;
    block.bOffset = e.add(bBase, e.constant(shift * step));
    block.ldb = ldb;
    block.k = e.size(matmul.lhs.contract);
    block.c = accumulators;
    block.cOffset = e.constant(shift);
    block.ldc = e.constant(panel);
    if (prefetchBase && shift == 0) {
      block.prefetch = prefetchFrom;
      block.prefetchOffset = e.add(prefetchBase, share);
      block.prefetchStep = fetchStep;
    }
    if (failed(multiplyBlock(e, block, valid, shape.width)))
      return failure();
  }
  return success();
}

/// All rows of the program as sums of matmuls of bf16.
LogicalResult MatmulBuilder::bySplitBlocks(Value rows, Value key) {
  Location loc = e.location;
  int64_t depth = *matmul.lhs.contract.asConstant();
  int64_t at = accumulatorBytes(/*inTiles=*/true);
  if (!matmul.packed)
    at += panelBytes(depth, panel);
  SplitBlocks blocks(e, *inParts, at);
  Value base = e.add(aBase, e.mul(firstRow, lda));
  Value others = tile::OtherKeyOp::create(b, loc, b.getI1Type(), key);
  auto first = scf::IfOp::create(b, loc, others, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(first.getThenRegion().front().getTerminator());
    if (failed(e.scoped([&] { return blocks.splitRows(a, base, lda, rows); })))
      return failure();
  }
  if (failed(blocks.splitPanel(bBuffer, bBase, ldb)))
    return failure();
  return forBlocks(
      e, rows, [&](Value row, Value valid, Value) -> LogicalResult {
        auto again = [&](Value i) -> LogicalResult {
          Value number = e.add(firstRow, e.add(row, i));
          Value to = e.mul(i, e.constant(panel));
          RegisterTile vectors = registerTile(target, panel);
          auto type = VectorType::get({1, vectors.width}, b.getF32Type());
          Value aOffset = e.add(aBase, e.mul(number, lda));
          Value size = e.constant(depth);
          for (int64_t shift = 0; shift < panel; shift += vectors.width) {
            Value bAt = e.add(bBase, e.constant(shift));
            auto loop = tile::MainloopOp::create(b, loc, type, a, aOffset, lda,
                                                 ka, bBuffer, bAt, ldb, size);
            Value sum = vector::ExtractOp::create(b, loc, loop.getAcc(),
                                                  ArrayRef<int64_t>{0});
            tile::StoreOp::create(b, loc, sum, accumulators,
                                  e.add(to, e.constant(shift)));
          }
          return success();
        };
        if (failed(
                blocks.multiply(row, valid, validColumns, accumulators, again)))
          return failure();
        return finish(e.add(firstRow, row), valid);
      });
}

/// The epilogue of the rows that `tile` left in scratch.
LogicalResult MatmulBuilder::finish(Value row, Value valid) {
  Location loc = e.location;
  int64_t width = shape.width;
  // The rows' dims in the result: outer ones, then the merged one split.
  ArrayRef<Dim> freeDims = matmul.rows;
  LogicalResult status = success();
  auto part = [&](Value i, ArrayRef<LaneIndex> dims,
                  Value shift) -> LogicalResult {
    Value value =
        tile::LoadOp::create(b, loc, VectorType::get(width, sums), accumulators,
                             e.add(e.mul(i, e.constant(panel)), shift));
    if (endOfAll)
      value = arith::SelectOp::create(b, loc, e.less(e.add(row, i), endOfAll),
                                      value, e.splat(sums, width, 0));
    Coord coord;
    coord.lanes = width;
    if (validColumns)
      coord.valid = e.sub(validColumns, shift);
    coord.dims.assign(dims.begin(), dims.end());
    coord.dims.push_back({e.add(column, shift), 1, {}, width});
    return epilogue.store(e, value, coord);
  };
  forEach(
      e, e.constant(0), valid, {},
      [&](Value i, ValueRange) -> FailureOr<SmallVector<Value>> {
        SmallVector<LaneIndex> dims;
        for (Value index :
             ArrayRef(batchIndex).take_front(matmul.resultBatch().size()))
          dims.push_back({index});
        size_t outer = 0, taken = 0;
        while (outer < freeDims.size() && taken < outerIndex.size()) {
          if (freeDims[outer].isConstant(1))
            dims.push_back({e.constant(0)});
          else
            dims.push_back({outerIndex[taken++]});
          ++outer;
        }
        for (Value index :
             e.delinearize(e.add(row, i), freeDims.drop_front(outer)))
          dims.push_back({index});
        if (width == panel) {
          if (failed(part(i, dims, e.constant(0))))
            return failure();
          return SmallVector<Value>();
        }
        forEach(
            e, e.constant(0), e.constant(panel), {},
            [&](Value shift, ValueRange) -> FailureOr<SmallVector<Value>> {
              if (failed(part(i, dims, shift)))
                return failure();
              return SmallVector<Value>();
            },
            status, width);
        return SmallVector<Value>();
      },
      status);
  return status;
}

LogicalResult MatmulBuilder::build() {
  if (matmul.ends)
    return buildGrouped();
  Location loc = e.location;
  const MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim panels = rhs.free.ceilDiv(rhs.free.like(panel));
  // id = (((batch, outer) * blocks + block) * panels + panel) * parts + part
  SmallVector<Dim> grid(matmul.batch);
  llvm::append_range(grid, lhs.outerSizes);
  grid.append({split.blocks, panels, split.parts});
  SmallVector<Value> index = e.delinearize(id, grid);
  batchIndex.assign(index.begin(), index.begin() + matmul.batch.size());
  outerIndex.assign(index.begin() + matmul.batch.size(), index.end() - 3);
  Value block = index[index.size() - 3], panelIndex = index[index.size() - 2],
        part = index.back();

  column = e.mul(panelIndex, e.constant(panel));
  int64_t known = rhs.free.knownDivisor();
  if (!known || known % panel)
    validColumns = e.sub(e.size(rhs.free), column);
  // Equal numbers of register tiles, so that an equal number of programs is
  // equal work.
  Value all = e.size(lhs.free), height = e.constant(shape.rows);
  Value tiles = e.size(lhs.free.ceilDiv(lhs.free.like(shape.rows)));
  Value number = e.size(split.blocks * split.parts);
  auto firstTile = [&](Value share) {
    return e.div(e.mul(share, tiles), number);
  };
  Value own = e.add(e.mul(block, e.size(split.parts)), part);
  Value begin = firstTile(own), end = firstTile(e.add(own, e.constant(1)));
  firstRow = e.mul(begin, height);
  Value rows = e.sub(e.min(e.mul(end, height), all), firstRow);
  // Parts fetch from where the one before ends.
  Value panelTile = firstTile(e.mul(block, e.size(split.parts)));
  Value tilesBefore = e.sub(begin, panelTile);
  // Few tiles fetch more lines at a time, so that together they fetch a panel:
  // of four steps of K it has panel / 4.
  Value together =
      e.sub(firstTile(e.mul(e.add(block, e.constant(1)), e.size(split.parts))),
            panelTile);
  Value lines = e.div(e.add(e.constant(panel / 4 - 1), together),
                      e.max(together, e.constant(1)));
  fetchStep = e.mul(lines, e.constant(16 * step));
  return multiplyPanel(rows, panelIndex, tilesBefore, lines, [&]() -> Value {
    // Of the rows, whatever the panel.
    Value key = e.div(id, e.size(panels * split.parts));
    return e.add(e.mul(key, e.size(split.parts)), part);
  });
}

LogicalResult
MatmulBuilder::multiplyPanel(Value rows, Value panelIndex, Value tilesBefore,
                             Value lines, llvm::function_ref<Value()> rowsKey) {
  Location loc = e.location;
  const MatmulOperand &lhs = matmul.lhs, &rhs = matmul.rhs;
  a = e.inputBuffer(lhs.base);
  lda = e.size(lhs.freeStride);
  ka = e.size(lhs.contractStride);
  aBase = e.size(lhs.offset);
  for (auto [i, value] : llvm::enumerate(batchIndex))
    aBase = e.add(aBase, e.mul(value, e.size(lhs.batchStrides[i])));
  for (auto [i, value] : llvm::enumerate(outerIndex))
    aBase = e.add(aBase, e.mul(value, e.size(lhs.outerStrides[i])));

  if (copiesRows(matmul, target))
    if (failed(copyRows(rows)))
      return failure();
  accumulators = tile::ScratchOp::create(b, loc, tile::BufferType::get(sums),
                                         e.constant(0));
  Dim depth = lhs.contract;
  if (matmul.packed) {
    bBuffer = e.inputBuffer(rhs.base);
    // Of B, for a step of K and a column: nibbles of one lie in a byte.
    int64_t elements = matmul.group ? 1 : step;
    Value panelSize =
        e.size(depth.ceilDiv(depth.like(step)) * (elements * panel));
    ldb = e.constant(elements * panel);
    if (matmul.ends) {
      // [panel][expert], transposed [expert][panel] (chooseCpuMatmul)
      Value number =
          matmul.transposed
              ? e.add(e.mul(batchIndex[0],
                            e.size(rhs.free.floorDiv(rhs.free.like(panel)))),
                      panelIndex)
              : e.add(e.mul(panelIndex, e.size(matmul.batch[0])),
                      batchIndex[0]);
      bBase = e.mul(number, panelSize);
    } else {
      bBase = e.mul(panelIndex, panelSize);
      prefetchFrom = bBuffer;
      prefetchBase = e.add(bBase, panelSize);
    }
  } else {
    bBuffer = e.inputBuffer(rhs.base);
    bBase = e.add(e.size(rhs.offset), e.mul(column, e.size(rhs.freeStride)));
    for (auto [i, value] : llvm::enumerate(batchIndex))
      bBase = e.add(bBase, e.mul(value, e.size(rhs.batchStrides[i])));
    ldb = e.size(rhs.contractStride);
    if (fetchesUnpacked(matmul, target, panel)) {
      prefetchFrom = bBuffer;
      prefetchBase = e.add(bBase, e.mul(e.constant(panel), e.size(depth)));
    }
    bool inPlace = step == 1 && readsInPlace(matmul, target, panel);
    if (!inPlace && failed(gatherPanel()))
      return failure();
  }

  if (matmul.group) {
    scale = e.inputBuffer(matmul.scale);
    if (matmul.zero)
      zero = e.inputBuffer(matmul.zero);
    Dim groups = depth.ceilDiv(depth.like(matmul.group));
    scaleBase = e.mul(panelIndex, e.size(groups * panel));
    if (shape.rows > expandedRows) {
      expanded = tile::ScratchOp::create(
          b, loc, tile::BufferType::get(b.getF32Type()),
          e.constant(accumulatorBytes(inTiles || inParts)));
      Value large = e.less(e.constant(expandedRows), rows);
      auto many = scf::IfOp::create(b, loc, large, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(many.getThenRegion().front().getTerminator());
      if (failed(e.scoped([&] { return expandPanel(); })))
        return failure();
    }
  }

  // Elements of as many cache lines as a tile fetches.
  Value share = matmul.group ? e.size(depth.floorDiv(depth.like(4 * step)) * 64)
                             : e.mul(lines, e.size(depth * 4));
  if (!inParts)
    return multiply(rows, tilesBefore, share);
  Value enough = e.less(e.constant(leastSplitRows(inParts->parts) - 1), rows);
  auto branch = scf::IfOp::create(b, loc, enough, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
  if (failed(e.scoped([&] { return bySplitBlocks(rows, rowsKey()); })))
    return failure();
  b.setInsertionPoint(branch.getElseRegion().front().getTerminator());
  return e.scoped([&] { return multiply(rows, tilesBefore, share); });
}

/// All rows of the program, `share` elements fetched by each of its tiles, of
/// which others of the panel have `tilesBefore`.
LogicalResult MatmulBuilder::multiply(Value rows, Value tilesBefore,
                                      Value share) {
  if (inTiles)
    return forBlocks(
        e, rows, [&](Value row, Value valid, Value number) -> LogicalResult {
          row = e.add(firstRow, row);
          Value before = e.add(tilesBefore, number);
          if (failed(tileBlock(row, valid, e.mul(before, share))))
            return failure();
          return finish(row, valid);
        });
  // Programs begin at whole tiles; an expert's rows end anywhere.
  std::optional<int64_t> all = matmul.lhs.free.asConstant();
  SmallVector<int64_t> counts;
  if (all && !matmul.ends)
    counts = countsOfTiles(*all, shape.rows, std::max(*all, shape.rows));
  return forRowTiles(
      e, rows, shape.rows,
      [&](Value row, Value valid, int64_t tileRows, Value number) {
        tile(e.add(firstRow, row), valid, tileRows,
             e.mul(e.add(tilesBefore, number), share));
        return success();
      },
      [&](Value row, Value valid) {
        return finish(e.add(firstRow, row), valid);
      },
      /*known=*/{}, counts);
}

LogicalResult buildCpuMatmul(BuildContext &context) {
  std::optional<MatmulProblem> matmul = analyseMatmul(context.kernel);
  if (!matmul)
    return context.kernel.emitOpError("is no matmul that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, matmul->result);
  if (failed(epilogue))
    return failure();
  FailureOr<MatmulCpuConfig> config = configOf<MatmulCpuConfig>(context);
  if (failed(config))
    return failure();
  return MatmulBuilder(context, *config, std::move(*matmul),
                       std::move(*epilogue))
      .build();
}

} // namespace knapper
