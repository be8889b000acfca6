// The driver that runs kernels on this process's cores.
#pragma once

#include "runtime/device/Device.h"

#include <memory>

namespace knapper::cpu {

/// The process's CPU: one device, shared by all who hold it; its threads end
/// with the last holder.
std::shared_ptr<Device> device();

} // namespace knapper::cpu
