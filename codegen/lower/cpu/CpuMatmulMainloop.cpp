// The main loop of a matmul on a CPU: a register tile of BM rows times
// BN / lanes vectors, carried through the whole of K.
#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kUnroll = 4; // steps of k in one round of the loop
/// One row uses what it reads of B once, so it is bound by that: it asks for
/// every line of B so many bytes ahead, and for the next panel by running on.
constexpr unsigned kAhead = 2048;
} // namespace

void CpuLowering::fetch(llvm::Value *at, unsigned locality) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                    {at, b.getInt32(0), b.getInt32(locality), b.getInt32(1)});
}

void CpuLowering::fetchLines(llvm::Value *from, llvm::Value *bytes) {
  fetch(from, 2);
  auto *known = dyn_cast<llvm::ConstantInt>(bytes);
  if (known && known->getZExtValue() <= 64)
    return;
  carriedLoop(
      b, "fetch", {b.getInt64(64)},
      [&](llvm::ArrayRef<llvm::Value *> s) {
        return b.CreateICmpSLT(s[0], bytes);
      },
      [&](llvm::ArrayRef<llvm::Value *> s) {
        fetch(b.CreateGEP(b.getInt8Ty(), from, s[0]), 2);
        return Carried{b.CreateNSWAdd(s[0], b.getInt64(64))};
      });
}

