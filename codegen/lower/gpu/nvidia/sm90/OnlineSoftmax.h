// Attention on Hopper: the sizes of a kernel, where its blocks are in shared
// memory, and the softmax of the scores that a thread has (FlashAttention.cpp
// says which).
#pragma once

#include "codegen/lower/common/CarriedLoop.h"
#include "codegen/lower/gpu/nvidia/common/Pipeline.h"
#include "ir/config/AttentionGpuConfig.h"
#include "ir/config/DeviceLimits.h"
#include "ir/tile/TileDialect.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

namespace knapper::lower {

inline constexpr unsigned kChunk = 64;
// Where the queries' barriers are, and where the blocks begin.
inline constexpr unsigned kQueriesFull = 256, kQueriesEmpty = 288,
                          kBlocks = 1024;
inline constexpr unsigned kQueryBuffers = 2;
inline constexpr double kLog2E = 1.4426950408889634;
/// Below every score, yet exp2 of its distance to itself is 1: a power of two,
/// so that scaling it is exact.
inline constexpr double kUnseen = -0x1p100;

/// The sizes of a kernel.
struct FlashSizes {
  /// `depth`, `columns`: elements of a query and of a value; 0: unknown.
  FlashSizes(const config::AttentionGpuConfig &c, int64_t depth,
             int64_t columns)
      : rows(c.tileM), keys(c.tileN), width(c.headDim),
        depth(multiplied(depth)), columns(multiplied(columns)),
        stages(c.stages), consumers(c.consumers),
        splitsColumns(c.consumers == 2 && c.tileM == 64) {}

  unsigned rows, keys;
  /// Elements of a head in shared memory, and how many of them are multiplied:
  /// of queries and keys, of values. A wgmma takes 16 of a depth.
  unsigned width, depth, columns;
  unsigned stages, consumers;
  /// The two consumers have the same rows, half of the result's columns each.
  bool splitsColumns;

  unsigned chunks() const { return width / kChunk; }
  unsigned queryBytes() const { return rows * width * 2; }
  unsigned stageBytes() const { return keys * width * 2; }
  unsigned ringAt() const { return kBlocks + kQueryBuffers * queryBytes(); }
  unsigned bytes() const { return ringAt() + stages * stageBytes(); }
  unsigned scores() const { return keys / 2; } // of a thread
  /// Columns of the result that a consumer has.
  unsigned ownColumns() const { return splitsColumns ? width / 2 : columns; }
  unsigned sums() const { return ownColumns() / 2; }
  bool fit() const {
    return consumers >= 2 && consumers <= 3 &&
           rows == 64 * (splitsColumns ? 1 : consumers) &&
           (!splitsColumns || ownColumns() % kChunk == 0) && keys % 32 == 0 &&
           keys >= 32 && keys <= 256 && width % kChunk == 0 &&
           width >= kChunk && width <= 256 && depth <= width &&
           columns <= width && stages >= 2 && stages <= 16 &&
           bytes() <= config::kHopper.sharedBytesPerCta();
  }

private:
  unsigned multiplied(int64_t elements) const {
    return elements ? unsigned(llvm::alignTo(elements, 16)) : width;
  }
};

/// What a row has of its softmax so far, for a thread's two rows; the sums are
/// the thread's share.
struct OnlineSoftmax {
  llvm::Value *largest[2], *sum[2];
};

class FlashKernel : public Pipeline {
public:
  FlashKernel(llvm::IRBuilder<> &b, const FlashSizes &s, tile::AttentionOp op)
      : Pipeline(b, s.stages), s(s), scale(op.getScale().convertToDouble()),
        mean(config::AttentionGpuConfig::of(op.getShape()).emptyRow ==
             config::EmptyRowValue::mean) {
    region = !op.keepsScores();
    general = region || !(scale > 0);
  }

