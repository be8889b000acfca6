// A depth that the blocks of a cluster share: their sums meet in shared memory.
//
// A block writes its sums where its ring was, reads those of its own columns
// from all blocks, and adds them in the blocks' order: the same on every run.
// A thread's sums stay its own. Four of them, eight columns of a wgmma, lie
// as [consumer][wgmma][eight columns][thread][4]: accesses of 16 bytes.
#include "codegen/lower/gpu/nvidia/sm90/WgmmaMatmul.h"

namespace knapper::lower {

void reduceSplitK(WgmmaMatmul &g, llvm::Value *part, llvm::Value *mate,
                  llvm::Value *self, llvm::Value *local, Carried &sums) {
  llvm::IRBuilder<> &b = g.b;
  const WgmmaShape &s = g.s;
  constexpr unsigned lanes = 4, bytes = kWarpgroup * lanes * 4;
  unsigned groups = s.columns / 8, own = s.ownColumns() / 8;
  // Another consumer may still multiply what lies there.
  if (s.consumers > 1)
    g.ptx.sync(b.getInt32(kMeet), s.consumers * kWarpgroup);
  llvm::Value *from = g.at(
      b.CreateAdd(b.CreateAdd(g.base, b.CreateShl(local, 4)),
                  b.CreateMul(self, b.getInt32(s.wgmmas() * groups * bytes))),
      kStagesAt);
  auto *four = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
  auto *shared = llvm::PointerType::get(b.getContext(), 3);
  for (unsigned i = 0; i < s.wgmmas() * groups; ++i) {
    llvm::Value *value = llvm::PoisonValue::get(four);
    for (unsigned j = 0; j < lanes; ++j)
      value = b.CreateInsertElement(value, sums[i * lanes + j], j);
    b.CreateAlignedStore(value, b.CreateIntToPtr(g.at(from, i * bytes), shared),
                         llvm::Align(16));
  }
  g.ptx.clusterBarrier();

  llvm::Value *first = b.CreateMul(part, b.getInt32(own));
  llvm::SmallVector<llvm::Value *> peers;
  for (unsigned q = 0; q < s.splitK; ++q)
    peers.push_back(g.ptx.inPeer(
        from, b.CreateAdd(mate, b.getInt32(q * s.clusterTiles()))));
  Carried result;
  for (unsigned p = 0; p < s.wgmmas(); ++p)
    for (unsigned i = 0; i < own; ++i) {
      // Past the cluster's columns: its last ones, dropped.
      llvm::Value *group = b.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, b.CreateAdd(first, b.getInt32(i)),
          b.getInt32(groups - 1));
      llvm::Value *offset = b.CreateAdd(b.CreateMul(group, b.getInt32(bytes)),
                                        b.getInt32(p * groups * bytes));
      llvm::SmallVector<llvm::Value *, 4> total;
      for (llvm::Value *peer : peers) {
        auto values = g.ptx.loadPeer(b.CreateAdd(peer, offset));
        if (total.empty())
          total = values;
        else
          for (unsigned j = 0; j < lanes; ++j)
            total[j] = b.CreateFAdd(total[j], values[j]);
      }
      result.append(total.begin(), total.end());
    }
  sums = std::move(result);
}

} // namespace knapper::lower
