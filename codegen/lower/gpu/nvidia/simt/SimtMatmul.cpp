// Matmuls by FMAs of f32, for any GPU, any layout and any of
// f32, f16, bf16: exact as f32 is.
//
// Blocks of A and B, 16 deep, go through two buffers of shared memory, as
// [depth][row or column]: while one is multiplied the next is on its way in
// registers. A thread has 8 rows by 8 columns, as four pieces of 4 x 4:
//
//   rows  4*ty .. +3 and rows/2 + 4*ty .. +3, columns likewise by tx
//
// so that a warp's reads of shared memory are broadcasts or runs.
//
// With `slices`, so many teams of threads have the same block and a part of
// each step's depth: more warps than the block alone would have, where blocks
// are few. At the end each team sums up some rows.
#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"
#include "codegen/lower/gpu/nvidia/sm90/ImplicitGemmIndex.h"
#include "ir/config/MatmulGpuConfig.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kDepth = 16;

/// One operand and its two buffers in shared memory.
struct SimtOperand {
  BufferRef buffer;
  Type element;
  llvm::Value *base;                 // element of the matrix's first, i64
  llvm::Value *stride, *depthStride; // i64
  llvm::Value *extent;               // rows or columns there are, i64
  llvm::Value *from;                 // the block's first, i64
  unsigned block;                    // rows or columns of a block
  bool depthFirst;                   // which is contiguous, if any
  unsigned lanes;                    // of an access
  llvm::Value *shared;
  std::optional<ImplicitGemmIndex> window; // of a convolution's input
  llvm::SmallVector<ImplicitGemmIndex::Part>
      rows; // there, of the thread's accesses

  unsigned pitch() const { return block + 4; }
  unsigned bufferElements() const { return kDepth * pitch(); }
};

bool isOne(Value v) { return matchPattern(v, m_One()); }
} // namespace

