// The main loop of a matmul on a CPU: a register tile of BM rows times
// BN / lanes vectors, carried through the whole of K.
#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/cpu/CpuLowering.h"

#include "llvm/IR/Intrinsics.h"

using namespace mlir;

namespace knapper::lower {

namespace {
/// Steps of k in one round of a loop that fetches ahead or has few sums.
constexpr unsigned kUnroll = 4;
/// Of a loop with many sums, which cover its counter and its pointers: more
/// steps take longer to compile and no less time to run. Of AVX-512 alone: with
/// AVX2 a broadcast is an instruction of its own, which its 12 sums at most
/// have to cover too (more steps save 1 to 3 % of a model).
constexpr unsigned kFewSteps = 2, kManySums = 12;
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

/// Emits the loop over K. Steps of k are `group` columns of A and as many rows
/// of B: one of floats, two of pairs, four of bytes.
struct CpuLowering::Mainloop {
  using Values = llvm::SmallVector<llvm::Value *>;
  using Sums = llvm::MutableArrayRef<llvm::Value *>;
  /// State of a loop over k: counter, pointers into A, B and what is fetched
  /// ahead, sums.
  static constexpr unsigned kA = 1, kB = 2, kFetch = 3, firstSum = 4;

  CpuLowering &lower;
  llvm::IRBuilder<> &b;
  tile::MainloopOp op;
  BufferRef a, bb, prefetched, scaleRef, zeroRef;
  Type aElement, bElement, accElement;
  unsigned rows, columns;
  llvm::SmallVector<unsigned> pieces, starts; ///< of a row: lanes, first lane
  bool bytes, scaled, nibbles;
  unsigned group;
  unsigned unroll = kUnroll; ///< steps in one round
  llvm::Align bAlign;
  llvm::Value *lda = nullptr, *ka = nullptr, *ldb = nullptr;
  llvm::Value *k = nullptr; ///< steps
  Values rowOffsets;        ///< of A, from row 0
  Values scales, zeros;     ///< one a piece; empty: none

  Mainloop(CpuLowering &lower, tile::MainloopOp op)
      : lower(lower), b(lower.b), op(op),
        accElement(op.getAcc().getType().getElementType()),
        rows(op.getAcc().getType().getDimSize(0)),
        columns(op.getAcc().getType().getDimSize(1)),
        bytes(accElement.isInteger(32)), scaled(op.getScale()),
        nibbles(op.getNibbles()), group(bytes                      ? 4
                                        : op.getPairs() || nibbles ? 2
                                                                   : 1) {
    aElement = cast<tile::BufferType>(op.getA().getType()).getElementType();
    bElement = cast<tile::BufferType>(op.getB().getType()).getElementType();
  }

  LogicalResult findBuffers();
  void cutRows();
  void readSizes();
  Carried firstSums();
  void loadParameters(llvm::Value *outer);
  Values rowOf(llvm::Value *bPointer, unsigned u);
  llvm::Value *loadGroup(llvm::Value *pointer, unsigned count);
  void multiply(llvm::Value *column, llvm::ArrayRef<llvm::Value *> bs,
                Sums sums);
  void dotProduct(llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
                  unsigned count, Sums sums);
  void matmul(llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
              Sums sums);
  void scaledMatmul(llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
                    unsigned count, Sums sums);
  void step(llvm::Value *aPointer, llvm::Value *bPointer, unsigned u,
            Sums sums);
  void fetchAhead(const Carried &state, Carried &next);
  Carried overK(const Carried &state, unsigned steps);
  Carried restOfGroup(Carried state);
  void whole(llvm::Value *aBase, llvm::Value *bBase, llvm::Value *&prefetchAt,
             Carried &sums);
  Carried run();

