// Accesses of 16 bytes at addresses that are no multiple of 16: aligned ones
// around them, and shifts. Rows of odd length start anywhere, and an access a
// single element moves a twentieth of what memory can.
//
// All threads of a program have the same skew: the bytes from the multiple of
// 16 below to the address. The multiple that holds an element lies in the
// buffer as far as the element does, since buffers start at such multiples; so
// what is read beside the elements is there, and is dropped.
//
// Where all a function does with its tiles is one row, at one place of every
// buffer, nothing is shifted: the row starts `rotation` lanes into its tile,
// and accesses are those of the multiples. Only the lane numbers change, and
// the first and last lanes of a row, which a neighbour may share an access
// with, are written one by one.
#include "codegen/lower/gpu/GpuLowering.h"

#include "mlir/IR/Matchers.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace knapper::lower {

namespace {

constexpr unsigned kWords = 4; // of an access

using Words = llvm::SmallVector<llvm::Value *, 2 * kWords>;

void append(llvm::IRBuilder<> &b, llvm::Value *access, Words &words) {
  llvm::Value *all = b.CreateBitCast(
      access, llvm::FixedVectorType::get(b.getInt32Ty(), kWords));
  for (unsigned i = 0; i < kWords; ++i)
    words.push_back(b.CreateExtractElement(all, i));
}

llvm::Value *joined(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> words,
                    llvm::Type *type) {
  llvm::Value *all = llvm::PoisonValue::get(
      llvm::FixedVectorType::get(b.getInt32Ty(), kWords));
  for (auto [i, word] : llvm::enumerate(words))
    all = b.CreateInsertElement(all, word, i);
  return b.CreateBitCast(all, type);
}

/// words[i] = words[i + by] where `condition` holds; backwards: words[i - by].
void shift(llvm::IRBuilder<> &b, Words &words, unsigned by,
           llvm::Value *condition, bool backwards) {
  if (backwards)
    std::reverse(words.begin(), words.end());
  for (size_t i = 0; i + by < words.size(); ++i)
    words[i] = b.CreateSelect(condition, words[i + by], words[i]);
  words.truncate(words.size() - by);
  if (backwards)
    std::reverse(words.begin(), words.end());
}

/// The four words `skew` bytes into eight; backwards: the ones that end as many
/// bytes before their end.
Words pick(llvm::IRBuilder<> &b, Words words, llvm::Value *skew,
           unsigned elementBytes, bool backwards) {
  auto bit = [&](unsigned n) {
    return b.CreateICmpNE(b.CreateAnd(skew, b.getInt32(n)), b.getInt32(0));
  };
  shift(b, words, 2, bit(8), backwards);
  shift(b, words, 1, bit(4), backwards);
  Words result;
  llvm::Value *bits = b.CreateShl(b.CreateAnd(skew, b.getInt32(3)), 3);
  for (unsigned i = 0; i < kWords; ++i) {
    if (elementBytes >= 4)
      result.push_back(words[backwards ? i + 1 : i]);
    else
      result.push_back(b.CreateIntrinsic(
          backwards ? llvm::Intrinsic::fshl : llvm::Intrinsic::fshr,
          {b.getInt32Ty()}, {words[i + 1], words[i], bits}));
  }
  return result;
}

} // namespace

llvm::Value *GpuLowering::skewOf(const BufferRef &ref, llvm::Value *offset) {
  unsigned lanes = 16 / ref.bytes;
  return b.CreateMul(
      b.CreateTrunc(b.CreateAnd(offset, b.getInt64(lanes - 1)), b.getInt32Ty()),
      b.getInt32(ref.bytes));
}

llvm::SmallVector<llvm::Value *, 8>
GpuLowering::fetchAround(const BufferRef &ref, llvm::Value *offset,
                         llvm::Value *both) {
  unsigned lanes = 16 / ref.bytes;
  llvm::Type *type = llvm::FixedVectorType::get(ref.memory, lanes);
  llvm::Value *first = b.CreateAnd(offset, b.getInt64(-int64_t(lanes)));
  llvm::Value *second =
      b.CreateSelect(both, b.CreateAdd(first, b.getInt64(lanes)), first);
  Words words;
  for (llvm::Value *at : {first, second})
    append(
        b,
        tag(b.CreateAlignedLoad(type, address(ref, at), llvm::Align(16)), ref),
        words);
  return words;
}

llvm::Value *GpuLowering::pickFrom(const BufferRef &ref,
                                   llvm::ArrayRef<llvm::Value *> words,
                                   llvm::Value *skew, llvm::Type *type) {
  return joined(b, pick(b, Words(words), skew, ref.bytes, /*backwards=*/false),
                type);
}

