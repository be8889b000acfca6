// Lowering for GPUs: a group of threads runs a program, a tile is spread over
// them cyclically, as [round][thread][lane]:
//
//   lane j of part p in thread t is element (p * threads + t) * width + j
//
// so that consecutive threads access consecutive runs of 16 bytes. Programs of
// one warp share a block, so that an SM gets enough warps; a warp
// needs no barrier. So do programs of one thread (`tile.threads` = 1), whose
// tiles are that thread's own and whose branches go where each likes. Scalars
// are computed by every thread of a program alike; so every branch and loop is
// uniform in a group and barriers may stand in them. Accesses are whole 16-byte
// runs, shifted from aligned ones where the address is no multiple of 16; the
// run that a ragged edge cuts is accessed lane by lane.
#pragma once

#include "codegen/lower/common/TileLowering.h"
#include "ir/tile/BlockOps.h"
#include "ir/tile/GridOps.h"
#include "ir/tile/LaunchAttributes.h"
#include "ir/tile/PackedOps.h"
#include "ir/tile/PagedOps.h"
#include "ir/tile/RecurrenceOps.h"
#include "runtime/base/GpuEntry.h"

namespace knapper::lower {

class GroupedTileScheduler;
class ImplicitGemmIndex;

class GpuLowering final : public TileLowering {
public:
  using TileLowering::TileLowering;
  mlir::LogicalResult function(tile::FuncOp func) override;
  GpuEntry launch() const { return shape; }

private:
  llvm::SmallVector<llvm::Type *, 1> partTypes(mlir::Type type) override;
  mlir::LogicalResult tileOp(mlir::Operation &op) override;
  mlir::LogicalResult vectorOp(mlir::Operation &op) override;
  mlir::LogicalResult constantTile(mlir::Value result,
                                   mlir::DenseElementsAttr value) override;
  llvm::Value *special(mlir::Operation *op,
                       llvm::ArrayRef<llvm::Value *> operands) override;
  /// The intrinsic of every element of an f32 or a vector of them.
  llvm::Value *eachElement(llvm::Value *value, llvm::Intrinsic::ID intrinsic);
  /// 2^x by the special unit; 0 below 2^-126.
  llvm::Value *exp2(llvm::Value *x);
  /// f32 of bf16, two words' worth of elements at a time.
  llvm::Value *unpack(llvm::Value *halves);

  //===-- Layout (TileLayout.cpp) -----------------------------------------===//
  /// Chooses `width`, `threads` and `programs` for the function's tiles.
  mlir::LogicalResult layout(tile::FuncOp func);
  /// The same of programs that are one thread each.
  mlir::LogicalResult threadLayout(tile::FuncOp func);
  /// The same of programs whose tiles are spread over threads.
  mlir::LogicalResult tileLayout(tile::FuncOp func);
  mlir::LogicalResult clusterLayout(tile::FuncOp func);
  /// Sets `ctasPerSm`: the schedule's, or a default.
  void boundCtas(tile::FuncOp func);
  /// Number of this thread's first element in a part, i64.
  llvm::Value *firstElement(unsigned part);
  /// Numbers of the aligned groups of lanes that this thread's elements are in.
  void laneGroups(tile::LaneGroupsOp op);
  /// Numbers of this thread's elements in a part, <width x i64>.
  llvm::Value *elements(unsigned part);
  mlir::LogicalResult reduction(mlir::vector::ReductionOp op);
  /// The value that the thread at this distance in the warp has.
  llvm::Value *shuffle(llvm::Value *value, unsigned distance);
  /// What another thread of the warp has, by one of the shuffles of words;
  /// `bound` is the instruction's last operand.
  llvm::Value *shuffleBy(llvm::Intrinsic::ID how, llvm::Value *value,
                         llvm::Value *lane, unsigned bound);
  /// Waits for all threads of the program.
  void barrier();
  /// Waits for all threads of the block.
  void blockBarrier();
  /// An array in shared memory, of anything, called the function's name and
  /// `suffix`.
  llvm::Value *sharedArray(llvm::Type *element, uint64_t count,
                           const llvm::Twine &suffix);
  /// The address of the shared memory that a launch gives (sharedBytes of
  /// `shape`), a multiple of 1024: i32.
  llvm::Value *launchedShared();
  /// The parameters that are TMA descriptors.
  llvm::SmallVector<llvm::Value *> tmaDescriptors();