  llvm::Value *number(double n) {
    return llvm::ConstantFP::get(b.getFloatTy(), n);
  }
  llvm::Value *infinity(bool negative) {
    return llvm::ConstantFP::getInfinity(b.getFloatTy(), negative);
  }
  llvm::Value *queries(llvm::Value *buffer) {
    return at(b.CreateAdd(base, b.CreateMul(buffer, n32(s.queryBytes()))),
              kBlocks);
  }
  llvm::Value *stageAt(llvm::Value *stage) {
    return at(b.CreateAdd(base, b.CreateMul(stage, n32(s.stageBytes()))),
              s.ringAt());
  }
  llvm::Value *binary(llvm::Intrinsic::ID id, llvm::Value *x, llvm::Value *y) {
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  llvm::Value *least(llvm::Value *x, llvm::Value *y) {
    return binary(llvm::Intrinsic::smin, x, y);
  }
  llvm::Value *most(llvm::Value *x, llvm::Value *y) {
    return binary(llvm::Intrinsic::smax, x, y);
  }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()}, {x, y, z});
  }
  /// What wgmma is told of a block, but for its address: swizzle of 128 bytes,
  /// 1024 bytes from eight rows to the next eight. `byDepth`: the rows are the
  /// depth (values), `keys` rows from 64 columns to the next.
  llvm::Value *descriptor(llvm::Value *address, bool byDepth) {
    uint64_t leading = byDepth ? s.keys * kRowBytes / 16 : 1;
    uint64_t high =
        uint64_t(1) << 62 | uint64_t(1024 / 16) << 32 | leading << 16;
    llvm::Value *low = b.CreateZExt(
        b.CreateAnd(b.CreateLShr(address, 4), n32(0x3fff)), b.getInt64Ty());
    return b.CreateOr(low, b.getInt64(high));
  }
  /// 16 bytes from a block's start to a depth of 16, along its rows of `count`.
  unsigned alongRows(unsigned depth, unsigned count) {
    return depth / 4 * count * kRowBytes / 16 + depth % 4 * 2;
  }

  /// The same operation over what the four lanes of a row have.
  llvm::Value *quad(llvm::Intrinsic::ID id, llvm::Value *x) {
    for (unsigned distance : {1, 2})
      x = combine(id, x,
                  b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_f32,
                                    llvm::ArrayRef<llvm::Value *>{
                                        n32(-1), x, n32(distance), n32(31)}));
    return x;
  }
  /// maxnum, or fadd for not_intrinsic.
  llvm::Value *combine(llvm::Intrinsic::ID id, llvm::Value *x, llvm::Value *y) {
    return id == llvm::Intrinsic::not_intrinsic ? b.CreateFAdd(x, y)
                                                : binary(id, x, y);
  }
  /// Of a row's sums (r = 0, 1), in four chains.
  llvm::Value *overRow(llvm::Intrinsic::ID id, const Carried &values,
                       unsigned r) {
    llvm::SmallVector<llvm::Value *> chains;
    unsigned count = 0;
    for (auto [i, value] : llvm::enumerate(values)) {
      if ((i / 2) % 2 != r)
        continue;
      if (count < 4)
        chains.push_back(value);
      else
        chains[count % 4] = combine(id, chains[count % 4], value);
      ++count;
    }
    while (chains.size() > 1) {
      unsigned half = chains.size() / 2;
      for (unsigned i = 0; i < half; ++i)
        chains[i] = combine(id, chains[2 * i], chains[2 * i + 1]);
      chains.resize(half);
    }
    return chains[0];
  }
  /// Scores to weights; `scaled`: what the sums of the blocks before are to be
  /// multiplied by. `first`: there are none. `cut`: a row may see nothing yet.
  void softmax(Carried &values, OnlineSoftmax &state, llvm::Value *scaled[2],
               bool first, bool cut) {
    double factor = general ? kLog2E : scale * kLog2E;
    llvm::Value *c = number(factor);
    llvm::Value *shift[2];
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *largest = quad(llvm::Intrinsic::maxnum,
                                  overRow(llvm::Intrinsic::maxnum, values, r));
      if (!first)
        largest = binary(llvm::Intrinsic::maxnum, largest, state.largest[r]);
      llvm::Value *reference = largest;
      if (cut)
        reference = b.CreateSelect(b.CreateFCmpOEQ(largest, infinity(true)),
                                   number(0), largest);
      shift[r] = general ? reference : b.CreateFMul(reference, number(-factor));
      if (!first)
        scaled[r] = weight(state.largest[r], c, shift[r]);
      state.largest[r] = largest;
    }
    for (auto [i, value] : llvm::enumerate(values))
      value = weight(value, c, shift[i / 2 % 2]);
    for (unsigned r = 0; r < 2; ++r) {
      llvm::Value *sum = overRow(llvm::Intrinsic::not_intrinsic, values, r);
      state.sum[r] = first ? sum : fma(state.sum[r], scaled[r], sum);
    }
  }
  /// The distance is taken before the product where scores are any numbers:
  /// that of equal ones is then 0, however large they are.
  llvm::Value *weight(llvm::Value *score, llvm::Value *c, llvm::Value *shift) {
    return ptx.exp2(general ? b.CreateFMul(b.CreateFSub(score, shift), c)
                            : fma(score, c, shift));
  }

  const FlashSizes &s;
  double scale;
  bool mean;
  bool region;  // scores are what the region makes of scaled dot products
  bool general; // scores are scaled before the softmax
};

} // namespace knapper::lower
