//===- Reduce.h - The builder of row and column reductions ----------------===//
// Internal to Reduce.cpp, whose head describes the forms, and the other files
// Reduce*.cpp. "Row": the lanes of a tile lie along a reduced dim. "Column":
// they lie along a kept dim.
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ReduceConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

namespace knapper {

/// The dims of a reduction's operand, and the indices of those that it reduces.
struct Space {
  llvm::SmallVector<ts::Dim> dims;
  llvm::SmallVector<int64_t> reduced;
  bool operator==(const Space &other) const {
    return dims == other.dims && reduced == other.reduced;
  }
};

/// The space that all reductions of a kernel have. Fails if they differ or
/// there are none.
mlir::FailureOr<Space> commonSpace(ts::KernelOp kernel);

/// A copy of the kernel in which composites (softmax, layer_norm) are replaced
/// by their reductions. For a GPU the copy also has as few dims as possible
/// (ReduceDims.cpp): the types of its values are those that its programs read
/// and write.
mlir::OwningOpRef<ts::KernelOp> asReductions(ts::KernelOp kernel,
                                             const TargetDesc &target);

/// The innermost dim of a size other than 1. If all are 1: a reduced dim.
unsigned laneDim(const Space &space);
/// The dim along which the tiles of rows lie: laneDim, if it is reduced. On a
/// GPU it is the longest reduced dim, if laneDim is short or kept.
unsigned laneOfRows(const Space &space, const TargetDesc &target);

/// Row form: the first of the reduced dims that are contiguous with the lane
/// dim, so that tiles see them as one run; the lane dim itself if none is.
/// `kernel` has no composites.
unsigned firstOfRun(ts::KernelOp kernel, const Space &space,
                    const TargetDesc &target);
/// Elements of that run. Column form: elements of the lane dim.
ts::Dim sizeOfRun(const Space &space, unsigned first);

/// Rows that are reduced together (ReduceGroups.cpp); 1: one at a time.
/// `kernel` has no composites.
int64_t rowsOfGroup(ts::KernelOp kernel, const Space &space, int64_t lanes,
                    const TargetDesc &target);
/// Bytes of scratch for the partial results of groups.
int64_t scratchOfGroups(ts::KernelOp kernel);

/// A space whose reduced dims lie between kept ones. Columns that differ in an
/// `inner` dim are neighbours in memory.
struct ColumnDims {
  llvm::SmallVector<ts::Dim> outer, rows, inner;
  int64_t length = 0, beside = 0; ///< elements of `rows`, of `inner`
};
/// Nothing if kept dims lie between the reduced ones, if no dims lie behind
/// them, or if sizes are symbols.
std::optional<ColumnDims> columnDims(const Space &space);

/// Rows that one thread of such columns keeps in registers, at most.
constexpr int64_t kMostHeldRows = 16;

/// Bytes of shared memory of a program with `lanes` lanes and `threads` threads
/// for each column.
int64_t sharedBytes(ts::KernelOp kernel, int64_t lanes, int64_t threads);

/// For a GPU's column reduction without composites. If the form of
/// ReduceShared.cpp takes less modelled time than the form in `config`, sets
/// its fields and the grid (ReduceSharedChoose.cpp).
void shareColumnsInBlock(ts::KernelOp kernel, const Space &space,
                         const TargetDesc &target, config::ReduceConfig &config,
                         ts::Dim &grid);

/// The dim that the programs of a cluster share: the longest reduced one. There
/// must be one.
unsigned sharedDim(const Space &space);

/// Whether scratch can keep a column's tiles of `lanes` elements.
bool keepsColumns(const Space &space, int64_t lanes);

/// The element type of a kept tensor in scratch: the type it is computed in.
inline mlir::Type scratchType(mlir::Value tensor) {
  return bufferType(computeType(ts::elementTypeOf(tensor)));
}

/// A prefetch of the row `rows` after the current one.
struct Fetch {
  int64_t rows;
  int64_t locality;
};

/// The reductions of a softmax whose intermediate values nothing else reads.
/// Its results do not change if any number near the maximum is subtracted
/// instead of the maximum.
struct Shifted {
  ts::ReduceOp max, sum;
  mlir::Value exponentials; ///< what `sum` adds up
  mlir::Value result;       ///< exponentials over `sum`
};

/// Work for another row that a pass does tile by tile, interleaved with its
/// own.
struct Between {
  /// Called with the position of a tile, before the pass's loads.
  std::function<llvm::LogicalResult(mlir::Value place)> before;
  /// Called when the pass has computed the tile, before its stores.
  std::function<llvm::LogicalResult()> after;
};

/// Emits one program of a reduction by the form that `config` names.
class ReduceBuilder {
public:
  ReduceBuilder(BuildContext &context, const config::ReduceConfig &config,
                ts::KernelOp kernel, Space space)
      : e(context.emitter), b(e.builder), kernel(kernel),
        target(context.target), space(std::move(space)), lanes(config.lanes),
        rowForm(config.rowForm), rows(config.rows), stream(config.stream),
        group(config.group), clusterSize(config.clusterSize),
        across(config.across),
        lane(config.rowForm ? laneOfRows(this->space, target)
                            : laneDim(this->space)),
        first(target.simt ? lane : firstOfRun(kernel, this->space, target)),
        length(target.simt ? this->space.dims[lane]
                           : sizeOfRun(this->space, first)),
        columns(config.columns), columnThreads(config.columnThreads),
        tiles(config.tiles) {}

