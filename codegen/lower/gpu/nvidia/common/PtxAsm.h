// Instructions of Hopper GPUs that LLVM has no better name for than their PTX:
// barriers in shared memory, copies of boxes, matmuls by warpgroups.
//
// Addresses of shared memory are i32. What orders memory says so to LLVM, what
// a whole warp has to execute together is convergent.
#pragma once

#include "llvm/IR/IRBuilder.h"

namespace knapper::lower {

class PtxAsm {
public:
  explicit PtxAsm(llvm::IRBuilder<> &b) : b(b) {}

  //===-- Barriers --------------------------------------------------------===//
  /// A barrier that `arrivals` arrivals and the bytes they expect complete.
  void initBarrier(llvm::Value *barrier, unsigned arrivals);
  /// Makes the initialised ones known to the copies.
  void fenceBarrierInit();
  /// Arrives, and expects so many bytes of copies before completion.
  void arriveExpecting(llvm::Value *barrier, unsigned bytes);
  void arrive(llvm::Value *barrier);
  /// At a barrier of a block of the cluster, by `inPeer`.
  void arriveInPeer(llvm::Value *barrier);
  /// Waits until the phase of this parity is complete.
  void wait(llvm::Value *barrier, llvm::Value *parity);
  /// Named barriers of the block: wait for, or only count, `threads` threads.
  void sync(llvm::Value *id, unsigned threads);
  void notify(llvm::Value *id, unsigned threads);

  //===-- Copies ----------------------------------------------------------===//
  void prefetchDescriptor(llvm::Value *map);
  /// The box at `at` (innermost first) to shared memory; completes on barrier.
  /// `blocks` (i16; null: this one): to the same place and barrier of the
  /// cluster's blocks whose bits are set.
  void tmaLoad(llvm::Value *shared, llvm::Value *map,
               llvm::ArrayRef<llvm::Value *> at, llvm::Value *barrier,
               llvm::Value *blocks = nullptr);
  /// From shared memory to the box at `at`, in the open group of stores.
  void tmaStore(llvm::Value *map, llvm::ArrayRef<llvm::Value *> at,
                llvm::Value *shared);
  void commitStores();
  /// Until all but the newest `pending` groups have been read from shared
  /// memory; or have been written, too.
  void waitStoresRead(unsigned pending);
  void waitStores();
  /// 16 bytes from global to shared memory in this thread's open group of
  /// copies; zeros where not `there`, and nothing is read then.
  void copyRun(llvm::Value *shared, llvm::Value *global, llvm::Value *there);
  void commitCopies();
  /// Until all but the newest `pending` groups are in shared memory.
  void waitCopies(unsigned pending);
  /// Shared memory as this thread wrote it becomes visible to copies.
  void fenceShared();
  /// Two or four 8x8 matrices of 16-bit elements from the registers of a warp;
  /// `transposed`: a line is a matrix's column.
  void storeMatrices(llvm::Value *shared, llvm::ArrayRef<llvm::Value *> words,
                     bool transposed = false);
  /// The same matrices back: four words a thread.
  llvm::SmallVector<llvm::Value *, 4> loadMatrices(llvm::Value *shared);

  //===-- Clusters --------------------------------------------------------===//
  /// Which of its cluster's blocks this one is.
  llvm::Value *clusterRank();
  /// Waits for all threads of the cluster; what they wrote before is there.
  void clusterBarrier();
  /// The same place of shared memory in a block of the cluster.
  llvm::Value *inPeer(llvm::Value *shared, llvm::Value *rank);
  /// Four f32 of such a place.
  llvm::SmallVector<llvm::Value *, 4> loadPeer(llvm::Value *shared);

  //===-- Wgmmas ----------------------------------------------------------===//
  void registers(unsigned count, bool more);
  /// True in one thread of the warp.
  llvm::Value *elect();
  void wgmmaFence();
  /// The same where these registers, which wgmmas read and write, were just
  /// computed: f32 and words.
  void wgmmaFence(llvm::MutableArrayRef<llvm::Value *> sums,
                  llvm::MutableArrayRef<llvm::Value *> words);
  /// sums (64 x columns, `columns / 2` a thread) += A x B over a depth of 16.
  struct Wgmma {
    unsigned columns;
    bool bf16;  ///< else f16
    bool fresh; ///< from zero instead
    bool aTransposed, bTransposed;
    /// f32, of which the last 13 bits do not count: over a depth of 8, and
    /// nothing transposed.
    bool tf32 = false;
  };
  void wgmma(const Wgmma &kind, llvm::Value *a, llvm::Value *b,
             llvm::MutableArrayRef<llvm::Value *> sums);
  /// The same with A in registers: for a depth of 16 the four words that a
  /// thread has of four matrices, `pack`ed from neighbouring columns of sums.
  void wgmma(const Wgmma &kind, llvm::ArrayRef<llvm::Value *> a, llvm::Value *b,
             llvm::MutableArrayRef<llvm::Value *> sums);
  void wgmmaCommit();
  void wgmmaWait(unsigned pending);
  /// Until all but the newest `pending` are done; the sums then are what they
  /// look like.
  void wgmmaWait(llvm::MutableArrayRef<llvm::Value *> sums,
                 unsigned pending = 0);

  //===-- Numbers ---------------------------------------------------------===//
  /// 2^x, within 2 ulp; 1 / x, within 1 ulp. Subnormal numbers are zeros.
  llvm::Value *exp2(llvm::Value *x);
  llvm::Value *reciprocal(llvm::Value *x);
  /// Two f32 rounded to 16-bit elements in a word, the first one low.
  llvm::Value *pack(llvm::Value *first, llvm::Value *second, bool bf16);

private:
  void wgmma(const Wgmma &kind, llvm::StringRef a, llvm::StringRef constraints,
             llvm::ArrayRef<llvm::Value *> args,
             llvm::MutableArrayRef<llvm::Value *> sums);
  /// Volatile text that all these registers go through.
  void through(llvm::StringRef text,
               llvm::MutableArrayRef<llvm::Value *> values);
  llvm::CallInst *emit(llvm::StringRef text, llvm::StringRef constraints,
                       llvm::Type *result, llvm::ArrayRef<llvm::Value *> args,
                       bool memory = true);
  llvm::IRBuilder<> &b;
};

} // namespace knapper::lower
