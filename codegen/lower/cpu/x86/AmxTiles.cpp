// Blocks of matmuls in tile registers (AMX).
//
// There are eight registers of at most sixteen rows of 64 bytes, whose shapes a
// configuration says. A function that uses them sets all eight to that shape at
// its start and gives them back at its end: no tile outlives it. A block of
// fewer rows runs under a configuration of its own and then restores that one,
// since a change of it clears all tiles.
//
// Registers are named here, not allocated: LLVM sees instructions that touch
// memory, so that none is moved and no tile can be spilled.
#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/IntrinsicsX86.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kRows = 16, kRowBytes = 64, kRegisters = 8;

/// The 64 bytes of a configuration: palette 1, at 16 + 2 * i the bytes of a row
/// of tile i, at 48 + i its rows.
llvm::Constant *wholeTiles(llvm::LLVMContext &context) {
  llvm::SmallVector<uint8_t> bytes(64, 0);
  bytes[0] = 1;
  for (unsigned i = 0; i < kRegisters; ++i) {
    bytes[16 + 2 * i] = kRowBytes;
    bytes[48 + i] = kRows;
  }
  return llvm::ConstantDataVector::get(context, bytes);
}
} // namespace

/// Tile registers: sums, row by row of tiles, then those of A, then those of B.
struct CpuLowering::TileBlock {
  BufferRef a, b;
  unsigned rows, columns; // in tiles
  llvm::Value *valid;     // of one row of tiles; null: all
  unsigned group;         // elements of k in four bytes
  bool bytes;
  llvm::Value *lda, *ldb; // in bytes
  unsigned parts = 1;
  llvm::Value *aPart = nullptr, *bPart = nullptr; // in bytes, of several parts

  unsigned sum(unsigned row, unsigned column) const {
    return row * columns + column;
  }
  unsigned firstA() const { return rows * columns; }
  /// Where six sums leave two registers A and B have one each.
  unsigned manyA() const { return rows * columns < 6 ? rows : 1; }
  unsigned firstB() const { return firstA() + manyA(); }
  unsigned manyB() const { return std::min(columns, kRegisters - firstB()); }
};

void CpuLowering::useTiles() {
  if (tileMemory)
    return;
  llvm::IRBuilder<> atEntry(entry, entry->begin());
  auto room = [&](uint64_t bytes, const char *name) {
    auto *memory = atEntry.CreateAlloca(
        llvm::ArrayType::get(atEntry.getInt8Ty(), bytes), nullptr, name);
    memory->setAlignment(llvm::Align(64));
    return memory;
  };
  tileMemory = TileMemory{room(64, "tiles"), room(64, "tiles.ragged"),
                          room(2 * kRows * kRowBytes, "tiles.a"),
                          room(3 * kRows * kRowBytes, "tiles.b")};
  atEntry.CreateAlignedStore(wholeTiles(module.getContext()), tileMemory->whole,
                             llvm::Align(64));
  atEntry.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {},
                          {tileMemory->whole});
}

void CpuLowering::finishTiles() {
  if (tileMemory)
    b.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease,
                      llvm::ArrayRef<llvm::Value *>());
}

void CpuLowering::configureTiles(llvm::Value *config) {
  b.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config});
}

/// Which parts of A and B are multiplied, one after the other: neighbours share
/// one, so that its registers are kept.
static llvm::ArrayRef<std::pair<unsigned, unsigned>> partPairs(unsigned parts) {
  static constexpr std::pair<unsigned, unsigned> one[] = {{0, 0}},
                                                 two[] = {{1, 0},
                                                          {0, 1},
                                                          {0, 0}},
                                                 three[] = {{2, 0}, {1, 0},
                                                            {1, 1}, {0, 1},
                                                            {0, 2}, {0, 0}};
  if (parts == 3)
    return three;
  if (parts == 2)
    return two;
  return one;
}