  //===-- Clusters of programs (ClusterReduce.cpp) ------------------------===//
  mlir::LogicalResult combineTiles(tile::CombineOp op);
  /// Waits for all threads of the cluster's blocks.
  void clusterBarrier();

  //===-- Atomics (Atomics.cpp) -------------------------------------------===//
  mlir::LogicalResult atomic(tile::AtomicOp op);
  void addInMemory(llvm::Value *pointer,
                   llvm::ArrayRef<llvm::Value *> elements);
  /// Reads an element, combines it, and writes if it is still what was read;
  /// else again.
  void exchangeUntilAlone(mlir::vector::CombiningKind kind, mlir::Type element,
                          llvm::Value *pointer, llvm::Value *value,
                          llvm::SyncScope::ID device);

  //===-- Look-back (LookBack.cpp) ----------------------------------------===//
  mlir::LogicalResult ticket(tile::TicketOp op);
  mlir::LogicalResult lookBack(tile::LookBackOp op);
  struct LookBack;

  //===-- Sorting by digits (RadixPass.cpp) -------------------------------===//
  mlir::LogicalResult radixPass(tile::RadixPassOp op);
  friend class RadixPassLowering;

  //===-- Scans and lists (BlockScan.cpp) ---------------------------------===//
  mlir::LogicalResult scan(tile::ScanOp op);
  mlir::LogicalResult scanRows(tile::ScanRowsOp op);
  mlir::LogicalResult clusterScan(tile::ClusterScanOp op);
  mlir::LogicalResult sharedBuffer(tile::SharedOp op);
  void appendLanes(tile::AppendOp op);
  void rank(tile::RankOp op);
  mlir::LogicalResult clusterCollect(tile::ClusterCollectOp op);
  /// for (i = begin; i < end; i += step) body(i): i32, uneven over threads.
  void eachWord(llvm::Value *begin, llvm::Value *end, llvm::Value *step,
                llvm::function_ref<void(llvm::Value *)> body);
  /// A value a thread, combined with those of the threads before it (`reverse`:
  /// behind it) among `lanes` neighbours of a warp. `lane`: in the warp, i32.
  llvm::Value *warpScan(mlir::vector::CombiningKind kind, llvm::Value *value,
                        llvm::Value *lane, bool reverse, unsigned lanes);
  /// What changes nothing when combined: a scalar.
  static llvm::Constant *neutral(mlir::vector::CombiningKind kind,
                                 llvm::Type *type);
  /// What the thread before has; of the first what changes nothing.
  llvm::Value *warpShift(mlir::vector::CombiningKind kind, llvm::Value *value,
                         llvm::Value *lane, bool reverse, unsigned lanes);
  /// The lanes of one part in order, from `before` on; rows of `columns` lanes
  /// begin anew.
  llvm::Value *scanLanes(mlir::vector::CombiningKind kind, llvm::Value *part,
                         llvm::Value *before, bool exclusive, bool reverse,
                         unsigned columns);
  /// All lanes of one part.
  llvm::Value *foldLanes(mlir::vector::CombiningKind kind, llvm::Value *part,
                         bool reverse);

