//===- ElementEmitter.h - Element values of a region, on demand -----------===//
//
// Pull-style code generation: `emit(tensor, coord)` gives the values of a
// tensor of a kernel's region at a coordinate, by walking the definitions back
// to the kernel's operands. Movement ops (broadcast, reshape, transpose, slice,
// pad, concat, gather) only rewrite the coordinate; elementwise ops apply their
// scalar function; a block argument is a load. What a schedule has computed
// itself (a hero's accumulator, a finished reduction, a row kept in scratch) it
// supplies through `provide`.
//
// Values are in compute form: f16 and bf16 widened to f32, unsigned integers as
// those without a sign, storage types as bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "codegen/schedule/core/Coord.h"
#include "ir/tensor/Dialect.h"
#include "ir/tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>
#include <unordered_map>

namespace knapper {

/// The element type that values of this type are computed in.
mlir::Type computeType(mlir::Type element);
/// The element type of a buffer that holds such a tensor (ui8 becomes i8,
/// storage types too).
mlir::Type bufferType(mlir::Type element);

class ElementEmitter {
public:
  /// `function` has the kernel's buffers (inputs, outputs) and symbols as
  /// arguments; `symbols` names them in order. Size arithmetic is emitted at
  /// the start of the function, everything else at `builder`.
  ElementEmitter(mlir::OpBuilder &builder, mlir::Location location,
                 tile::FuncOp function, ts::KernelOp kernel,
                 llvm::ArrayRef<std::string> symbols, const TargetDesc &target);

  mlir::OpBuilder &builder;
  mlir::Location location;

  //===- Index arithmetic (folded where constant) ------------------------===//
  mlir::Value constant(int64_t value);
  mlir::Value size(ts::Dim dim);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b); ///< both non-negative
  mlir::Value rem(mlir::Value a, mlir::Value b); ///< both non-negative
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  /// Indices of a row-major position, outermost first.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value position,
                                             llvm::ArrayRef<ts::Dim> dims);

  //===- Values -----------------------------------------------------------===//
  /// The tensor at the coordinate: scalar (lanes 0) or vector of compute type.
  /// Null after a diagnostic was emitted.
  mlir::Value emit(mlir::Value tensor, const Coord &coord);
  /// Consulted first for every tensor and coordinate; null: not provided.
  std::function<mlir::Value(mlir::Value tensor, const Coord &coord)> provide;

  /// Reads a buffer that holds a row-major tensor of these dims.
  mlir::Value load(mlir::Value buffer, mlir::Type tensorType,
                   const Coord &coord);
  /// Writes a value in compute form to such a buffer.
  void store(mlir::Value value, mlir::Value buffer, mlir::Type tensorType,
             const Coord &coord, bool nontemporal = false);
  /// Combines a value in compute form with what lies there, by atomics: a run
  /// of neighbours, or one element (GPUs).
  void combineInMemory(mlir::vector::CombiningKind kind, mlir::Value value,
                       mlir::Value buffer, mlir::Type tensorType,
                       const Coord &coord);
  /// The buffer of a kernel's input block argument, or of result `i`.
  mlir::Value inputBuffer(mlir::BlockArgument argument);
  mlir::Value outputBuffer(unsigned result);
  /// What all programs of the launch share (`Schedule::state`).
  mlir::Value stateBuffer();

  /// The coordinate of the same elements after a reshape of dims `from` to dims
  /// `to`, which have as many elements. Swap them for the way back.
  Coord reshape(const Coord &coord, llvm::ArrayRef<ts::Dim> from,
                llvm::ArrayRef<ts::Dim> to);

  /// A splat (lanes 0: scalar) of a number in a compute type.
  mlir::Value splat(mlir::Type element, int64_t lanes, double number);
  /// vector<lanes x i1>: lane < valid.
  mlir::Value laneMask(int64_t lanes, mlir::Value valid);
  /// The larger of two floats or vectors of them; a NaN in `v` is passed over.
  /// One instruction, where a maximum that keeps every NaN takes several.
  mlir::Value larger(mlir::Value a, mlir::Value v);
  /// exp(x) for x <= 0 or NaN (`buildExpNonPositive`), by the shortest way that
  /// the target has; `half`: the result is rounded to 16 bits.
  mlir::Value expNonPositive(mlir::Value x, bool half = false);
  /// Whether `expNonPositive` of `type` is right for positive x too, and gives
  /// infinity or NaN where the result is not finite.
  bool expTakesPositive(mlir::Type type) const;
  /// Scalar to vector; a vector stays.
  mlir::Value widen(mlir::Value value, int64_t lanes);

  /// Positions of tiles are split into dims for aligned groups of so many lanes
  /// at a time, whose lanes are neighbours in the last dim, where all sizes
  /// allow it: an index is computed and an operand is read once a group.
  int64_t laneRun = 1;

  /// The index of every lane: vector<lanes x index>.
  mlir::Value lanePositions(const LaneIndex &index, int64_t lanes) {
    return toVector(index, lanes);
  }
  /// Splits a position along `dims` (all lanes), smallest stride last.
  llvm::SmallVector<LaneIndex>
  split(const LaneIndex &position, llvm::ArrayRef<ts::Dim> dims, int64_t lanes);
  /// scf.if with one result; null when a branch gave null.
  mlir::Value select(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> onTrue,
                     llvm::function_ref<mlir::Value()> onFalse) {
    return ifElse(condition, onTrue, onFalse);
  }

  /// Runs `body`, then forgets the values emitted in it. Every nested region
  /// (scf.for, scf.if) that the caller opens needs it: outside of the region its
  /// values do not exist.
  template <typename Body> auto scoped(Body body) {
    scopes.emplace_back();
    struct Pop {
      ElementEmitter *self;
      ~Pop() { self->scopes.pop_back(); }
    } pop{this};
    return body();
  }