/// sums += 64 bytes of each row of A times as many rows of B. A row of A that
/// is in a register is used before another takes its place: the rows go up and
/// down.
void CpuLowering::tileStep(const TileBlock &block, llvm::Value *a,
                           llvm::Value *lda, llvm::Value *bPointer,
                           llvm::Value *ldb) {
  auto load = [&](unsigned number, llvm::Value *from, llvm::Value *stride) {
    b.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64, {},
                      {b.getInt8(number), from, stride});
  };
  auto partOf = [&](llvm::Value *first, llvm::Value *stride, unsigned part) {
    return part ? b.CreateGEP(b.getInt8Ty(), first,
                              b.CreateMul(stride, b.getInt64(part)))
                : first;
  };
  // The part and the row (of A) or column (of B) that each register holds.
  using Held = std::optional<std::pair<unsigned, unsigned>>;
  llvm::SmallVector<Held> heldA(block.manyA()), heldB(block.manyB());
  for (auto [partA, partB] : partPairs(block.parts)) {
    for (unsigned column = 0; column < block.columns; ++column) {
      unsigned atB = column % block.manyB(), ofB = block.firstB() + atB;
      if (heldB[atB] != std::pair(partB, column)) {
        load(ofB,
             b.CreateConstGEP1_64(b.getInt8Ty(),
                                  partOf(bPointer, block.bPart, partB),
                                  column * kRowBytes),
             ldb);
        heldB[atB] = {partB, column};
      }
      for (unsigned i = 0; i < block.rows; ++i) {
        unsigned row = column % 2 ? block.rows - 1 - i : i;
        unsigned atA = row % block.manyA(), ofA = block.firstA() + atA;
        if (heldA[atA] != std::pair(partA, row)) {
          load(ofA,
               b.CreateGEP(b.getInt8Ty(), partOf(a, block.aPart, partA),
                           b.CreateMul(lda, b.getInt64(row * kRows))),
               lda);
          heldA[atA] = {partA, row};
        }
        b.CreateIntrinsic(block.bytes ? llvm::Intrinsic::x86_tdpbusd
                                      : llvm::Intrinsic::x86_tdpbf16ps,
                          {},
                          {b.getInt8(block.sum(row, column)), b.getInt8(ofA),
                           b.getInt8(ofB)});
      }
    }
  }
}

/// The last `left` of k, fewer than a tile has: what there is of them, zeros
/// after it.
void CpuLowering::tileTail(const TileBlock &block, llvm::Value *a,
                           llvm::Value *bPointer, llvm::Value *left) {
  unsigned lanes = kRowBytes / block.a.bytes;
  auto *words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  auto *aRow =
      llvm::FixedVectorType::get(b.getIntNTy(8 * block.a.bytes), lanes);
  llvm::Value *mask = firstLanes(left, lanes, block.a.bytes);
  auto rows = [&](const char *name, llvm::Value *count, auto body) {
    carriedLoop(
        b, name, {b.getInt64(0)},
        [&](llvm::ArrayRef<llvm::Value *> s) {
          return b.CreateICmpSLT(s[0], count);
        },
        [&](llvm::ArrayRef<llvm::Value *> s) {
          body(s[0]);
          return Carried{b.CreateNSWAdd(s[0], b.getInt64(1))};
        });
  };
  auto place = [&](llvm::Value *base, llvm::Value *number, uint64_t bytes) {
    return b.CreateGEP(b.getInt8Ty(), base,
                       b.CreateMul(number, b.getInt64(bytes)));
  };
  rows("tail.a",
       block.valid ? block.valid : b.getInt64(uint64_t(block.rows) * kRows),
       [&](llvm::Value *row) {
         llvm::Value *from =
             b.CreateGEP(b.getInt8Ty(), a, b.CreateMul(row, block.lda));
         llvm::Value *values =
             tag(b.CreateMaskedLoad(aRow, from, llvm::Align(block.a.bytes),
                                    mask, llvm::Constant::getNullValue(aRow)),
                 block.a);
         b.CreateAlignedStore(values, place(tileMemory->a, row, kRowBytes),
                              llvm::Align(64));
       });
  llvm::Value *groups = b.CreateUDiv(
      b.CreateAdd(left, b.getInt64(block.group - 1)), b.getInt64(block.group));
  rows("tail.b", b.getInt64(kRows), [&](llvm::Value *row) {
    llvm::Value *there = splat(b.CreateICmpSLT(row, groups), 16);
    llvm::Value *from =
        b.CreateGEP(b.getInt8Ty(), bPointer, b.CreateMul(row, block.ldb));
    llvm::Value *to =
        place(tileMemory->b, row, uint64_t(block.columns) * kRowBytes);
    for (unsigned column = 0; column < block.columns; ++column) {
      auto at = [&](llvm::Value *base) {
        return b.CreateConstGEP1_64(b.getInt8Ty(), base, column * kRowBytes);
      };
      b.CreateAlignedStore(
          tag(b.CreateMaskedLoad(words, at(from), llvm::Align(4), there,
                                 llvm::Constant::getNullValue(words)),
              block.b),
          at(to), llvm::Align(64));
    }
  });
  tileStep(block, tileMemory->a, b.getInt64(kRowBytes), tileMemory->b,
           b.getInt64(uint64_t(block.columns) * kRowBytes));
}

