// Matmuls of few rows (GEMV) on GPUs: all that counts is that B is read once,
// at the speed of memory. For f32, f16 and bf16 with the depth contiguous on
// both sides.
//
//   block = `columns` columns by at most `rows` rows, the whole depth
//   depth/L threads share columns/groups columns; each of them reads of every
//   column the L elements (`access`, 16 bytes unless told) at its place of a
//   pass of `depth`, and `stages` passes before the first is used
//
// With `swapAB` it is the columns of the result that are few.
//
// Sums meet by shuffles, then through shared memory; then one thread has one
// element of the result. A block does not loop over columns: many short blocks
// keep more loads in flight than few long ones.
#include "codegen/lower/gpu/nvidia/common/KernelRecipe.h"
#include "codegen/lower/gpu/nvidia/common/Recipes.h"
#include "ir/config/MatmulGpuConfig.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kWarp = 32;

class GemvRecipe : KernelRecipe {
public:
  GemvRecipe(GpuLowering &lowering, tile::MatmulOp op)
      : KernelRecipe(lowering), op(op),
        config(config::MatmulGpuConfig::of(op.getShape())), rows(config.tileM),
        columns(config.tileN), depth(config.tileK), passes(config.stages) {}

  LogicalResult emit();

private:
  LogicalResult check();
  /// Which rows and columns this CTA has, and where the thread reads.
  void place();
  llvm::Value *startOf(Value offset, Value stride, OperandRange outerStrides,
                       llvm::Value *index);
  /// `lanes` elements of a row or column, of a pass.
  llvm::Value *read(const BufferRef &ref, llvm::Value *from, llvm::Value *pass,
                    llvm::Value *inside);
  Carried mainloop();
  /// `passes` passes from depth `from` on.
  Carried multiply(llvm::Value *from, Carried sums);
  /// Sums of a warp, or the part of it that shares columns, to shared memory.
  void writeSums(Carried &sums);
  void storeResult();

  llvm::Value *below(llvm::Value *x, llvm::Value *end) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x,
                                   b.CreateSub(end, n32(1)));
  }
  llvm::Value *single(llvm::Value *loaded) {
    return element.isBF16() && lanes > 1
               ? unpack(loaded)
               : floatCast(loaded, element, Float32Type::get(op.getContext()));
  }
  llvm::Value *word(llvm::Value *index) {
    return b.CreateInBoundsGEP(b.getFloatTy(), words, index);
  }

  tile::MatmulOp op;
  config::MatmulGpuConfig config;
  unsigned rows, columns, depth, passes;
  unsigned lanes = 0;           ///< elements of an access
  unsigned team = 0;            ///< threads that share columns
  unsigned own = 0;             ///< columns of a thread
  unsigned part = 0, parts = 0; ///< of a team: threads of a warp, and warps
  BufferRef aBuffer, bBuffer;
  Type element;
  llvm::Value *m = nullptr, *n = nullptr, *k = nullptr; // k: i64
  llvm::SmallVector<llvm::Value *> outer;
  llvm::Value *firstRow = nullptr, *firstColumn = nullptr, *tid = nullptr;
  llvm::Value *inPass = nullptr; ///< the thread's first element, i64
  llvm::SmallVector<llvm::Value *> columnStarts, rowStarts;
  llvm::Value *words = nullptr; ///< sums in shared memory
  LogicalResult status = success();
};
} // namespace

LogicalResult GemvRecipe::check() {
  auto a = buffer(op.getA()), bb = buffer(op.getB());
  if (failed(a) || failed(bb))
    return failure();
  aBuffer = *a;
  bBuffer = *bb;
  element = op.getA().getType().getElementType();
  lanes = config.access ? config.access : 16 / aBuffer.bytes;
  team = depth / lanes;
  if (op.getB().getType().getElementType() != element ||
      !(element.isF32() || element.isF16() || element.isBF16()) ||
      !matchPattern(op.getAK(), m_One()) ||
      !matchPattern(op.getBK(), m_One()) || op.run() != 1 || rows < 1 ||
      passes < 1 || !llvm::isPowerOf2_32(lanes) || lanes * aBuffer.bytes > 16 ||
      !llvm::isPowerOf2_32(team) || shape.threads % team ||
      columns % (shape.threads / team) || columns * rows > shape.threads)
    return op.emitOpError(
        "has a shape or operands that this algorithm cannot do");
  own = columns / (shape.threads / team);
  part = std::min(kWarp, team);
  parts = team / part;
  return success();
}

