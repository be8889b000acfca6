//===- Epilogue.h - From a hero's result to what the kernel stores --------===//
//
// A hero (matmul, conv, attention) computes tiles of its own result. The
// kernel's results follow from it through elementwise ops and, at most,
// reshapes and transposes. An Epilogue carries a tile's coordinate forward
// through those, computes the yielded values there and stores them:
//
//   hero result [B*S, 768] at (m, n .. n+48)
//     -> reshape [B, S, 12, 64]       (m / S, m % S, n / 64, n % 64 ..)
//     -> transpose [B, 12, S, 64]     (m / S, n / 64, m % S, n % 64 ..)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/core/ElementEmitter.h"

namespace knapper {

class Epilogue {
public:
  /// Follows the way from `hero` to every result of the kernel. Fails, with a
  /// diagnostic, where a result does not depend on the hero or does so through
  /// anything but elementwise ops, reshapes and transposes.
  static llvm::FailureOr<Epilogue> create(ts::KernelOp kernel,
                                          mlir::Value hero);

  /// Computes and stores all results for a tile of the hero: `tile` is its
  /// value (compute type) at `coord`.
  llvm::LogicalResult store(ElementEmitter &emitter, mlir::Value tile,
                            const Coord &coord) const;

  /// The kernel's only result for a tile of the hero, in compute type and not
  /// stored; null after a diagnostic. `coord` as for `store`.
  mlir::Value value(ElementEmitter &emitter, mlir::Value tile,
                    const Coord &coord) const;

  /// Ends the body of a tile op: yields the value if the op stores the kernel's
  /// only result itself (`stored`), else stores all results and yields nothing.
  llvm::LogicalResult yield(ElementEmitter &emitter, mlir::Value tile,
                            const Coord &coord, bool stored) const;

  /// Whether the kernel's only result has its elements where the hero's dense
  /// result would have them.
  bool keepsPlaces() const;

  /// Element runs that no dim of a stored result cuts: the hero's lane tiles
  /// should divide this (0: any run is fine). For tiles along the last dim.
  int64_t runDivisor() const;

private:
  /// Where result `i` has the element that the hero has at `coord`.
  Coord follow(ElementEmitter &emitter, unsigned i, const Coord &coord) const;

  ts::KernelOp kernel;
  mlir::Value hero;
  /// For each result: the reshapes and transposes, in order from the hero.
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>> ways;
};

} // namespace knapper
