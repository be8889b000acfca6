//===- GpuScanBuilder.h - The builder of scans on GPUs --------------------===//
// Internal to GpuScan.cpp and GpuScanNarrow.cpp.
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/irregular/GpuScan.h"
#include "ir/config/IrregularConfig.h"
#include "ir/tile/BlockOps.h"

namespace knapper::scan {

/// Emits one program of a ts.scan by the form that `config` names. A program
/// has a line, a part of a line (clusters, look-back) or several lines. The
/// build functions fail after a diagnostic at the kernel.
struct ScanBuilder {
  BuildContext &context;
  config::ScanGpuConfig config;
  ElementEmitter &e = context.emitter;
  mlir::OpBuilder &b = e.builder;
  mlir::Location loc = e.location;
  ts::ScanOp op = firstOp<ts::ScanOp>(context.kernel);
  Epilogue epilogue;
  int64_t lanes = config.lanes, clusterSize = config.clusterSize;
  unsigned axis = op.getDim();
  llvm::SmallVector<ts::Dim> dims = ts::dimsOf(op.getInput());
  ts::Dim length = dims[axis];
  mlir::Type element = computeType(ts::elementTypeOf(op.getInput()));
  bool isUnsigned = ts::elementTypeOf(op.getInput()).isUnsignedInteger();
  /// This program's part of the line: [begin, end).
  mlir::Value begin = {}, end = {};

  mlir::vector::CombiningKind kind() {
    return combiningKind(op.getKind(), element, isUnsigned);
  }
  mlir::vector::CombiningKindAttr kindAttr() {
    return mlir::vector::CombiningKindAttr::get(b.getContext(), kind());
  }
  /// The identity of the scan's reduction; `count` lanes, 0: a scalar.
  mlir::Value none(int64_t count) {
    return neutralElement(e, op.getKind(), element, isUnsigned, count);
  }
  mlir::Value combine(mlir::Value a, mlir::Value x) {
    return combineElements(e, op.getKind(), a, x, isUnsigned);
  }
  mlir::UnitAttr flag(bool value) {
    return value ? b.getUnitAttr() : mlir::UnitAttr();
  }
  mlir::UnitAttr reverse() { return flag(op.getReverse()); }
  mlir::UnitAttr exclusive() { return flag(op.getExclusive()); }

  /// Sets `begin` and `end` from the program's rank in its cluster, and returns
  /// its number without that rank. Parts begin at multiples of `step`.
  mlir::Value share(mlir::Value id, int64_t step);
  /// The reduction of all parts before this program's. `own`: the reduction of
  /// its part. The programs of the cluster exchange these.
  mlir::Value before(mlir::Value own);
  mlir::Value read(const Coord &at, int64_t count) {
    mlir::Value x = e.emit(op.getInput(), at);
    return x ? e.widen(x, count) : x;
  }
  llvm::LogicalResult buildRows();
  llvm::LogicalResult buildShort();
  llvm::LogicalResult buildColumns();
  llvm::LogicalResult buildLines();
  /// Each lane walks along its own line, all at the same step. `coordAt`: the
  /// lanes' coordinate at a step.
  llvm::LogicalResult
  walkSteps(llvm::function_ref<Coord(mlir::Value step)> coordAt);
  llvm::LogicalResult buildLookBack();
  llvm::LogicalResult buildNarrow();
};

} // namespace knapper::scan
