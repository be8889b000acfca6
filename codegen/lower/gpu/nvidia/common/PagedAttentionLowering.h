// What both ways to compute an attention over blocks share
// (PagedAttentionLowering.cpp, and simt/SimtPagedAttention.cpp).
#pragma once

#include "codegen/lower/gpu/GpuLowering.h"
#include "codegen/lower/gpu/nvidia/common/PtxAsm.h"
#include "codegen/lower/gpu/nvidia/common/TileScheduler.h"
#include "ir/config/AttentionGpuConfig.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace knapper::lower {

class PagedAttentionLowering {
public:
  PagedAttentionLowering(GpuLowering &lowering, tile::PagedAttentionOp op)
      : g(lowering), b(lowering.b), ptx(lowering.b), op(op),
        c(config::PagedAttentionGpuConfig::of(op.getShape())) {}

  /// Fills in the kernel; fails where an operand is no buffer.
  mlir::LogicalResult emit();
  /// What a CTA needs of shared memory.
  static unsigned sharedBytes(const config::PagedAttentionGpuConfig &config);

private:
  using Value = llvm::Value;
  static constexpr unsigned kWarp = 32, kFragment = 16;
  /// In a thread's state: maxima and sums of two rows, then results.
  static constexpr unsigned kSums = 2, kResults = 4;
  /// Keys that are seen, [begin, end): i32.
  struct Range {
    Value *begin, *end;
  };
  /// Tokens from `first` on, all of one sequence: i32.
  struct Run {
    Value *first, *end, *sequence;
    Range keys; ///< of all tokens together
  };

  void oneToken();
  void manyTokens();
  void byFma();

  //===-- One token a CTA (PagedAttentionSplit.cpp) -----------------------===//
  /// Which rows a CTA has, and where what it joins lies in shared memory.
  struct Split {
    Run run;
    Value *rank, *row, *head;
    unsigned rows;           ///< query heads that are computed
    unsigned rowBytes, area; ///< of a row's results; of a warp's
    Value *joined;           ///< those of the CTA, i32
  };
  /// Results, maximum and sum of four columns of a row.
  using Four = llvm::SmallVector<Value *, 4>;
  Split splitOf();
  /// The thread's rows over its warp's share of the keys.
  Carried walkShare(const Split &split);
  void writeRows(const Split &split, const Carried &state);
  void joinWarps(const Split &split);
  void joinCluster(const Split &split);
  /// Four columns of `count` rows like this, joined: results, sum, maximum.
  /// `load(i)` gives the columns of part i, and what stands behind its row.
  llvm::SmallVector<Value *>
  join(unsigned count,
       llvm::function_ref<std::pair<Four, Four>(unsigned)> load);
  void finishFour(const Split &split, Value *ownRow, Value *column,
                  llvm::ArrayRef<Value *> all);
  /// body(row, column) for every `step`th four columns from number `from` on.
  void eachFour(const Split &split, Value *from, unsigned step,
                llvm::function_ref<void(Value *, Value *)> body);
  Four readFour(Value *at);
  void writeFour(llvm::ArrayRef<Value *> numbers, Value *at);

  //===-- Numbers ---------------------------------------------------------===//
  Value *n32(int64_t n) { return b.getInt32(n); }
  Value *number(double n) { return llvm::ConstantFP::get(b.getFloatTy(), n); }
  Value *wide(Value *v) { return b.CreateZExt(v, b.getInt64Ty()); }
  Value *size(unsigned i) {
    return b.CreateTrunc(g.scalar(op.getSizes()[i]), b.getInt32Ty());
  }
  Value *least(Value *x, Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  }
  Value *most(Value *x, Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
  }
  Value *larger(Value *x, Value *y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, y);
  }
  /// An element of one of the integer operands.
  Value *integer(const BufferRef &ref, Value *at);
  /// `at`, or 0 and a status where it is not below `bound`.
  Value *inside(Value *at, Value *bound);
  Value *sequenceOf(Value *token) {
    return inside(integer(sequences, token), size(1));
  }
  /// What a token sees.
  Range seenBy(Value *token);
  /// What the table says of a sequence's key.
  Value *tableAt(Value *sequence, Value *key);
  /// The block of the pool that has this key of the sequence.
  Value *blockOf(Value *sequence, Value *key);
  /// The element of a pool where a key's row begins, i64.
  Value *rowOf(Value *block, Value *head, Value *key, int64_t width);
  /// 1 / sum, or 0 of a row that sees nothing.
  Value *inverseOf(Value *sum);
  /// Scores in powers of 2, of matmuls of queries and keys.
  Value *scoreOf(Value *dot);

  //===-- By mma.sync -----------------------------------------------------===//
  using Words = llvm::SmallVector<Value *, 4>;
  struct Rows {
    llvm::SmallVector<Words> fragments; ///< of queries, 16 elements each
    Range seen[2];                      ///< of the thread's two rows
  };
  unsigned pitch(int64_t width) const { return unsigned(width) * 2 + 16; }
  unsigned stepBytes() const {
    return unsigned(c.keys) * (pitch(c.depth) + pitch(c.columns));
  }
  Value *multiply(const Words &a, Value *b0, Value *b1, Carried &sums,
                  unsigned at);
  Words matrices(Value *shared, bool transposed);
  /// Queries of the warp's 16 rows from `row` on: row r is query head r % share
  /// of the run's token r / share.
  Rows loadRows(const Run &run, Value *head, Value *row);
  /// Maxima, sums and results of the thread's two rows before any key.
  Carried beginRows();
  /// A step of keys from `key` on, which lie at `shared`.
  Carried step(const Rows &rows, Value *shared, Value *key,
               const Carried &before);
  /// Starts to copy `lanes` threads' share of a step; `lane`: which this is.
  void fetch(const Run &run, Value *head, Value *key, Value *shared,
             Value *lane, unsigned lanes);
  /// Four neighbouring elements of the result.
  void storeFour(Value *token, Value *head, Value *column,
                 llvm::ArrayRef<Value *> values);
  Value *sharedAt(Value *address) {
    return b.CreateIntToPtr(address, llvm::PointerType::get(b.getContext(), 3));
  }
  void meetWarp() {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {n32(-1)});
  }

  GpuLowering &g;
  llvm::IRBuilder<> &b;
  PtxAsm ptx;
  tile::PagedAttentionOp op;
  config::PagedAttentionGpuConfig c;
  BufferRef queries, keys, values, table, sequences, positions, result;
  mlir::Type element;
  bool bf16 = false;
  int64_t share = 1; ///< query heads of a key head
  Value *tid = nullptr, *lane = nullptr, *warp = nullptr, *base = nullptr;
};

} // namespace knapper::lower
