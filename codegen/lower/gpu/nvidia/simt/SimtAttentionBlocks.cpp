// Attention by FMAs: its operands, blocks of them in shared memory, and the
// result.
#include "codegen/lower/gpu/nvidia/simt/SimtAttention.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

using namespace simt_attention;

StridedMatrix SimtAttentionRecipe::matrix(Value bufferValue, Value offset,
                                          OperandRange strides, llvm::Value *h,
                                          llvm::Value *rows, Value extent) {
  StridedMatrix m;
  auto ref = buffer(bufferValue);
  if (failed(ref)) {
    status = failure();
    return m;
  }
  m.buffer = *ref;
  m.element = cast<tile::BufferType>(bufferValue.getType()).getElementType();
  m.base = b.CreateAdd(scalar(offset),
                       b.CreateAdd(b.CreateMul(batch, scalar(strides[0])),
                                   b.CreateMul(h, scalar(strides[1]))));
  m.rowStride = scalar(strides[2]);
  m.stride = scalar(strides[3]);
  m.rows = rows;
  m.columns = scalar(extent);
  uint64_t multiple =
      std::min({knownMultiple(offset), knownMultiple(strides[0]),
                knownMultiple(strides[1]), knownMultiple(strides[2]),
                knownMultiple(extent)});
  m.lanes = matchPattern(strides[3], m_One()) && multiple % 4 == 0 ? 4 : 1;
  return m;
}

LogicalResult SimtAttentionRecipe::takeOperands() {
  OperandRange sizes = op.getSizes();
  q = matrix(op.getQ(), op.getQOffset(), op.getQStrides(), head, queries,
             sizes[5]);
  k = matrix(op.getK(), op.getKOffset(), op.getKStrides(), keyHead, keys,
             sizes[5]);
  v = matrix(op.getV(), op.getVOffset(), op.getVStrides(), keyHead, keys,
             sizes[6]);
  o = matrix(op.getO(), op.getOOffset(), op.getOStrides(), head, queries,
             sizes[6]);
  return status;
}

void SimtAttentionRecipe::makeShared() {
  auto array = [&](unsigned elements, const char *name) {
    return sharedArray(b.getFloatTy(), elements, name);
  };
  queryBlock = array(kDepth * kPitch, "_queries");
  keyBlock = array(kDepth * kPitch, "_keys");
  weightBlock = array(kKeys * kPitch, "_weights");
  valueBlock = array(kDepth * width, "_values");
  tid = narrowed(threadOfBlock);
  llvm::Value *x = b.CreateURem(tid, n32(16)), *y = b.CreateUDiv(tid, n32(16));
  x4 = b.CreateMul(x, n32(4));
  ownRow = b.CreateMul(y, n32(kOwnRows));
}

void SimtAttentionRecipe::copyPiece(const StridedMatrix &m, llvm::Value *row,
                                    llvm::Value *column, unsigned across,
                                    llvm::Value *to, bool straight,
                                    llvm::Value *i) {
  Type f32 = Float32Type::get(op.getContext());
  unsigned runs = across / m.lanes;
  llvm::Value *number = b.CreateAdd(tid, b.CreateMul(i, n32(kThreads)));
  llvm::Value *r = b.CreateUDiv(number, n32(runs));
  llvm::Value *c = b.CreateMul(b.CreateURem(number, n32(runs)), n32(m.lanes));
  llvm::Value *atRow = b.CreateAdd(row, wide(r)),
              *atColumn = b.CreateAdd(column, wide(c));
  llvm::Value *inside = b.CreateAnd(b.CreateICmpSLT(atRow, m.rows),
                                    b.CreateICmpSLT(atColumn, m.columns));
  llvm::Value *offset =
      b.CreateAdd(m.base, b.CreateAdd(b.CreateMul(atRow, m.rowStride),
                                      b.CreateMul(atColumn, m.stride)));
  offset = b.CreateSelect(inside, offset, m.base);
  llvm::Type *type = llvm::FixedVectorType::get(m.buffer.memory, m.lanes);
  llvm::Value *loaded =
      tag(b.CreateAlignedLoad(type, address(m.buffer, offset),
                              llvm::Align(m.lanes * m.buffer.bytes)),
          m.buffer);
  loaded = floatCast(loaded, m.element, f32);
  loaded = b.CreateSelect(inside, loaded,
                          llvm::Constant::getNullValue(loaded->getType()));
  if (straight) {
    b.CreateAlignedStore(
        loaded, sharedAt(to, b.CreateAdd(b.CreateMul(r, n32(across)), c)),
        llvm::Align(4 * m.lanes));
    return;
  }
  for (unsigned lane = 0; lane < m.lanes; ++lane)
    b.CreateAlignedStore(
        b.CreateExtractElement(loaded, lane),
        sharedAt(
            to, b.CreateAdd(b.CreateMul(b.CreateAdd(c, n32(lane)), n32(kPitch)),
                            r)),
        llvm::Align(4));
}

void SimtAttentionRecipe::copy(const StridedMatrix &m, llvm::Value *row,
                               llvm::Value *column, unsigned count,
                               unsigned across, llvm::Value *to,
                               bool straight) {
  unsigned rounds = count * (across / m.lanes) / kThreads;
  if (m.lanes > 1) {
    for (unsigned i = 0; i < rounds; ++i)
      copyPiece(m, row, column, across, to, straight, n32(i));
    return;
  }
  // Rows and columns of so many single elements, kept from round to round,
  // would take more registers than there are.
  carriedFor(b, "elements", n32(0), n32(rounds), n32(1), {},
             [&](llvm::Value *i, const Carried &) -> Carried {
               copyPiece(m, row, column, across, to, straight, i);
               return {};
             });
}

void SimtAttentionRecipe::fetch(llvm::Value *memory, llvm::Value *offset,
                                unsigned count, Carried &values) {
  for (unsigned i = 0; i < count; i += 4) {
    llvm::Value *piece = b.CreateAlignedLoad(
        four, sharedAt(memory, b.CreateAdd(offset, n32(i))), llvm::Align(16));
    for (unsigned lane = 0; lane < 4; ++lane)
      values.push_back(b.CreateExtractElement(piece, lane));
  }
}

void SimtAttentionRecipe::storeRow(unsigned r,
                                   llvm::ArrayRef<llvm::Value *> results,
                                   llvm::Value *inverse) {
  Type f32 = Float32Type::get(op.getContext());
  llvm::Value *row = b.CreateAdd(b.CreateAdd(firstRow, wide(ownRow)), n64(r));
  when(b.CreateICmpSLT(row, queries), [&] {
    for (unsigned c = 0; c < ownColumns; c += o.lanes) {
      llvm::Value *column = b.CreateAdd(b.CreateAdd(firstColumn, wide(x4)),
                                        n64(c % 4 + c / 4 * 64));
      llvm::Value *value = llvm::PoisonValue::get(
          llvm::FixedVectorType::get(b.getFloatTy(), o.lanes));
      for (unsigned lane = 0; lane < o.lanes; ++lane)
        value = b.CreateInsertElement(
            value, b.CreateFMul(results[ownColumns * r + c + lane], inverse),
            lane);
      when(b.CreateICmpSLT(column, columns), [&] {
        llvm::Value *offset =
            b.CreateAdd(o.base, b.CreateAdd(b.CreateMul(row, o.rowStride),
                                            b.CreateMul(column, o.stride)));
        tag(b.CreateAlignedStore(floatCast(value, f32, o.element),
                                 address(o.buffer, offset),
                                 llvm::Align(o.lanes * o.buffer.bytes)),
            o.buffer);
      });
    }
  });
}

} // namespace knapper::lower
