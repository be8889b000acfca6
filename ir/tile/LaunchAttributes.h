//===- LaunchAttributes.h - How a tile program is launched ----------------===//
//
// What a schedule says of its tile program beside its operations, for GPUs. The
// function carries it as integer attributes, which stand here alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/TileDialect.h"

namespace knapper::tile {

struct LaunchAttributes {
  int64_t threads = 0; ///< of a program; 0: as its tiles have it
  int64_t access = 0;  ///< elements that a thread reads at once; 0: as above
  int64_t clusterSize = 0; ///< programs of a cluster; 0: no clusters
  int64_t grid = 0;        ///< programs, where that is a number; 0: unknown
  /// CTAs that an SM is to hold at once, which bounds the registers of a
  /// thread; 0: the lowering's default (codegen/lower/gpu/TileLayout.cpp).
  int64_t ctasPerSm = 0;

  static LaunchAttributes of(FuncOp function) {
    LaunchAttributes launch;
    each(launch, [&](const char *name, int64_t &field) {
      if (auto number = function->getAttrOfType<mlir::IntegerAttr>(name))
        field = number.getInt();
    });
    return launch;
  }

  void set(FuncOp function) const {
    auto type = mlir::IntegerType::get(function.getContext(), 64);
    each(*this, [&](const char *name, int64_t field) {
      if (field)
        function->setAttr(name, mlir::IntegerAttr::get(type, field));
    });
  }

  template <class Launch, class Visit>
  static void each(Launch &launch, Visit &&visit) {
    visit("tile.threads", launch.threads);
    visit("tile.width", launch.access);
    visit("tile.cluster", launch.clusterSize);
    visit("tile.grid", launch.grid);
    visit("tile.ctas_per_sm", launch.ctasPerSm);
  }
};

} // namespace knapper::tile