  unsigned perRow() const { return pieces.size(); }
  auto piecesOfRow() const { return llvm::zip(pieces, starts); }
  llvm::Value *scalar(Value value) { return lower.scalar(value); }
  llvm::Value *times(llvm::Value *stride, unsigned n) {
    return b.CreateMul(stride, b.getInt64(n));
  }
  llvm::Value *advance(const BufferRef &ref, llvm::Value *pointer,
                       llvm::Value *elements) {
    return b.CreateGEP(ref.memory, pointer, elements);
  }
  /// Pointers advance out of sight of loop strength reduction. It weighs every
  /// way of deriving the addresses from each other, for longer than all other
  /// passes together, and takes more registers than there are.
  llvm::Value *onward(const BufferRef &ref, llvm::Value *pointer,
                      llvm::Value *elements) {
    return b.CreateLaunderInvariantGroup(advance(ref, pointer, elements));
  }
};

LogicalResult CpuLowering::Mainloop::findBuffers() {
  for (auto [value, ref] : {std::pair<Value, BufferRef *>(op.getA(), &a),
                            {op.getB(), &bb},
                            {op.getPrefetch(), &prefetched},
                            {op.getScale(), &scaleRef},
                            {op.getZero(), &zeroRef}}) {
    if (!value)
      continue;
    FailureOr<BufferRef> found = lower.buffer(value);
    if (failed(found))
      return failure();
    *ref = *found;
  }
  bAlign = llvm::Align(
      std::max<uint64_t>(op.getBAlignment().value_or(bb.bytes), bb.bytes));
  return success();
}

/// Vectors of the target's width, then of powers of two.
void CpuLowering::Mainloop::cutRows() {
  unsigned native =
      lower.target.lanes(accElement.isF64() ? DType::f64 : DType::f32);
  for (unsigned at = 0, width = native; at < columns; at += width) {
    while (width > columns - at)
      width /= 2;
    pieces.push_back(width);
    starts.push_back(at);
  }
}

/// Rows of A that need not be valid are read from row 0 when they are not.
void CpuLowering::Mainloop::readSizes() {
  lda = scalar(op.getLda());
  ka = scalar(op.getKa());
  ldb = scalar(op.getLdb());
  k = scalar(op.getK());
  if (lower.target.vectorBytes == 64 && !prefetched.pointer &&
      rows * perRow() >= kManySums)
    unroll = kFewSteps;
  if (group > 1)
    k = b.CreateUDiv(k, b.getInt64(group));
  for (unsigned row = 0; row < rows; ++row) {
    llvm::Value *offset = times(lda, row);
    if (op.getRows() && row)
      offset =
          b.CreateSelect(b.CreateICmpSLT(b.getInt64(row), scalar(op.getRows())),
                         offset, b.getInt64(0));
    rowOffsets.push_back(offset);
  }
}

/// Zeros, or the lanes of `init`.
Carried CpuLowering::Mainloop::firstSums() {
  Carried acc;
  Parts init = op.getInit() ? lower.parts(op.getInit()) : Parts();
  unsigned initParts = init.size() / rows;
  for (unsigned row = 0; row < rows; ++row) {
    llvm::Value *whole = init.empty() ? nullptr
                                      : lower.join(llvm::ArrayRef(init).slice(
                                            row * initParts, initParts));
    for (auto [width, start] : piecesOfRow()) {
      if (!whole) {
        acc.push_back(
            llvm::Constant::getNullValue(lower.vectorType(accElement, width)));
        continue;
      }
      llvm::SmallVector<int> mask;
      for (unsigned i = 0; i < width; ++i)
        mask.push_back(start + i);
      acc.push_back(b.CreateShuffleVector(whole, mask));
    }
  }
  return acc;
}

/// Of integers: what scales a step's rows of B, of the `outer`th group of them.
void CpuLowering::Mainloop::loadParameters(llvm::Value *outer) {
  if (!scaled)
    return;
  llvm::Value *offset = scalar(op.getScaleOffset());
  if (outer)
    offset = b.CreateAdd(offset, b.CreateMul(outer, scalar(op.getScaleStep())));
  scales.clear();
  zeros.clear();
  for (auto [ref, into] :
       {std::pair(&scaleRef, &scales), std::pair(&zeroRef, &zeros)})
    for (auto [width, start] : piecesOfRow())
      if (ref->pointer)
        into->push_back(lower.tag(
            b.CreateAlignedLoad(
                llvm::FixedVectorType::get(b.getFloatTy(), width),
                lower.address(*ref, b.CreateAdd(offset, b.getInt64(start))),
                llvm::Align(4)),
            *ref));
}

/// Elements of A that follow one another in k, as 32 bits (zeros after them).
llvm::Value *CpuLowering::Mainloop::loadGroup(llvm::Value *pointer,
                                              unsigned count) {
  auto *stride = dyn_cast<llvm::ConstantInt>(ka);
  llvm::Align align(a.bytes);
  if (count == group && stride && stride->isOne())
    // A float is broadcast from memory, an integer through a register.
    return lower.tag(b.CreateAlignedLoad(b.getFloatTy(), pointer, align), a);
  llvm::Value *word = b.getInt32(0);
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *element =
        lower.tag(b.CreateAlignedLoad(b.getIntNTy(8 * a.bytes),
                                      advance(a, pointer, times(ka, i)), align),
                  a);
    word = b.CreateOr(word, b.CreateShl(b.CreateZExt(element, b.getInt32Ty()),
                                        8 * a.bytes * i));
  }
  return b.CreateBitCast(word, b.getFloatTy());
}

/// Of pairs and bytes, one step of k: sums += `count` columns of A times as
/// many rows of B.
void CpuLowering::Mainloop::dotProduct(llvm::Value *aPointer,
                                       llvm::Value *bPointer, unsigned u,
                                       unsigned count, Sums sums) {
  llvm::Value *row = advance(bb, bPointer, times(ldb, u));
  llvm::SmallVector<GroupRow> bs;
  for (auto [width, start] : piecesOfRow()) {
    llvm::Value *words = lower.tag(
        b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), width),
                            advance(bb, row, b.getInt64(group * start)),
                            llvm::commonAlignment(bAlign, 4 * start)),
        bb);
    bs.push_back(bytes ? lower.byteRow(words) : lower.pairRow(words));
  }
  llvm::Value *column = advance(a, aPointer, times(ka, group * u));
  for (unsigned i = 0; i < rows; ++i) {
    llvm::Value *word = loadGroup(advance(a, column, rowOffsets[i]), count);
    for (unsigned j = 0; j < perRow(); ++j) {
      llvm::Value *&sum = sums[i * perRow() + j];
      sum = bytes ? lower.addByteDots(sum, lower.splat(word, pieces[j]), bs[j])
                  : lower.addPairDots(sum, word, bs[j], count);
    }
  }
}

