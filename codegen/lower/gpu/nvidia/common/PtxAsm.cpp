#include "codegen/lower/gpu/nvidia/common/PtxAsm.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <string>

namespace knapper::lower {

using llvm::ArrayRef;
using llvm::Value;

llvm::CallInst *PtxAsm::emit(llvm::StringRef text, llvm::StringRef constraints,
                             llvm::Type *result, ArrayRef<Value *> args,
                             bool memory) {
  llvm::SmallVector<llvm::Type *> types;
  for (Value *arg : args)
    types.push_back(arg->getType());
  std::string all = constraints.str();
  if (memory)
    all += all.empty() ? "~{memory}" : ",~{memory}";
  auto *code =
      llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text,
                           all, /*hasSideEffects=*/true);
  llvm::CallInst *call = b.CreateCall(code, args);
  // LLVM would otherwise feel free to copy or sink what a warp does together.
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

//===-- Barriers ----------------------------------------------------------===//

void PtxAsm::initBarrier(Value *barrier, unsigned arrivals) {
  emit("mbarrier.init.shared.b64 [$0], $1;", "r,r", b.getVoidTy(),
       {barrier, b.getInt32(arrivals)});
}

void PtxAsm::fenceBarrierInit() {
  emit("fence.mbarrier_init.release.cluster;", "", b.getVoidTy(), {});
}

void PtxAsm::arriveExpecting(Value *barrier, unsigned bytes) {
  emit("mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1;", "r,r",
       b.getVoidTy(), {barrier, b.getInt32(bytes)});
}

void PtxAsm::arrive(Value *barrier) {
  emit("mbarrier.arrive.shared.b64 _, [$0];", "r", b.getVoidTy(), {barrier});
}

void PtxAsm::arriveInPeer(Value *barrier) {
  // Without a scope: `cluster` would wait for all of memory.
  emit("mbarrier.arrive.shared::cluster.b64 _, [$0];", "r", b.getVoidTy(),
       {barrier});
}

void PtxAsm::wait(Value *barrier, Value *parity) {
  emit("{\n\t.reg .pred done;\n\t"
       "AGAIN:\n\t"
       "mbarrier.try_wait.parity.shared.b64 done, [$0], $1, 10000000;\n\t"
       "@done bra ON;\n\tbra AGAIN;\n\tON:\n\t}",
       "r,r", b.getVoidTy(), {barrier, parity});
}

void PtxAsm::sync(Value *id, unsigned threads) {
  emit("bar.sync $0, $1;", "r,n", b.getVoidTy(), {id, b.getInt32(threads)});
}

void PtxAsm::notify(Value *id, unsigned threads) {
  emit("bar.arrive $0, $1;", "r,n", b.getVoidTy(), {id, b.getInt32(threads)});
}

//===-- Copies ------------------------------------------------------------===//

void PtxAsm::prefetchDescriptor(Value *map) {
  emit("prefetch.tensormap [$0];", "l", b.getVoidTy(), {map});
}

/// "{$2, $3}" for two coordinates from operand 2 on.
static std::string coordinates(unsigned first, size_t count) {
  std::string text = "{";
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

static std::string repeat(llvm::StringRef text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i)
    all += text;
  return all;
}

void PtxAsm::tmaLoad(Value *shared, Value *map, ArrayRef<Value *> at,
                     Value *barrier, Value *blocks) {
  llvm::SmallVector<Value *> args{shared, map};
  args.append(at.begin(), at.end());
  args.push_back(barrier);
  if (blocks)
    args.push_back(blocks);
  std::string rank = std::to_string(at.size());
  emit("cp.async.bulk.tensor." + rank +
           "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" +
           (blocks ? ".multicast::cluster" : "") + " [$0], [$1, " +
           coordinates(2, at.size()) + "], [$" + std::to_string(2 + at.size()) +
           (blocks ? "], $" + std::to_string(3 + at.size()) + ";" : "];"),
       "r,l" + repeat(",r", at.size() + 1) + (blocks ? ",h" : ""),
       b.getVoidTy(), args);
}

void PtxAsm::tmaStore(Value *map, ArrayRef<Value *> at, Value *shared) {
  llvm::SmallVector<Value *> args{map};
  args.append(at.begin(), at.end());
  args.push_back(shared);
  std::string rank = std::to_string(at.size());
  emit("cp.async.bulk.tensor." + rank +
           "d.global.shared::cta.tile.bulk_group [$0, " +
           coordinates(1, at.size()) + "], [$" + std::to_string(1 + at.size()) +
           "];",
       "l" + repeat(",r", at.size() + 1), b.getVoidTy(), args);
}

void PtxAsm::commitStores() {
  emit("cp.async.bulk.commit_group;", "", b.getVoidTy(), {});
}

void PtxAsm::waitStoresRead(unsigned pending) {
  emit("cp.async.bulk.wait_group.read $0;", "n", b.getVoidTy(),
       {b.getInt32(pending)});
}

void PtxAsm::waitStores() {
  emit("cp.async.bulk.wait_group 0;", "", b.getVoidTy(), {});
}

void PtxAsm::copyRun(Value *shared, Value *global, Value *there) {
  Value *bytes = b.CreateSelect(there, b.getInt32(16), b.getInt32(0));
  emit("cp.async.cg.shared.global.L2::128B [$0], [$1], 16, $2;", "r,l,r",
       b.getVoidTy(),
       {shared, b.CreatePtrToInt(global, b.getInt64Ty()), bytes});
}

void PtxAsm::commitCopies() {
  emit("cp.async.commit_group;", "", b.getVoidTy(), {});
}

void PtxAsm::waitCopies(unsigned pending) {
  emit("cp.async.wait_group $0;", "n", b.getVoidTy(), {b.getInt32(pending)});
}

void PtxAsm::fenceShared() {
  emit("fence.proxy.async.shared::cta;", "", b.getVoidTy(), {});
}

void PtxAsm::storeMatrices(Value *shared, ArrayRef<Value *> words,
                           bool transposed) {
  llvm::SmallVector<Value *> args{shared};
  args.append(words.begin(), words.end());
  emit("stmatrix.sync.aligned.m8n8.x" + std::to_string(words.size()) +
           (transposed ? ".trans" : "") + ".shared.b16 [$0], " +
           coordinates(1, words.size()) + ";",
       "r" + repeat(",r", words.size()), b.getVoidTy(), args);
}

//===-- Clusters ----------------------------------------------------------===//

Value *PtxAsm::clusterRank() {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank,
                           ArrayRef<Value *>());
}

