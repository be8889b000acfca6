// The driver that runs kernels on this process's cores.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/drivers/cpu/CpuInfo.h"

#include <memory>

namespace knapper::cpu {

/// The process's CPU: one device, shared by all who hold it; its threads end
/// with the last holder.
std::shared_ptr<Device> device();

/// A device as it would be on a machine of at most this level, with threads of
/// its own: for tests of what lesser machines say and run.
std::shared_ptr<Device> deviceUpTo(IsaLevel level);

} // namespace knapper::cpu
