// Matrix products of floats, and of bytes with constant ones.
//
//   program = a block of `rows` rows of the left side, times one panel of
//   `panel` columns, for one index of the batch dims (and of those row dims
//   that do not follow the others in memory)
//
// The right side, when constant, is packed once, at compile time, in panels
// ([K][panel], k-major; PackedOperand); otherwise it is read in place if its
// columns are consecutive, else its panel is gathered into scratch first.
// Inside a program the rows are cut into register tiles; each runs the whole of
// K, its accumulators in registers, and leaves them in scratch, from where one
// epilogue takes them row by row: so it is compiled once, not once a tile size.
// While a panel is being used the next one is prefetched, each register tile
// taking its share.
//
// Bytes are packed in groups of four of K ([K/4][panel][4]) and summed in i32,
// bf16 in pairs where the left side's rows are consecutive in K. A right side
// of bf16 that is no constant is gathered in pairs on targets that add products
// of pairs in one instruction, and read as any other elsewhere.
//
// Programs are numbered panel by panel within a row block, so that a row block
// of the left side stays in the cache while the panels stream past it.
//
// Parameters: panel, rows.
#include "codegen/schedule/Emitter.h"
#include "codegen/schedule/Epilogue.h"
#include "codegen/schedule/Lanes.h"
#include "codegen/schedule/Product.h"
#include "codegen/schedule/RowTiles.h"
#include "codegen/schedule/Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Scratch for the accumulators of a register tile: at most 12 x 64 f32.
constexpr int64_t kAccumulatorBytes = 4096;

/// Rows of the left side that are worth the gathering of pairs.
constexpr int64_t kPairRows = 4;

/// How many of K a step takes: what lies together in a packed panel, and on
/// targets with products of pairs in a gathered one.
int64_t group(const Product &product) {
  if (product.bytes)
    return 4;
  std::optional<int64_t> rows = product.lhs.free.asConstant();
  bool few = !product.packed && rows && *rows < kPairRows;
  return product.pairs && !few ? 2 : 1;
}

/// The widest panel that divides the columns without waste, from those that
/// the register tiles are good at.
int64_t choosePanel(const Product &product, int64_t runDivisor, Knobs &knobs) {
  std::optional<int64_t> columns = product.rhs.free.asConstant();
  auto fits = [&](int64_t panel) {
    return runDivisor == 0 || runDivisor % panel == 0;
  };
  int64_t best = 16;
  double bestCost = 1e30;
  SmallVector<int64_t> all;
  // Relative time a column of a full panel costs.
  for (auto [panel, cost] : {std::pair<int64_t, double>{48, 1.0},
                             {64, 1.01},
                             {32, 1.06},
                             {16, 1.6}}) {
    if (!fits(panel) && panel != 16)
      continue;
    all.push_back(panel);
    int64_t n = columns.value_or(768);
    double total = cost * ((n + panel - 1) / panel) * panel;
    if (total < bestCost) {
      bestCost = total;
      best = panel;
    }
  }
  return knobs.pick("panel", best, all);
}

class MatmulBuilder {
public:
  MatmulBuilder(BuildContext &context, Product product, Epilogue epilogue)
      : e(context.emitter), b(e.builder), target(context.target),
        product(std::move(product)), epilogue(std::move(epilogue)),
        panel(context.schedule.at("panel")),
        blockRows(context.schedule.at("rows")),
        step(this->product.packed || target.pairProducts ? group(this->product)
                                                         : 1),
        sums(this->product.bytes ? Type(b.getI32Type()) : b.getF32Type()),
        shape(groupTile(target, panel, step)) {}

  LogicalResult build();

private:
  LogicalResult gatherPanel();
  void tile(Value row, Value valid, int64_t tileRows, Value share);
  LogicalResult finish(Value row, Value valid);

  Emitter &e;
  OpBuilder &b;
  const TargetDesc &target;
  Product product;
  Epilogue epilogue;
  int64_t panel, blockRows;
  int64_t step; ///< of K, whose elements of a column lie together in B
  Type sums; ///< element type of the accumulators
  RegisterTile shape;

  SmallVector<Value> batchIndex, outerIndex;
  Value column;       ///< first column of the panel
  Value validColumns; ///< null: all
  Value firstRow;     ///< of the block, in the merged row dim
  Value a, aBase, lda, ka;
  Value bBuffer, bBase, ldb;
  Value prefetchBase;
  Value accumulators; ///< scratch, [tile rows][panel]
};