LogicalResult CpuLowering::blockMatmul(tile::BlockOp op) {
  if (!target.tileMatmuls)
    return op.emitOpError("needs tile registers, which ")
           << target.isa << " has not";
  auto a = buffer(op.getA()), bb = buffer(op.getB()), c = buffer(op.getC());
  if (failed(a) || failed(bb) || failed(c))
    return failure();
  BufferRef p;
  if (op.getPrefetch()) {
    auto ref = buffer(op.getPrefetch());
    if (failed(ref))
      return failure();
    p = *ref;
  }
  useTiles();
  auto inBytes = [&](Value elements, const BufferRef &ref) {
    return b.CreateMul(scalar(elements), b.getInt64(ref.bytes));
  };
  TileBlock block;
  block.a = *a;
  block.b = *bb;
  block.rows = op.getRows() / kRows;
  block.columns = op.getColumns() / 16;
  block.valid = op.getValid() ? scalar(op.getValid()) : nullptr;
  block.bytes = a->bytes == 1;
  block.group = block.bytes ? 4 : 2;
  block.lda = inBytes(op.getLda(), *a);
  block.ldb = inBytes(op.getLdb(), *bb);
  block.parts = op.getParts();
  if (block.parts > 1) {
    block.aPart = inBytes(op.getAPart(), *a);
    block.bPart = inBytes(op.getBPart(), *bb);
  }

  // Fewer rows: of the sums and of A.
  llvm::Value *isRagged = nullptr;
  auto whereRagged = [&](auto body) {
    if (!isRagged)
      return;
    llvm::BasicBlock *ragged = newBlock("ragged"), *after = newBlock("tiles");
    b.CreateCondBr(isRagged, ragged, after);
    b.SetInsertPoint(ragged);
    body();
    b.CreateBr(after);
    b.SetInsertPoint(after);
  };
  auto *known = dyn_cast_or_null<llvm::ConstantInt>(block.valid);
  if (block.valid && !(known && known->getZExtValue() == kRows))
    isRagged = b.CreateICmpSLT(block.valid, b.getInt64(kRows));
  whereRagged([&] {
    llvm::Value *config = wholeTiles(module.getContext());
    llvm::Value *count = b.CreateTrunc(block.valid, b.getInt8Ty());
    for (unsigned i = 0; i < block.firstB(); ++i)
      config = b.CreateInsertElement(config, count, b.getInt64(48 + i));
    b.CreateAlignedStore(config, tileMemory->ragged, llvm::Align(64));
    configureTiles(tileMemory->ragged);
  });

  for (unsigned i = 0; i < block.firstA(); ++i)
    b.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {b.getInt8(i)});
  llvm::Value *depth = scalar(op.getK());
  llvm::Value *perTile = b.getInt64(kRowBytes / a->bytes);
  llvm::Value *steps = b.CreateUDiv(depth, perTile);
  llvm::Value *bStep = b.CreateMul(block.ldb, b.getInt64(kRows));
  llvm::Value *fetched =
      p.pointer
          ? b.CreateGEP(p.memory, p.pointer, scalar(op.getPrefetchOffset()))
          : llvm::ConstantPointerNull::get(
                llvm::PointerType::get(module.getContext(), 0));
  llvm::Value *fetchBytes =
      p.pointer ? b.CreateMul(inBytes(op.getPrefetchStep(), p), b.getInt64(4))
                : nullptr;
  Carried state = carriedLoop(
      b, "k",
      {b.getInt64(0), address(*a, scalar(op.getAOffset())),
       address(*bb, scalar(op.getBOffset())), fetched},
      [&](llvm::ArrayRef<llvm::Value *> s) {
        return b.CreateICmpSLT(s[0], steps);
      },
      [&](llvm::ArrayRef<llvm::Value *> s) {
        tileStep(block, s[1], block.lda, s[2], block.ldb);
        Carried next{b.CreateNSWAdd(s[0], b.getInt64(1)),
                     b.CreateConstGEP1_64(b.getInt8Ty(), s[1], kRowBytes),
                     b.CreateGEP(b.getInt8Ty(), s[2], bStep), s[3]};
        if (fetchBytes) {
          fetchLines(s[3], fetchBytes);
          next[3] = b.CreateGEP(b.getInt8Ty(), s[3], fetchBytes);
        }
        return next;
      });
  llvm::Value *left = b.CreateURem(depth, perTile);
  auto *knownLeft = dyn_cast<llvm::ConstantInt>(left);
  if (block.parts == 1 && !(knownLeft && knownLeft->isZero())) {
    llvm::BasicBlock *tail = newBlock("tail"), *after = newBlock("summed");
    b.CreateCondBr(b.CreateICmpNE(left, b.getInt64(0)), tail, after);
    b.SetInsertPoint(tail);
    tileTail(block, state[1], state[2], left);
    b.CreateBr(after);
    b.SetInsertPoint(after);
  }

  llvm::Value *to = address(*c, scalar(op.getCOffset()));
  llvm::Value *ldc = inBytes(op.getLdc(), *c);
  for (unsigned row = 0; row < block.rows; ++row)
    for (unsigned column = 0; column < block.columns; ++column) {
      llvm::Value *place = b.CreateGEP(
          b.getInt8Ty(), to,
          b.CreateAdd(b.CreateMul(ldc, b.getInt64(uint64_t(row) * kRows)),
                      b.getInt64(uint64_t(column) * kRowBytes)));
      b.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64, {},
                        {b.getInt8(block.sum(row, column)), place, ldc});
    }
  whereRagged([&] { configureTiles(tileMemory->whole); });
  return success();
}

} // namespace knapper::lower