void PtxAsm::clusterBarrier() {
  emit("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;", "",
       b.getVoidTy(), {});
}

Value *PtxAsm::inPeer(Value *shared, Value *rank) {
  return emit("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", b.getInt32Ty(),
              {shared, rank}, false);
}

llvm::SmallVector<Value *, 4> PtxAsm::loadPeer(Value *shared) {
  llvm::SmallVector<llvm::Type *> types(4, b.getFloatTy());
  Value *all =
      emit("ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4];", "=f,=f,=f,=f,r",
           llvm::StructType::get(b.getContext(), types), {shared});
  llvm::SmallVector<Value *, 4> values;
  for (unsigned i = 0; i < 4; ++i)
    values.push_back(b.CreateExtractValue(all, i));
  return values;
}

//===-- Wgmmas ------------------------------------------------------------===//

void PtxAsm::registers(unsigned count, bool more) {
  emit(more ? "setmaxnreg.inc.sync.aligned.u32 $0;"
            : "setmaxnreg.dec.sync.aligned.u32 $0;",
       "n", b.getVoidTy(), {b.getInt32(count)}, false);
}

Value *PtxAsm::elect() {
  Value *word = emit("{\n\t.reg .pred chosen;\n\telect.sync _|chosen, -1;\n\t"
                     "selp.u32 $0, 1, 0, chosen;\n\t}",
                     "=r", b.getInt32Ty(), {}, false);
  return b.CreateICmpNE(word, b.getInt32(0));
}

void PtxAsm::wgmmaFence() {
  emit("wgmma.fence.sync.aligned;", "", b.getVoidTy(), {});
}

void PtxAsm::wgmmaCommit() {
  emit("wgmma.commit_group.sync.aligned;", "", b.getVoidTy(), {});
}

void PtxAsm::wgmmaWait(unsigned pending) {
  emit("wgmma.wait_group.sync.aligned $0;", "n", b.getVoidTy(),
       {b.getInt32(pending)});
}

/// "=f,=f,...,": so many results; then as many operands tied to them.
static void tie(size_t count, std::string &results, std::string &operands) {
  for (size_t i = 0; i < count; ++i) {
    results += i ? ",=f" : "=f";
    operands += "," + std::to_string(i);
  }
}

void PtxAsm::through(llvm::StringRef text,
                     llvm::MutableArrayRef<Value *> values) {
  std::string results, operands;
  llvm::SmallVector<llvm::Type *> types;
  for (auto [i, value] : llvm::enumerate(values)) {
    results += value->getType()->isFloatTy() ? "=f," : "=r,";
    operands += (i ? "," : "") + std::to_string(i);
    types.push_back(value->getType());
  }
  Value *all = emit(text, results + operands,
                    llvm::StructType::get(b.getContext(), types),
                    llvm::SmallVector<Value *>(values));
  for (auto [i, value] : llvm::enumerate(values))
    value = b.CreateExtractValue(all, i);
}