/// One register tile, into scratch: rows row .. row + valid - 1 (at most
/// tileRows), counted in the merged row dim, times the panel.
void MatmulBuilder::tile(Value row, Value valid, int64_t tileRows,
                         Value share) {
  Location loc = e.location;
  int64_t width = shape.width;
  auto type = VectorType::get({tileRows, width}, sums);
  Value aOffset = e.add(aBase, e.mul(row, lda));
  for (int64_t shift = 0; shift < panel; shift += width) {
    Value fetch =
        prefetchBase && shift == 0 ? e.add(prefetchBase, share) : Value();
    auto loop =
        tile::MainloopOp::create(b, loc, type, a, aOffset, lda, ka, bBuffer,
                                 e.add(bBase, e.constant(shift * step)), ldb,
                                 e.size(product.lhs.contract));
    loop.setPairs(step == 2);
    if (tileRows > 1)
      loop.getRowsMutable().assign(valid);
    if (fetch) {
      // Tile t fetches K/4 cache lines of the next panel from line t*K/4 on; of
      // bytes K/16 lines, of pairs K/8.
      loop.getPrefetchMutable().assign(bBuffer);
      loop.getPrefetchOffsetMutable().assign(fetch);
      loop.getPrefetchStepMutable().assign(e.constant(16 * step));
    }
    for (int64_t i = 0; i < tileRows; ++i) {
      Value value = vector::ExtractOp::create(b, loc, loop.getAcc(),
                                              ArrayRef<int64_t>{i});
      tile::StoreOp::create(b, loc, value, accumulators,
                            e.constant(i * panel + shift));
    }
  }
}

