//===- Reduce.h - The builder of row and column reductions ----------------===//
// Internal to Reduce.cpp and the other files whose names begin so.
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ReduceConfig.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

namespace knapper {

/// The dims that a reducing op reads and those that it reduces.
struct Space {
  llvm::SmallVector<ts::Dim> dims;
  llvm::SmallVector<int64_t> reduced;
  bool operator==(const Space &other) const {
    return dims == other.dims && reduced == other.reduced;
  }
};

/// That of all reductions of a kernel; fails where they differ or there are
/// none.
mlir::FailureOr<Space> commonSpace(ts::KernelOp kernel);

/// A copy whose composites are the reductions that they are made of; for a GPU,
/// with as few dims as it can have (ReduceDims.cpp), of which its values, and
/// what the programs of its schedule read and write, have the types.
mlir::OwningOpRef<ts::KernelOp> asReductions(ts::KernelOp kernel,
                                             const TargetDesc &target);

/// The innermost dim that is not 1; a reduced one if all are.
unsigned laneDim(const Space &space);
/// The dim along which tiles of rows lie: that, where it is reduced; on a GPU
/// the longest reduced one, where that one is short or kept.
unsigned laneOfRows(const Space &space, const TargetDesc &target);

/// Row form: the first of the reduced dims, up to the lane dim, that tiles see
/// as one run; the lane dim itself where the ones before it are apart.
/// `kernel` has no composites.
unsigned firstOfRun(ts::KernelOp kernel, const Space &space,
                    const TargetDesc &target);
/// Elements of that run; column form: of the lane dim.
ts::Dim sizeOfRun(const Space &space, unsigned first);

/// How many rows are reduced together (ReduceGroups.cpp); 1: each apart.
/// `kernel` has no composites.
int64_t rowsOfGroup(ts::KernelOp kernel, const Space &space, int64_t lanes,
                    const TargetDesc &target);
/// Bytes of scratch beside what is kept of rows.
int64_t scratchOfGroups(ts::KernelOp kernel);

/// A space whose reduced dims lie between kept ones: those before, they, and
/// those behind, of which columns lie beside each other.
struct ColumnDims {
  llvm::SmallVector<ts::Dim> outer, rows, inner;
  int64_t length = 0, beside = 0; ///< elements of `rows`, of `inner`
};
/// Nothing where kept dims lie between the reduced ones, no dims lie behind
/// them, or their sizes are no numbers.
std::optional<ColumnDims> columnDims(const Space &space);

/// Rows that a thread of such columns holds at most.
constexpr int64_t kMostHeldRows = 16;

/// Shared memory of programs of `lanes` lanes, `threads` a column.
int64_t sharedBytes(ts::KernelOp kernel, int64_t lanes, int64_t threads);

/// Of a GPU's kernel of columns, without composites: sets the fields of
/// ReduceShared.cpp and the grid where that form takes less time than the one
/// that `config` has (ReduceSharedChoose.cpp).
void shareColumnsInBlock(ts::KernelOp kernel, const Space &space,
                         const TargetDesc &target, config::ReduceConfig &config,
                         ts::Dim &grid);

/// The dim whose rows the programs of a cluster share: the longest reduced one,
/// of which there is one at least.
unsigned sharedDim(const Space &space);

/// Whether a column's tiles of `lanes` elements can stay in scratch.
bool keepsColumns(const Space &space, int64_t lanes);

/// What an element of a kept tensor is in scratch: what it is computed in.
inline mlir::Type scratchType(mlir::Value tensor) {
  return bufferType(computeType(ts::elementTypeOf(tensor)));
}

/// A row to ask for: so many rows after this one, how near.
struct Fetch {
  int64_t rows;
  int64_t locality;
};

/// Softmax's reductions, where nothing else reads what lies between them. Its
/// results then stay the same if not the maximum but any number of about its
/// size is subtracted.
struct Shifted {
  ts::ReduceOp max, sum;
  mlir::Value exponentials; ///< what `sum` adds up
  mlir::Value result;       ///< exponentials over `sum`
};

/// Work of another row that a pass does tile by tile, beside its own.
struct Between {
  /// Called with the place of a tile, ahead of the pass's loads.
  std::function<llvm::LogicalResult(mlir::Value place)> before;
  /// Called when the pass has computed the tile, ahead of its stores.
  std::function<llvm::LogicalResult()> after;
};

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
  /// Whether a GPU holds the row as one tile: nothing is carried from tile to
  /// tile.
  bool isOneTile() const {
    for (unsigned d = 0; d < space.dims.size(); ++d)
      if (isReduced(d) && !space.dims[d].isConstant(d == lane ? lanes : 1))
        return false;
    return rowForm && target.simt;
  }
  /// Whether threads of a GPU hold all rows of their columns: passes then are
  /// no loops, and one takes what the one before has read.
  bool holdsColumns();
  /// Reads them, all rows before the first is reduced.
  llvm::LogicalResult readColumns();
  /// Runs `body` for every tile of the row (or column), with its coordinate.
  using TileFn =
      llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(
          const Coord &, mlir::Value valid, mlir::ValueRange carried)>;
  using JoinFn = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::ValueRange before, mlir::ValueRange sums)>;
  /// `join`: unless they have few iterations, the innermost of several loops
  /// around a tile starts with `carried` anew, and is joined with what came
  /// before it.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  forTiles(mlir::ValueRange carried, TileFn body, JoinFn join = nullptr);
  struct TileLoops; // ReduceLoops.cpp
  void findPasses();
  void allocateScratch(mlir::Value shift);
  /// Moves to a row (column form: to a column block and what is around it).
  void moveTo(mlir::Value program);
  /// Computes the reductions of a pass.
  llvm::LogicalResult run(unsigned pass, llvm::ArrayRef<Fetch> fetches = {},
                          Between *between = nullptr);
  /// What the lanes of a pass start with: a tile a reduction, two of an index.
  llvm::SmallVector<mlir::Value>
  startOfPass(llvm::ArrayRef<mlir::Operation *> reductions);
  /// The pass's step for one tile: what is carried, with the tile's elements.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  reduceTile(llvm::ArrayRef<mlir::Operation *> reductions, const Coord &at,
             mlir::Value valid, mlir::ValueRange carried,
             llvm::ArrayRef<Fetch> fetches, Between *between);
  /// A reduction's result from the tile that the pass ends with; `where`: of an
  /// index, those of its lanes.
  void finish(mlir::Operation *reduction, mlir::Value tile, mlir::Value where);
  /// All passes of the row, one after another.
  llvm::LogicalResult passes();
  llvm::LogicalResult storeResults();
  /// Row form, programs of a cluster share the run itself: finds the program's
  /// own part of it.
  void moveToPart();
  /// What of a loop over a reduced dim is the program's own: [first, second).
  std::pair<mlir::Value, mlir::Value> ownRows(unsigned dim);
  /// A reduction's tile over the whole column, of those of the cluster.
  mlir::Value acrossCluster(mlir::Operation *reduction, mlir::Value tile);
  // Columns that threads share out (ReduceShared.cpp).
  void moveToTiles(mlir::Value program);
  int64_t rowsOfThread() const;
  /// Where each thread's row number `step` is; `isCut`: some have none.
  Coord stepAt(mlir::Value step, bool isCut);
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  forSteps(mlir::ValueRange carried, TileFn body);
  struct Best {
    mlir::Value value, index;
  };
  /// The better of two elements, of equal ones the first (or last).
  Best better(ts::ArgReduceOp op, Best a, Best x);
  /// What the threads of a column have, combined: all of them have it.
  llvm::SmallVector<mlir::Value>
  ofAllThreads(llvm::ArrayRef<mlir::Operation *> reductions,
               llvm::ArrayRef<mlir::Value> own);

  /// Stores a result of the columns: one program of a cluster does.
  void storeColumns(mlir::Value tile, unsigned result, const Coord &coord);
  /// On a GPU: `rows` rows from `begin` on, of `total`, each one tile; all are
  /// read before the first is reduced.
  llvm::LogicalResult heldRows(mlir::Value begin, mlir::Value total);
  /// Notes which operands are read row by row, for `fetchRow`.
  void findRowOperands();
  /// Asks for a row further on, at the place of the current tile.
  void fetchRow(Fetch fetch);
  /// Column form: asks for the column tile some steps of `dim` further on.
  void fetchColumns(unsigned dim,
                    const llvm::DenseMap<unsigned, mlir::Value> &indices);
  /// The coordinate of a tensor with the kept dims (and dims of size 1).
  llvm::FailureOr<Coord> keptCoord(mlir::Type type);

  // Softmax by a guessed maximum (ReduceSoftmax.cpp).
  /// The reductions of softmax, if guessing its maximum is cheaper than finding
  /// it.
  std::optional<Shifted> guessesMaximum() const;
  /// The tile of the row from `start` on, which is a multiple of `multiple`.
  Coord tileOfRow(mlir::Value start, int64_t multiple);
  /// The largest of a few tiles of the row.
  llvm::FailureOr<mlir::Value> sampleMaximum(ts::ReduceOp max);
  /// `far`: the row, counted from this one, to bring to the second-level cache.
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
  /// Stores what of a tile from `start` on lies before `end`; computes it first
  /// where `tile` is null.
  llvm::LogicalResult storeTile(mlir::Value tile, mlir::Value start,
                                mlir::Value end);

  // Indices (ReduceIndex.cpp).
  /// Of elements' numbers: the fewest bits that the dim is known to need.
  mlir::Type indexType(ts::ArgReduceOp op);
  /// Each lane's index, in elements of `scalar`.
  mlir::Value indicesOfLanes(const LaneIndex &index, mlir::Type scalar);
  /// The better of each lane's best and its element of a tile, which has the
  /// index `index`; `inside`: lanes that have an element, null: all.
  Best betterOfLanes(ts::ArgReduceOp op, Best best, mlir::Value tile,
                     const LaneIndex &index, mlir::Value inside);
  /// The index of a row's best element, from the best of its lanes.
  mlir::Value indexOfRow(ts::ArgReduceOp op, Best lanesBest);

  // Indices of floats, past NaNs (ReduceArg.cpp).
  /// The op of a pass that does nothing else than find such an index.
  ts::ArgReduceOp passesNan(unsigned pass) const;
  llvm::LogicalResult indexPassingNan(ts::ArgReduceOp op, unsigned pass);

  // Rows in groups (ReduceGroups.cpp).
  /// Rows from `begin` to before `end`.
  llvm::LogicalResult groupedRows(mlir::Value begin, mlir::Value end);
  void allocatePartials();
  /// The tile in scratch as the partial result of the current row.
  void storePartial(mlir::Operation *reduction, mlir::Value tile);
  /// The results of all rows of the group, from their partial ones.
  void finishGroup(mlir::Operation *reduction);
  /// Stores `count` rows' results of the shape of the reduction, a row a lane;
  /// false where some are computed of more than reductions.
  bool canStoreLanes();
  llvm::LogicalResult storeLanes(mlir::Value first, mlir::Value count);

  /// The current tile of a kept tensor in its scratch: the type of that, and
  /// where. `valid`: lanes inside the row, all of them if null.
  std::pair<mlir::Type, Coord> tileInScratch(mlir::Value tensor,
                                             mlir::Value valid);
  /// Leaves a tile in scratch where later passes want it. Every form of a pass
  /// calls this with what it reduces.
  void keepTile(mlir::Value tensor, mlir::Value tile, mlir::Value valid);
  /// Bytes of a row of a kept tensor; column form: of a column's tiles.
  ts::Dim bytesInScratch(mlir::Value tensor);

  mlir::Value combine(mlir::Operation *reduction, mlir::Value a, mlir::Value v,
                      bool isUnsigned);
  /// How a tile of partial results becomes one.
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