  //===-- Memory (GpuMemory.cpp) ------------------------------------------===//
  mlir::LogicalResult load(tile::LoadOp op);
  /// Takes the result of a load of the same, if there was one on every way
  /// here.
  bool loadedBefore(tile::LoadOp op);
  /// Whether a part of a tile of which `valid` lanes are there is among them.
  bool isInside(unsigned part, mlir::Value valid);
  mlir::LogicalResult store(tile::StoreOp op);
  mlir::LogicalResult gather(mlir::Value bufferValue, mlir::Value result,
                             llvm::ArrayRef<llvm::Value *> offsets,
                             mlir::Value valid, mlir::Value mask,
                             mlir::Value pad, unsigned run = 1);
  mlir::LogicalResult scatter(tile::ScatterOp op);
  mlir::LogicalResult loadRows(tile::LoadRowsOp op);
  mlir::LogicalResult storeRows(tile::StoreRowsOp op);
  /// Where a part of a block of rows lies: its first element's address, whether
  /// all of its lanes are inside, and how many are.
  struct Run {
    llvm::Value *pointer, *whole, *left;
  };
  Run runOf(const BufferRef &ref, unsigned part, mlir::Operation *op,
            int64_t columns);
  /// The first `left` elements of a run that an edge cuts, one by one; of
  /// `lanes` (all `pad`) the others.
  llvm::Value *loadLanes(const BufferRef &ref, llvm::Value *pointer,
                         llvm::Value *left, llvm::Value *lanes,
                         llvm::Value *pad);
  void storeLanes(const BufferRef &ref, llvm::Value *pointer, llvm::Value *left,
                  llvm::Value *value);
  mlir::LogicalResult transpose(tile::TransposeOp op);
  /// Runs `body` where `condition` holds.
  void when(llvm::Value *condition, llvm::function_ref<void()> body);
  /// The value of `body` where `condition` holds, else `otherwise`.
  llvm::Value *when(llvm::Value *condition, llvm::Value *otherwise,
                    llvm::function_ref<llvm::Value *()> body);

  //===-- Unaligned accesses (UnalignedAccess.cpp) ------------------------===//
  /// Sets `rotation` if the function's tiles are one row, all of whose accesses
  /// start at one place. Emits what that place is computed from.
  mlir::LogicalResult rotateRow(tile::FuncOp func);
  /// A part of the row at `from`.
  llvm::Value *rotatedLoad(const BufferRef &ref, llvm::Value *from,
                           unsigned part, llvm::Value *padding);
  /// What was loaded, but `padding` before and behind the row.
  llvm::Value *rotatedEdges(llvm::Value *value, unsigned part,
                            llvm::Value *padding);
  /// Elements of the row from this thread's first in a part on, i32.
  llvm::Value *rotatedLeft(unsigned part);
  void rotatedStore(const BufferRef &ref, llvm::Value *from, unsigned part,
                    llvm::Value *value);
  bool isUnaligned(mlir::Operation *op, const BufferRef &ref,
                   llvm::Align align);
  /// Bytes from a multiple of 16 below to the element at `offset`, i32.
  llvm::Value *skewOf(const BufferRef &ref, llvm::Value *offset);
  /// 16 bytes of elements from `offset` on, of which `left` are there: at least
  /// one; null: all. The others are anything.
  llvm::Value *unalignedLoad(const BufferRef &ref, llvm::Value *offset,
                             llvm::Value *skew, llvm::Value *left);
  /// Its two halves: the eight words around, and what is wanted of them. Where
  /// not `both`, the second access holds no element and is the first again.
  llvm::SmallVector<llvm::Value *, 8>
  fetchAround(const BufferRef &ref, llvm::Value *offset, llvm::Value *both);
  llvm::Value *pickFrom(const BufferRef &ref,
                        llvm::ArrayRef<llvm::Value *> words, llvm::Value *skew,
                        llvm::Type *type);
  /// A whole tile from element `from` on, of which `valid` elements are there
  /// (null: all).
  void unalignedStore(const BufferRef &ref, llvm::Value *from,
                      mlir::Value valid, llvm::ArrayRef<llvm::Value *> parts);