llvm::Value *GpuLowering::unalignedLoad(const BufferRef &ref,
                                        llvm::Value *offset, llvm::Value *skew,
                                        llvm::Value *left) {
  unsigned lanes = 16 / ref.bytes;
  llvm::Value *both = b.CreateICmpNE(skew, b.getInt32(0));
  if (left)
    both = b.CreateAnd(
        both, b.CreateICmpSGT(
                  b.CreateAdd(left, b.CreateAnd(offset, b.getInt64(lanes - 1))),
                  b.getInt64(lanes)));
  return pickFrom(ref, fetchAround(ref, offset, both), skew,
                  llvm::FixedVectorType::get(ref.memory, lanes));
}

void GpuLowering::unalignedStore(const BufferRef &ref, llvm::Value *from,
                                 Value valid,
                                 llvm::ArrayRef<llvm::Value *> parts) {
  unsigned lanes = 16 / ref.bytes, count = parts.size();
  constexpr unsigned warp = 32;
  unsigned warps = threads / warp;
  llvm::Value *skew = skewOf(ref, from);
  llvm::Value *lane = b.CreateAnd(thread, b.getInt64(warp - 1));
  llvm::Value *warpOf = b.CreateLShr(thread, 5);
  llvm::SmallVector<Words> own(count);
  for (auto [p, value] : llvm::enumerate(parts))
    append(b, value, own[p]);

  // What a warp's last threads have goes to the next warp's first ones (of the
  // next part, after the last warp) through shared memory.
  llvm::Value *edges =
      sharedArray(b.getInt32Ty(), programs * (count * warps + 1) * kWords,
                  "_edges" + llvm::Twine(exchanges++));
  llvm::Type *access = llvm::FixedVectorType::get(b.getInt32Ty(), kWords);
  auto edge = [&](unsigned part) {
    llvm::Value *index = b.CreateAdd(warpOf, b.getInt64(part * warps));
    if (group)
      index =
          b.CreateAdd(index, b.CreateMul(group, b.getInt64(count * warps + 1)));
    return b.CreateInBoundsGEP(access, edges, index);
  };
  when(b.CreateICmpEQ(lane, b.getInt64(warp - 1)), [&] {
    for (unsigned p = 0; p < count; ++p)
      b.CreateAlignedStore(b.CreateBitCast(parts[p], access),
                           b.CreateInBoundsGEP(access, edge(p), b.getInt64(1)),
                           llvm::Align(16));
  });
  barrier();

  IntegerAttr known;
  bool bounded = valid && matchPattern(valid, m_Constant(&known));
  for (unsigned p = 0; p < count; ++p) {
    llvm::Value *offset = b.CreateAdd(from, firstElement(p));
    llvm::Value *first = b.CreateAnd(offset, b.getInt64(-int64_t(lanes)));
    // What the thread before has in front of this one's elements.
    llvm::Value *start = b.CreateICmpEQ(lane, b.getInt64(0));
    llvm::Value *before = when(
        start, llvm::Constant::getNullValue(access), [&]() -> llvm::Value * {
          return b.CreateAlignedLoad(access, edge(p), llvm::Align(16));
        });
    Words words;
    for (unsigned i = 0; i < kWords; ++i) {
      llvm::Value *other = b.CreateIntrinsic(
          llvm::Intrinsic::nvvm_shfl_sync_up_i32, {},
          {b.getInt32(~0u), own[p][i], b.getInt32(1), b.getInt32(0)});
      words.push_back(
          b.CreateSelect(start, b.CreateExtractElement(before, i), other));
    }
    words.append(own[p]);
    llvm::Value *window =
        joined(b, pick(b, words, skew, ref.bytes, /*backwards=*/true),
               parts[p]->getType());
    // Elements of this thread up to `inside` belong to its own access, the
    // others to the next thread's. At both ends they go one by one.
    llvm::Value *inside =
        b.CreateSub(b.getInt64(lanes), b.CreateSub(offset, first));
    llvm::Value *whole = b.getTrue(), *nextWhole = b.getTrue();
    if (p == 0)
      whole = b.CreateOr(b.CreateICmpNE(thread, b.getInt64(0)),
                         b.CreateICmpEQ(skew, b.getInt32(0)));
    if (p + 1 == count)
      nextWhole = b.CreateICmpNE(thread, b.getInt64(threads - 1));
    int64_t end = int64_t(p + 1) * threads * width;
    bool cut = valid && !(bounded && end + width <= known.getInt());
    llvm::Value *left = nullptr;
    if (cut) {
      left = b.CreateSub(scalar(valid), firstElement(p));
      whole = b.CreateAnd(whole, b.CreateICmpSGE(left, inside));
      nextWhole = b.CreateAnd(
          nextWhole,
          b.CreateICmpSGE(left, b.CreateAdd(inside, b.getInt64(lanes))));
    }
    auto all = [&] {
      tag(b.CreateAlignedStore(window, address(ref, first), llvm::Align(16)),
          ref);
    };
    if (!cut && p != 0 && p + 1 != count) {
      all();
      continue;
    }
    when(whole, all);
    llvm::Value *alone = b.CreateNot(b.CreateAnd(whole, nextWhole));
    if (cut)
      alone = b.CreateAnd(alone, b.CreateICmpSGT(left, b.getInt64(0)));
    when(alone, [&] {
      llvm::Value *pointer = address(ref, offset);
      for (unsigned j = 0; j < lanes; ++j) {
        llvm::Value *write = b.CreateNot(b.CreateSelect(
            b.CreateICmpSLT(b.getInt64(j), inside), whole, nextWhole));
        if (cut)
          write = b.CreateAnd(write, b.CreateICmpSGT(left, b.getInt64(j)));
        when(write, [&] {
          tag(b.CreateAlignedStore(
                  b.CreateExtractElement(parts[p], j),
                  b.CreateConstInBoundsGEP1_64(ref.memory, pointer, j),
                  llvm::Align(ref.bytes)),
              ref);
        });
      }
    });
  }
}