LogicalResult GpuLowering::simtMatmul(tile::MatmulOp op) {
  auto aBuffer = buffer(op.getA()), bBuffer = buffer(op.getB());
  if (failed(aBuffer) || failed(bBuffer))
    return failure();
  auto config = config::MatmulGpuConfig::of(op.getShape());
  unsigned rows = config.tileM, columns = config.tileN, slices = config.sliceK;
  if (rows % 64 || columns % 64 || rows * columns > 128 * 128 ||
      (slices != 1 && slices != 2 && slices != 4) ||
      (slices > 1 && rows * columns > 128 * 64) || config.tileK != kDepth ||
      4 % op.run())
    return op.emitOpError("has a shape that this path cannot do");
  auto n64 = [&](int64_t n) { return b.getInt64(n); };
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto narrowed = [&](llvm::Value *v) {
    return b.CreateTrunc(v, b.getInt32Ty());
  };
  auto wide = [&](llvm::Value *v) { return b.CreateZExt(v, b.getInt64Ty()); };
  Type f32 = Float32Type::get(op.getContext());
  llvm::Value *m = scalar(op.getM()), *n = scalar(op.getN()),
              *k = scalar(op.getK());

  auto ceil = [&](llvm::Value *x, unsigned by) {
    return narrowed(b.CreateUDiv(b.CreateAdd(x, n64(by - 1)), n64(by)));
  };
  llvm::SmallVector<llvm::Value *> outerSizes;
  for (Value size : op.getOuter())
    outerSizes.push_back(narrowed(scalar(size)));
  TileScheduler order(b, ceil(m, rows), ceil(n, columns), outerSizes, rows,
                      columns, config.rasterGroup);
  std::optional<GroupedTileScheduler> groups;
  if (op.getEnds() && failed(groupedTiles(op, columns, groups)))
    return failure();
  TileCoord block;
  std::optional<GroupRows> group;
  llvm::Value *rowsEnd = m;
  if (groups) {
    llvm::Value *program = narrowed(programId);
    Carried state = groups->seek(groups->start(), program);
    block = groups->at(state, program);
    if (outerSizes.empty())
      block.outer.clear();
    group = groups->rows(state);
    // There are as many programs as there can be tiles: others have no rows.
    llvm::Value *past = groups->isPast(state);
    rowsEnd = b.CreateSelect(past, n64(0), wide(group->end));
    for (llvm::Value **index : {&block.row, &block.column})
      *index = b.CreateSelect(past, n32(0), *index);
    for (llvm::Value *&index : block.outer)
      index = b.CreateSelect(past, n32(0), index);
    k = b.CreateSelect(past, n64(0), k);
  } else {
    block = order.at(narrowed(programId));
  }

  auto makeOperand = [&](BufferRef ref, Value bufferValue, Value offset,
                         Value stride, Value depthStride,
                         OperandRange outerStrides, Value extent,
                         llvm::Value *from, unsigned size) {
    SimtOperand o;
    o.buffer = ref;
    o.element = cast<tile::BufferType>(bufferValue.getType()).getElementType();
    o.base = scalar(offset);
    uint64_t multiple = knownMultiple(offset);
    for (auto [value, index] : llvm::zip(outerStrides, block.outer)) {
      multiple = std::min(multiple, knownMultiple(value));
      o.base = b.CreateAdd(o.base, b.CreateMul(scalar(value), wide(index)));
    }
    o.stride = scalar(stride);
    o.depthStride = scalar(depthStride);
    o.extent = scalar(extent);
    o.from = wide(from);
    o.block = size;
    o.depthFirst = isOne(depthStride);
    bool contiguous = o.depthFirst || isOne(stride);
    // Runs of four, all inside or all outside.
    multiple =
        std::min({multiple, knownMultiple(o.depthFirst ? stride : depthStride),
                  knownMultiple(o.depthFirst ? op.getK() : extent)});
    o.lanes = contiguous && multiple % 4 == 0 ? 4 : 1;
    o.shared = sharedArray(b.getFloatTy(), 2 * o.bufferElements(), "_block");
    return o;
  };
  SimtOperand sides[2] = {
      makeOperand(*aBuffer, op.getA(), op.getAOffset(), op.getARow(),
                  op.getAK(), op.getAOuter(), op.getM(), block.row, rows),
      makeOperand(*bBuffer, op.getB(), op.getBOffset(), op.getBColumn(),
                  op.getBK(), op.getBOuter(), op.getN(), block.column,
                  columns)};
  if (group) {
    SimtOperand &a = sides[0];
    a.extent = rowsEnd;
    if (!a.depthFirst) // runs of rows begin and end anywhere
      a.lanes = 1;
  }
  if (!op.getWindow().empty()) {
    SimtOperand &a = sides[0];
    a.window.emplace(implicitGemmIndex(op));
    // Runs of four channels of a pixel.
    uint64_t multiple =
        std::min({knownMultiple(op.getAOffset()), knownMultiple(op.getARow()),
                  knownMultiple(op.getWindow()[0])});
    for (Value stride : op.getAOuter())
      multiple = std::min(multiple, knownMultiple(stride));
    for (size_t i = 5; i < op.getWindow().size(); i += 5)
      multiple = std::min(multiple, knownMultiple(op.getWindow()[i]));
    a.lanes = isOne(op.getAK()) && !op.getChannelsFirst() && multiple % 4 == 0
                  ? 4
                  : 1;
    // Single elements: a thread's are of one row, whose place it keeps.
    a.depthFirst = a.lanes > 1;
  }

  // Two blocks take turns, where what is on its way leaves the registers; the
  // places of a batch need those. Those of a window too: without a word the
  // assembler would rather spill than have fewer blocks.
  bool runs = sides[0].lanes == 4 && sides[1].lanes == 4 && outerSizes.empty();
  if (runs && shape.threads >= 256 && !sides[0].window)
    fn->addFnAttr("nvvm.minctasm", "2");
  else if (sides[0].window || slices > 1)
    fn->addFnAttr("nvvm.minctasm", "1");
  llvm::Value *tid = narrowed(threadOfBlock);
  unsigned threadsOfBlock = shape.threads;
  // Which accesses of a block a thread makes: (in the block, in the depth).
  auto accesses = [&](const SimtOperand &o) {
    llvm::SmallVector<std::pair<llvm::Value *, llvm::Value *>> places;
    unsigned number = o.block * kDepth / o.lanes / threadsOfBlock;
    for (unsigned i = 0; i < number; ++i) {
      llvm::Value *at = b.CreateAdd(tid, n32(i * threadsOfBlock));
      unsigned run = (o.depthFirst ? kDepth : o.block) / o.lanes;
      llvm::Value *inner =
          b.CreateMul(b.CreateURem(at, n32(run)), n32(o.lanes));
      llvm::Value *other = b.CreateUDiv(at, n32(run));
      places.push_back(o.depthFirst ? std::pair(other, inner)
                                    : std::pair(inner, other));
    }
    return places;
  };
  if (SimtOperand &a = sides[0]; a.window)
    for (auto [inBlock, inDepth] : accesses(a)) {
      llvm::Value *row = b.CreateAdd(block.row, inBlock);
      a.rows.push_back(
          a.window->row(row, b.CreateICmpSLT(row, narrowed(a.extent))));
    }
  // Parts outside the matrix are zero; what is read instead is its first
  // element.
  auto read = [&](const SimtOperand &o, llvm::Value *depth, Carried &values) {
    for (auto [i, access] : llvm::enumerate(accesses(o))) {
      auto [inBlock, inDepth] = access;
      llvm::Value *d = b.CreateAdd(depth, wide(inDepth));
      llvm::Value *inside, *offset;
      if (o.window) {
        ImplicitGemmIndex::Part part =
            o.window->depth(narrowed(d), b.CreateICmpSLT(d, k));
        ImplicitGemmIndex::PipelineState place =
            o.window->place(o.rows[i], part);
        inside = place.inside;
        offset = b.CreateAdd(o.base, place.offset);
      } else {
        llvm::Value *at = b.CreateAdd(o.from, wide(inBlock));
        inside =
            b.CreateAnd(b.CreateICmpSLT(at, o.extent), b.CreateICmpSLT(d, k));
        offset =
            b.CreateAdd(o.base, b.CreateAdd(b.CreateMul(at, o.stride),
                                            b.CreateMul(d, o.depthStride)));
      }
      offset = b.CreateSelect(inside, offset, n64(0));
      llvm::Type *type = llvm::FixedVectorType::get(o.buffer.memory, o.lanes);
      llvm::Value *loaded =
          tag(b.CreateAlignedLoad(type, address(o.buffer, offset),
                                  llvm::Align(o.lanes * o.buffer.bytes)),
              o.buffer);
      loaded = floatCast(loaded, o.element, f32);
      values.push_back(b.CreateSelect(
          inside, loaded, llvm::Constant::getNullValue(loaded->getType())));
    }
  };
  auto sharedAt = [&](const SimtOperand &o, llvm::Value *which,
                      llvm::Value *depth, llvm::Value *inBlock) {
    llvm::Value *offset =
        b.CreateAdd(b.CreateMul(which, n32(o.bufferElements())),
                    b.CreateAdd(b.CreateMul(depth, n32(o.pitch())), inBlock));
    return b.CreateInBoundsGEP(b.getFloatTy(), o.shared, offset);
  };
  auto write = [&](const SimtOperand &o, llvm::Value *which,
                   llvm::ArrayRef<llvm::Value *> values) {
    for (auto [place, value] : llvm::zip(accesses(o), values)) {
      auto [inBlock, inDepth] = place;
      if (o.lanes > 1 && !o.depthFirst) {
        b.CreateAlignedStore(value, sharedAt(o, which, inDepth, inBlock),
                             llvm::Align(16));
        continue;
      }
      for (unsigned lane = 0; lane < o.lanes; ++lane)
        b.CreateAlignedStore(
            b.CreateExtractElement(value, lane),
            sharedAt(o, which, b.CreateAdd(inDepth, n32(lane)), inBlock),
            llvm::Align(4));
    }
  };

  unsigned across = columns / 8, team = rows * columns / 64;
  llvm::Value *slice = n32(0), *inTeam = tid;
  if (slices > 1) {
    slice = b.CreateUDiv(tid, n32(team));
    inTeam = b.CreateURem(tid, n32(team));
  }
  llvm::Value *tx = b.CreateMul(b.CreateURem(inTeam, n32(across)), n32(4));
  llvm::Value *ty = b.CreateMul(b.CreateUDiv(inTeam, n32(across)), n32(4));
  llvm::Value *sliceDepth = b.CreateMul(slice, n32(kDepth / slices));
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), 4);
  auto fetch = [&](const SimtOperand &o, llvm::Value *which, unsigned depth,
                   llvm::Value *first) {
    llvm::SmallVector<llvm::Value *, 8> values;
    for (unsigned half = 0; half < 2; ++half) {
      llvm::Value *piece = b.CreateAlignedLoad(
          four,
          sharedAt(o, which, b.CreateAdd(sliceDepth, n32(depth)),
                   b.CreateAdd(first, n32(half * o.block / 2))),
          llvm::Align(16));
      for (unsigned i = 0; i < 4; ++i)
        values.push_back(b.CreateExtractElement(piece, i));
    }
    return values;
  };

  // Without depth the operands have no first element either.
  when(b.CreateICmpSGT(k, n64(0)), [&] {
    for (const SimtOperand &side : sides) {
      Carried values;
      read(side, n64(0), values);
      write(side, n32(0), values);
    }
  });
  barrier();
  Carried sums(64, llvm::ConstantFP::get(b.getFloatTy(), 0));
  llvm::Value *steps = ceil(k, kDepth);
  sums = carriedFor(
      b, "depth", n32(0), steps, n32(1), std::move(sums),
      [&](llvm::Value *step, const Carried &state) -> Carried {
        Carried next(state);
        llvm::Value *which = b.CreateAnd(step, 1);
        llvm::Value *depth =
            b.CreateMul(wide(b.CreateAdd(step, n32(1))), n64(kDepth));
        Carried coming[2];
        for (unsigned side = 0; side < 2; ++side)
          read(sides[side], depth, coming[side]);
        for (unsigned d = 0; d < kDepth / slices; ++d) {
          auto as = fetch(sides[0], which, d, ty);
          auto bs = fetch(sides[1], which, d, tx);
          for (unsigned i = 0; i < 8; ++i)
            for (unsigned j = 0; j < 8; ++j) {
              llvm::Value *&sum = next[8 * i + j];
              sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()},
                                      {as[i], bs[j], sum});
            }
        }
        // All have read the other buffer one step ago.
        llvm::Value *other = b.CreateXor(which, 1);
        for (unsigned side = 0; side < 2; ++side)
          write(sides[side], other, coming[side]);
        barrier();
        return next;
      });

  LogicalResult status = success();
  llvm::Value *m32 = narrowed(rowsEnd), *n32s = narrowed(n);
  unsigned run = op.run();
  auto storeRow = [&](unsigned i) {
    llvm::Value *row = b.CreateAdd(b.CreateAdd(block.row, ty),
                                   n32(i % 4 + i / 4 * (rows / 2)));
    when(b.CreateICmpSLT(row, m32), [&] {
      for (unsigned j = 0; j < 8; j += run) {
        llvm::Value *column = b.CreateAdd(b.CreateAdd(block.column, tx),
                                          n32(j % 4 + j / 4 * (columns / 2)));
        when(b.CreateICmpSLT(column, n32s), [&] {
          llvm::Value *value = sums[8 * i + j];
          if (run > 1) {
            value = llvm::PoisonValue::get(
                llvm::FixedVectorType::get(b.getFloatTy(), run));
            for (unsigned lane = 0; lane < run; ++lane)
              value =
                  b.CreateInsertElement(value, sums[8 * i + j + lane], lane);
          }
          if (group)
            value =
                b.CreateSelect(b.CreateICmpSLT(row, group->zeroFrom), value,
                               llvm::Constant::getNullValue(value->getType()));
          if (failed(runRegion(op, value, block.outer, row, column)))
            status = failure();
        });
      }
    });
  };
  if (slices == 1) {
    for (unsigned i = 0; i < 8; ++i)
      storeRow(i);
    return status;
  }
  // [team but for the one that adds][sum][thread of a team]
  unsigned own = 64 / slices;
  llvm::Value *others =
      sharedArray(b.getFloatTy(), (slices - 1) * own * team, "_sums");
  for (unsigned adder = 0; adder < slices; ++adder) {
    llvm::Value *adds = b.CreateICmpEQ(slice, n32(adder));
    // Where the team's sums go: the adder's place is the last one's.
    llvm::Value *place = b.CreateSelect(b.CreateICmpEQ(slice, n32(slices - 1)),
                                        n32(adder), slice);
    auto at = [&](llvm::Value *place, unsigned sum) {
      llvm::Value *line = b.CreateAdd(b.CreateMul(place, n32(own)), n32(sum));
      return b.CreateInBoundsGEP(
          b.getFloatTy(), others,
          b.CreateAdd(b.CreateMul(line, n32(team)), inTeam));
    };
    when(b.CreateNot(adds), [&] {
      for (unsigned i = 0; i < own; ++i)
        b.CreateAlignedStore(sums[adder * own + i], at(place, i),
                             llvm::Align(4));
    });
    barrier();
    when(adds, [&] {
      for (unsigned i = 0; i < own; ++i) {
        llvm::Value *&sum = sums[adder * own + i];
        for (unsigned other = 0; other + 1 < slices; ++other)
          sum = b.CreateFAdd(sum, b.CreateAlignedLoad(b.getFloatTy(),
                                                      at(n32(other), i),
                                                      llvm::Align(4)));
      }
      for (unsigned i = 0; i < 8 / slices; ++i)
        storeRow(adder * (8 / slices) + i);
    });
    if (adder + 1 < slices)
      barrier();
  }
  return status;
}

} // namespace knapper::lower