/// A row of B as it is in memory.
CpuLowering::Mainloop::Values
CpuLowering::Mainloop::rowOf(llvm::Value *bPointer, unsigned u) {
  llvm::Value *row = advance(bb, bPointer, times(ldb, u));
  Values loaded;
  for (auto [width, start] : piecesOfRow())
    loaded.push_back(lower.tag(
        b.CreateAlignedLoad(
            llvm::FixedVectorType::get(bb.memory, width),
            advance(bb, row, b.getInt64(start)),
            llvm::commonAlignment(bAlign, uint64_t(start) * bb.bytes)),
        bb));
  return loaded;
}

/// sums += a column of A times a row of B.
void CpuLowering::Mainloop::multiply(llvm::Value *column,
                                     llvm::ArrayRef<llvm::Value *> bs,
                                     Sums sums) {
  for (unsigned i = 0; i < rows; ++i) {
    llvm::Value *element = lower.tag(
        b.CreateAlignedLoad(a.memory, advance(a, column, rowOffsets[i]),
                            llvm::Align(a.bytes)),
        a);
    element = lower.floatCast(element, aElement, accElement);
    for (unsigned j = 0; j < perRow(); ++j) {
      llvm::Value *&sum = sums[i * perRow() + j];
      sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                              {lower.splat(element, pieces[j]), bs[j], sum});
    }
  }
}