llvm::Value *GpuLowering::rotatedLoad(const BufferRef &ref, llvm::Value *from,
                                      unsigned part, llvm::Value *padding) {
  llvm::Value *first = firstElement(part);
  llvm::Value *base = b.CreateAnd(from, b.getInt64(-int64_t(width)));
  auto all = [&]() -> llvm::Value * {
    return tag(b.CreateAlignedLoad(padding->getType(),
                                   address(ref, b.CreateAdd(base, first)),
                                   llvm::Align(16)),
               ref);
  };
  if (int64_t(part + 1) * threads * width <= rotatedValid)
    return all();
  return when(b.CreateICmpSGT(rotatedLeft(part), b.getInt32(0)), padding, all);
}

llvm::Value *GpuLowering::rotatedLeft(unsigned part) {
  return b.CreateSub(b.CreateAdd(rotation, b.getInt32(rotatedValid)),
                     b.CreateTrunc(firstElement(part), b.getInt32Ty()));
}

llvm::Value *GpuLowering::rotatedEdges(llvm::Value *value, unsigned part,
                                       llvm::Value *padding) {
  llvm::Value *lanes = step(width, b.getInt32Ty());
  if (int64_t(part + 1) * threads * width > rotatedValid) {
    llvm::Value *left = rotatedLeft(part);
    value = when(b.CreateICmpSLT(left, b.getInt32(width)), value, [&] {
      return b.CreateSelect(b.CreateICmpSLT(lanes, splat(left, width)), value,
                            padding);
    });
  }
  if (part != 0)
    return value;
  return when(b.CreateICmpEQ(thread, b.getInt64(0)), value, [&] {
    return b.CreateSelect(b.CreateICmpSGE(lanes, splat(rotation, width)), value,
                          padding);
  });
}

void GpuLowering::rotatedStore(const BufferRef &ref, llvm::Value *from,
                               unsigned part, llvm::Value *value) {
  llvm::Value *first = firstElement(part);
  llvm::Value *base = b.CreateAnd(from, b.getInt64(-int64_t(width)));
  llvm::Value *pointer = address(ref, b.CreateAdd(base, first));
  auto all = [&] {
    tag(b.CreateAlignedStore(value, pointer, llvm::Align(16)), ref);
  };
  bool inside = int64_t(part + 1) * threads * width <= rotatedValid;
  if (inside && part != 0)
    return all();
  llvm::Value *begin = b.getInt32(0);
  if (part == 0)
    begin = b.CreateSelect(b.CreateICmpEQ(thread, b.getInt64(0)), rotation,
                           b.getInt32(0));
  llvm::Value *left = rotatedLeft(part);
  llvm::Value *whole = b.CreateICmpEQ(begin, b.getInt32(0));
  llvm::Value *alone = b.CreateNot(whole);
  if (!inside) {
    llvm::Value *fits = b.CreateICmpSGE(left, b.getInt32(width));
    whole = b.CreateAnd(whole, fits);
    alone =
        b.CreateAnd(b.CreateNot(whole), b.CreateICmpSGT(left, b.getInt32(0)));
  }
  when(whole, all);
  when(alone, [&] {
    for (unsigned j = 0; j < width; ++j) {
      llvm::Value *there = b.CreateICmpULE(begin, b.getInt32(j));
      if (!inside)
        there = b.CreateAnd(there, b.CreateICmpSGT(left, b.getInt32(j)));
      when(there, [&] {
        tag(b.CreateAlignedStore(
                b.CreateExtractElement(value, j),
                b.CreateConstInBoundsGEP1_64(ref.memory, pointer, j),
                llvm::Align(ref.bytes)),
            ref);
      });
    }
  });
}

} // namespace knapper::lower
