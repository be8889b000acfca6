// The driver that accepts everything and computes nothing: the smallest
// complete one. Copy this folder to begin a driver.
#pragma once

#include "runtime/device/Device.h"

#include <memory>

namespace knapper::null {

/// Accepts code of every instruction set; launches leave their buffers alone;
/// copies copy, so that control flow and symbols still work.
std::shared_ptr<Device> device();

} // namespace knapper::null
