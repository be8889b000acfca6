// Constants against their hashes, each before its first use: what is hashed
// lies in the cache when the kernel that reads it comes.
#include "runtime/base/KernelAbi.h"
#include "runtime/execute/Execution.h"

namespace knapper {
namespace {

/// A kernel over pieces, so that the queue's workers share them as they will
/// share the constant.
void hashPieces(void *const *buffers, const int64_t *,
                const KernelContext *context, int64_t begin, int64_t end) {
  auto *pieces = static_cast<const ConstantPiece *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i)
    if (!pieces[i].isWhole())
      std::atomic_ref(*context->status).store(1, std::memory_order_relaxed);
}

} // namespace

Status Execution::checkConstants(const Program::Instruction &in) {
  std::vector<ConstantPiece> pieces;
  std::vector<uint32_t> found;
  auto add = [&](uint32_t buffer) -> Status {
    if (buffer == Program::kNone ||
        !module.unchecked[buffer].load(std::memory_order_relaxed))
      return success();
    found.push_back(buffer);
    return module.file->addPieces(*program.buffers[buffer].source, pieces);
  };
  switch (in.op) {
  case fb::Instruction::Launch:
    for (const Program::Ref &arg : program.launches[in.index].args)
      if (Status s = add(arg.buffer); !s)
        return s;
    break;
  case fb::Instruction::External:
    for (const auto &input : program.externals[in.index].inputs)
      if (Status s = add(input.place.buffer); !s)
        return s;
    break;
  case fb::Instruction::Copy:
  case fb::Instruction::BindSymbol:
  case fb::Instruction::If:
  case fb::Instruction::While:
  case fb::Instruction::Repeat:
    if (Status s = add(in.source.buffer); !s)
      return s;
    break;
  case fb::Instruction::Call:
  case fb::Instruction::SetSymbols:
  case fb::Instruction::Assert:
  case fb::Instruction::NONE:
    break;
  }
  if (found.empty())
    return success();
  int32_t damaged = 0;
  if (pieces.size() > 1 && module.where->kind() == "cpu") {
    void *list = pieces.data();
    LaunchCommand command;
    command.kernel.handle = reinterpret_cast<const void *>(&hashPieces);
    command.buffers = &list;
    command.numBuffers = 1;
    command.grid = static_cast<int64_t>(pieces.size());
    command.status = &damaged;
    if (Status s = state.queue->launch(command); !s)
      return s;
  } else {
    damaged = 1;
  }
  if (damaged) // or not looked at
    if (Status s = module.file->checkPieces(pieces, 1); !s)
      return s;
  for (uint32_t buffer : found)
    if (module.unchecked[buffer].exchange(false) && --module.numUnchecked == 0)
      module.allConstantsAreWhole();
  return success();
}

} // namespace knapper
