#include "codegen/lower/gpu/nvidia/common/GroupedTileScheduler.h"

namespace knapper::lower {

Carried GroupedTileScheduler::start() const {
  Carried state(size, b.getInt32(0));
  state[expert] = b.getInt32(-1);
  return state;
}

Carried GroupedTileScheduler::seek(const Carried &state,
                                   llvm::Value *program) const {
  auto n32 = [&](int64_t n) { return b.getInt32(n); };
  auto more = [&](const Carried &now) {
    return b.CreateAnd(b.CreateICmpSGE(program, now[next]),
                       b.CreateICmpSLT(now[expert], experts));
  };
  return carriedLoop(b, "experts", state, more, [&](const Carried &now) {
    Carried then(now);
    then[expert] = b.CreateAdd(now[expert], n32(1));
    llvm::Value *final = b.CreateSub(experts, n32(1));
    llvm::Value *own = end(
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, then[expert], final));
    // Ends that decrease are those of experts without rows.
    then[begin] = now[zeroFrom];
    then[zeroFrom] = b.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin,
        b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, own, now[zeroFrom]),
        all);
    // The last expert has the rows of none too, which become zero.
    then[last] = b.CreateSelect(b.CreateICmpEQ(then[expert], final), all,
                                then[zeroFrom]);
    llvm::Value *count = b.CreateSub(then[last], then[begin]);
    llvm::Value *down =
        b.CreateUDiv(b.CreateAdd(count, n32(height - 1)), n32(height));
    then[first] = now[next];
    then[next] = b.CreateAdd(now[next], b.CreateMul(down, across));
    return then;
  });
}

TileCoord GroupedTileScheduler::at(const Carried &state,
                                   llvm::Value *program) const {
  llvm::Value *count = b.CreateSub(state[last], state[begin]);
  llvm::Value *down = b.CreateUDiv(b.CreateAdd(count, b.getInt32(height - 1)),
                                   b.getInt32(height));
  TileScheduler own(b, down, across, {}, height, width, rasterGroup);
  TileCoord tile = own.at(b.CreateSub(program, state[first]));
  tile.outer = {state[expert]};
  tile.row = b.CreateAdd(state[begin], tile.row);
  return tile;
}

} // namespace knapper::lower