  //===-- Matmuls (MatmulLowering.cpp and a recipe for each way) ----------===//
  /// A function that is one tile.matmul: its tiles are a thread's own.
  mlir::LogicalResult matmulLayout(tile::MatmulOp op);
  /// The regions' tiles are one thread's, runs of `run` elements.
  mlir::LogicalResult regionLayout(mlir::Operation *op, int64_t run);
  mlir::LogicalResult matmul(tile::MatmulOp op);
  /// The tiles of a matmul with `ends`, `tileColumns` wide.
  mlir::LogicalResult groupedTiles(tile::MatmulOp op, unsigned tileColumns,
                                   std::optional<GroupedTileScheduler> &tiles);
  /// The window of a matmul that has one.
  ImplicitGemmIndex implicitGemmIndex(tile::MatmulOp op);
  /// The region for one run of elements, from (row, column) on: i32. Its
  /// value, null without one.
  mlir::FailureOr<llvm::Value *> runRegion(tile::MatmulOp op,
                                           llvm::Value *value,
                                           llvm::ArrayRef<llvm::Value *> outer,
                                           llvm::Value *row,
                                           llvm::Value *column);

  //===-- Packed integers (nvidia/sm80/PackedMatmul.cpp) ------------------===//
  mlir::LogicalResult packedMatmulLayout(tile::PackedMatmulOp op);
  mlir::LogicalResult packedMatmul(tile::PackedMatmulOp op);

  //===-- Attention (AttentionLowering.cpp and a recipe for each way) -----===//
  mlir::LogicalResult attentionLayout(tile::AttentionOp op);
  mlir::LogicalResult attention(tile::AttentionOp op);
  /// The scores of a run of keys from `key` on, by the region; a value a key.
  mlir::LogicalResult scores(tile::AttentionOp op,
                             llvm::MutableArrayRef<llvm::Value *> run,
                             llvm::Value *batch, llvm::Value *head,
                             llvm::Value *row, llvm::Value *key);

  //===-- Recurrences (nvidia/simt/SimtRecurrence.cpp) --------------------===//
  mlir::LogicalResult recurrenceLayout(tile::RecurrenceOp op);
  mlir::LogicalResult recurrence(tile::RecurrenceOp op);

  //===-- Attention over blocks (PagedAttentionLowering.cpp) --------------===//
  mlir::LogicalResult pagedAttentionLayout(tile::PagedAttentionOp op);
  mlir::LogicalResult pagedAttention(tile::PagedAttentionOp op);
  friend class PagedAttentionLowering;
  friend class KernelRecipe; // nvidia/common/Recipes.h

  tile::LaunchAttributes wanted; // by the schedule
  GpuEntry shape;                // what a launch needs to know
  /// Where lane 0 of a rotated tile is read: so many elements (i32) before the
  /// row, at a multiple of 16 bytes. Null: tiles start with their row.
  llvm::Value *rotation = nullptr;
  int64_t rotatedValid = 0;             // elements of that row
  unsigned maps = 0;                    // TMA descriptors: the last parameters
  unsigned cluster = 1;                 // blocks that share shared memory
  unsigned ctasPerSm = 0;               // of a block's registers; 0: no bound
  llvm::Value *threadOfBlock = nullptr; // i64, also where tiles are a thread's
  unsigned width = 4;                   // lanes of a part: one 16-byte access
  unsigned threads = 0;          // of a program; 1: tiles are a thread's own
  unsigned programs = 1;         // of a block
  llvm::Value *thread = nullptr; // number of this thread in its program, i64
  llvm::Value *group = nullptr;  // of this program in its block, i64; or null
  llvm::Value *status = nullptr; // i32 *, global memory
  llvm::SmallVector<tile::LoadOp> loads; // of the function's own block
  unsigned exchanges = 0;                // of warps, in shared memory
  uint64_t combinedBytes = 0;            // of tiles, in shared memory
  uint64_t listBytes = 0;                // of tile.shared
  // A long row of bf16 is kept as it was read, and each use widens it anew.
  bool packed = false;
  bool flushes = false; ///< f32 below the normal ones are zero
  unsigned unpacked = 0;
};

} // namespace knapper::lower