/// Of floats, one step of k.
void CpuLowering::Mainloop::matmul(llvm::Value *aPointer, llvm::Value *bPointer,
                                   unsigned u, Sums sums) {
  Values bs = rowOf(bPointer, u);
  for (llvm::Value *&row : bs)
    row = lower.floatCast(row, bElement, accElement);
  multiply(advance(a, aPointer, times(ka, u)), bs, sums);
}

/// Of scaled integers: `count` rows of B, which the bytes of one row hold.
void CpuLowering::Mainloop::scaledMatmul(llvm::Value *aPointer,
                                         llvm::Value *bPointer, unsigned u,
                                         unsigned count, Sums sums) {
  Values loaded = rowOf(bPointer, u);
  for (unsigned part = 0; part < count; ++part) {
    Values bs;
    for (auto [i, integers] : llvm::enumerate(loaded)) {
      llvm::Value *row =
          nibbles ? lower.nibbleRow(integers, part)
                  : b.CreateSIToFP(integers,
                                   lower.vectorType(accElement, pieces[i]));
      if (!zeros.empty())
        row = b.CreateFSub(row, zeros[i]);
      bs.push_back(b.CreateFMul(row, scales[i]));
    }
    multiply(advance(a, aPointer, times(ka, group * u + part)), bs, sums);
  }
}

void CpuLowering::Mainloop::step(llvm::Value *aPointer, llvm::Value *bPointer,
                                 unsigned u, Sums sums) {
  if (scaled)
    scaledMatmul(aPointer, bPointer, u, group, sums);
  else if (group > 1)
    dotProduct(aPointer, bPointer, u, group, sums);
  else
    matmul(aPointer, bPointer, u, sums);
}

/// In a round of kUnroll steps: of one row B itself, which the next panel
/// follows, unless B is a copy; else the next panel.
void CpuLowering::Mainloop::fetchAhead(const Carried &state, Carried &next) {
  if (!prefetched.pointer)
    return;
  if (rows == 1 && op.getPrefetch() == op.getB()) {
    // The two nibbles of a step lie in one byte.
    unsigned bytesOfRound =
        kUnroll * (nibbles ? 1 : group) * columns * bb.bytes;
    for (unsigned line = 0; line < bytesOfRound; line += 64)
      lower.fetch(
          b.CreateGEP(b.getInt8Ty(), state[kB], b.getInt64(kAhead + line)), 3);
    return;
  }
  llvm::Value *elements = scalar(op.getPrefetchStep());
  lower.fetchLines(state[kFetch],
                   b.CreateMul(elements, b.getInt64(prefetched.bytes)));
  next[kFetch] = onward(prefetched, state[kFetch], elements);
}

/// As many rounds of `steps` steps as K has.
Carried CpuLowering::Mainloop::overK(const Carried &state, unsigned steps) {
  return carriedLoop(
      b, steps == 1 ? "k.rest" : "k", state,
      [&](llvm::ArrayRef<llvm::Value *> s) {
        return b.CreateICmpSLE(b.CreateNSWAdd(s[0], b.getInt64(steps)), k);
      },
      [&](llvm::ArrayRef<llvm::Value *> s) {
        Carried now(s.begin(), s.end()), next = now;
        if (steps == unroll)
          fetchAhead(now, next);
        for (unsigned u = 0; u < steps; ++u)
          step(s[kA], s[kB], u, Sums(next).drop_front(firstSum));
        next[0] = b.CreateNSWAdd(s[0], b.getInt64(steps));
        next[kA] = onward(a, s[kA], times(ka, steps * group));
        next[kB] = onward(bb, s[kB], times(ldb, steps));
        return next;
      });
}

