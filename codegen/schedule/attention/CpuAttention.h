//===- CpuAttention.h - The builder of attention -------------------------===//
// Internal to CpuAttention.cpp, which says how it works, and
// CpuAttentionScores.cpp.
#pragma once

#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/AmxMatmul.h"
#include "graph/fusion/Views.h"
#include "ir/config/AttentionCpuConfig.h"

namespace knapper {

/// Depth and width are padded to this.
inline constexpr int64_t kAttentionBlock = 16;
/// Register tiles have at most this many rows, which may lie past the last.
inline constexpr int64_t kAttentionTileRows = 12;

/// Whether queries, keys and values are bf16.
bool isBf16(ts::AttentionOp op);
/// An operand that can be read in place as rows of this type.
std::optional<fusion::StridedView> attentionInPlace(mlir::Value operand,
                                                    mlir::Type element);

/// n vectors of n elements, transposed by log2(n) rounds of interleaving.
void transposeSquare(mlir::OpBuilder &builder, mlir::Location location,
                     llvm::SmallVectorImpl<mlir::Value> &rows);

inline ts::Dim roundUp(ts::Dim dim, int64_t to) {
  return dim.ceilDiv(dim.like(to)) * to;
}

/// Where things lie in scratch, in bytes: room for f32, of which pairs of bf16
/// fill the beginning.
struct AttentionLayout {
  ts::Dim keys, scores, sums, queries, values, accumulators, end;
};
AttentionLayout attentionLayout(ts::AttentionOp op, int64_t rows,
                                int64_t panel);

class AttentionBuilder {
public:
  AttentionBuilder(BuildContext &context,
                   const config::AttentionCpuConfig &config,
                   ts::KernelOp kernel, ts::AttentionOp op, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location),
        target(context.target), op(op), epilogue(std::move(epilogue)),
        rows(config.rows), panel(config.panel),
        step(target.pairDots && isBf16(op) ? 2 : 1),
        factors(step == 2 ? mlir::Type(b.getBF16Type()) : b.getF32Type()),
        inTiles(fitsTiles(target, step, /*inRows=*/true,
                          ts::dimOf(op.getQuery(), 2).asConstant(),
                          ts::dimOf(op.getQuery(), 3).asConstant())),
        layout(attentionLayout(op, rows, panel)) {}

  llvm::LogicalResult build();

private:
  mlir::Value scratch(ts::Dim bytes, mlir::Type element = {}) {
    return tile::ScratchOp::create(
        b, loc,
        tile::BufferType::get(element ? element : mlir::Type(b.getF32Type())),
        e.size(bytes));
  }
  /// Rows of a panel of keys: elements or pairs of D, padded.
  mlir::Value panelRows() {
    return e.size(depth.ceilDiv(depth.like(step * kAttentionBlock)) *
                  kAttentionBlock);
  }
  mlir::Value asFactors(mlir::Value values);
  mlir::Value factorsOf(mlir::Value tensor, const Coord &at, mlir::Value valid);
  llvm::LogicalResult packKeys();
  llvm::LogicalResult packRows(mlir::Value tensor, mlir::Value head,
                               mlir::Value first, mlir::Value count,
                               ts::Dim width, mlir::Value buffer, bool inPairs);
  llvm::LogicalResult computeScores();
  /// The same without panels of keys, for a few queries.
  bool sumsAlongKeys() const;
  llvm::LogicalResult sumAlongKeys();
  mlir::Value score(mlir::Value dots, mlir::Value row, mlir::Value key);
  /// Keys below this bound are seen by a row of the block.
  mlir::Value boundOf(mlir::Value row);
  /// Keys that the last of some rows sees, at most `seen`.
  mlir::Value seenBy(mlir::Value row, int64_t rows);
  /// Up to where a row's weights are computed: what its register tile reads.
  mlir::Value endOf(mlir::Value row);
  llvm::LogicalResult softmaxRows();
  void averageEmptyRows(mlir::Value any);
  llvm::LogicalResult multiplyValues();
  mlir::Value number(double value, int64_t lanes) {
    return e.splat(b.getF32Type(), lanes, value);
  }

  ElementEmitter &e;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const TargetDesc &target;
  ts::AttentionOp op;
  Epilogue epilogue;
  int64_t rows, panel;
  int64_t step;       ///< elements that matmuls take at a time
  mlir::Type factors; ///< what is multiplied
  bool inTiles;       ///< matmuls go through tile registers
  AttentionLayout layout;

  ts::Dim queries, keys, depth, width;               ///< S, T, D, E
  mlir::Value batch, head, keyHead, firstRow, count; ///< of the block
  mlir::Value panels;    ///< of keys that the block sees
  mlir::Value seen;      ///< keys that it sees
  mlir::Value someEmpty; ///< whether some rows weigh all keys; may be null
  mlir::Value keyBuffer, scoreBuffer, sumBuffer, weights;
  mlir::Value scoreStride, weightStride;
};

} // namespace knapper
