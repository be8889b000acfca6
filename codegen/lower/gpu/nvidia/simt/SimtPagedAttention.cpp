// Attention over blocks by FMAs of f32, of any element type and any heads: a
// warp a token and query head. Lanes share out a head's elements; a few keys at
// a time, so that their sums meet together.
#include "codegen/lower/gpu/nvidia/common/PagedAttentionLowering.h"

using namespace mlir;

namespace knapper::lower {

namespace {
constexpr unsigned kTogether = 4;
constexpr double kNothingSeen = -0x1p100; ///< below every score
} // namespace

void PagedAttentionLowering::byFma() {
  Type f32 = Float32Type::get(op.getContext());
  auto fma = [&](Value *x, Value *y, Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {x, y, z});
  };
  Value *line = b.CreateAdd(
      b.CreateMul(b.CreateTrunc(g.programId, b.getInt32Ty()), n32(c.warps)),
      warp);
  Value *token = b.CreateUDiv(line, n32(c.heads));
  g.when(b.CreateICmpSLT(token, size(0)), [&] {
    Value *queryHead = b.CreateURem(line, n32(c.heads));
    Value *head = b.CreateUDiv(queryHead, n32(share));
    Value *sequence = sequenceOf(token);
    Range seen = seenBy(token);
    // Elements lane, lane + 32, ... of a row; what is behind its end is 0.
    auto read = [&](const BufferRef &ref, Value *from, int64_t width) {
      Carried numbers;
      for (int64_t i = 0; i < width; i += kWarp) {
        Value *at = b.CreateAdd(lane, n32(i));
        Value *there =
            i + kWarp <= width ? nullptr : b.CreateICmpSLT(at, n32(width));
        if (there)
          at = b.CreateSelect(there, at, n32(0));
        Value *loaded =
            g.tag(b.CreateAlignedLoad(
                      ref.memory, g.address(ref, b.CreateAdd(from, wide(at))),
                      llvm::Align(ref.bytes)),
                  ref);
        Value *x = g.floatCast(loaded, element, f32);
        numbers.push_back(there ? b.CreateSelect(there, x, number(0)) : x);
      }
      return numbers;
    };
    Value *own = b.CreateAdd(b.CreateMul(wide(token), b.getInt64(c.heads)),
                             wide(queryHead));
    Carried query =
        read(queries, b.CreateMul(own, b.getInt64(c.depth)), c.depth);
    unsigned results = (c.columns + kWarp - 1) / kWarp;
    Carried state{number(kNothingSeen), number(0)};
    state.append(results, number(0));
    state = carriedFor(
        b, "keys", seen.begin, seen.end, n32(kTogether), std::move(state),
        [&](Value *key, const Carried &before) {
          Value *blocks[kTogether], *at[kTogether], *there[kTogether];
          Carried scores;
          for (unsigned i = 0; i < kTogether; ++i) {
            // Behind the last one the last one again.
            at[i] = b.CreateAdd(key, n32(i));
            there[i] = b.CreateICmpSLT(at[i], seen.end);
            at[i] = b.CreateSelect(there[i], at[i], key);
            blocks[i] = blockOf(sequence, at[i]);
            Carried elements =
                read(keys, rowOf(blocks[i], head, at[i], c.depth), c.depth);
            Value *dot = number(0);
            for (auto [x, y] : llvm::zip(query, elements))
              dot = fma(x, y, dot);
            scores.push_back(dot);
          }
          Value *largest = before[0];
          for (unsigned i = 0; i < kTogether; ++i) {
            for (unsigned distance = kWarp / 2; distance; distance /= 2)
              scores[i] =
                  b.CreateFAdd(scores[i], g.shuffle(scores[i], distance));
            scores[i] = b.CreateSelect(
                there[i], scoreOf(scores[i]),
                llvm::ConstantFP::getInfinity(b.getFloatTy(), true));
            largest = larger(largest, scores[i]);
          }
          Value *scaled = ptx.exp2(b.CreateFSub(before[0], largest));
          Carried next{largest, b.CreateFMul(before[1], scaled)};
          for (unsigned j = 0; j < results; ++j)
            next.push_back(b.CreateFMul(before[2 + j], scaled));
          for (unsigned i = 0; i < kTogether; ++i) {
            Value *weight = ptx.exp2(b.CreateFSub(scores[i], largest));
            next[1] = b.CreateFAdd(next[1], weight);
            Carried elements = read(
                values, rowOf(blocks[i], head, at[i], c.columns), c.columns);
            for (unsigned j = 0; j < results; ++j)
              next[2 + j] = fma(weight, elements[j], next[2 + j]);
          }
          return next;
        });
    Value *inverse = inverseOf(state[1]);
    Value *to = b.CreateMul(own, b.getInt64(c.columns));
    for (unsigned j = 0; j < results; ++j) {
      Value *column = b.CreateAdd(lane, n32(j * kWarp));
      g.when(b.CreateICmpSLT(column, n32(c.columns)), [&] {
        Value *x =
            g.floatCast(b.CreateFMul(state[2 + j], inverse), f32, element);
        g.tag(b.CreateAlignedStore(
                  x, g.address(result, b.CreateAdd(to, wide(column))),
                  llvm::Align(result.bytes)),
              result);
      });
    }
  });
}

} // namespace knapper::lower
