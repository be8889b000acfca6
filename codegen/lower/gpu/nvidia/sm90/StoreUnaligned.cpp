// Results of a matmul by wgmma whose rows start at any element: TMA, which
// wants multiples of 16 bytes, does not store them.
//
// A warp has 64 columns of 16 rows of the result in shared memory, 128 bytes a
// row. A lane writes a word of each row, of two words of shared memory that the
// row's start may split; single elements only at the ends.
#include "codegen/lower/gpu/nvidia/sm90/StoreTile.h"

using namespace mlir;

namespace knapper::lower {

llvm::Value *StoreTile::firstElement(llvm::Value *row, llvm::Value *column) {
  llvm::Value *line = wide(row), *matrix = nullptr;
  for (auto [index, size] : llvm::zip(block.outer, to.outer))
    matrix = matrix ? b.CreateAdd(b.CreateMul(matrix, wide(size)), wide(index))
                    : wide(index);
  if (matrix)
    line = b.CreateAdd(line, b.CreateMul(matrix, wide(rows)));
  return b.CreateAdd(b.CreateMul(line, wide(columns)), wide(column));
}

void StoreTile::storeRows(llvm::Value *row, llvm::Value *rowEdge,
                          llvm::Value *column, llvm::Value *columnEdge,
                          unsigned width, llvm::Value *buffer) {
  row = b.CreateAdd(row, b.CreateShl(warp, 4));
  llvm::Value *first = firstElement(row, column);
  llvm::Value *left = atMost(b.CreateSub(columnEdge, column), n32(width));
  llvm::Value *last = b.CreateSub(left, n32(1));
  llvm::Value *holdsLast = b.CreateICmpEQ(lane, b.CreateLShr(last, 1));
  llvm::Value *from =
      b.CreateAdd(buffer, b.CreateShl(warp, 4 + 7)); // 16 rows of 128 bytes
  constexpr unsigned atOnce = 4;
  carriedFor(b, "rows", n32(0), n32(16), n32(atOnce), {first},
             [&](llvm::Value *begin, const Carried &state) -> Carried {
               llvm::Value *start = state[0];
               for (unsigned i = 0; i < atOnce; ++i) {
                 llvm::Value *r = b.CreateAdd(begin, n32(i));
                 llvm::Value *chunk =
                     b.CreateXor(b.CreateLShr(lane, 2), b.CreateAnd(r, n32(7)));
                 llvm::Value *at = b.CreateAdd(
                     b.CreateAdd(from, b.CreateShl(r, 7)),
                     b.CreateAdd(b.CreateShl(chunk, 4),
                                 b.CreateShl(b.CreateAnd(lane, n32(3)), 2)));
                 llvm::Value *own = b.CreateAlignedLoad(
                     b.getInt32Ty(), sharedPointer(at), llvm::Align(4));
                 llvm::Value *before =
                     b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_up_i32,
                                       {}, {n32(~0u), own, n32(1), n32(0)});
                 storeRow(
                     {row, r, rowEdge, start, last, holdsLast, own, before});
                 start = b.CreateAdd(start, wide(columns));
               }
               return {start};
             });
}

void StoreTile::storeRow(const Row &row) {
  llvm::Value *odd =
      b.CreateTrunc(b.CreateAnd(row.start, b.getInt64(1)), b.getInt32Ty());
  llvm::Value *both =
      b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt32Ty()},
                        {row.own, row.before, b.CreateShl(odd, n32(4))});
  llvm::Value *element = b.CreateSub(b.CreateShl(lane, 1), odd);
  llvm::Value *inside =
      b.CreateICmpSLT(b.CreateAdd(row.first, row.number), row.edge);
  auto put = [&](llvm::Value *condition, llvm::Value *value, llvm::Value *index,
                 unsigned align) {
    when(b.CreateAnd(inside, condition), [&] {
      llvm::Value *offset =
          b.CreateAdd(row.start, b.CreateSExt(index, b.getInt64Ty()));
      tag(b.CreateAlignedStore(value, address(result, offset),
                               llvm::Align(align)),
          result);
    });
  };
  auto half = [&](llvm::Value *value) {
    return b.CreateTrunc(value, b.getInt16Ty());
  };
  put(b.CreateAnd(b.CreateICmpSGE(element, n32(0)),
                  b.CreateICmpSLT(element, row.last)),
      both, element, 4);
  put(b.CreateAnd(b.CreateICmpSLT(element, n32(0)),
                  b.CreateICmpSGE(row.last, n32(0))),
      half(row.own), n32(0), 2);
  llvm::Value *single =
      b.CreateICmpEQ(b.CreateAnd(b.CreateXor(row.last, odd), n32(1)), n32(0));
  llvm::Value *shift = b.CreateShl(b.CreateAnd(row.last, n32(1)), n32(4));
  put(b.CreateAnd(b.CreateAnd(row.holdsLast, single),
                  b.CreateICmpSGE(row.last, n32(0))),
      half(b.CreateLShr(row.own, shift)), row.last, 2);
}

} // namespace knapper::lower
