// How a function's tiles lie in threads, how many programs share a CTA, and how
// many CTAs an SM is to hold.
#include "codegen/lower/gpu/BlockThreads.h"
#include "codegen/lower/gpu/GpuLowering.h"

using namespace mlir;

namespace knapper::lower {

static constexpr unsigned kWarp = 32;
// Threads of a block, of which an SM runs 32 at most.
static constexpr unsigned kLeastBlock = 128;
// Blocks that any GPU with clusters takes as one.
static constexpr unsigned kMostBlocks = 8;

LogicalResult GpuLowering::threadLayout(tile::FuncOp func) {
  threads = 1;
  programs = kLeastBlock;
  width = 0;
  WalkResult sizes = func.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto vector = dyn_cast<VectorType>(type)) {
        unsigned size = vector.getRank() == 1 ? vector.getDimSize(0) : 0;
        width = width ? width : size;
        if (!size || size != width) {
          op->emitOpError("has no lowering for GPUs: all tiles of a program "
                          "that is one thread have one size");
          return WalkResult::interrupt();
        }
      }
    return WalkResult::advance();
  });
  width = std::max(width, 1u);
  constexpr unsigned heldThreads = 512;
  ctasPerSm = wanted.ctasPerSm ? wanted.ctasPerSm : heldThreads / kLeastBlock;
  return failure(sizes.wasInterrupted());
}

namespace {

/// The tiles of a function.
struct TileSizes {
  unsigned bytes = 0; ///< of the widest element in memory; 0: of none
  SmallVector<int64_t> sizes;
  Operation *odd = nullptr; ///< makes a tile of another rank than 1

  int64_t largest() const {
    return sizes.empty() ? 0 : *llvm::max_element(sizes);
  }
};

/// What an operation moves between memory and tiles, or null. (Lists in shared
/// memory do not say how wide accesses to memory are.)
Value movedBy(Operation *op) {
  if (llvm::any_of(op->getOperands(), [](Value operand) {
        return bool(operand.getDefiningOp<tile::SharedOp>());
      }))
    return {};
  if (isa<tile::LoadOp, tile::LoadStridedOp, tile::LoadRowsOp, tile::GatherOp>(
          op))
    return op->getResult(0);
  if (isa<tile::StoreOp, tile::StoreRowsOp, tile::ScatterOp>(op))
    return op->getOperand(0);
  return {};
}

TileSizes tileSizes(tile::FuncOp func) {
  TileSizes tiles;
  func.walk([&](Operation *op) {
    if (Value memory = movedBy(op))
      if (auto type = dyn_cast<VectorType>(memory.getType())) {
        unsigned bits = type.getElementTypeBitWidth();
        tiles.bytes = std::max(tiles.bytes, std::max(bits, 8u) / 8);
      }
    for (Type result : op->getResultTypes())
      if (auto type = dyn_cast<VectorType>(result)) {
        if (type.getRank() != 1)
          tiles.odd = op;
        else if (!llvm::is_contained(tiles.sizes, type.getDimSize(0)))
          tiles.sizes.push_back(type.getDimSize(0));
      }
  });
  return tiles;
}

template <class Op> bool has(tile::FuncOp func) {
  return func.walk([](Op) { return WalkResult::interrupt(); }).wasInterrupted();
}

} // namespace

/// CTAs of a cluster, and programs of a CTA, of the `tile.cluster` programs
/// that belong together.
LogicalResult GpuLowering::clusterLayout(tile::FuncOp func) {
  unsigned all = wanted.clusterSize;
  if (!all)
    return success();
  cluster = std::min(all, kMostBlocks);
  programs = all / cluster;
  // What waits for a program's threads alone needs no barrier if they are a
  // warp.
  bool waits = false;
  func.walk([&](vector::ReductionOp) { waits = true; });
  if (programs > 1)
    threads = waits ? kWarp : llvm::bit_floor(threads);
  if (programs * cluster != all || programs * threads > kMostBlockThreads)
    return func.emitOpError("has a cluster of ")
           << all << " programs, which blocks cannot hold";
  return success();
}

/// What the schedule says, but no more than registers for it. Packed programs:
/// as many as fill an SM, whatever it says.
void GpuLowering::boundCtas(tile::FuncOp func) {
  unsigned threadsOfCta = threads * programs;
  ctasPerSm = wanted.ctasPerSm;
  constexpr unsigned packedThreads = 1024;
  if (packed)
    ctasPerSm = packedThreads / threadsOfCta;
  // Indices of each lane take up to 256 registers a thread.
  constexpr unsigned gatherThreads = 256, fewGathers = 32;
  unsigned gathers = 0;
  func.walk([&](tile::GatherOp) { ++gathers; });
  bool isSmall =
      threads == kWarp || (threads == 2 * kWarp && gathers <= fewGathers);
  if (gathers && isSmall && !packed && cluster == 1) {
    unsigned most = gatherThreads / threadsOfCta;
    ctasPerSm = ctasPerSm ? std::min(ctasPerSm, most) : most;
  }
}

LogicalResult GpuLowering::tileLayout(tile::FuncOp func) {
  TileSizes tiles = tileSizes(func);
  if (tiles.odd)
    return tiles.odd->emitOpError(
        "has no lowering for GPUs: tiles have rank 1");
  bool reduces = false;
  func.walk([&](vector::ReductionOp op) {
    // (Not where mathematics asks whether any lane is unusual.)
    reduces |= !op.getSourceVectorType().getElementType().isInteger(1);
  });
  reduces |= has<tile::ScanOp>(func);
  TileSpread spread = spreadTiles(tiles.bytes, tiles.sizes, reduces,
                                  wanted.access, wanted.threads);
  width = spread.width;
  threads = spread.threads;
  // A row of so many elements a thread would fill the registers as f32.
  constexpr int64_t manyElements = 64;
  // (Named barriers for several warps each measured 20 % slower.)
  programs = threads == kWarp ? kLeastBlock / kWarp : 1;
  if (failed(clusterLayout(func)))
    return failure();
  packed =
      reduces && tiles.bytes == 2 && tiles.largest() / threads >= manyElements;
  boundCtas(func);
  for (int64_t size : tiles.sizes)
    if (size % (int64_t(threads) * width))
      return func.emitOpError("has a tile of ")
             << size << " elements, which does not spread over threads with "
             << width << " elements each: take a multiple of " << kWarp * width;
  return success();
}

LogicalResult GpuLowering::layout(tile::FuncOp func) {
  wanted = tile::LaunchAttributes::of(func);
  for (auto op : func.getOps<tile::MatmulOp>())
    return matmulLayout(op);
  for (auto op : func.getOps<tile::AttentionOp>())
    return attentionLayout(op);
  for (auto op : func.getOps<tile::PagedAttentionOp>())
    return pagedAttentionLayout(op);
  for (auto op : func.getOps<tile::PackedMatmulOp>())
    return packedMatmulLayout(op);
  for (auto op : func.getOps<tile::RecurrenceOp>())
    return recurrenceLayout(op);
  if (wanted.threads == 1)
    return threadLayout(func);
  return tileLayout(func);
}

} // namespace knapper::lower
