#include "targets/cpu/Support.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace knapper {
namespace {

using Build = llvm::IRBuilder<>;

llvm::Function *declare(llvm::Module &module, const char *name,
                        llvm::Type *result, llvm::Type *second) {
  llvm::Type *ptr = llvm::PointerType::get(module.getContext(), 0);
  llvm::Type *size = llvm::Type::getInt64Ty(module.getContext());
  auto *fn = llvm::Function::Create(
      llvm::FunctionType::get(result, {ptr, second, size}, false),
      llvm::Function::ExternalLinkage, name, module);
  fn->setVisibility(llvm::GlobalValue::HiddenVisibility);
  fn->setSection((".text." + llvm::Twine(name)).str());
  return fn;
}

/// for (i = 0; i < count; ++i) body(i), then continues after the loop.
template <typename Body>
void bytes(Build &b, llvm::Function *fn, llvm::Value *count, Body body) {
  llvm::LLVMContext &c = fn->getContext();
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *loop = llvm::BasicBlock::Create(c, "loop", fn);
  auto *after = llvm::BasicBlock::Create(c, "after", fn);
  b.CreateCondBr(b.CreateICmpEQ(count, b.getInt64(0)), after, loop);
  b.SetInsertPoint(loop);
  auto *i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  body(i);
  llvm::Value *next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpEQ(next, count), after, loop);
  b.SetInsertPoint(after);
}

} // namespace

void addSupportFunctions(llvm::Module &module) {
  llvm::LLVMContext &c = module.getContext();
  Build b(c);
  llvm::Type *ptr = llvm::PointerType::get(c, 0), *i8 = b.getInt8Ty();
  auto at = [&](llvm::Value *base, llvm::Value *i) {
    return b.CreateGEP(i8, base, i);
  };
  auto copy = [&](llvm::Function *fn, llvm::Value *i) {
    b.CreateStore(b.CreateLoad(i8, at(fn->getArg(1), i)), at(fn->getArg(0), i));
  };
  auto start = [&](llvm::Function *fn) {
    b.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", fn));
  };

  llvm::Function *memcpy = declare(module, "memcpy", ptr, ptr);
  start(memcpy);
  bytes(b, memcpy, memcpy->getArg(2), [&](llvm::Value *i) { copy(memcpy, i); });
  b.CreateRet(memcpy->getArg(0));

  llvm::Function *memmove = declare(module, "memmove", ptr, ptr);
  start(memmove);
  auto *up = llvm::BasicBlock::Create(c, "up", memmove);
  auto *down = llvm::BasicBlock::Create(c, "down", memmove);
  b.CreateCondBr(b.CreateICmpULE(memmove->getArg(0), memmove->getArg(1)), up,
                 down);
  b.SetInsertPoint(up);
  bytes(b, memmove, memmove->getArg(2),
        [&](llvm::Value *i) { copy(memmove, i); });
  b.CreateRet(memmove->getArg(0));
  b.SetInsertPoint(down);
  bytes(b, memmove, memmove->getArg(2), [&](llvm::Value *i) {
    copy(memmove,
         b.CreateSub(b.CreateSub(memmove->getArg(2), i), b.getInt64(1)));
  });
  b.CreateRet(memmove->getArg(0));

  llvm::Function *memset = declare(module, "memset", ptr, b.getInt32Ty());
  start(memset);
  llvm::Value *byte = b.CreateTrunc(memset->getArg(1), i8);
  bytes(b, memset, memset->getArg(2),
        [&](llvm::Value *i) { b.CreateStore(byte, at(memset->getArg(0), i)); });
  b.CreateRet(memset->getArg(0));
}

} // namespace knapper
