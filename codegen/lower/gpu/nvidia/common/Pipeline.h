// The ring of stages in shared memory that warpgroups work on: its barriers,
// and how one goes from stage to stage. A thread (or warpgroup) fills a stage
// when its empty barrier says so, the others take it when its full one does.
#pragma once

#include "codegen/lower/gpu/nvidia/common/PtxAsm.h"

namespace knapper::lower {

inline constexpr unsigned kWarpgroup = 128;
inline constexpr unsigned kRowBytes = 128; // of a block, swizzled
inline constexpr unsigned kEmpty = 128;    // where the empty barriers are

/// A stage of the ring and the parity its barriers are waited for with.
struct PipelineState {
  llvm::Value *stage, *parity;
};

/// Full barriers lie from byte 0 of shared memory on, empty ones from kEmpty
/// on. All values are i32.
class Pipeline {
public:
  Pipeline(llvm::IRBuilder<> &b, unsigned stages)
      : b(b), ptx(b), stages(stages) {}

  llvm::Value *n32(int64_t n) { return b.getInt32(n); }
  llvm::Value *at(llvm::Value *address, unsigned offset) {
    return b.CreateAdd(address, n32(offset));
  }
  /// Number i of the barriers from byte `offset` on.
  llvm::Value *barrierAt(unsigned offset, llvm::Value *i) {
    return at(b.CreateAdd(base, b.CreateShl(i, 3)), offset);
  }
  llvm::Value *full(llvm::Value *stage) { return barrierAt(0, stage); }
  llvm::Value *empty(llvm::Value *stage) { return barrierAt(kEmpty, stage); }
  PipelineState advance(PipelineState p) {
    llvm::Value *next = b.CreateAdd(p.stage, n32(1));
    llvm::Value *wraps = b.CreateICmpEQ(next, n32(stages));
    return {b.CreateSelect(wraps, n32(0), next),
            b.CreateSelect(wraps, b.CreateXor(p.parity, 1), p.parity)};
  }

  llvm::IRBuilder<> &b;
  PtxAsm ptx;
  llvm::Value *base = nullptr; // of shared memory

private:
  unsigned stages;
};

} // namespace knapper::lower