private:
  struct Key {
    void *tensor;
    Coord coord;
    bool operator==(const Key &other) const {
      return tensor == other.tensor && coord == other.coord;
    }
  };
  struct KeyHash {
    size_t operator()(const Key &key) const {
      return key.coord.hash() * 31 + reinterpret_cast<size_t>(key.tensor);
    }
  };
  using Memo = std::unordered_map<Key, mlir::Value, KeyHash>;

  mlir::Value compute(mlir::Value tensor, const Coord &coord);
  /// An elementwise op's value by fewer instructions than its definition takes,
  /// of its `operandsOfForm`; none where there is no such form
  /// (ElementForms.cpp).
  mlir::Value shorterForm(mlir::Operation *op,
                          llvm::ArrayRef<mlir::Value> operands);
  llvm::SmallVector<mlir::Value> operandsOfForm(mlir::Operation *op);
  /// A value in compute form as a buffer of such elements holds it.
  mlir::Value asStored(mlir::Value value, mlir::Type stored, int64_t lanes);
  mlir::Value emitConstant(ts::ConstantOp op, const Coord &coord);
  mlir::Value emitIota(ts::IotaOp op, const Coord &coord);
  mlir::Value emitReshape(ts::ReshapeOp op, const Coord &coord);
  mlir::Value emitPad(ts::PadOp op, const Coord &coord);
  mlir::Value emitFoldedPad(ts::PadOp op, const Coord &coord);
  /// Places along a padded dim, relative to the unpadded start, as those of the
  /// elements that are repeated there (modes edge, reflect and wrap).
  LaneIndex foldedPad(ts::PadOp op, unsigned dim, LaneIndex index,
                      int64_t lanes);
  mlir::Value emitConcat(ts::ConcatOp op, const Coord &coord);
  mlir::Value emitGather(ts::GatherOp op, const Coord &coord);
  mlir::Value emitGatherElements(ts::GatherElementsOp op, const Coord &coord);
  mlir::Value emitGatherNd(ts::GatherNdOp op, const Coord &coord);
  /// The coordinate of an operand whose map is affine.
  Coord mapAffine(const ts::IndexMap &map, const Coord &coord);
  /// An index tensor's value as an index into a dim of `extent` elements:
  /// negative ones count from the end, others outside set the status.
  LaneIndex checkedIndex(mlir::Value value, int64_t lanes, ts::Dim extent,
                         const Coord &coord);

  /// Sum of index * stride over all dims, as base and lane stride or per lane.
  struct Flat {
    mlir::Value base;
    mlir::Value laneStride; ///< null: uniform
    mlir::Value perLane;    ///< set: overrides
    bool contiguous = false;
    /// Where perLane has the offset of the first lane of each aligned group of
    /// so many, whose others are its neighbours.
    int64_t run = 1;
  };
  Flat flatten(mlir::Type tensorType, const Coord &coord);
  /// The offset of every lane, of offsets of groups.
  mlir::Value perLaneOffsets(const Flat &flat, int64_t lanes);
  /// How many of the leading dims have indices that `delinearize` cut from one
  /// position, which is then their row-major position: no need to compute it
  /// from them. 0 if fewer than two dims.
  size_t leadingPosition(llvm::ArrayRef<LaneIndex> indices,
                         llvm::ArrayRef<ts::Dim> dims, mlir::Value &position);
  mlir::Value toVector(const LaneIndex &index, int64_t lanes);
  mlir::Value laneNumbers(int64_t lanes);
  LaneIndex addIndex(const LaneIndex &a, const LaneIndex &b, int64_t lanes);
  LaneIndex scaleIndex(const LaneIndex &a, ts::Dim factor, int64_t lanes);
  LaneIndex offsetIndex(const LaneIndex &a, ts::Dim offset, int64_t lanes);
  /// The lanes of how large an aligned group have one such index.
  int64_t sharedBy(const LaneIndex &index) const {
    return index.isUniform() ? laneRun : index.perLane ? index.sharedBy : 1;
  }
  /// `index` / `run`, of an index that `run` divides.
  mlir::Value dividedByRun(const LaneIndex &index, int64_t run, int64_t lanes);
  /// `index` with `runs` (LaneIndex::runs), if it has such.
  LaneIndex withRuns(const LaneIndex &index, int64_t lanes);
  /// lane % run: vector<lanes x index>.
  mlir::Value lanesInRun(int64_t run, int64_t lanes);
  LaneIndex runsIndex(mlir::Value runs, int64_t run, int64_t lanes);
  /// vector<lanes x i1>: index < extent, and the lanes of how large an aligned
  /// group have one such condition.
  std::pair<mlir::Value, int64_t> below(const LaneIndex &index, ts::Dim extent,
                                        int64_t lanes);
  mlir::Value ifElse(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> onTrue,
                     llvm::function_ref<mlir::Value()> onFalse);

  tile::FuncOp function;
  ts::KernelOp kernel;
  const TargetDesc &target;
  llvm::StringMap<mlir::Value> symbolValues;
  llvm::DenseMap<mlir::Attribute, mlir::Value> sizes;
  // A DenseMap would keep two numbers for itself.
  std::unordered_map<int64_t, mlir::Value> constants;
  /// One dim of a delinearized position: its index, and the row-major position
  /// in the dims up to it.
  struct Cut {
    mlir::Value index;
    ts::Dim dim;
    mlir::Value position;
  };
  /// By the outermost index; dims of size 1 left out.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<llvm::SmallVector<Cut, 4>, 1>>
      cuts;
  mlir::OpBuilder entry;
  llvm::SmallVector<Memo> scopes;
};

/// Whether `tensor` is x - max(x), the maximum taken along some dims.
bool isBelowItsMaximum(mlir::Value tensor);

} // namespace knapper