  llvm::LogicalResult build();

private:
  bool isReduced(unsigned dim) const {
    return llvm::is_contained(space.reduced, static_cast<int64_t>(dim));
  }
  /// Whether a GPU has the whole row as one tile, so that no loop over tiles
  /// carries values.
  bool isOneTile() const {
    for (unsigned d = 0; d < space.dims.size(); ++d)
      if (isReduced(d) && !space.dims[d].isConstant(d == lane ? lanes : 1))
        return false;
    return rowForm && target.simt;
  }
  /// Whether the threads of a GPU keep all rows of their columns in registers.
  /// Then a pass is no loop, and reads what the pass before it has loaded.
  bool holdsColumns();
  /// Loads all these rows, before the first is reduced.
  llvm::LogicalResult readColumns();
  /// Runs `body` for every tile of the row (or column), with its coordinate.
  using TileFn =
      llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(
          const Coord &, mlir::Value valid, mlir::ValueRange carried)>;
  using JoinFn = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::ValueRange before, mlir::ValueRange sums)>;
  /// `join`: if there are several loops around a tile, the innermost one starts
  /// with `carried` again, and `join` combines its result with the result so
  /// far. Loops of few iterations do without.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  forTiles(mlir::ValueRange carried, TileFn body, JoinFn join = nullptr);
  struct TileLoops; // ReduceLoops.cpp
  void findPasses();
  void allocateScratch(mlir::Value shift);
  /// Sets the state to a row (column form: to a block of columns) of the
  /// program.
  void moveTo(mlir::Value program);
  /// Computes the reductions of a pass.
  llvm::LogicalResult run(unsigned pass, llvm::ArrayRef<Fetch> fetches = {},
                          Between *between = nullptr);
  /// The initial values of a pass: one tile for each reduction, two for an
  /// index.
  llvm::SmallVector<mlir::Value>
  startOfPass(llvm::ArrayRef<mlir::Operation *> reductions);
  /// One step of a pass: combines the carried values with a tile's elements.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  reduceTile(llvm::ArrayRef<mlir::Operation *> reductions, const Coord &at,
             mlir::Value valid, mlir::ValueRange carried,
             llvm::ArrayRef<Fetch> fetches, Between *between);
  /// Makes a reduction's result from the pass's last tile. `where`: for an
  /// index reduction, the indices of the tile's lanes.
  void finish(mlir::Operation *reduction, mlir::Value tile, mlir::Value where);
  /// All passes of the row, one after another.
  llvm::LogicalResult passes();
  llvm::LogicalResult storeResults();
  /// Whether `wholeOrCut` pays.
  bool cutsTiles() const;
  /// Both for a whole tile of columns, and again for one that is cut.
  llvm::LogicalResult wholeOrCut();
  /// Row form with a cluster that shares the run: finds the program's part of
  /// it.
  void moveToPart();
  /// The program's part of a loop over a reduced dim: [first, second).
  std::pair<mlir::Value, mlir::Value> ownRows(unsigned dim);
  /// Combines a reduction's tiles of all programs of the cluster.
  mlir::Value acrossCluster(mlir::Operation *reduction, mlir::Value tile);
  // Columns that threads share out (ReduceShared.cpp).
  void moveToTiles(mlir::Value program);
  int64_t rowsOfThread() const;
  /// The coordinate of each thread's row number `step`. `isCut`: some threads
  /// have no such row.
  Coord stepAt(mlir::Value step, bool isCut);
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  forSteps(mlir::ValueRange carried, TileFn body);
  struct Best {
    mlir::Value value, index;
  };
  /// The better of two elements; of equal ones the first (or last, as `op`
  /// says).
  Best better(ts::ArgReduceOp op, Best a, Best x);
  /// Combines the values of the threads of each column. All of them get the
  /// result.
  llvm::SmallVector<mlir::Value>
  ofAllThreads(llvm::ArrayRef<mlir::Operation *> reductions,
               llvm::ArrayRef<mlir::Value> own);

  /// Stores a result of the columns. Only one program of a cluster does.
  void storeColumns(mlir::Value tile, unsigned result, const Coord &coord);
  /// On a GPU: computes `rows` rows from `begin` on, of `total`, each of one
  /// tile. Loads all of them before the first is reduced.
  llvm::LogicalResult heldRows(mlir::Value begin, mlir::Value total);
  /// Finds the operands that are read row by row, for `fetchRow`.
  void findRowOperands();
  /// Prefetches a later row at the position of the current tile.
  void fetchRow(Fetch fetch);
  /// Column form: prefetches the column tile some steps of `dim` ahead.
  void fetchColumns(unsigned dim,
                    const llvm::DenseMap<unsigned, mlir::Value> &indices);
  /// The coordinate of a tensor with the kept dims (and dims of size 1).
  llvm::FailureOr<Coord> keptCoord(mlir::Type type);

  // Softmax by a guessed maximum (ReduceSoftmax.cpp).
  /// The reductions of a softmax for which a guess of the maximum is cheaper
  /// than the maximum.
  std::optional<Shifted> guessesMaximum() const;
  /// The tile of the row from `start` on, which is a multiple of `multiple`.
  Coord tileOfRow(mlir::Value start, int64_t multiple);
  /// The largest of a few tiles of the row.
  llvm::FailureOr<mlir::Value> sampleMaximum(ts::ReduceOp max);
  /// `far`: rows ahead of the one that is prefetched into L2.
  llvm::LogicalResult sumByGuess(Shifted softmax, int64_t far,
                                 Between *between = nullptr);

  // Rows stored while the next ones are reduced (ReduceOverlap.cpp).
  /// Rows from `begin` to before `end`.
  llvm::LogicalResult overlappedRows(std::optional<Shifted> softmax,
                                     mlir::Value begin, mlir::Value end);
  bool canOverlap(const std::optional<Shifted> &softmax);
  /// Where scratch should start, in bytes.
  mlir::Value placeOfScratch();
  /// Of the first whole cache line of the row's result.
  mlir::Value firstLine();
  /// The result's tile, unspecified where it is not valid; null on an error.
  mlir::Value resultTile(const Coord &at);
  /// Stores the elements of a tile from `start` on that are before `end`. If
  /// `tile` is null, computes it first.
  llvm::LogicalResult storeTile(mlir::Value tile, mlir::Value start,
                                mlir::Value end);

  // Indices (ReduceIndex.cpp).
  /// The integer type of element indices: the fewest bits that the dim needs.
  mlir::Type indexType(ts::ArgReduceOp op);
  /// Each lane's index, in elements of `scalar`.
  mlir::Value indicesOfLanes(const LaneIndex &index, mlir::Type scalar);
  /// For each lane the better of its best element and its element of a tile
  /// with the indices `index`. `inside`: the lanes that have an element; null:
  /// all.
  Best betterOfLanes(ts::ArgReduceOp op, Best best, mlir::Value tile,
                     const LaneIndex &index, mlir::Value inside);
  /// The index of a row's best element, from the best of its lanes.
  mlir::Value indexOfRow(ts::ArgReduceOp op, Best lanesBest);

  // Indices of floats, past NaNs (ReduceArg.cpp).
  /// The op of a pass whose only reduction finds such an index; else null.
  ts::ArgReduceOp passesNan(unsigned pass) const;
  llvm::LogicalResult indexPassingNan(ts::ArgReduceOp op, unsigned pass);

  // Rows in groups (ReduceGroups.cpp).
  /// Rows from `begin` to before `end`.
  llvm::LogicalResult groupedRows(mlir::Value begin, mlir::Value end);
  void allocatePartials();
  /// Stores a tile in scratch as the partial result of the current row.
  void storePartial(mlir::Operation *reduction, mlir::Value tile);
  /// Makes the results of all rows of the group from their partial results.
  void finishGroup(mlir::Operation *reduction);
  /// Whether results of the reduced shape can be stored one row in each lane:
  /// they follow from reductions alone. storeLanes stores those of `count`
  /// rows.
  bool canStoreLanes();
  llvm::LogicalResult storeLanes(mlir::Value first, mlir::Value count);

  /// Type and coordinate in scratch of the current tile of a kept tensor.
  /// `valid`: lanes inside the row; null: all.
  std::pair<mlir::Type, Coord> tileInScratch(mlir::Value tensor,
                                             mlir::Value valid);
  /// Stores a tile in scratch if a later pass reads it. Every form of a pass
  /// calls this with the tensor that it reduces.
  void keepTile(mlir::Value tensor, mlir::Value tile, mlir::Value valid);
  /// Bytes of a row of a kept tensor (column form: of a column's tiles).
  ts::Dim bytesInScratch(mlir::Value tensor);

  mlir::Value combine(mlir::Operation *reduction, mlir::Value a, mlir::Value v,
                      bool isUnsigned);
  /// The vector reduction, and its fast-math flags, that makes one result of a
  /// tile of partial results.
  std::pair<mlir::vector::CombiningKind, mlir::arith::FastMathFlags>
  howTo(mlir::Operation *reduction, mlir::Value tile);
  mlir::Value horizontal(mlir::Operation *reduction, mlir::Value tile);

  ElementEmitter &e;
  mlir::OpBuilder &b;
  ts::KernelOp kernel;
  const TargetDesc &target;
  Space space;
  int64_t lanes;
  bool rowForm;
  int64_t rows;         ///< of one program
  bool stream;          ///< full-shape results bypass the caches
  int64_t group;        ///< rows that are reduced together
  int64_t clusterSize;  ///< programs of a cluster that share a column's rows,
                        ///< or a row's tiles
  bool across;          ///< columns of all kept dims are lanes
  unsigned lane, first; ///< of the dims that are one run
  ts::Dim length;       ///< of the run

  // Columns that threads share out: how many beside each other in a tile, by
  // how many threads each, in how many tiles.
  int64_t columns, columnThreads, tiles;
  std::optional<ColumnDims> shared;
  mlir::Value thread, rowOfThread; ///< a number a lane
  mlir::Value inTiles, inRows;     ///< lanes that have a column, a row; or null
  mlir::Value leads;               ///< lanes that store results of columns
  llvm::SmallVector<Coord> heldSteps;

  // Reductions by level: one more than the deepest that they depend on.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>> levels;
  // Tensors that their level leaves in scratch; in order, which lays it out.
  llvm::MapVector<mlir::Value, unsigned> keep;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  unsigned current = 0; ///< the level being computed

  llvm::SmallVector<mlir::Value>
      kept; ///< index of each kept dim but the lane dim
  llvm::SmallVector<LaneIndex> keptLanes; ///< across: of each kept dim
  mlir::Value laneStart, laneValid;       ///< column form
  mlir::Value part; ///< the program's number in its cluster, or null
  /// Row form, of the program's elements of the run: where they begin, where
  /// they end, and how many they are, where they are one tile and not all of
  /// it.
  mlir::Value partStart, partEnd, partValid;
  llvm::DenseMap<mlir::Value, mlir::Value>
      finished; ///< reduction result -> its value
  /// Of the current tile in the reduced space; column form: of its scratch.
  mlir::Value position;
  llvm::SmallVector<mlir::BlockArgument>
      rowOperands;     ///< read at row * size + position
  mlir::Value thisRow; ///< offset of the program's row

  // Of a group.
  struct Partial {
    mlir::Value tiles, results; ///< in scratch: [rows][lanes], [rows]
  };
  llvm::MapVector<mlir::Operation *, Partial> partials;
  mlir::Value scratchEnd; ///< bytes of what is kept
  mlir::Value groupRow;   ///< the current row's number in its group
};

} // namespace knapper
