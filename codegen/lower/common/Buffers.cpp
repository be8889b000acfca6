// Buffers: addresses, truth values in memory, alias facts.
#include "codegen/lower/common/TileLowering.h"

#include "ir/tile/GridOps.h"
#include "ir/tile/PagedOps.h"

#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace knapper::lower {

// One alias scope a buffer. A buffer that is written aliases nothing but those
// it is declared with (in-place kernels); inputs may be equal, which needs no
// scope since nobody writes them.
void TileLowering::aliasScopes(tile::FuncOp func) {
  unsigned count = func.getNumBuffers();
  llvm::MDBuilder md(module.getContext());
  llvm::MDNode *domain = md.createAnonymousAliasScopeDomain(func.getName());
  llvm::SmallVector<unsigned> group(count); // by the buffer it may lie in
  for (unsigned i = 0; i < count; ++i)
    group[i] = func.getMayAlias(i).value_or(i);
  llvm::SmallVector<llvm::Metadata *> scopes;
  for (unsigned i = 0; i <= count; ++i)
    scopes.push_back(md.createAnonymousAliasScope(domain));
  written.assign(count, false);
  func.walk([&](Operation *op) {
    Value value;
    if (auto store = dyn_cast<tile::StoreOp>(op))
      value = store.getBuffer();
    else if (auto rows = dyn_cast<tile::StoreRowsOp>(op))
      value = rows.getBuffer();
    else if (auto scatter = dyn_cast<tile::ScatterOp>(op))
      value = scatter.getBuffer();
    else if (auto atomic = dyn_cast<tile::AtomicOp>(op))
      value = atomic.getBuffer();
    else if (auto ticket = dyn_cast<tile::TicketOp>(op))
      value = ticket.getState();
    else if (auto pass = dyn_cast<tile::RadixPassOp>(op))
      value = pass.getTo(); // its ticket says that the state is written
    else if (auto matmul = dyn_cast<tile::MatmulOp>(op))
      value = matmul.getC();
    else if (auto attention = dyn_cast<tile::AttentionOp>(op))
      value = attention.getO();
    else if (auto attention = dyn_cast<tile::PagedAttentionOp>(op))
      value = attention.getO();
    if (auto arg = dyn_cast_or_null<BlockArgument>(value))
      written[arg.getArgNumber()] = true;
  });
  auto list = [&](llvm::ArrayRef<llvm::Metadata *> nodes) {
    return llvm::MDNode::get(module.getContext(), nodes);
  };
  for (unsigned i = 0; i < count; ++i) {
    BufferRef ref;
    tile::BufferType type = cast<tile::BufferType>(func.getBuffer(i).getType());
    ref.memory = scalarType(type.getElementType());
    if (ref.memory->isIntegerTy(1))
      ref.memory = b.getInt8Ty();
    ref.bytes = type.getElementBytes();
    llvm::SmallVector<llvm::Metadata *> others{scopes[count]};
    for (unsigned j = 0; j < count; ++j)
      if (group[j] != group[i] && (written[i] || written[j]))
        others.push_back(scopes[j]);
    ref.aliasScope = list(scopes[i]);
    ref.noAlias = list(others);
    buffers[func.getBuffer(i)] = ref;
  }
  scratchRef.aliasScope = list(scopes[count]);
  scratchRef.noAlias =
      count ? list(llvm::ArrayRef(scopes).drop_back()) : nullptr;
}

FailureOr<BufferRef> TileLowering::buffer(Value value) {
  auto found = buffers.find(value);
  if (found != buffers.end())
    return found->second;
  emitError(value.getLoc(),
            "a buffer must be an argument of the function or a tile.scratch");
  return failure();
}

llvm::Value *TileLowering::address(const BufferRef &ref, llvm::Value *offset) {
  return b.CreateInBoundsGEP(ref.memory, ref.pointer, offset);
}

uint64_t TileLowering::knownMultiple(Value index, unsigned depth) {
  constexpr uint64_t most = 64;
  auto ofNumber = [&](int64_t n) {
    return n ? std::min(most, uint64_t(n & -n)) : most;
  };
  auto of = [&](Value v) { return knownMultiple(v, depth + 1); };
  if (depth > 16)
    return 1;
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument == loop.getInductionVar())
      return std::min(of(loop.getLowerBound()), of(loop.getStep()));
    // Of a matmul's or attention's region: the first of a run.
    Operation *parent = argument.getOwner()->getParentOp();
    if (argument.getArgNumber() + 1 == argument.getOwner()->getNumArguments()) {
      if (auto matmul = dyn_cast<tile::MatmulOp>(parent))
        return ofNumber(matmul.run());
      if (auto attention = dyn_cast<tile::AttentionOp>(parent))
        return ofNumber(attention.run());
    }
    return 1;
  }
  return llvm::TypeSwitch<Operation *, uint64_t>(index.getDefiningOp())
      .Case([&](arith::ConstantOp op) {
        auto number = dyn_cast<IntegerAttr>(op.getValue());
        return number ? ofNumber(number.getInt()) : uint64_t(1);
      })
      .Case([&](arith::MulIOp op) {
        return std::min(most, of(op.getLhs()) * of(op.getRhs()));
      })
      .Case<arith::AddIOp, arith::SubIOp, arith::RemUIOp, arith::RemSIOp,
            arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp, arith::MaxUIOp>(
          [&](auto op) { return std::min(of(op.getLhs()), of(op.getRhs())); })
      .Default([](Operation *) { return uint64_t(1); });
}

// A truth value is one byte in memory.
llvm::Value *TileLowering::fromMemory(llvm::Value *value) {
  return b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}
llvm::Value *TileLowering::toMemory(llvm::Value *value, const BufferRef &ref) {
  return value->getType()->isIntOrIntVectorTy(1)
             ? b.CreateZExt(value, withElement(value->getType(), ref.memory))
             : value;
}

} // namespace knapper::lower