LogicalResult CpuLowering::mainloop(tile::MainloopOp op) {
  auto a = buffer(op.getA()), bb = buffer(op.getB());
  if (failed(a) || failed(bb))
    return failure();
  BufferRef p;
  if (op.getPrefetch()) {
    auto ref = buffer(op.getPrefetch());
    if (failed(ref))
      return failure();
    p = *ref;
  }
  VectorType accType = op.getAcc().getType();
  Type accElement = accType.getElementType();
  Type aElement = cast<tile::BufferType>(op.getA().getType()).getElementType();
  Type bElement = cast<tile::BufferType>(op.getB().getType()).getElementType();
  unsigned rows = accType.getDimSize(0), columns = accType.getDimSize(1);
  unsigned native = target.lanes(accElement.isF64() ? DType::f64 : DType::f32);
  llvm::SmallVector<unsigned> pieces, starts;
  for (unsigned at = 0, width = native; at < columns; at += width) {
    while (width > columns - at)
      width /= 2;
    pieces.push_back(width);
    starts.push_back(at);
  }
  unsigned perRow = pieces.size();
  bool bytes = accElement.isInteger(32);
  bool scaled = bool(op.getScale()), nibbles = op.getNibbles();
  // Elements of k in a step.
  unsigned group = bytes ? 4 : op.getPairs() || nibbles ? 2 : 1;

  llvm::Value *lda = scalar(op.getLda()), *ka = scalar(op.getKa());
  llvm::Value *ldb = scalar(op.getLdb());
  llvm::Value *k = scalar(op.getK());
  if (group > 1)
    k = b.CreateUDiv(k, b.getInt64(group));
  auto times = [&](llvm::Value *stride, unsigned n) {
    return b.CreateMul(stride, b.getInt64(n));
  };
  auto advance = [&](const BufferRef &ref, llvm::Value *pointer,
                     llvm::Value *elements) {
    return b.CreateGEP(ref.memory, pointer, elements);
  };

  // Where row i is read: so many elements from row 0. Rows that need not be
  // valid are read from row 0 instead when they are not.
  llvm::SmallVector<llvm::Value *> rowOffsets;
  for (unsigned row = 0; row < rows; ++row) {
    llvm::Value *offset = times(lda, row);
    if (op.getRows() && row)
      offset =
          b.CreateSelect(b.CreateICmpSLT(b.getInt64(row), scalar(op.getRows())),
                         offset, b.getInt64(0));
    rowOffsets.push_back(offset);
  }

  Carried acc;
  Parts init = op.getInit() ? parts(op.getInit()) : Parts();
  unsigned initParts = init.size() / rows;
  for (unsigned row = 0; row < rows; ++row) {
    llvm::Value *whole =
        init.empty()
            ? nullptr
            : join(llvm::ArrayRef(init).slice(row * initParts, initParts));
    for (auto [width, start] : llvm::zip(pieces, starts)) {
      if (!whole) {
        acc.push_back(
            llvm::Constant::getNullValue(vectorType(accElement, width)));
        continue;
      }
      llvm::SmallVector<int> mask;
      for (unsigned i = 0; i < width; ++i)
        mask.push_back(start + i);
      acc.push_back(b.CreateShuffleVector(whole, mask));
    }
  }

  llvm::Align bAlign(
      std::max<uint64_t>(op.getBAlignment().value_or(bb->bytes), bb->bytes));
  // Elements of A that follow one another in k, as 32 bits (zeros after them).
  auto loadGroup = [&](llvm::Value *pointer, unsigned count) -> llvm::Value * {
    auto *stride = dyn_cast<llvm::ConstantInt>(ka);
    llvm::Align align(a->bytes);
    if (count == group && stride && stride->isOne())
      // A float is broadcast from memory, an integer through a register.
      return tag(b.CreateAlignedLoad(b.getFloatTy(), pointer, align), *a);
    llvm::Value *word = b.getInt32(0);
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value *element =
          tag(b.CreateAlignedLoad(b.getIntNTy(8 * a->bytes),
                                  advance(*a, pointer, times(ka, i)), align),
              *a);
      word = b.CreateOr(word, b.CreateShl(b.CreateZExt(element, b.getInt32Ty()),
                                          8 * a->bytes * i));
    }
    return b.CreateBitCast(word, b.getFloatTy());
  };
  // One step of k: acc += `count` columns of A times as many rows of B.
  auto dotProduct = [&](llvm::Value *aPointer, llvm::Value *bPointer,
                        unsigned u, unsigned count,
                        llvm::MutableArrayRef<llvm::Value *> sums) {
    llvm::Value *row = advance(*bb, bPointer, times(ldb, u));
    llvm::SmallVector<GroupRow> bs;
    for (auto [width, start] : llvm::zip(pieces, starts)) {
      llvm::Value *words = tag(
          b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), width),
                              advance(*bb, row, b.getInt64(group * start)),
                              llvm::commonAlignment(bAlign, 4 * start)),
          *bb);
      bs.push_back(bytes ? byteRow(words) : pairRow(words));
    }
    llvm::Value *column = advance(*a, aPointer, times(ka, group * u));
    for (unsigned i = 0; i < rows; ++i) {
      llvm::Value *word = loadGroup(advance(*a, column, rowOffsets[i]), count);
      for (unsigned j = 0; j < perRow; ++j) {
        llvm::Value *&sum = sums[i * perRow + j];
        sum = bytes ? addByteProducts(sum, splat(word, pieces[j]), bs[j])
                    : addPairProducts(sum, word, bs[j], count);
      }
    }
  };
  // What a row of B means, in the accumulators' type.
  auto rowOf = [&](llvm::Value *bPointer, unsigned u) {
    llvm::Value *row = advance(*bb, bPointer, times(ldb, u));
    llvm::SmallVector<llvm::Value *> loaded;
    for (auto [width, start] : llvm::zip(pieces, starts))
      loaded.push_back(
          tag(b.CreateAlignedLoad(
                  llvm::FixedVectorType::get(bb->memory, width),
                  advance(*bb, row, b.getInt64(start)),
                  llvm::commonAlignment(bAlign, uint64_t(start) * bb->bytes)),
              *bb));
    return loaded;
  };
  // acc += a column of A times a row of B.
  auto multiply = [&](llvm::Value *column, llvm::ArrayRef<llvm::Value *> bs,
                      llvm::MutableArrayRef<llvm::Value *> sums) {
    for (unsigned i = 0; i < rows; ++i) {
      llvm::Value *element =
          tag(b.CreateAlignedLoad(a->memory, advance(*a, column, rowOffsets[i]),
                                  llvm::Align(a->bytes)),
              *a);
      element = floatCast(element, aElement, accElement);
      for (unsigned j = 0; j < perRow; ++j) {
        llvm::Value *&sum = sums[i * perRow + j];
        sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                                {splat(element, pieces[j]), bs[j], sum});
      }
    }
  };

  // One step of k.
  auto product = [&](llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
                     llvm::MutableArrayRef<llvm::Value *> sums) {
    llvm::SmallVector<llvm::Value *> bs = rowOf(bPointer, u);
    for (llvm::Value *&row : bs)
      row = floatCast(row, bElement, accElement);
    multiply(advance(*a, aPointer, times(ka, u)), bs, sums);
  };

  // Of integers: a step is `count` rows of B, which its bytes hold, scaled by
  // the group's parameters, one vector a piece.
  llvm::SmallVector<llvm::Value *> scales, zeros;
  BufferRef scaleRef, zeroRef;
  for (auto [value, ref] :
       {std::pair(op.getScale(), &scaleRef), {op.getZero(), &zeroRef}})
    if (value) {
      auto found = buffer(value);
      if (failed(found))
        return failure();
      *ref = *found;
    }
  auto loadParameters = [&](llvm::Value *outer) {
    if (!scaled)
      return;
    llvm::Value *offset = scalar(op.getScaleOffset());
    if (outer)
      offset =
          b.CreateAdd(offset, b.CreateMul(outer, scalar(op.getScaleStep())));
    scales.clear();
    zeros.clear();
    for (auto [ref, into] :
         {std::pair(&scaleRef, &scales), std::pair(&zeroRef, &zeros)})
      for (auto [width, start] : llvm::zip(pieces, starts))
        if (ref->pointer)
          into->push_back(
              tag(b.CreateAlignedLoad(
                      llvm::FixedVectorType::get(b.getFloatTy(), width),
                      address(*ref, b.CreateAdd(offset, b.getInt64(start))),
                      llvm::Align(4)),
                  *ref));
  };
  auto scaledProduct = [&](llvm::Value *aPointer, llvm::Value *bPointer,
                           unsigned u, unsigned count,
                           llvm::MutableArrayRef<llvm::Value *> sums) {
    llvm::SmallVector<llvm::Value *> loaded = rowOf(bPointer, u);
    for (unsigned part = 0; part < count; ++part) {
      llvm::SmallVector<llvm::Value *> bs;
      for (auto [i, integers] : llvm::enumerate(loaded)) {
        llvm::Value *row =
            nibbles
                ? nibbleRow(integers, part)
                : b.CreateSIToFP(integers, vectorType(accElement, pieces[i]));
        if (!zeros.empty())
          row = b.CreateFSub(row, zeros[i]);
        bs.push_back(b.CreateFMul(row, scales[i]));
      }
      multiply(advance(*a, aPointer, times(ka, group * u + part)), bs, sums);
    }
  };

  auto step = [&](llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
                  llvm::MutableArrayRef<llvm::Value *> sums) {
    if (scaled)
      scaledProduct(aPointer, bPointer, u, group, sums);
    else if (group > 1)
      dotProduct(aPointer, bPointer, u, group, sums);
    else
      product(aPointer, bPointer, u, sums);
  };

  // State of a loop over k: counter, pointers into A, B and what is fetched
  // ahead, sums.
  constexpr unsigned kA = 1, kB = 2, kFetch = 3, firstSum = 4;
  // Pointers advance out of sight of loop strength reduction. It weighs every
  // way of deriving the addresses from each other, for longer than all other
  // passes together, and takes more registers than there are.
  auto onward = [&](const BufferRef &ref, llvm::Value *pointer,
                    llvm::Value *elements) {
    return b.CreateLaunderInvariantGroup(advance(ref, pointer, elements));
  };
  auto fetchRun = [&](llvm::Value *from, llvm::Value *elements) {
    fetchLines(from, b.CreateMul(elements, b.getInt64(p.bytes)));
  };
  bool streams = p.pointer && rows == 1;
  auto overK = [&](const Carried &state, unsigned steps) {
    auto more = [&](llvm::ArrayRef<llvm::Value *> s) {
      return b.CreateICmpSLE(b.CreateNSWAdd(s[0], b.getInt64(steps)), k);
    };
    return carriedLoop(
        b, steps == 1 ? "k.rest" : "k", state, more,
        [&](llvm::ArrayRef<llvm::Value *> s) {
          Carried next(s.begin(), s.end());
          if (streams && steps == kUnroll) {
            // The two nibbles of a step lie in one byte.
            unsigned bytes =
                kUnroll * (nibbles ? 1 : group) * columns * bb->bytes;
            for (unsigned line = 0; line < bytes; line += 64)
              fetch(
                  b.CreateGEP(b.getInt8Ty(), s[kB], b.getInt64(kAhead + line)),
                  3);
          } else if (p.pointer && steps == kUnroll) {
            llvm::Value *step = scalar(op.getPrefetchStep());
            fetchRun(s[kFetch], step);
            next[kFetch] = onward(p, s[kFetch], step);
          }
          for (unsigned u = 0; u < steps; ++u)
            step(s[kA], s[kB], u,
                 llvm::MutableArrayRef(next).drop_front(firstSum));
          next[0] = b.CreateNSWAdd(s[0], b.getInt64(steps));
          next[kA] = onward(*a, s[kA], times(ka, steps * group));
          next[kB] = onward(*bb, s[kB], times(ldb, steps));
          return next;
        });
  };
  llvm::Value *nothing = llvm::ConstantPointerNull::get(
      llvm::PointerType::get(module.getContext(), 0));
  llvm::Value *prefetchPointer =
      p.pointer
          ? b.CreateGEP(p.memory, p.pointer, scalar(op.getPrefetchOffset()))
          : nothing;
  // One whole product from given bases: the state's prefetch pointer and sums
  // go on.
  auto whole = [&](llvm::Value *aBase, llvm::Value *bBase,
                   llvm::Value *&prefetchAt, Carried &sums) {
    Carried state{b.getInt64(0), aBase, bBase, prefetchAt};
    state.append(sums);
    state = overK(state, kUnroll);
    auto *steps = dyn_cast<llvm::ConstantInt>(k);
    if (!steps || steps->getZExtValue() % kUnroll)
      state = overK(state, 1);
    // What is left of a group: a constant, or at most one.
    llvm::Value *depth = scalar(op.getK());
    if (auto *known = dyn_cast<llvm::ConstantInt>(depth)) {
      auto left = llvm::MutableArrayRef(state).drop_front(firstSum);
      auto rest = static_cast<unsigned>(known->getZExtValue() % group);
      if (rest && scaled)
        scaledProduct(state[kA], state[kB], 0, rest, left);
      else if (rest)
        dotProduct(state[kA], state[kB], 0, rest, left);
    } else if (group == 2) {
      state = carriedLoop(
          b, "k.odd", state,
          [&](llvm::ArrayRef<llvm::Value *> s) {
            return b.CreateICmpSLT(b.CreateShl(s[0], 1), depth);
          },
          [&](llvm::ArrayRef<llvm::Value *> s) {
            Carried next(s.begin(), s.end());
            dotProduct(s[kA], s[kB], 0, 1,
                       llvm::MutableArrayRef(next).drop_front(firstSum));
            next[0] = b.CreateNSWAdd(s[0], b.getInt64(1));
            return next;
          });
    }
    prefetchAt = state[kFetch];
    sums.assign(state.begin() + firstSum, state.end());
  };

  llvm::Value *aBase = address(*a, scalar(op.getAOffset()));
  llvm::Value *bBase = address(*bb, scalar(op.getBOffset()));
  if (!op.getOuter()) {
    loadParameters(nullptr);
    whole(aBase, bBase, prefetchPointer, acc);
  } else {
    Carried state{b.getInt64(0), aBase, bBase, prefetchPointer};
    state.append(acc);
    state = carriedLoop(
        b, "outer", state,
        [&](llvm::ArrayRef<llvm::Value *> s) {
          return b.CreateICmpSLT(s[0], scalar(op.getOuter()));
        },
        [&](llvm::ArrayRef<llvm::Value *> s) {
          Carried sums(s.begin() + 4, s.end());
          llvm::Value *prefetchAt = s[3];
          loadParameters(s[0]);
          whole(s[1], s[2], prefetchAt, sums);
          Carried next{b.CreateNSWAdd(s[0], b.getInt64(1)),
                       advance(*a, s[1], scalar(op.getAOuter())),
                       advance(*bb, s[2], scalar(op.getBOuter())), prefetchAt};
          next.append(sums);
          return next;
        });
    acc.assign(state.begin() + 4, state.end());
  }

  Parts result;
  for (unsigned row = 0; row < rows; ++row)
    result.append(
        split(join(llvm::ArrayRef(acc).slice(row * perRow, perRow)), columns));
  set(op.getAcc(), result);
  return success();
}

} // namespace knapper::lower
