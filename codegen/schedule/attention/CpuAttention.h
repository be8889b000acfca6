//===- CpuAttention.h - The CPU's builder of attention -------------------===//
// Internal to CpuAttention.cpp, whose head describes the algorithm, and
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

/// D and E (sizes of a key and of a value) are padded to a multiple of this.
inline constexpr int64_t kAttentionBlock = 16;
/// Rows of a register tile, at most. Some may be past the last query.
inline constexpr int64_t kAttentionTileRows = 12;

/// Whether queries, keys and values are bf16.
bool isBf16(ts::AttentionOp op);
/// The operand as a strided view with rows of `element`, to be read in place.
/// Nothing if it needs a copy.
std::optional<fusion::StridedView> attentionInPlace(mlir::Value operand,
                                                    mlir::Type element);

/// Transposes n vectors of n elements in place, by log2(n) rounds of
/// interleaving.
void transposeSquare(mlir::OpBuilder &builder, mlir::Location location,
                     llvm::SmallVectorImpl<mlir::Value> &rows);

inline ts::Dim roundUp(ts::Dim dim, int64_t to) {
  return dim.ceilDiv(dim.like(to)) * to;
}

/// Byte offsets in scratch. Each area has room for f32; bf16 pairs fill only
/// its beginning. `end`: all bytes of scratch.
struct AttentionLayout {
  ts::Dim keys, scores, sums, queries, values, accumulators, end;
};
/// `rows`: queries of a block. `panel`: keys of a panel.
AttentionLayout attentionLayout(ts::AttentionOp op, int64_t rows,
                                int64_t panel);

/// Emits one program: a block of `rows` queries of one head against all keys.
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
  /// Whether the scores are computed without panels of keys: few queries.
  bool sumsAlongKeys() const;
  llvm::LogicalResult sumAlongKeys();
  mlir::Value score(mlir::Value dots, mlir::Value row, mlir::Value key);
  /// The number of keys that a row of the block sees (causal bound).
  mlir::Value boundOf(mlir::Value row);
  /// The number of keys that the last of `rows` rows from `row` on sees, at
  /// most `seen`.
  mlir::Value seenBy(mlir::Value row, int64_t rows);
  /// The key up to which a row's weights are computed: the register tile reads
  /// them.
  mlir::Value endOf(mlir::Value row);
  llvm::LogicalResult softmaxRows();
  void averageEmptyRows(mlir::Value any);
  llvm::LogicalResult multiplyValues();
  /// As forRowTiles takes them, of the program's rows.
  llvm::SmallVector<int64_t> tileCounts(int64_t tileRows) const;
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
