//===- DeviceOperators.h - What devices hand to each other ----------------===//
//
// The operator `knapper.devices.Exchange`, which StableHLO's collectives become
// (frontends/stablehlo/HloCollectives.cpp). It moves bytes, and adds
// those of common types; other reductions are the program's own. Its
// parameters:
//   way      gather: the blocks of the group's members, in their order;
//            scatter: of each member the block that is meant for this device;
//            sum: of the members' blocks, element by element, of f32, f64 and
//            integers of their sizes; each member sums a part for all
//            permute: another device's block, or zeros;
//            number: the device's own number
//   devices  the members of the groups, one group after the other; of permute,
//            by device the one that it takes from, or -1
//   group    members of a group
//   site     the number of the place in the program
//
//===----------------------------------------------------------------------===//
#pragma once

#include "capi/pjrt/PjrtError.h"

namespace knapper::pjrt {

/// Registers it for the process; null: done.
PjrtError *registerDeviceOperators();

} // namespace knapper::pjrt