void GemvRecipe::place() {
  m = narrowed(op.getM());
  n = narrowed(op.getN());
  k = scalar(op.getK());
  // Programs: batch indices, blocks of rows, blocks of columns; the last ones
  // follow each other.
  llvm::SmallVector<llvm::Value *> grid;
  for (Value size : op.getOuter())
    grid.push_back(narrowed(size));
  size_t batch = grid.size();
  grid.push_back(ceil(m, rows));
  grid.push_back(ceil(n, columns));
  llvm::SmallVector<llvm::Value *> at(grid.size());
  llvm::Value *rest = narrowed(programId);
  for (size_t i = grid.size(); i-- > 0;) {
    at[i] = i ? b.CreateURem(rest, grid[i]) : rest;
    rest = b.CreateUDiv(rest, grid[i]);
  }
  outer.assign(at.begin(), at.begin() + batch);
  firstRow = b.CreateMul(at[batch], n32(rows));
  firstColumn = b.CreateMul(at[batch + 1], n32(columns));

  tid = narrowed(threadOfBlock);
  inPass = wide(b.CreateMul(b.CreateURem(tid, n32(team)), n32(lanes)));
  llvm::Value *group = b.CreateUDiv(tid, n32(team));
  // Rows and columns past the edge are read as the last ones and dropped.
  for (unsigned i = 0; i < own; ++i) {
    llvm::Value *column = b.CreateAdd(
        firstColumn, b.CreateAdd(b.CreateMul(group, n32(own)), n32(i)));
    columnStarts.push_back(startOf(op.getBOffset(), op.getBColumn(),
                                   op.getBOuter(), below(column, n)));
  }
  for (unsigned i = 0; i < rows; ++i)
    rowStarts.push_back(startOf(op.getAOffset(), op.getARow(), op.getAOuter(),
                                below(b.CreateAdd(firstRow, n32(i)), m)));
}

llvm::Value *GemvRecipe::startOf(Value offset, Value stride,
                                 OperandRange outerStrides,
                                 llvm::Value *index) {
  llvm::Value *from =
      b.CreateAdd(scalar(offset), b.CreateMul(wide(index), scalar(stride)));
  for (auto [value, i] : llvm::zip(outerStrides, outer))
    from = b.CreateAdd(from, b.CreateMul(scalar(value), wide(i)));
  return b.CreateAdd(from, inPass);
}

llvm::Value *GemvRecipe::read(const BufferRef &ref, llvm::Value *from,
                              llvm::Value *pass, llvm::Value *inside) {
  llvm::Type *run = llvm::FixedVectorType::get(aBuffer.memory, lanes);
  llvm::Value *offset = b.CreateAdd(from, pass);
  // Of a depth that no pass divides: the operand's first elements, unused.
  if (inside)
    offset = b.CreateSelect(inside, offset, n64(0));
  llvm::Value *loaded =
      tag(b.CreateAlignedLoad(run, address(ref, offset),
                              llvm::Align(lanes * aBuffer.bytes)),
          ref);
  if (!inside)
    return loaded;
  unsigned size = lanes * aBuffer.bytes / 4;
  if (size == 0)
    return b.CreateSelect(inside, loaded, llvm::Constant::getNullValue(run));
  llvm::Type *words = llvm::FixedVectorType::get(b.getInt32Ty(), size);
  return b.CreateBitCast(b.CreateSelect(inside, b.CreateBitCast(loaded, words),
                                        llvm::Constant::getNullValue(words)),
                         run);
}

