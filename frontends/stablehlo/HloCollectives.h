//===- HloCollectives.h - What devices hand to each other -----------------===//
#pragma once

namespace knapper {

/// The domain of the operator `Exchange`, which moves blocks between the
/// devices that run a program together. Who runs several devices registers it.
inline constexpr char kDevicesDomain[] = "knapper.devices";

/// Whether this process runs programs of several devices.
bool hasHloDevices();

} // namespace knapper