/// The epilogue of the rows that `tile` left in scratch.
LogicalResult MatmulBuilder::finish(Value row, Value valid) {
  Location loc = e.location;
  int64_t width = shape.width;
  // The rows' dims in the result: outer ones, then the merged one split.
  SmallVector<Dim> freeDims;
  ts::DotOp dot = product.dot;
  for (auto [d, dim] : llvm::enumerate(ts::dimsOf(dot.getLhs())))
    if (!llvm::is_contained(dot.getLhsBatch(), static_cast<int64_t>(d)) &&
        !llvm::is_contained(dot.getLhsContract(), static_cast<int64_t>(d)))
      freeDims.push_back(dim);
  LogicalResult status = success();
  auto part = [&](Value i, ArrayRef<LaneIndex> dims,
                  Value shift) -> LogicalResult {
    Value value =
        tile::LoadOp::create(b, loc, VectorType::get(width, sums), accumulators,
                             e.add(e.mul(i, e.constant(panel)), shift));
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
        for (Value index : batchIndex)
          dims.push_back({index});
        size_t outer = 0, taken = 0;
        while (outer < freeDims.size() && taken < outerIndex.size()) {
          if (freeDims[outer].isConstant(1))
            dims.push_back({e.constant(0)});
          else
            dims.push_back({outerIndex[taken++]});
          ++outer;
        }
        for (Value index : e.delinearize(
                 e.add(row, i), ArrayRef<Dim>(freeDims).drop_front(outer)))
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

/// Gathers the panel that bBase and ldb point to into scratch, [K][panel] or
/// [ceil(K / 2)][panel][2], zero past the last column and row.
LogicalResult MatmulBuilder::gatherPanel() {
  Location loc = e.location;
  Value source = bBuffer, base = bBase, stride = ldb;
  Value depth = e.size(product.rhs.contract);
  Value columnStride = e.size(product.rhs.freeStride);
  bool consecutive = product.rhs.freeStride.isConstant(1);
  Type element = cast<tile::BufferType>(source.getType()).getElementType();
  auto type = VectorType::get(panel, element);
  bBuffer = tile::ScratchOp::create(b, loc, tile::BufferType::get(element),
                                    e.constant(kAccumulatorBytes));
  bBase = e.constant(0);
  ldb = e.constant(step * panel);
  auto row = [&](Value k, Value valid) -> Value {
    Value at = e.add(base, e.mul(k, stride));
    if (consecutive)
      return tile::LoadOp::create(b, loc, type, source, at, valid);
    auto strided =
        tile::LoadStridedOp::create(b, loc, type, source, at, columnStride);
    if (valid)
      strided.getValidMutable().assign(valid);
    return strided;
  };
  LogicalResult status = success();
  forEach(
      e, e.constant(0), depth, {},
      [&](Value k, ValueRange) -> FailureOr<SmallVector<Value>> {
        Value values = row(k, validColumns);
        if (step == 2) {
          // Of the row past the last none is valid.
          Value next = e.add(k, e.constant(1));
          Value left = e.mul(e.sub(depth, next), e.constant(panel));
          Value odd = row(next, e.min(left, validColumns ? validColumns
                                                         : e.constant(panel)));
          values = vector::InterleaveOp::create(b, loc, values, odd);
        }
        tile::StoreOp::create(b, loc, values, bBuffer,
                              e.mul(k, e.constant(panel)));
        return SmallVector<Value>();
      },
      status, step);
  return status;
}

LogicalResult MatmulBuilder::build() {
  Location loc = e.location;
  const Side &lhs = product.lhs, &rhs = product.rhs;
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim panels = rhs.free.ceilDiv(rhs.free.like(panel));
  Dim blocks = lhs.free.ceilDiv(lhs.free.like(blockRows));
  // id = ((batch, outer) * blocks + block) * panels + panel
  SmallVector<Dim> grid(product.batch);
  llvm::append_range(grid, lhs.outerSizes);
  grid.push_back(blocks);
  grid.push_back(panels);
  SmallVector<Value> index = e.delinearize(id, grid);
  batchIndex.assign(index.begin(), index.begin() + product.batch.size());
  outerIndex.assign(index.begin() + product.batch.size(), index.end() - 2);
  Value block = index[index.size() - 2], panelIndex = index.back();

  column = e.mul(panelIndex, e.constant(panel));
  int64_t known = rhs.free.knownDivisor();
  if (!known || known % panel)
    validColumns = e.sub(e.size(rhs.free), column);
  // Equal blocks, so that an equal number of programs is equal work.
  Value all = e.size(lhs.free), number = e.size(blocks);
  firstRow = e.div(e.mul(block, all), number);
  Value rows =
      e.sub(e.div(e.mul(e.add(block, e.constant(1)), all), number), firstRow);

  a = e.inputBuffer(lhs.base);
  lda = e.size(lhs.freeStride);
  ka = e.size(lhs.contractStride);
  aBase = e.size(lhs.offset);
  for (auto [i, value] : llvm::enumerate(batchIndex))
    aBase = e.add(aBase, e.mul(value, e.size(lhs.batchStrides[i])));
  for (auto [i, value] : llvm::enumerate(outerIndex))
    aBase = e.add(aBase, e.mul(value, e.size(lhs.outerStrides[i])));

  accumulators = tile::ScratchOp::create(b, loc, tile::BufferType::get(sums),
                                         e.constant(0));
  Dim depth = lhs.contract;
  if (product.packed) {
    bBuffer = e.inputBuffer(rhs.base);
    Value panelSize = e.size(depth.ceilDiv(depth.like(step)) * (step * panel));
    bBase = e.mul(panelIndex, panelSize);
    ldb = e.constant(step * panel);
    prefetchBase = e.add(bBase, panelSize);
  } else {
    bBuffer = e.inputBuffer(rhs.base);
    bBase = e.add(e.size(rhs.offset), e.mul(column, e.size(rhs.freeStride)));
    for (auto [i, value] : llvm::enumerate(batchIndex))
      bBase = e.add(bBase, e.mul(value, e.size(rhs.batchStrides[i])));
    ldb = e.size(rhs.contractStride);
    bool inPlace = rhs.freeStride.isConstant(1) && !validColumns && step == 1;
    if (!inPlace && failed(gatherPanel()))
      return failure();
  }

  Value share = e.size(depth * 4); // elements of that many cache lines
  return forRowTiles(
      e, rows, shape.rows,
      [&](Value row, Value valid, int64_t tileRows, Value number) {
        tile(e.add(firstRow, row), valid, tileRows, e.mul(number, share));
        return success();
      },
      [&](Value row, Value valid) {
        return finish(e.add(firstRow, row), valid);
      });
}

} // namespace

LogicalResult chooseMatmul(ts::KernelOp kernel, const TargetDesc &target,
                           Knobs &knobs, SmallVectorImpl<Schedule> &schedules) {
  std::optional<Product> product = analyseProduct(kernel);
  if (!product)
    return success(); // the loop schedule takes it
  FailureOr<Epilogue> epilogue =
      Epilogue::create(kernel, product->dot.getResult());
  if (failed(epilogue))
    return failure();
  Schedule schedule;
  schedule.kind = "matmul";
  int64_t panel = choosePanel(*product, epilogue->runDivisor(), knobs);
  const Side &lhs = product->lhs, &rhs = product->rhs;
  // The row block of A takes about a third of the second-level cache.
  int64_t depth = std::max<int64_t>(1, representative(lhs.contract));
  int64_t bytes = 4 / group(*product);
  int64_t rows =
      (target.l2Bytes ? target.l2Bytes : 1 << 20) / 3 / (bytes * depth);
  rows = std::clamp<int64_t>(rows / 24 * 24, 192, 384);
  rows = knobs.pick("rows", rows, {96, 192, 288, 384, 48, 768});
  schedule.parameters = {{"panel", panel}, {"rows", rows}};
  schedule.group = group(*product);
  Dim one = Dim::constant(kernel.getContext(), 1);
  schedule.grid = ts::product(kernel.getContext(), product->batch) *
                  ts::product(kernel.getContext(), lhs.outerSizes) *
                  lhs.free.ceilDiv(one * rows) * rhs.free.ceilDiv(one * panel);
  int64_t flops =
      2 * depth * panel *
      std::min<int64_t>(rows, std::max<int64_t>(1, representative(lhs.free)));
  schedule.grain =
      one * std::max<int64_t>(1, 1600000 / bytes / std::max<int64_t>(1, flops));
  schedule.scratch =
      (product->packed ? one * 0 : lhs.contract * (panel * 4) + 64) +
      kAccumulatorBytes;
  if (product->packed)
    schedule.packed.push_back(
        {product->rhs.base.getArgNumber(), *rhs.contract.asConstant(),
         *rhs.free.asConstant(), product->transposed, panel, group(*product)});
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildMatmul(BuildContext &context) {
  std::optional<Product> product = analyseProduct(context.kernel);
  if (!product)
    return context.kernel.emitOpError("is no product that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, product->dot.getResult());
  if (failed(epilogue))
    return failure();
  return MatmulBuilder(context, std::move(*product), std::move(*epilogue))
      .build();
}

} // namespace knapper