void PtxAsm::wgmmaFence(llvm::MutableArrayRef<Value *> sums,
                        llvm::MutableArrayRef<Value *> words) {
  llvm::SmallVector<Value *> all(sums);
  all.append(words.begin(), words.end());
  through("wgmma.fence.sync.aligned;", all);
  llvm::copy(llvm::ArrayRef(all).take_front(sums.size()), sums.begin());
  llvm::copy(llvm::ArrayRef(all).drop_front(sums.size()), words.begin());
}

void PtxAsm::wgmmaWait(llvm::MutableArrayRef<Value *> sums, unsigned pending) {
  through("wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";",
          sums);
}

void PtxAsm::wgmma(const Wgmma &kind, llvm::StringRef a,
                   llvm::StringRef constraints, ArrayRef<Value *> operands,
                   llvm::MutableArrayRef<Value *> sums) {
  size_t count = sums.size();
  std::string results, tied;
  tie(count, results, tied);
  const char *type = kind.tf32 ? "tf32" : kind.bf16 ? "bf16" : "f16";
  // Operands follow the results and what is tied to them; B is the last one.
  size_t last = 2 * count + operands.size() - 1;
  bool transposes = constraints.starts_with(",l"); // A, as it is in memory
  std::string text = "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, " +
                     std::string(kind.fresh ? "0" : "1") +
                     ", 0;\n\twgmma.mma_async.sync.aligned.m64n" +
                     std::to_string(kind.columns) +
                     (kind.tf32 ? "k8.f32." : "k16.f32.") + type + "." + type +
                     " " + coordinates(0, count) + ", " + a.str() + ", $" +
                     std::to_string(last) + ", add, 1, 1";
  if (!kind.tf32 && transposes)
    text += kind.aTransposed ? ", 1" : ", 0";
  if (!kind.tf32)
    text += kind.bTransposed ? ", 1" : ", 0";
  text += ";\n\t}";
  llvm::SmallVector<Value *> args(sums);
  args.append(operands.begin(), operands.end());
  llvm::SmallVector<llvm::Type *> types(count, b.getFloatTy());
  Value *all = emit(text, results + tied + constraints.str(),
                    llvm::StructType::get(b.getContext(), types), args, false);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = b.CreateExtractValue(all, i);
}

void PtxAsm::wgmma(const Wgmma &kind, Value *a, Value *bb,
                   llvm::MutableArrayRef<Value *> sums) {
  wgmma(kind, "$" + std::to_string(2 * sums.size()), ",l,l", {a, bb}, sums);
}

void PtxAsm::wgmma(const Wgmma &kind, ArrayRef<Value *> a, Value *bb,
                   llvm::MutableArrayRef<Value *> sums) {
  llvm::SmallVector<Value *> operands(a);
  operands.push_back(bb);
  wgmma(kind, coordinates(2 * sums.size(), 4), ",r,r,r,r,l", operands, sums);
}

llvm::SmallVector<Value *, 4> PtxAsm::loadMatrices(Value *shared) {
  llvm::SmallVector<llvm::Type *> types(4, b.getInt32Ty());
  Value *all = emit(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, "
      "[$4];",
      "=r,=r,=r,=r,r", llvm::StructType::get(b.getContext(), types), {shared});
  llvm::SmallVector<Value *, 4> words;
  for (unsigned i = 0; i < 4; ++i)
    words.push_back(b.CreateExtractValue(all, i));
  return words;
}

Value *PtxAsm::exp2(Value *x) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz,
                           {b.getFloatTy()}, {x});
}

Value *PtxAsm::reciprocal(Value *x) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f,
                           llvm::ArrayRef<Value *>{x});
}

Value *PtxAsm::pack(Value *first, Value *second, bool bf16) {
  // Not volatile: a conversion like any other.
  auto *type = llvm::FunctionType::get(b.getInt32Ty(),
                                       {b.getFloatTy(), b.getFloatTy()}, false);
  auto *code = llvm::InlineAsm::get(type,
                                    bf16 ? "cvt.rn.bf16x2.f32 $0, $1, $2;"
                                         : "cvt.rn.f16x2.f32 $0, $1, $2;",
                                    "=r,f,f", /*hasSideEffects=*/false);
  return b.CreateCall(code, {second, first});
}

} // namespace knapper::lower