/// What is left of a group behind the last step: a constant, or at most one.
Carried CpuLowering::Mainloop::restOfGroup(Carried state) {
  llvm::Value *depth = scalar(op.getK());
  if (auto *known = dyn_cast<llvm::ConstantInt>(depth)) {
    Sums left = Sums(state).drop_front(firstSum);
    auto rest = static_cast<unsigned>(known->getZExtValue() % group);
    if (rest && scaled)
      scaledMatmul(state[kA], state[kB], 0, rest, left);
    else if (rest)
      dotProduct(state[kA], state[kB], 0, rest, left);
    return state;
  }
  if (group != 2)
    return state;
  return carriedLoop(
      b, "k.odd", state,
      [&](llvm::ArrayRef<llvm::Value *> s) {
        return b.CreateICmpSLT(b.CreateShl(s[0], 1), depth);
      },
      [&](llvm::ArrayRef<llvm::Value *> s) {
        Carried next(s.begin(), s.end());
        dotProduct(s[kA], s[kB], 0, 1, Sums(next).drop_front(firstSum));
        next[0] = b.CreateNSWAdd(s[0], b.getInt64(1));
        return next;
      });
}

/// One whole matmul from given bases; the prefetch pointer and the sums go on.
void CpuLowering::Mainloop::whole(llvm::Value *aBase, llvm::Value *bBase,
                                  llvm::Value *&prefetchAt, Carried &sums) {
  Carried state{b.getInt64(0), aBase, bBase, prefetchAt};
  state.append(sums);
  state = overK(state, unroll);
  auto *steps = dyn_cast<llvm::ConstantInt>(k);
  if (!steps || steps->getZExtValue() % unroll)
    state = overK(state, 1);
  state = restOfGroup(state);
  prefetchAt = state[kFetch];
  sums.assign(state.begin() + firstSum, state.end());
}

/// The sums of all of K: one matmul, or `outer` of them one after the other.
Carried CpuLowering::Mainloop::run() {
  Carried acc = firstSums();
  llvm::Value *prefetchAt =
      prefetched.pointer ? b.CreateGEP(prefetched.memory, prefetched.pointer,
                                       scalar(op.getPrefetchOffset()))
                         : llvm::ConstantPointerNull::get(
                               llvm::PointerType::get(b.getContext(), 0));
  llvm::Value *aBase = lower.address(a, scalar(op.getAOffset()));
  llvm::Value *bBase = lower.address(bb, scalar(op.getBOffset()));
  if (!op.getOuter()) {
    loadParameters(nullptr);
    whole(aBase, bBase, prefetchAt, acc);
    return acc;
  }
  Carried state{b.getInt64(0), aBase, bBase, prefetchAt};
  state.append(acc);
  state = carriedLoop(
      b, "outer", state,
      [&](llvm::ArrayRef<llvm::Value *> s) {
        return b.CreateICmpSLT(s[0], scalar(op.getOuter()));
      },
      [&](llvm::ArrayRef<llvm::Value *> s) {
        Carried sums(s.begin() + firstSum, s.end());
        llvm::Value *fetched = s[kFetch];
        loadParameters(s[0]);
        whole(s[kA], s[kB], fetched, sums);
        Carried next{b.CreateNSWAdd(s[0], b.getInt64(1)),
                     advance(a, s[kA], scalar(op.getAOuter())),
                     advance(bb, s[kB], scalar(op.getBOuter())), fetched};
        next.append(sums);
        return next;
      });
  acc.assign(state.begin() + firstSum, state.end());
  return acc;
}

LogicalResult CpuLowering::mainloop(tile::MainloopOp op) {
  Mainloop loop(*this, op);
  if (failed(loop.findBuffers()))
    return failure();
  loop.cutRows();
  loop.readSizes();
  Carried sums = loop.run();
  Parts result;
  for (unsigned row = 0; row < loop.rows; ++row) {
    auto registers =
        llvm::ArrayRef(sums).slice(row * loop.perRow(), loop.perRow());
    Parts joined = split(join(registers), loop.columns);
    if (joined.size() == 1)
      registersOf[joined[0]].assign(registers.begin(), registers.end());
    result.append(joined);
  }
  set(op.getAcc(), result);
  return success();
}

} // namespace knapper::lower
