// A device that the machine has not.
#pragma once

#include "runtime/device/Device.h"

namespace knapper {

/// Takes code for `kind`, of which the greatest number is best ("sm_90a"), so
/// that a module can be described; whatever would need the device is `missing`.
std::shared_ptr<Device> absentDevice(std::string kind, Error missing);

} // namespace knapper
