// Matmuls of few rows (GEMV) on GPUs: all that counts is that B is read once,
// at the speed of memory. For f32, f16 and bf16 with the depth contiguous on
// both sides.
//
//   block = `columns` columns by at most `rows` rows, the whole depth
//   depth/L threads share columns/groups columns; each of them reads of every
//   column the 16 bytes (L elements) at its place of a pass of `depth`, and
//   `stages` passes before the first is used
//
// Sums meet by shuffles, then through shared memory; then one thread has one
// element of the result. A block does not loop over columns: many short blocks
// keep more loads in flight than few long ones.
//
// Where kernels start while those before them end, blocks that wait fetch what
// they read of B first into L2: that is a hint, whoever writes B.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/PtxAsm.h"
#include "ir/config/MatmulGpuConfig.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kWarp = 32;
} // namespace

LogicalResult GpuLowering::gemv(tile::MatmulOp op) {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  Type element = op.getA().getType().getElementType();
  Type f32 = Float32Type::get(op.getContext());
  auto config = config::MatmulGpuConfig::of(op.getShape());
  unsigned rows = config.tileM, columns = config.tileN;
  unsigned depth = config.tileK, passes = config.stages;
  unsigned lanes = 16 / aBuffer->bytes, team = depth / lanes;
  if (op.getB().getType().getElementType() != element ||
      !(element.isF32() || element.isF16() || element.isBF16()) ||
      !matchPattern(op.getAK(), m_One()) ||
      !matchPattern(op.getBK(), m_One()) || op.run() != 1 || rows < 1 ||
      passes < 1 || !llvm::isPowerOf2_32(team) || shape.threads % team ||
      columns % (shape.threads / team) || columns * rows > shape.threads)
    return op.emitOpError("has a shape or operands that this path cannot do");
  unsigned own = columns / (shape.threads / team); // columns of a thread

  auto n64 = [&](int64_t n) { return b.getInt64(n); };
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto narrowed = [&](llvm::Value *v) {
    return b.CreateTrunc(v, b.getInt32Ty());
  };
  auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
  auto below = [&](llvm::Value *x, llvm::Value *end) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x,
                                   b.CreateSub(end, n32(1)));
  };
  llvm::Value *m = narrowed(scalar(op.getM())),
              *n = narrowed(scalar(op.getN())), *k = scalar(op.getK());
  auto blocksOf = [&](llvm::Value *extent, unsigned size) {
    return b.CreateUDiv(b.CreateAdd(extent, n32(size - 1)), n32(size));
  };

  // Programs: batch indices, blocks of rows, blocks of columns; the last ones
  // follow each other.
  llvm::SmallVector<llvm::Value *> grid;
  for (Value size : op.getOuter())
    grid.push_back(narrowed(scalar(size)));
  size_t batch = grid.size();
  grid.push_back(blocksOf(m, rows));
  grid.push_back(blocksOf(n, columns));
  llvm::SmallVector<llvm::Value *> at(grid.size());
  llvm::Value *rest = narrowed(programId);
  for (size_t i = grid.size(); i-- > 0;) {
    at[i] = i ? b.CreateURem(rest, grid[i]) : rest;
    rest = b.CreateUDiv(rest, grid[i]);
  }
  llvm::ArrayRef<llvm::Value *> outer(at.data(), batch);
  llvm::Value *firstRow = b.CreateMul(at[batch], n32(rows));
  llvm::Value *firstColumn = b.CreateMul(at[batch + 1], n32(columns));

  llvm::Value *tid = narrowed(threadOfBlock);
  llvm::Value *place = wide(b.CreateMul(b.CreateURem(tid, n32(team)),
                                        n32(lanes))); // in a pass
  llvm::Value *group = b.CreateUDiv(tid, n32(team));
  auto start = [&](Value offset, Value stride, OperandRange outerStrides,
                   llvm::Value *index) {
    llvm::Value *from =
        b.CreateAdd(scalar(offset), b.CreateMul(wide(index), scalar(stride)));
    for (auto [value, i] : llvm::zip(outerStrides, outer))
      from = b.CreateAdd(from, b.CreateMul(scalar(value), wide(i)));
    return b.CreateAdd(from, place);
  };
  // Rows and columns past the edge are read as the last ones and dropped.
  llvm::SmallVector<llvm::Value *> columnStarts, rowStarts;
  for (unsigned i = 0; i < own; ++i) {
    llvm::Value *column = b.CreateAdd(
        firstColumn, b.CreateAdd(b.CreateMul(group, n32(own)), n32(i)));
    columnStarts.push_back(start(op.getBOffset(), op.getBColumn(),
                                 op.getBOuter(), below(column, n)));
  }
  for (unsigned i = 0; i < rows; ++i)
    rowStarts.push_back(start(op.getAOffset(), op.getARow(), op.getAOuter(),
                              below(b.CreateAdd(firstRow, n32(i)), m)));

  if (target.clusters) {
    // Of more blocks than find place at once the kernels before have ended.
    constexpr unsigned threadsOfSm = 2048;
    unsigned atOnce = target.cores * threadsOfSm / shape.threads;
    llvm::Value *leads =
        b.CreateAnd(b.CreateICmpEQ(b.CreateURem(tid, n32(team)), n32(0)),
                    b.CreateICmpULT(narrowed(programId), n32(atOnce)));
    llvm::Value *bytes = b.CreateMul(
        narrowed(b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, k,
                                         n64(int64_t(depth) * passes))),
        n32(bBuffer->bytes));
    PtxAsm ptx(b);
    for (llvm::Value *column : columnStarts)
      ptx.prefetchRun(address(*bBuffer, column), bytes, leads);
    ptx.waitForKernels();
  }

  llvm::Type *run = llvm::FixedVectorType::get(aBuffer->memory, lanes);
  auto read = [&](const BufferRef &ref, llvm::Value *from, llvm::Value *pass,
                  llvm::Value *inside) {
    llvm::Value *offset = b.CreateAdd(from, pass);
    // Of a depth that no pass divides: the operand's first elements, unused.
    if (inside)
      offset = b.CreateSelect(inside, offset, n64(0));
    llvm::Value *loaded = tag(
        b.CreateAlignedLoad(run, address(ref, offset), llvm::Align(16)), ref);
    if (!inside)
      return loaded;
    llvm::Type *words = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
    return b.CreateBitCast(b.CreateSelect(inside,
                                          b.CreateBitCast(loaded, words),
                                          llvm::Constant::getNullValue(words)),
                           run);
  };
  auto single = [&](llvm::Value *loaded) {
    return element.isBF16() ? unpack(loaded) : floatCast(loaded, element, f32);
  };
  auto *depthOf = llvm::dyn_cast<llvm::ConstantInt>(k);
  bool whole = depthOf && depthOf->getSExtValue() % (depth * passes) == 0;
  auto multiply = [&](llvm::Value *from, Carried sums) {
    llvm::SmallVector<llvm::Value *> bs, as;
    for (unsigned u = 0; u < passes; ++u) {
      llvm::Value *pass = b.CreateAdd(from, n64(int64_t(u) * depth));
      llvm::Value *inside =
          whole ? nullptr : b.CreateICmpSLT(b.CreateAdd(pass, place), k);
      for (llvm::Value *column : columnStarts)
        bs.push_back(read(*bBuffer, column, pass, inside));
      for (llvm::Value *row : rowStarts)
        as.push_back(read(*aBuffer, row, pass, inside));
    }
    for (unsigned u = 0; u < passes; ++u) {
      llvm::SmallVector<llvm::Value *> left;
      for (unsigned i = 0; i < rows; ++i)
        left.push_back(single(as[u * rows + i]));
      for (unsigned c = 0; c < own; ++c) {
        llvm::Value *right = single(bs[u * own + c]);
        for (unsigned i = 0; i < rows; ++i)
          for (unsigned lane = 0; lane < lanes; ++lane) {
            llvm::Value *&sum = sums[c * rows + i];
            sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()},
                                    {b.CreateExtractElement(left[i], lane),
                                     b.CreateExtractElement(right, lane), sum});
          }
      }
    }
    return sums;
  };
  Carried sums(own * rows, llvm::ConstantFP::get(b.getFloatTy(), 0));
  if (depthOf && depthOf->getSExtValue() > 0 &&
      depthOf->getSExtValue() <= int64_t(depth) * passes)
    sums = multiply(n64(0), std::move(sums));
  else
    sums = carriedFor(b, "depth", n64(0), k, n64(int64_t(depth) * passes),
                      std::move(sums),
                      [&](llvm::Value *from, const Carried &state) {
                        return multiply(from, state);
                      });

  // One word for each sum of each (part of a) warp that shares columns.
  unsigned part = std::min(kWarp, team), parts = team / part;
  for (llvm::Value *&sum : sums)
    for (unsigned distance = part / 2; distance; distance /= 2)
      sum = b.CreateFAdd(sum, shuffle(sum, distance));
  llvm::Value *words =
      sharedArray(b.getFloatTy(), shape.threads / part * sums.size(), "_sums");
  auto word = [&](llvm::Value *index) {
    return b.CreateInBoundsGEP(b.getFloatTy(), words, index);
  };
  when(b.CreateICmpEQ(b.CreateURem(tid, n32(part)), n32(0)), [&] {
    llvm::Value *to =
        b.CreateMul(b.CreateUDiv(tid, n32(part)), n32(sums.size()));
    for (auto [i, sum] : llvm::enumerate(sums))
      b.CreateAlignedStore(sum, word(b.CreateAdd(to, n32(i))), llvm::Align(4));
  });
  barrier();
  llvm::Value *column = b.CreateURem(tid, n32(columns));
  llvm::Value *row = b.CreateUDiv(tid, n32(columns));
  llvm::Value *resultRow = b.CreateAdd(firstRow, row);
  llvm::Value *resultColumn = b.CreateAdd(firstColumn, column);
  llvm::Value *has = b.CreateAnd(b.CreateICmpULT(row, n32(rows)),
                                 b.CreateAnd(b.CreateICmpULT(resultRow, m),
                                             b.CreateICmpULT(resultColumn, n)));
  LogicalResult result = success();
  when(has, [&] {
    llvm::Value *from = b.CreateAdd(
        b.CreateMul(b.CreateUDiv(column, n32(own)), n32(parts * sums.size())),
        b.CreateAdd(b.CreateMul(b.CreateURem(column, n32(own)), n32(rows)),
                    row));
    llvm::Value *value = nullptr;
    for (unsigned i = 0; i < parts; ++i) {
      llvm::Value *next = b.CreateAlignedLoad(
          b.getFloatTy(), word(b.CreateAdd(from, n32(i * sums.size()))),
          llvm::Align(4));
      value = value ? b.CreateFAdd(value, next) : next;
    }
    if (failed(runRegion(op, value, outer, resultRow, resultColumn)))
      result = failure();
  });
  return result;
}

} // namespace knapper::lower