Carried GemvRecipe::multiply(llvm::Value *from, Carried sums) {
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(k);
  bool whole = known && known->getSExtValue() % (depth * passes) == 0;
  llvm::SmallVector<llvm::Value *> bs, as;
  for (unsigned u = 0; u < passes; ++u) {
    llvm::Value *pass = b.CreateAdd(from, n64(int64_t(u) * depth));
    llvm::Value *inside =
        whole ? nullptr : b.CreateICmpSLT(b.CreateAdd(pass, inPass), k);
    for (llvm::Value *column : columnStarts)
      bs.push_back(read(bBuffer, column, pass, inside));
    for (llvm::Value *row : rowStarts)
      as.push_back(read(aBuffer, row, pass, inside));
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
}

Carried GemvRecipe::mainloop() {
  Carried sums(own * rows, llvm::ConstantFP::get(b.getFloatTy(), 0));
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(k);
  if (known && known->getSExtValue() > 0 &&
      known->getSExtValue() <= int64_t(depth) * passes)
    return multiply(n64(0), std::move(sums));
  return carriedFor(b, "depth", n64(0), k, n64(int64_t(depth) * passes),
                    std::move(sums),
                    [&](llvm::Value *from, const Carried &state) {
                      return multiply(from, state);
                    });
}

void GemvRecipe::writeSums(Carried &sums) {
  for (llvm::Value *&sum : sums)
    for (unsigned distance = part / 2; distance; distance /= 2)
      sum = b.CreateFAdd(sum, shuffle(sum, distance));
  words =
      sharedArray(b.getFloatTy(), shape.threads / part * sums.size(), "_sums");
  when(b.CreateICmpEQ(b.CreateURem(tid, n32(part)), n32(0)), [&] {
    llvm::Value *to =
        b.CreateMul(b.CreateUDiv(tid, n32(part)), n32(sums.size()));
    for (auto [i, sum] : llvm::enumerate(sums))
      b.CreateAlignedStore(sum, word(b.CreateAdd(to, n32(i))), llvm::Align(4));
  });
}

void GemvRecipe::storeResult() {
  llvm::Value *column = b.CreateURem(tid, n32(columns));
  llvm::Value *row = b.CreateUDiv(tid, n32(columns));
  llvm::Value *resultRow = b.CreateAdd(firstRow, row);
  llvm::Value *resultColumn = b.CreateAdd(firstColumn, column);
  llvm::Value *has = b.CreateAnd(b.CreateICmpULT(row, n32(rows)),
                                 b.CreateAnd(b.CreateICmpULT(resultRow, m),
                                             b.CreateICmpULT(resultColumn, n)));
  when(has, [&] {
    llvm::Value *from = b.CreateAdd(
        b.CreateMul(b.CreateUDiv(column, n32(own)), n32(parts * own * rows)),
        b.CreateAdd(b.CreateMul(b.CreateURem(column, n32(own)), n32(rows)),
                    row));
    llvm::Value *value = nullptr;
    for (unsigned i = 0; i < parts; ++i) {
      llvm::Value *next = b.CreateAlignedLoad(
          b.getFloatTy(), word(b.CreateAdd(from, n32(i * own * rows))),
          llvm::Align(4));
      value = value ? b.CreateFAdd(value, next) : next;
    }
    if (config.swapAB)
      std::swap(resultRow, resultColumn);
    if (failed(runRegion(op, value, outer, resultRow, resultColumn)))
      status = failure();
  });
}

LogicalResult GemvRecipe::emit() {
  if (failed(check()))
    return failure();
  place();
  Carried sums = mainloop();
  writeSums(sums);
  barrier();
  storeResult();
  return status;
}

LogicalResult gemv(GpuLowering &lowering, tile::MatmulOp op) {
  return GemvRecipe(lowering, op).emit();
}

} // namespace knapper::lower
